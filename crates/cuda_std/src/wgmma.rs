//! Matrix products of whole warpgroups (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
//! Instructions").
//!
//! A *warpgroup* is four warps in a row, the first of which is a multiple of four: 128 threads, which execute all
//! functions of this module together. One instruction multiplies an A of [`M`] rows and [`K`] columns with a B of [`K`]
//! rows and `N` columns, both in shared memory, and adds the product to a matrix that lies in registers of the 128
//! threads, the [`Accumulators`].
//!
//! The instructions run in the background. A main loop is
//!
//! ```text
//! let mut d = Accumulators::<256>::declare();     // once, at the start of the kernel
//! for each tile {
//!     fence();                                    // the registers are the instructions' own from here on
//!     d.mma_async(a, b, not the first); ..
//!     commit_group();
//!     wait_group::<1>();                          // the operands of the tile before may be overwritten
//! }
//! wait_group::<0>();                              // the registers are the threads' own again
//! .. d.get::<0>() ..
//! ```
//!
//! * [`fence`] comes before the first instruction, and again where the threads have read or written the accumulators
//!   since. In a loop it stands inside: the assembler puts one there anyway.
//! * From an instruction until a [`wait_group`] that covers it nobody may write its operands, nor touch its
//!   accumulators. Instructions that add to the same accumulators need nothing between them.
//! * Operands that threads have stored themselves need a [`fence_shared`](crate::bulk_copy::fence_shared) before the
//!   barrier that makes them known.
//!
//! Other targets lack these instructions: see [`AVAILABLE`].

mod descriptor;

pub use descriptor::{Descriptor, KMajor, Layout, Major, MnMajor};

pub use crate::swizzle::Swizzle;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use descriptor::Operand;

use crate::backend;
use crate::scalar::Scalar;
use core::marker::PhantomData;
use half::{bf16, f16};

/// Whether the target has warpgroup matrix instructions: `sm_90a` alone. Where it has not, kernels that use them
/// compile all the same, and the functions of this module end the launch (`trap`).
pub const AVAILABLE: bool = backend::WGMMA;

/// Threads of a warpgroup.
pub const THREADS: u32 = 4 * crate::warp::WARP_SIZE;

/// Rows of A and of the accumulators.
pub const M: usize = 64;

/// Columns of A and rows of B, for elements of 16 bits.
pub const K: usize = 16;

mod sealed {
    pub trait Sealed {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
    impl Sealed for super::KMajor {}
    impl Sealed for super::MnMajor {}
}

/// What operands are made of.
pub trait Element: Scalar + sealed::Sealed {
    /// Whether it is `bf16`, and not `f16`.
    const BF16: bool;
}

impl Element for f16 {
    const BF16: bool = false;
}

impl Element for bf16 {
    const BF16: bool = true;
}

/// Two neighbouring sums as elements, each rounded to the nearest one, ties to even: the first in the lower half
/// (`cvt.rn.bf16x2.f32`, `cvt.rn.f16x2.f32`). A NaN becomes the one whose bits but the highest are set.
#[inline(always)]
pub fn pack<T: Element>(pair: [f32; 2]) -> u32 {
    backend::wgmma_pack::<T>(pair)
}

/// Lets the warpgroup's next instructions use the accumulators as the threads have left them, or instructions of
/// another number of columns (`wgmma.fence`).
///
/// # Safety
/// All threads of the warpgroup must execute it together.
#[inline(always)]
#[track_caller]
pub unsafe fn fence() {
    // SAFETY: as promised by the caller.
    unsafe { backend::wgmma_fence() }
}

/// Closes the warpgroup's latest instructions into a group (`wgmma.commit_group`).
///
/// # Safety
/// As for [`fence`].
#[inline(always)]
#[track_caller]
pub unsafe fn commit_group() {
    // SAFETY: as promised by the caller.
    unsafe { backend::wgmma_commit_group() }
}

/// Waits until the instructions of all the warpgroup's groups but the `PENDING` newest, at most 7, are done
/// (`wgmma.wait_group`).
///
/// # Safety
/// As for [`fence`].
#[inline(always)]
#[track_caller]
pub unsafe fn wait_group<const PENDING: usize>() {
    // SAFETY: as promised by the caller.
    unsafe { backend::wgmma_wait_group::<PENDING>() }
}

/// The registers of a product of [`M`] rows and `N` columns, 32, 64, 128, 160, 192 or 256: `N / 2` of them in each
/// thread.
///
/// The value itself is empty, and stands for registers that have a name in PTX. A kernel that needs several sets tells
/// them apart by `SET`. Where it owns several times as many rows, sets that follow one another can be read and written
/// through the first as if they were one: after the registers of a set come those of the next.
///
/// Register `i` of the thread of index `t` in its warpgroup holds ("Register Fragments and Shared Memory Matrix
/// Layouts")
///
/// ```text
/// row     t / 32 * 16 + t % 32 / 4 + i % 4 / 2 * 8
/// column  i / 4 * 8 + t % 4 * 2 + i % 2
/// ```
#[derive(Debug)]
pub struct Accumulators<const N: usize, const SET: usize = 0> {
    /// Belongs to the thread that has declared it.
    registers: PhantomData<*mut f32>,
}

impl<const N: usize, const SET: usize> Accumulators<N, SET> {
    /// Declares the registers. Their contents are undefined.
    ///
    /// # Safety
    /// Must be executed once for a `SET` in a kernel, by all threads, at a place that the compiler cannot duplicate nor
    /// move behind a use: at the start of the kernel, before any branch, in a function that is inlined into it once.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn declare() -> Self {
        const {
            assert!(
                matches!(N, 32 | 64 | 128 | 160 | 192 | 256),
                "an instruction has 32, 64, 128, 160, 192 or 256 columns"
            )
        };
        // SAFETY: as promised by the caller.
        unsafe { backend::wgmma_declare::<N, SET>() };
        Accumulators { registers: PhantomData }
    }

