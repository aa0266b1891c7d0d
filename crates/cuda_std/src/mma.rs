//! Matrix products of a warp: the portable instructions of tensor cores (PTX ISA, "Warp Level Matrix
//! Multiply-Accumulate Instructions").
//!
//! The 32 lanes of a warp hold a matrix together. Each has a *fragment*, registers with a few of its elements; which,
//! says the manual ("Matrix Fragments for mma.m16n8k16 with floating point type"). With `g = lane / 4` and `t = lane %
//! 4`, where each 32-bit register of A and B holds two elements, the first in its lower half:
//!
//! | | register | elements of a lane |
//! |---|---|---|
//! | A, 16 x 16 | 0 | row `g`, columns `2t` and `2t + 1` |
//! | | 1 | row `g + 8`, the same columns |
//! | | 2 | row `g`, columns `2t + 8` and `2t + 9` |
//! | | 3 | row `g + 8`, the same columns |
//! | B, 16 x 8 | 0 | rows `2t` and `2t + 1` of column `g` |
//! | | 1 | rows `2t + 8` and `2t + 9` |
//! | C and D, 16 x 8 | 0, 1 | row `g`, columns `2t` and `2t + 1` |
//! | | 2, 3 | row `g + 8`, the same columns |
//!
//! [`load_matrices`] brings fragments of A and B from shared memory, [`multiply_add`] multiplies them,
//! [`store_matrices`] takes fragments to shared memory. All lanes of the warp take part: a warp that has diverged
//! before must have come together again.
//!
//! # Precision
//!
//! Products are exact. How they are summed is not documented: measurements say that the products of an instruction, or
//! of parts of it, and the addend are aligned to the largest of them, lose what lies below a bit or a few more than an
//! f32 holds, and that the sum is truncated, not rounded (M. Fasi, N. Higham, M. Mikaitis, S. Pranesh, "Numerical
//! behavior of NVIDIA tensor cores", PeerJ Computer Science 7:e330, 2021). So results differ in their last bits from
//! one generation of GPUs to the next.
//!
//! The simulator is one more such machine: it aligns all 16 products of an element and the addend to the largest of
//! them, cuts off what lies below two bits more than an f32 holds, and truncates the sum to f32, once an instruction.
//! That is the model of [`wgmma`](crate::wgmma) instructions, which was fitted to an H200; earlier generations lose
//! somewhat more. What is exact on all of them, small integers for example, is the same everywhere; the rest agrees
//! within the error of a truncation for each product.
//!
//! [`tf32`] is how f32 is multiplied, and [`double`] has the same for f64.

use crate::backend;
use crate::memory::SharedPtr;
use crate::scalar::Scalar;
use half::{bf16, f16};

pub mod double;
pub mod tf32;

/// Whether the target has these instructions. Targets before sm_80 do not, and there calling them ends the launch.
pub const AVAILABLE: bool = backend::TENSOR_CORES;

/// Rows and columns of the matrices that [`load_matrices`] reads: 8 rows of 16 bytes.
pub const MATRIX: usize = 8;

/// Whether the target has [`store_matrices`]: sm_90 and later. Elsewhere it ends the launch.
pub const STORES_MATRICES: bool = backend::STORES_MATRICES;

/// Rows of A and D in one instruction.
pub const M: usize = 16;

/// Columns of B and D in one instruction.
pub const N: usize = 8;

/// Columns of A and rows of B in one instruction, where elements are of half precision: 32 bytes of a row.
pub const K: usize = 16;

/// A lane's fragment of A.
pub type FragmentA = [u32; 4];

/// A lane's fragment of B.
pub type FragmentB = [u32; 2];

/// A lane's fragment of C and D.
pub type FragmentC = [f32; 4];

/// An element type that tensor cores multiply and sum up in f32.
pub trait Factor: Scalar {
    /// Columns of A and rows of B in one instruction: as many as [`load_matrices`] reads side by side.
    const K: usize = K * size_of::<u16>() / size_of::<Self>();

