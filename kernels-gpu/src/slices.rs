//! The slices of A and B that a block multiplies (elsewhere: K tiles): where they lie in shared memory, and how they
//! get there. They are `BK` values of k deep; the slices of K of [split-K](crate::ladder::split_k) are something else.
//!
//! A stage holds one slice of each operand. A's is transposed: the thread tiles read it by columns of A, and
//! transposed those are consecutive.
//!
//! There are two ways in: through registers ([`Stager::read`], [`Stager::write`]), which widens elements to the sums'
//! type, or by asynchronous copies ([`Stager::copy`]), which move bytes as they are. Both are for row-major factors;
//! copies for factors in any layout are in [`crate::slices::copies`]. Bulk copies (TMA, [`in_bulk`]) fill stages that
//! are used in turn as a [ring] of full and empty barriers, in [clusters] those of several blocks at once.

pub mod clusters;
pub mod copies;
pub mod in_bulk;
pub mod mover;
pub mod ring;
pub mod staged;

use crate::element::Element;
use crate::kernel::{Acc, GemmKernel, Tile};
use crate::layout::{Layout, Layouts};
use crate::params::GemmParams;
use crate::slices::mover::{
    BANKS_BYTES, Carried, Fraction, MAX_SHARE, Mover, StoredA, StoredB, StoredSlice, VECTOR_BYTES,
    vector_len,
};
use crate::tile::Origin;
use cuda_std::device_inline;
use cuda_std::memory::SharedPtr;
use cuda_std::shared;

/// Most elements of one slice that a thread moves at once in [`Stager::fetch`]: enough loads in flight to hide their
/// latency, few enough registers for the largest thread tiles beside them.
pub const AT_ONCE: usize = 16;

/// Bytes of dynamic shared memory that all stages of a kernel take.
pub const fn shared_bytes<K: GemmKernel>() -> u32 {
    shared_bytes_of::<Acc<K>>(K::TILE, K::LAYOUTS, K::DEPTH_GROUPS)
}

/// Bytes of shared memory that slices of `A` take in all stages of a tile, for factors in these layouts and so many
/// groups that share the depth.
pub const fn shared_bytes_of<A>(tile: Tile, layouts: Layouts, groups: u32) -> u32 {
    let rows = row_of_a::<A>(tile, layouts) + row_of_b::<A>(tile, layouts, groups);
    (tile.stages as usize * tile.bk as usize * rows * size_of::<A>()) as u32
}

/// Elements from one row of the transposed slice of A to the next: see [`Slices::A_STRIDE`].
const fn row_of_a<A>(tile: Tile, layouts: Layouts) -> usize {
    match layouts.a {
        Layout::RowMajor => tile.bm as usize + vector_len::<A>(),
        Layout::Transposed => tile.bm as usize,
    }
}

/// Elements from one row of the slice of B to the next: see [`Slices::B_STRIDE`].
const fn row_of_b<A>(tile: Tile, layouts: Layouts, groups: u32) -> usize {
    let is_padded = matches!(layouts.b, Layout::Transposed) && !is_swizzled(layouts, groups);
    tile.bn as usize + if is_padded { vector_len::<A>() } else { 0 }
}

/// See [`Slices::B_IS_SWIZZLED`].
const fn is_swizzled(layouts: Layouts, groups: u32) -> bool {
    matches!(layouts.b, Layout::Transposed) && groups > 1
}

/// Rows after which the order of vectors in a swizzled slice is the same again: as many as all banks have vectors.
pub const SWIZZLED_ROWS: usize = BANKS_BYTES / VECTOR_BYTES;

/// Where element `across` of row `k` lies in a row of a slice that is swizzled: its vectors change places, with others
/// of the same 128 bytes, by the exclusive or of their index and that of the row.
///
/// Threads that write elements of one vector's column, a row apart from each other, so go to different banks, and those
/// that read vectors of one row still do.
#[device_inline]
pub(crate) const fn swizzled<A>(k: usize, across: usize) -> usize {
    across ^ (k % SWIZZLED_ROWS * vector_len::<A>())
}