    /// Begins to add the product of `a` and `b`; where `accumulate` does not hold, what the accumulators held before
    /// does not count (`wgmma.mma_async`).
    ///
    /// The products are exact. How they are added up NVIDIA does not say: see the simulator's notes.
    ///
    /// # Safety
    /// As for [`fence`], with the same arguments in all threads. Both operands must lie in shared memory as their
    /// layouts say, and be left alone until the instruction has been waited for, as must the accumulators.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn mma_async<T: Element, A: Major, B: Major>(
        &mut self,
        a: Descriptor<T, A>,
        b: Descriptor<T, B>,
        accumulate: bool,
    ) {
        // SAFETY: as promised by the caller.
        unsafe { self.mma_async_of_cols::<N, T, A, B>(a, b, accumulate) }
    }

    /// The same for the first `COLS` columns of B and of the product alone, 32 or a multiple of 16 from 64 on: other
    /// accumulators are left as they are.
    ///
    /// # Safety
    /// As for [`mma_async`](Self::mma_async); there are so many columns.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn mma_async_of_cols<const COLS: usize, T: Element, A: Major, B: Major>(
        &mut self,
        a: Descriptor<T, A>,
        b: Descriptor<T, B>,
        accumulate: bool,
    ) {
        const {
            let is_known = COLS == 32 || COLS >= 64 && COLS.is_multiple_of(16);
            assert!(is_known && COLS <= 256, "an instruction has 32 columns, or 64 to 256 by 16");
        };
        // SAFETY: as promised by the caller.
        unsafe {
            backend::wgmma_mma_async::<T, A, B, COLS, SET>(a.bits(), b.bits(), accumulate);
        }
    }

    /// This thread's register `I`: from `N / 2` on one of the sets that follow.
    ///
    /// # Safety
    /// The register must have been declared, and all instructions that use its set waited for.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn get<const I: usize>(&self) -> f32 {
        // SAFETY: as promised by the caller.
        unsafe { backend::wgmma_get::<N, SET, I>() }
    }

    /// `factor` times this thread's [register](Self::get) `I`, plus `addend`, rounded once.
    ///
    /// The same as with [`get`](Self::get), but where one of several registers is chosen at run time the multiply-add
    /// stays with the choice, in place of a move.
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn scaled<const I: usize>(&self, factor: f32, addend: f32) -> f32 {
        // SAFETY: as promised by the caller.
        unsafe { backend::wgmma_scaled::<N, SET, I>(factor, addend) }
    }

    /// Writes this thread's [register](Self::get) `I`.
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn set<const I: usize>(&mut self, value: f32) {
        // SAFETY: as promised by the caller.
        unsafe { backend::wgmma_set::<N, SET, I>(value) }
    }
}
