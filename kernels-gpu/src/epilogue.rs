//! What happens to a sum of products before it is stored in D.
//!
//! A kernel is generic over its [`Epilogue`]. The built-in one is [`Linear`]; anyone can write another in plain Rust
//! and instantiate a kernel with it in a kernel crate of their own (see `examples/custom_epilogue`).

pub mod activation;
pub mod fast_activation;
mod linear;
pub mod math;
pub mod pairs;

use crate::element::{Accumulator, Element};
use crate::epilogue::pairs::{Fetched, FetchedVectors, PAIRS, Pairs, PairsAt, ROWS};
use cuda_std::device_inline;
use cuda_std::thread;

pub use linear::{BiasAxis, Linear};

/// Turns the sum `(A * B)[row, col]` into the value of `D[row, col]`.
pub trait Epilogue<T: Element>: Copy + 'static {
    /// The epilogue of product `index` of a batch, the first being that of this one, with index 0. Unless written
    /// otherwise all products share one.
    #[device_inline]
    fn of_product(self, index: u32) -> Self {
        let _ = index;
        self
    }

    /// The product of the launch that it is of: the first one, unless it is of [another](OfProduct).
    #[device_inline]
    fn product(&self) -> u32 {
        0
    }

    /// The factor that sums are multiplied with, where that is all that becomes of them; the same for all threads of a
    /// launch. A kernel may then store in a way of its own instead of calling [`apply`](Self::apply).
    #[device_inline]
    fn only_scales(&self) -> Option<T::Acc> {
        None
    }

    /// What becomes of sums, where that is so little that a kernel may have a copy of its code for each of them; the
    /// same for all threads of a launch. A kernel may then do that instead of calling [`addends`](Self::addends) and
    /// [`finish`](Self::finish).
    #[device_inline]
    fn short(&self) -> Option<Short<T::Acc>> {
        None
    }

    /// Begins to read what the epilogue needs for some pairs ([`crate::epilogue::pairs`]), which a kernel may do long
    /// before it asks for [`addends`](Self::addends). They are those of this lane; other lanes have others.
    ///
    /// # Safety
    /// `at` is of the launch that this epilogue belongs to.
    #[device_inline]
    #[track_caller]
    unsafe fn fetch(&self, at: &PairsAt) -> Fetched {
        let _ = at;
        Fetched::default()
    }

    /// The same for what the epilogue reads from vectors: elements for the columns of these pairs, which the kernel
    /// hands to the lane that needs them, and elements for these rows.
    ///
    /// # Safety
    /// As for [`fetch`](Self::fetch).
    #[device_inline]
    #[track_caller]
    unsafe fn fetch_vectors(&self, at: &PairsAt) -> FetchedVectors {
        let _ = at;
        FetchedVectors::default()
    }

    /// The factor of some pairs of sums, and what is added to each product before [`finish`](Self::finish); unless
    /// written otherwise they stay what they are.
    #[device_inline]
    fn addends(
        &self,
        at: &PairsAt,
        vectors: &FetchedVectors,
        fetched: &Fetched,
    ) -> (T::Acc, Pairs<T::Acc>) {
        let _ = (at, vectors, fetched);
        // Zero is added to the negative one alone without changing its sign if it is itself negative.
        (T::Acc::ONE, [[[T::Acc::constant(-0.0); 2]; PAIRS]; ROWS])
    }

    /// Makes the values to store of those sums, in place. What becomes of those outside of D does not matter.
    ///
    /// # Safety
    /// As for [`fetch`](Self::fetch).
    #[device_inline]
    #[track_caller]
    unsafe fn finish(&self, values: &mut Pairs<T::Acc>, at: &PairsAt) {
        for i in 0..ROWS {
            for j in 0..PAIRS {
                let inside = at.inside(i, j);
                if at.swapped {
                    for e in 0..inside {
                        let (row, col) = at.place(i, j, e as usize);
                        let value = &mut values[i][j][e as usize];
                        // SAFETY: it lies in D.
                        *value = unsafe { self.apply(*value, row, col) };
                    }
                } else if inside > 0 {
                    // SAFETY: the first of the pair lies in D.
                    unsafe { self.apply_vector(&mut values[i][j], at.row(i), at.col(j), inside) };
                }
            }
        }
    }

    /// The value to store, in the accumulator's precision; the kernel narrows and stores it.
    ///
    /// # Safety
    /// `row < m` and `col < n` of the launch that this epilogue belongs to.
    unsafe fn apply(&self, sum: T::Acc, row: u32, col: u32) -> T::Acc;

    /// [`apply`](Self::apply) for consecutive sums of one row, in place: `sums[j]` belongs to `(row, col + j)`. Only
    /// the first `inside` are to be stored; what becomes of the others does not matter. There may be fewer sums than
    /// that, and D may have columns beyond.
    ///
    /// # Safety
    /// `row < m` and `0 < inside <= n - col` of the launch that this epilogue belongs to.
    #[device_inline]
    unsafe fn apply_vector(&self, sums: &mut [T::Acc], row: u32, col: u32, inside: u32) {
        for (j, sum) in sums.iter_mut().enumerate() {
            if (j as u32) < inside {
                // SAFETY: the column lies in D.
                *sum = unsafe { self.apply(*sum, row, col + j as u32) };
            }
        }
    }

    /// [`apply_vector`](Self::apply_vector) for the same columns of `R` rows one below another, so that what depends on
    /// the column alone need not be worked out for each. Only the first `inside.0` rows and the first `inside.1`
    /// columns are to be stored.
    ///
    /// # Safety
    /// `0 < inside.0 <= m - row` and `0 < inside.1 <= n - col` of the launch that this epilogue belongs to.
    #[device_inline]
    unsafe fn apply_rows<const R: usize, const N: usize>(
        &self,
        sums: &mut [[T::Acc; N]; R],
        row: u32,
        col: u32,
        inside: (u32, u32),
    ) {
        for (i, sums) in sums.iter_mut().enumerate() {
            if (i as u32) < inside.0 {
                // SAFETY: the row lies in D.
                unsafe { self.apply_vector(sums, row + i as u32, col, inside.1) };
            }
        }
    }
}

