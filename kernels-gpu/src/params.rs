//! What a launch passes to a kernel.

use crate::element::Element;
use crate::epilogue::{Epilogue, OfBlock, OfProduct, RunningBlock};
use crate::layout::Layout;
use crate::maps::Maps;
use crate::warpgroup::fit::Columns;
use cuda_std::memory::GlobalPtr;
use cuda_std::scalar::Scalar;
use cuda_std::{device_inline, hint, thread};

/// A row-major matrix in global memory: element `(row, col)` is at `row * ld + col`.
#[repr(C)]
#[derive(Debug)]
pub struct MatrixRef<T> {
    /// Element `(0, 0)`.
    pub data: GlobalPtr<T>,
    /// Leading dimension: elements from one row to the next, at least the row length. 64 bits, so that offsets past
    /// 2^31 elements need no special care.
    pub ld: u64,
}

impl<T> Clone for MatrixRef<T> {
    #[device_inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for MatrixRef<T> {}

impl<T: Scalar> MatrixRef<T> {
    /// A matrix that is absent: nothing may read it.
    pub const NULL: Self = Self { data: GlobalPtr::null(), ld: 0 };

    /// Pointer to element `(row, col)`.
    #[device_inline]
    pub fn at(&self, row: u32, col: u32) -> GlobalPtr<T> {
        self.data.add(row as u64 * self.ld + col as u64)
    }

    /// Pointer to element `(row, col)` of the factor that is stored here in this layout.
    #[device_inline]
    pub fn at_in(&self, layout: Layout, row: u32, col: u32) -> GlobalPtr<T> {
        let (stored_row, stored_col) = layout.stored(row, col);
        self.at(stored_row, stored_col)
    }

    /// Elements from one row to the next, and from one column to the next, of the factor that is stored here in this
    /// layout.
    #[device_inline]
    pub fn steps_in(&self, layout: Layout) -> (u64, u64) {
        layout.stored(self.ld, 1)
    }

    /// The same, of whose leading dimension nothing is known: what follows from it is worked out anew, and takes no
    /// registers all the while.
    #[device_inline]
    pub fn anew(self) -> Self {
        let [low, high] = [self.ld as u32, (self.ld >> u32::BITS) as u32].map(hint::opaque);
        MatrixRef { ld: u64::from(low) | u64::from(high) << u32::BITS, ..self }
    }

    /// The matrix `elements` elements further on.
    #[device_inline]
    pub fn shifted(self, elements: u64) -> Self {
        MatrixRef { data: self.data.add(elements), ..self }
    }

    /// Whether every row starts at a multiple of `width` elements, so that vectors of `width` may be loaded and stored.
    #[device_inline]
    pub fn has_vectors(&self, width: u32) -> bool {
        let bytes = width as u64 * size_of::<T>() as u64;
        let row_bytes = self.ld * size_of::<T>() as u64;
        (self.data.address() | row_bytes).is_multiple_of(bytes)
    }
}

/// D: the matrix that is written, or one for each product of a batch.
///
/// It is D of the product that the running block computes: the one of the block's index along y, or one that comes
/// [further](GemmParams::further) where a block goes through several. That is worked out where D is used, after the
/// sums, and not before: an address that stays in registers all the while takes them from the sums.
#[repr(C)]
#[derive(Debug)]
pub struct TargetRef<T> {
    /// D of the first product.
    pub first: MatrixRef<T>,
    /// Elements from one D to the next.
    pub stride: u64,
}

impl<T> Clone for TargetRef<T> {
    #[device_inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TargetRef<T> {}

impl<T: Scalar> TargetRef<T> {
    /// D of a product.
    #[device_inline]
    pub fn of_product(&self, index: u32) -> MatrixRef<T> {
        self.first.shifted(u64::from(index) * self.stride)
    }

    /// D of the running block's product.
    #[device_inline]
    pub fn of_block(&self) -> MatrixRef<T> {
        self.of_product(thread::block_idx_y())
    }

    /// Pointer to element `(row, col)`.
    #[device_inline]
    pub fn at(&self, row: u32, col: u32) -> GlobalPtr<T> {
        self.of_block().at(row, col)
    }