    /// What an instruction takes in place of a register of A or B, as it was read: the same, or the nearest that tensor
    /// cores multiply.
    #[inline(always)]
    fn to_operand(register: u32) -> u32 {
        register
    }

    /// See [`multiply_add`].
    #[doc(hidden)]
    unsafe fn multiply_add(a: FragmentA, b: FragmentB, c: FragmentC) -> FragmentC;
}

macro_rules! factors {
    ($($t:ty => $backend:ident),* $(,)?) => {$(
        impl Factor for $t {
            #[inline(always)]
            #[track_caller]
            unsafe fn multiply_add(a: FragmentA, b: FragmentB, c: FragmentC) -> FragmentC {
                // SAFETY: as promised by the caller.
                unsafe { backend::$backend(a, b, c) }
            }
        }
    )*};
}

factors! { f16 => mma_f16, bf16 => mma_bf16 }

/// `A * B + C` of 16 x 16, 16 x 8 and 16 x 8 elements (`mma.sync.aligned.m16n8k16.row.col.f32`), or half of that depth
/// for [`tf32`], of which each lane passes and gets its fragments. Registers of A and B are
/// [operands](Factor::to_operand).
///
/// # Safety
/// All 32 lanes of the warp must execute the same call together, on a target where it is [`AVAILABLE`].
#[inline(always)]
#[track_caller]
pub unsafe fn multiply_add<T: Factor>(a: FragmentA, b: FragmentB, c: FragmentC) -> FragmentC {
    // SAFETY: as promised by the caller.
    unsafe { T::multiply_add(a, b, c) }
}

/// Reads four 8 x 8 matrices of 16-bit elements (`ldmatrix.sync.aligned.m8n8.x4`). Lane `8 i + r` passes the address of
/// row `r` of matrix `i`: 16 bytes that lie together. Each lane gets in register `i`, of matrix `i`, elements `2t` and
/// `2t + 1` of row `g`, with `g = lane / 4` and `t = lane % 4`; or, with `TRANSPOSED` (`.trans`), those of column `g`.
///
/// For the checks of the simulator a row is read by the lane that passes its address.
///
/// # Safety
/// All 32 lanes of the warp must execute the same call together, on a target where it is [`AVAILABLE`]. Each row must
/// be a multiple of 16 bytes from the start of shared memory and lie in it, be initialised and not be written
/// concurrently.
#[inline(always)]
#[track_caller]
pub unsafe fn load_matrices<T: Factor, const TRANSPOSED: bool>(row: SharedPtr<T>) -> [u32; 4] {
    // SAFETY: as promised by the caller.
    unsafe { backend::load_matrices::<TRANSPOSED>(row.address()) }
}

/// Writes four 8 x 8 matrices of 16-bit elements (`stmatrix.sync.aligned.m8n8.x4`): what [`load_matrices`] reads, it
/// puts there. Lane `8 i + r` passes the address of row `r` of matrix `i`: 16 bytes that lie together. Each lane passes
/// in register `i`, of matrix `i`, elements `2t` and `2t + 1` of row `g`, with `g = lane / 4` and `t = lane % 4`; or,
/// with `TRANSPOSED` (`.trans`), those of column `g`.
///
/// For the checks of the simulator a row is written by the lane that passes its address.
///
/// # Safety
/// All 32 lanes of the warp must execute the same call together, on a target [that has it](STORES_MATRICES). Each row
/// must be a multiple of 16 bytes from the start of shared memory, lie in it, and not be accessed concurrently.
#[inline(always)]
#[track_caller]
pub unsafe fn store_matrices<T: Scalar, const TRANSPOSED: bool>(
    row: SharedPtr<T>,
    registers: [u32; 4],
) {
    const { assert!(size_of::<T>() == 2, "elements of 16 bits") };
    // SAFETY: as promised by the caller.
    unsafe { backend::store_matrices::<TRANSPOSED>(row.address(), registers) }
}
