//! What the vendor's two libraries have in common: how they are loaded and called, and how they see a product.
//!
//! Only benchmarks use them. Names and numbers are those of cuBLAS's documentation (CUDA 12 and 13).

use libloading::Library;
use regemm::{Dtype, Stream};
use std::ffi::{c_int, c_void};

pub type Status = c_int;
pub type Handle = *mut c_void;

/// Memory that an algorithm may use beside the matrices.
pub const WORKSPACE_BYTES: usize = 32 << 20;

/// `CUBLAS_OP_N` and `CUBLAS_OP_T`
const AS_STORED: c_int = 0;
const TRANSPOSED: c_int = 1;

/// A strided-batched product of packed row-major matrices, `D[m x n] = A[m x k] * B[k x n]` each, or with `C[m x n]`
/// added; a transposed factor lies in memory as its transpose.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a_transposed: bool,
    pub b_transposed: bool,
    /// Number of products, whose matrices follow one another without gaps.
    pub batch: usize,
    /// Of which type the matrices are.
    pub types: Types,
    /// What the factors are multiplied in.
    pub math: Math,
}

/// The types of a product's matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types {
    /// Of A and B.
    pub factors: Dtype,
    /// Of C and D.
    pub results: Dtype,
}

impl Types {
    /// All matrices of one type.
    pub fn all(dtype: Dtype) -> Types {
        Types { factors: dtype, results: dtype }
    }
}

/// What the libraries multiply factors in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Math {
    /// Their own type.
    #[default]
    AsTheyAre,
    /// f32 rounded to TF32, for tensor cores. Of other types there is no such thing.
    Tf32,
}

/// Addresses of A, B, C and D in device memory.
#[derive(Clone, Copy)]
pub struct Addresses {
    pub a: u64,
    pub b: u64,
    /// What is added to the product, if anything is.
    pub c: Option<u64>,
    pub d: u64,
}

/// A matrix as the libraries see it: column-major.
#[derive(Clone, Copy)]
pub struct ColumnMajor {
    pub rows: usize,
    pub cols: usize,
    pub operation: c_int,
}

impl ColumnMajor {
    /// Elements from one column to the next.
    pub fn ld(self) -> usize {
        self.rows
    }

    /// Elements from one matrix of a batch to the next.
    pub fn stride(self) -> usize {
        self.rows * self.cols
    }

    /// A packed row-major `rows x cols` matrix, which may be stored as its transpose: column-major it is the other way
    /// round.
    fn of(rows: usize, cols: usize, transposed: bool) -> ColumnMajor {
        if transposed {
            ColumnMajor { rows, cols, operation: TRANSPOSED }
        } else {
            ColumnMajor { rows: cols, cols: rows, operation: AS_STORED }
        }
    }
}

impl Product {
    /// One product of row-major factors, multiplied in their own type.
    pub fn of(types: Types, (m, n, k): (usize, usize, usize)) -> Product {
        Product {
            m,
            n,
            k,
            a_transposed: false,
            b_transposed: false,
            batch: 1,
            types,
            math: Math::AsTheyAre,
        }
    }

    /// The factors and the result of the column-major product: row-major `D = A B` is column-major `D' = B' A'`.
    pub fn column_major(&self) -> [ColumnMajor; 3] {
        [
            ColumnMajor::of(self.k, self.n, self.b_transposed),
            ColumnMajor::of(self.m, self.k, self.a_transposed),
            ColumnMajor::of(self.m, self.n, false),
        ]
    }
}

/// `CUDA_R_32F`, `CUDA_R_64F`, `CUDA_R_16F` or `CUDA_R_16BF`
pub fn data_type(dtype: Dtype) -> c_int {
    match dtype {
        Dtype::F32 => 0,
        Dtype::F64 => 1,
        Dtype::F16 => 2,
        Dtype::Bf16 => 14,
    }
}

/// `CUBLAS_COMPUTE_32F`, `CUBLAS_COMPUTE_64F` or `CUBLAS_COMPUTE_32F_FAST_TF32`
pub fn compute_type(dtype: Dtype, math: Math) -> c_int {
    match (dtype, math) {
        (Dtype::F64, _) => 70,
        (Dtype::F32, Math::Tf32) => 77,
        _ => 68,
    }
}

/// 1 and 0 in the type that sums of products of these factors are taken in: factors of the product and of what is added
/// to it.
pub fn one_and_zero(dtype: Dtype) -> (*const c_void, *const c_void) {
    static SINGLE: [f32; 2] = [1.0, 0.0];
    static DOUBLE: [f64; 2] = [1.0, 0.0];
    if dtype == Dtype::F64 {
        ((&raw const DOUBLE[0]).cast(), (&raw const DOUBLE[1]).cast())
    } else {
        ((&raw const SINGLE[0]).cast(), (&raw const SINGLE[1]).cast())
    }
}

/// Major versions of the vendor's libraries, in the order in which they are tried.
const MAJOR_VERSIONS: [u32; 2] = [13, 12];

/// The newest version of a library (`cublas`, `cublasLt`) that the system's loader finds.
///
/// # Errors
/// The reason for each, as text.
pub fn open(library: &str) -> Result<Library, String> {
    let mut names = MAJOR_VERSIONS.map(|major| file_name(library, major)).to_vec();
    if cfg!(unix) {
        names.push(format!("lib{library}.so"));
    }
    let mut reasons = Vec::new();
    for name in &names {
        // SAFETY: loading the vendor's library runs its initialisers, which is what is wanted.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(library),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(format!("none of {} can be loaded ({})", names.join(", "), reasons.join("; ")))
}

/// As the vendor calls the file.
fn file_name(library: &str, major: u32) -> String {
    if cfg!(windows) {
        format!("{library}64_{major}.dll")
    } else {
        format!("lib{library}.so.{major}")
    }
}

/// A version such as `13.0.2` from the number that the libraries give.
pub fn version(number: usize) -> String {
    format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
}

/// Calls a function with the stream's handle while its context is current.
pub fn on<R>(
    stream: &Stream,
    call: impl FnOnce(*mut c_void) -> Result<R, String>,
) -> Result<R, String> {
    stream
        .with_cuda_handle(call)
        .map_err(|error| error.to_string())?
        .ok_or("the vendor's library needs a CUDA stream")?
}

pub fn check(status: Status, function: &str) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{function} failed with status {status}")) }
}