    /// Whether every row starts at a multiple of `width` elements: see [`MatrixRef::has_vectors`].
    #[device_inline]
    pub fn has_vectors(&self, width: u32) -> bool {
        self.of_block().has_vectors(width)
    }
}

/// Memory for what blocks tell one another: see [`Schedule`](crate::kernel::Schedule) for who needs how much of it.
///
/// Launches that may run at the same time must not share one.
#[repr(C)]
#[derive(Debug)]
pub struct Workspace<T: Element> {
    /// Sums that are not finished, aligned to 16 bytes. What is in it before a launch does not matter.
    pub partials: GlobalPtr<T::Acc>,
    /// Words that blocks wait for: all zero before a launch, and again after it.
    pub signals: GlobalPtr<u32>,
}

impl<T: Element> Clone for Workspace<T> {
    #[device_inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Element> Copy for Workspace<T> {}

impl<T: Element> Workspace<T> {
    /// None at all, for kernels that need none.
    pub const NONE: Self = Workspace { partials: GlobalPtr::null(), signals: GlobalPtr::null() };
}

/// The parameters of every kernel: `D[m x n] = epilogue(A[m x k] * B[k x n])`, or a batch of such products. A and B are
/// of `T`, D is of `D`.
///
/// A and B are stored as the kernel's [`Layouts`](crate::layout::Layouts) say, D is row-major; `m`, `n` and `k` are
/// below 2^31. `E` carries everything that happens to a sum before it is stored (see [`crate::epilogue`]).
///
/// A launch passes those of the first product. The entry that [`gemm_kernels!`](crate::gemm_kernels) makes turns them
/// into [those of its block](GemmParams::of_block), so that a kernel need not know of batches, unless it [goes through
/// several products](crate::schedule::batches).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GemmParams<T: Element, E, D: Element = T> {
    /// A as it is stored: `m x k`, or `k x m` where it is transposed.
    pub a: MatrixRef<T>,
    /// B as it is stored: `k x n`, or `n x k` where it is transposed.
    pub b: MatrixRef<T>,
    /// D, `m x n`. May be the same matrix as the epilogue's C; must not overlap A or B.
    pub d: TargetRef<D>,
    /// Elements from the A of one product of a batch to that of the next; zero where they share one.
    pub a_stride: u64,
    /// Elements from the B of one product of a batch to that of the next; zero where they share one.
    pub b_stride: u64,
    /// Rows of A and D.
    pub m: u32,
    /// Columns of B and D.
    pub n: u32,
    /// Columns of A, rows of B. Zero makes the product zero, and neither A nor B is read.
    pub k: u32,
    /// Values of k in a slice, a multiple of `BK`, where K is [split](crate::kernel::Schedule::SplitK). Where blocks
    /// can [keep pace](crate::kernel::GemmKernel::KEEPS_PACE) it is their [pace](Self::pace); nobody else asks.
    pub slice_depth: u32,
    /// Tiles of D that blocks [share](crate::kernel::Schedule::StreamK). Where they [fit](crate::warpgroup::fit) it is
    /// their [columns](Self::columns); nobody else asks.
    pub shared_tiles: u32,
    /// Blocks, or clusters of blocks, that share them in a [persistent](crate::kernel::Schedule::Persistent) launch;
    /// nobody else asks.
    pub sharing_blocks: u32,
    /// Memory for unfinished sums.
    pub workspace: Workspace<T>,
    /// Maps of A, B, C and D, where the kernel [asks for them](crate::kernel::GemmKernel::BOXES). They are parameters
    /// of their own, to which the kernel's entry lets this refer: a launch passes [`Maps::of_products`] here, which
    /// says how many products its blocks go through.
    pub maps: Maps,
    /// What happens to a sum before it is stored.
    pub epilogue: E,
}

impl<T: Element, E, D: Element> GemmParams<T, E, D> {
    /// Those of one product of `m x k` and `k x n`: K in one slice, no tiles that blocks share, no workspace and no
    /// maps. What more a kernel asks for is set in them.
    pub fn single(
        [a, b]: [MatrixRef<T>; 2],
        d: MatrixRef<D>,
        (m, n, k): (u32, u32, u32),
        epilogue: E,
    ) -> Self {
        GemmParams {
            a,
            b,
            d: TargetRef { first: d, stride: 0 },
            a_stride: 0,
            b_stride: 0,
            m,
            n,
            k,
            slice_depth: k,
            shared_tiles: 0,
            sharing_blocks: 0,
            workspace: Workspace::NONE,
            maps: Maps::NONE,
            epilogue,
        }
    }