/// The slices of one stage in shared memory.
pub struct Slices<K: GemmKernel> {
    /// `BK` rows of `BM` elements, [`A_STRIDE`](Self::A_STRIDE) apart: A transposed.
    pub a: SharedPtr<Acc<K>>,
    /// `BK` rows of `BN` elements, [swizzled](Self::B_IS_SWIZZLED) or not.
    pub b: SharedPtr<Acc<K>>,
}

impl<K: GemmKernel> Slices<K> {
    /// Elements from one row of the transposed slice of A to the next: `BM`, and a vector more where A is transposed on
    /// its way. Threads that write it hold neighbouring elements of one row of A, which are a whole row apart here;
    /// without the padding they would meet in one bank.
    pub const A_STRIDE: usize = row_of_a::<Acc<K>>(K::TILE, K::LAYOUTS);

    /// Elements from one row of the slice of B to the next: `BN`, and a vector more where B is transposed on its way
    /// and not [swizzled](Self::B_IS_SWIZZLED).
    pub const B_STRIDE: usize = row_of_b::<Acc<K>>(K::TILE, K::LAYOUTS, K::DEPTH_GROUPS);

    /// Whether rows of the slice of B are swizzled: where B is transposed on its way and several groups share the
    /// depth.
    ///
    /// For the banks padding does as well. But each k then has an address of its own in the main loop, the sum of the
    /// first one's and a constant, where this way they differ in bits: for those the compiler keeps a register each,
    /// and of the sums it makes one register and constants, with which it loads fragments in another order. With groups
    /// it then keeps fewer operands of multiply-adds; without, more.
    pub const B_IS_SWIZZLED: bool = is_swizzled(K::LAYOUTS, K::DEPTH_GROUPS);

    /// Elements that one stage takes.
    pub const LEN: usize = K::TILE.bk as usize * (Self::A_STRIDE + Self::B_STRIDE);

    /// Where stage `stage` lies in the dynamic shared memory.
    #[device_inline]
    pub fn of_stage(stage: u32) -> Self {
        let a = shared::dynamic().add(stage * Self::LEN as u32);
        let b = a.add(K::TILE.bk * Self::A_STRIDE as u32);
        Slices { a, b }
    }

    /// The slices without their first `depth` values of k.
    #[device_inline]
    pub fn after(&self, depth: u32) -> Self {
        Slices {
            a: self.a.add(depth * Self::A_STRIDE as u32),
            b: self.b.add(depth * Self::B_STRIDE as u32),
        }
    }
}

/// What a thread carries from global to shared memory: its shares of both slices, in registers.
pub struct CarriedSlices<K: GemmKernel> {
    a: Carried<K::Element>,
    b: Carried<K::Element>,
}

/// Brings the slices that a block needs into shared memory, all threads together.
pub struct Stager<K: GemmKernel> {
    a: Mover<K::Element, StoredA<K>>,
    b: Mover<K::Element, StoredB<K>>,
    origin: Origin,
}

impl<K: GemmKernel> Stager<K> {
    /// For the block whose tile of D starts at `origin`.
    #[device_inline]
    pub fn new<E>(params: &GemmParams<K::Element, E>, origin: Origin) -> Self {
        Stager {
            a: Mover::new(params.a, (params.m, params.k)),
            b: Mover::new(params.b, (params.k, params.n)),
            origin,
        }
    }

    /// Elements of a slice that a thread moves: of the two slices the greater number.
    const SHARE: usize = {
        let (a, b) = (StoredA::<K>::SHARE, StoredB::<K>::SHARE);
        if a > b { a } else { b }
    };

