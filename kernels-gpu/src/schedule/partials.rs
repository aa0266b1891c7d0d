//! Where the sums of slices of K lie in the workspace until they are added up.
//!
//! A matrix of D's shape for each slice, those of one product of a batch after another. Rows are padded to whole
//! vectors of 16 bytes, so that all of it is stored and loaded in vectors, whatever D's own rows are like.

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::params::{GemmParams, MatrixRef, TargetRef};
use crate::slices::mover::vector_len;
use cuda_std::device_inline;
use cuda_std::thread;

/// The shape of what lies in the workspace.
#[derive(Clone, Copy, Debug)]
pub struct Partials {
    /// Elements from one row to the next.
    pub ld: u32,
    /// Elements of a slice.
    pub slice: u64,
    /// Slices of a product: none where there is no k.
    pub slices: u32,
}

impl Partials {
    /// Of products of this shape, in slices of `slice_depth` values of k, which is not zero.
    #[device_inline]
    pub fn new<T: Element>(m: u32, n: u32, k: u32, slice_depth: u32) -> Self {
        let ld = n.next_multiple_of(vector_len::<T::Acc>() as u32);
        Partials { ld, slice: u64::from(m) * u64::from(ld), slices: k.div_ceil(slice_depth) }
    }

    /// Elements of one product of a batch.
    #[device_inline]
    pub const fn product(&self) -> u64 {
        self.slices as u64 * self.slice
    }
}

/// The running block's slice of K.
#[derive(Clone, Copy)]
pub struct SliceOfK<A> {
    /// Its first value of k.
    pub first: u32,
    /// The value of k behind its last.
    pub end: u32,
    /// Its sums in the workspace, `m x n`.
    pub sums: TargetRef<A>,
}

impl<T: Element, E: Copy, D: Element> GemmParams<T, E, D> {
    /// The running block's slice of K.
    #[device_inline]
    pub fn slice(&self) -> SliceOfK<T::Acc> {
        // A launch has slices of at least one k; saying so spares the compiler a check for division by zero.
        let partials = Partials::new::<T>(self.m, self.n, self.k, self.slice_depth.max(1));
        let slice = thread::block_idx_z();
        let first = slice * self.slice_depth;
        let data = self.workspace.partials.add(u64::from(slice) * partials.slice);
        SliceOfK {
            first,
            // The last slice ends with k; none begins after it, so that this does not overflow.
            end: (self.k - first).min(self.slice_depth) + first,
            sums: TargetRef {
                first: MatrixRef { data, ld: partials.ld.into() },
                stride: partials.product(),
            },
        }
    }
}

impl<T: Element<Acc = T>, E: Copy> GemmParams<T, E> {
    /// The running block's slice of K as a product of its own: it ends where the slice ends, and its D is the slice's
    /// place in the workspace. The first value of k comes with it.
    #[device_inline]
    pub fn slice_of_block(&self) -> (GemmParams<T, E>, u32) {
        let slice = self.slice();
        (GemmParams { d: slice.sums, k: slice.end, ..*self }, slice.first)
    }
}

/// The epilogue of sums that are not finished: none.
#[derive(Clone, Copy, Debug)]
pub struct Unchanged;

impl<T: Element<Acc = T>> Epilogue<T> for Unchanged {
    #[device_inline]
    unsafe fn apply(&self, sum: T, _row: u32, _col: u32) -> T {
        sum
    }
}