    /// Slices after each of which a block of a kernel that can keep pace looks how far the others are, zero where
    /// nobody looks: [`crate::warpgroup::pace`].
    ///
    /// It has no word of its own, because no such kernel splits K, and one word more would move those behind it: ptxas
    /// then gives kernels other registers, of which those of f32 are chosen by their banks.
    #[device_inline]
    pub const fn pace(&self) -> u32 {
        self.slice_depth
    }

    /// The tiles of a kernel in which they [fit](crate::warpgroup::fit), which have no word of their own for the same
    /// reason: such tiles are not shared.
    #[device_inline]
    pub const fn columns(&self) -> Columns {
        Columns::from_word(self.shared_tiles)
    }

    /// The same, read anew.
    #[device_inline]
    pub fn columns_anew(&self) -> Columns {
        Columns::from_word(hint::opaque(self.shared_tiles))
    }

    /// The same with another epilogue.
    #[device_inline]
    pub fn with_epilogue<F>(self, epilogue: F) -> GemmParams<T, F, D> {
        let GemmParams { a, b, d, a_stride, b_stride, .. } = self;
        let GemmParams { m, n, k, slice_depth, shared_tiles, sharing_blocks, .. } = self;
        let GemmParams { workspace, maps, .. } = self;
        GemmParams {
            a,
            b,
            d,
            a_stride,
            b_stride,
            m,
            n,
            k,
            slice_depth,
            shared_tiles,
            sharing_blocks,
            workspace,
            maps,
            epilogue,
        }
    }
}

impl<T: Element, E: Epilogue<D>, D: Element> GemmParams<T, E, D> {
    /// The parameters of a launch whose first product is product `index` of this one.
    pub fn from_product(self, index: u32) -> Self {
        let index_elements = |stride: u64| u64::from(index) * stride;
        let first = self.d.first.shifted(index_elements(self.d.stride));
        GemmParams {
            a: self.a.shifted(index_elements(self.a_stride)),
            b: self.b.shifted(index_elements(self.b_stride)),
            d: TargetRef { first, ..self.d },
            epilogue: self.epilogue.of_product(index),
            ..self
        }
    }

    /// D of the product that these are the parameters of, where a kernel [goes through
    /// several](crate::kernel::GemmKernel::WALKS_BATCHES).
    #[device_inline]
    pub fn target(&self) -> MatrixRef<D> {
        self.d.of_product(self.epilogue.product())
    }

    /// The same for the product that comes `index` after the running block's. A and B are left as they are: kernels
    /// that go through several products know them by their [maps](crate::maps).
    #[device_inline]
    pub fn further(&self, index: u32) -> GemmParams<T, OfProduct<E, u32>, D> {
        self.with_epilogue(OfProduct(self.epilogue, index))
    }

    /// Those with A and B of the product that comes `index` after the running block's, for who reads more of them than
    /// [maps](crate::maps) bring.
    #[device_inline]
    pub fn with_factors_of(&self, index: u32) -> Self {
        let shifted = |factor: MatrixRef<T>, stride| factor.shifted(u64::from(index) * stride);
        let (a, b) = (shifted(self.a, self.a_stride), shifted(self.b, self.b_stride));
        GemmParams { a, b, ..*self }
    }

    /// The parameters of the product that the running block computes: the one of its index along y. A and B are those
    /// of the product; D and the epilogue become so where they are used.
    #[device_inline]
    pub fn of_block(self) -> GemmParams<T, OfBlock<E>, D> {
        let product = u64::from(thread::block_idx_y());
        let shifted = |factor: MatrixRef<T>, stride: u64| {
            let data = factor.data.add(product * stride);
            MatrixRef { data: GlobalPtr::from_address(hint::whole(data.address())), ..factor }
        };
        let (a, b) = (shifted(self.a, self.a_stride), shifted(self.b, self.b_stride));
        GemmParams { a, b, ..self.with_epilogue(OfProduct(self.epilogue, RunningBlock)) }
    }
}