/// A short epilogue: `gelu(factor * sum + addend)`, or without GELU, with an addend for each column of D, which
/// [`Epilogue::fetch_vectors`] has read; or, without GELU, `factor * sum + (of_c * C + addend)`.
#[derive(Clone, Copy, Debug)]
pub struct Short<A> {
    /// What sums are multiplied with.
    pub factor: A,
    /// Whether GELU is applied: in a form of which the results' type [has a short one](Element::has_short_gelu).
    pub has_gelu: bool,
    /// Whether that is GELU by tanh, and not the exact one.
    pub by_tanh: bool,
    /// What C is multiplied with, if there is one; there is no GELU then.
    pub of_c: Option<A>,
}

/// The epilogue of another product of a batch, which it becomes where it is used: see
/// [`TargetRef`](crate::params::TargetRef).
#[derive(Clone, Copy, Debug)]
pub struct OfProduct<E, P>(pub E, pub P);

/// That of the running block's product, or of the first one that it [goes through](crate::schedule::batches).
pub type OfBlock<E> = OfProduct<E, RunningBlock>;

/// How many products after that of the epilogue it is made of.
pub trait Which: Copy + 'static {
    /// So many.
    fn index(self) -> u32;
}

/// As many as the running block's index along y.
#[derive(Clone, Copy, Debug)]
pub struct RunningBlock;

impl Which for RunningBlock {
    #[device_inline]
    fn index(self) -> u32 {
        thread::block_idx_y()
    }
}

impl Which for u32 {
    #[device_inline]
    fn index(self) -> u32 {
        self
    }
}

impl<T: Element, E: Epilogue<T>, P: Which> Epilogue<T> for OfProduct<E, P> {
    #[device_inline]
    fn of_product(self, index: u32) -> Self {
        OfProduct(self.0.of_product(index), self.1)
    }

    #[device_inline]
    fn product(&self) -> u32 {
        self.0.product() + self.1.index()
    }

    #[device_inline]
    fn only_scales(&self) -> Option<T::Acc> {
        self.0.only_scales()
    }

    #[device_inline]
    fn short(&self) -> Option<Short<T::Acc>> {
        self.0.short()
    }

    #[device_inline]
    #[track_caller]
    unsafe fn fetch(&self, at: &PairsAt) -> Fetched {
        // SAFETY: as promised by the caller.
        unsafe { self.0.of_product(self.1.index()).fetch(at) }
    }

    #[device_inline]
    #[track_caller]
    unsafe fn fetch_vectors(&self, at: &PairsAt) -> FetchedVectors {
        // SAFETY: as promised by the caller.
        unsafe { self.0.of_product(self.1.index()).fetch_vectors(at) }
    }

    #[device_inline]
    fn addends(
        &self,
        at: &PairsAt,
        vectors: &FetchedVectors,
        fetched: &Fetched,
    ) -> (T::Acc, Pairs<T::Acc>) {
        self.0.of_product(self.1.index()).addends(at, vectors, fetched)
    }

    #[device_inline]
    #[track_caller]
    unsafe fn finish(&self, values: &mut Pairs<T::Acc>, at: &PairsAt) {
        // SAFETY: as promised by the caller.
        unsafe { self.0.of_product(self.1.index()).finish(values, at) }
    }

    #[device_inline]
    unsafe fn apply(&self, sum: T::Acc, row: u32, col: u32) -> T::Acc {
        // SAFETY: as promised by the caller.
        unsafe { self.0.of_product(self.1.index()).apply(sum, row, col) }
    }

    #[device_inline]
    unsafe fn apply_vector(&self, sums: &mut [T::Acc], row: u32, col: u32, inside: u32) {
        // SAFETY: as promised by the caller.
        unsafe { self.0.of_product(self.1.index()).apply_vector(sums, row, col, inside) }
    }

    #[device_inline]
    unsafe fn apply_rows<const R: usize, const N: usize>(
        &self,
        sums: &mut [[T::Acc; N]; R],
        row: u32,
        col: u32,
        inside: (u32, u32),
    ) {
        // SAFETY: as promised by the caller.
        unsafe { self.0.of_product(self.1.index()).apply_rows(sums, row, col, inside) }
    }
}