    /// Starts the loads of the slices that begin at `k`; elements outside the matrices are zero. No thread's share may
    /// have more than [`MAX_SHARE`] elements of a slice.
    ///
    /// # Safety
    /// A and B are valid for their shapes.
    #[device_inline]
    #[track_caller]
    pub unsafe fn read(&self, k: u32) -> CarriedSlices<K> {
        const { assert!(Self::SHARE <= MAX_SHARE, "a share has the registers set aside for it") };
        // SAFETY: as promised by the caller.
        unsafe { self.read_fraction(k, Fraction::WHOLE) }
    }

    /// Waits for the loads and writes the slices to a stage.
    ///
    /// # Safety
    /// No thread reads this stage between the barriers before and after.
    #[device_inline]
    #[track_caller]
    pub unsafe fn write(&self, carried: CarriedSlices<K>, stage: u32) {
        // SAFETY: as promised by the caller.
        unsafe { self.write_fraction(carried, Fraction::WHOLE, stage) }
    }

    /// [`read`](Self::read) and [`write`](Self::write) in one, for shares of any size: they are moved in fractions of
    /// at most [`AT_ONCE`] elements of a slice, as many of A as of B.
    ///
    /// # Safety
    /// As for both.
    #[device_inline]
    #[track_caller]
    pub unsafe fn fetch(&self, k: u32, stage: u32) {
        let of = const {
            let of = Self::SHARE.div_ceil(AT_ONCE);
            let vectors_of_a = StoredA::<K>::SHARE / Mover::<K::Element, StoredA<K>>::WIDTH;
            let vectors_of_b = StoredB::<K>::SHARE / Mover::<K::Element, StoredB<K>>::WIDTH;
            let is_whole = vectors_of_a.is_multiple_of(of) && vectors_of_b.is_multiple_of(of);
            assert!(is_whole, "shares of both slices are moved in as many fractions");
            of
        };
        for index in 0..of {
            let fraction = Fraction { index, of };
            // SAFETY: as promised by the caller.
            unsafe {
                let carried = self.read_fraction(k, fraction);
                self.write_fraction(carried, fraction, stage);
            }
        }
    }

    #[device_inline]
    #[track_caller]
    unsafe fn read_fraction(&self, k: u32, fraction: Fraction) -> CarriedSlices<K> {
        // SAFETY: as promised by the caller of `read`.
        unsafe {
            CarriedSlices {
                a: self.a.read(self.origin.row, k, fraction),
                b: self.b.read(k, self.origin.col, fraction),
            }
        }
    }

    #[device_inline]
    #[track_caller]
    unsafe fn write_fraction(&self, carried: CarriedSlices<K>, fraction: Fraction, stage: u32) {
        let slices = Slices::<K>::of_stage(stage);
        // SAFETY: as promised by the caller of `write`; a stage has room for both slices.
        unsafe {
            self.a.write_transposed(&carried.a, fraction, slices.a, Slices::<K>::A_STRIDE);
            self.b.write(&carried.b, fraction, slices.b, Slices::<K>::B_STRIDE);
        }
    }
}

impl<T: Element<Acc = T>, K: GemmKernel<Element = T>> Stager<K> {
    /// Issues the copies of the slices that begin at `k` to a stage; elements outside the matrices become zero. Slices
    /// past the end are left out altogether: nobody multiplies them.
    ///
    /// # Safety
    /// A and B are valid for their shapes. No thread reads or writes this stage from the last barrier until this thread
    /// has waited for its copies.
    #[device_inline]
    #[track_caller]
    pub unsafe fn copy(&self, k: u32, stage: u32) {
        if k >= self.a.matrix_cols() {
            return;
        }
        let slices = Slices::<K>::of_stage(stage);
        // SAFETY: as promised by the caller; a stage has room for both slices.
        unsafe {
            self.a.copy_transposed(self.origin.row, k, slices.a, Slices::<K>::A_STRIDE);
            self.b.copy(k, self.origin.col, slices.b, Slices::<K>::B_STRIDE);
        }
    }
}
