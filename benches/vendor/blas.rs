//! cuBLAS, loaded at run time: the functions that most programs call, which choose their algorithm themselves.
//!
//! Names and numbers are those of cuBLAS's documentation, section "Using the cuBLAS API" (CUDA 12 and 13). The math
//! mode is the default one, without TF32, which is used where a product [asks for it](Math).

use crate::library::{
    Addresses, Handle, Math, Product, Status, Types, WORKSPACE_BYTES, check, compute_type,
    data_type, on, one_and_zero, open, version,
};
use libloading::Library;
use regemm::{Dtype, Matrix, Stream};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// `CUBLAS_GEMM_DEFAULT`
const DEFAULT_ALGORITHM: c_int = -1;

/// `cublasSgemm` and `cublasDgemm`; the scalars are of the matrices' type.
type Gemm = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    *const c_void,
    c_int,
    *const c_void,
    *mut c_void,
    c_int,
) -> Status;

/// `cublasSgemmStridedBatched` and `cublasDgemmStridedBatched`
type GemmBatched = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    i64,
    *const c_void,
    c_int,
    i64,
    *const c_void,
    *mut c_void,
    c_int,
    i64,
    c_int,
) -> Status;

/// `cublasGemmEx`
type GemmEx = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
) -> Status;

/// `cublasGemmStridedBatchedEx`
type GemmBatchedEx = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    i64,
    *const c_void,
    c_int,
    c_int,
    i64,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    i64,
    c_int,
    c_int,
    c_int,
) -> Status;

/// The functions of the library that are used.
struct Functions {
    destroy: unsafe extern "C" fn(Handle) -> Status,
    sgemm: Gemm,
    dgemm: Gemm,
    gemm_ex: GemmEx,
    sgemm_batched: GemmBatched,
    dgemm_batched: GemmBatched,
    gemm_batched_ex: GemmBatchedEx,
}

/// The library with a handle for a stream.
pub struct Blas {
    functions: Functions,
    handle: Handle,
    version: String,
    _workspace: Matrix<f32>,
    // Last, so that it is unloaded last.
    _library: Library,
}

impl Blas {
    /// Loads cuBLAS where the system's loader finds it, for work on this stream alone.
    ///
    /// # Errors
    /// Why it cannot be used, as text.
    pub fn load(stream: &Stream) -> Result<Blas, String> {
        let library = open("cublas")?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type it is given is the function's in the library's header.
                *unsafe { library.get($name) }.map_err(|error| error.to_string())?
            };
        }
        let create: unsafe extern "C" fn(*mut Handle) -> Status = symbol!(b"cublasCreate_v2");
        let set_stream: unsafe extern "C" fn(Handle, *mut c_void) -> Status =
            symbol!(b"cublasSetStream_v2");
        let set_workspace: unsafe extern "C" fn(Handle, *mut c_void, usize) -> Status =
            symbol!(b"cublasSetWorkspace_v2");
        let get_version: unsafe extern "C" fn(Handle, *mut c_int) -> Status =
            symbol!(b"cublasGetVersion_v2");
        let functions = Functions {
            destroy: symbol!(b"cublasDestroy_v2"),
            sgemm: symbol!(b"cublasSgemm_v2"),
            dgemm: symbol!(b"cublasDgemm_v2"),
            gemm_ex: symbol!(b"cublasGemmEx"),
            sgemm_batched: symbol!(b"cublasSgemmStridedBatched"),
            dgemm_batched: symbol!(b"cublasDgemmStridedBatched"),
            gemm_batched_ex: symbol!(b"cublasGemmStridedBatchedEx"),
        };
        let workspace = stream
            .device()
            .matrix(1, WORKSPACE_BYTES / size_of::<f32>())
            .map_err(|error| error.to_string())?;
        let mut blas = Blas {
            functions,
            handle: null_mut(),
            version: String::new(),
            _workspace: workspace,
            _library: library,
        };
        on(stream, |raw| {
            let mut number = 0;
            let memory = blas._workspace.address() as *mut c_void;
            // SAFETY: each call writes what it is given; the workspace lives as long as the handle.
            unsafe {
                check(create(&mut blas.handle), "cublasCreate")?;
                check(set_stream(blas.handle, raw), "cublasSetStream")?;
                check(set_workspace(blas.handle, memory, WORKSPACE_BYTES), "cublasSetWorkspace")?;
                check(get_version(blas.handle, &mut number), "cublasGetVersion")?;
            }
            blas.version = version(number as usize);
            Ok(())
        })?;
        Ok(blas)
    }

    /// The library's version, for example `13.0.2`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Puts a product on the stream that the handle was made for.
    ///
    /// # Safety
    /// The matrices are those of the product and stay until the stream is synchronised.
    ///
    /// # Errors
    /// The failing function, as text.
    pub unsafe fn enqueue(
        &self,
        stream: &Stream,
        product: &Product,
        matrices: Addresses,
    ) -> Result<(), String> {
        // SAFETY: as promised by the caller; the stream's context is current.
        on(stream, |_| unsafe { self.call(product, matrices) })
    }

    /// The call of the library alone.
    ///
    /// # Safety
    /// As for [`Blas::enqueue`]; the stream is live and its context current.
    #[rustfmt::skip]
    pub unsafe fn call(&self, product: &Product, matrices: Addresses) -> Result<(), String> {
        if matrices.c.is_some() {
            return Err("cuBLAS adds to D alone".into());
        }
        let f = &self.functions;
        let Types { factors, results } = product.types;
        let [first, second, result] = product.column_major();
        // Column-major `n x m x k`.
        let (rows, cols, depth) = (product.n as c_int, product.m as c_int, product.k as c_int);
        let (a, b) = (matrices.b as *const c_void, matrices.a as *const c_void);
        let d = matrices.d as *mut c_void;
        let [lda, ldb, ldd] = [first, second, result].map(|matrix| matrix.ld() as c_int);
        let [sa, sb, sd] = [first, second, result].map(|matrix| matrix.stride() as i64);
        let (h, ta, tb) = (self.handle, first.operation, second.operation);
        let (one, zero) = one_and_zero(factors);
        let (data, to, compute) =
            (data_type(factors), data_type(results), compute_type(factors, product.math));
        let batch = product.batch as c_int;
        let is_double = factors == Dtype::F64;
        let single = if is_double { f.dgemm } else { f.sgemm };
        let batched = if is_double { f.dgemm_batched } else { f.sgemm_batched };
        let by_types =
            product.math != Math::AsTheyAre || matches!(factors, Dtype::F16 | Dtype::Bf16);
        // SAFETY: as promised by the caller.
        let status = unsafe {
            match (by_types, product.batch > 1) {
                (false, false) => single(
                    h, ta, tb, rows, cols, depth, one, a, lda, b, ldb, zero, d, ldd,
                ),
                (false, true) => batched(
                    h, ta, tb, rows, cols, depth, one, a, lda, sa, b, ldb, sb, zero, d, ldd, sd, batch,
                ),
                (true, false) => (f.gemm_ex)(
                    h, ta, tb, rows, cols, depth, one, a, data, lda, b, data, ldb, zero, d, to, ldd,
                    compute, DEFAULT_ALGORITHM,
                ),
                (true, true) => (f.gemm_batched_ex)(
                    h, ta, tb, rows, cols, depth, one, a, data, lda, sa, b, data, ldb, sb, zero, d, to,
                    ldd, sd, batch, compute, DEFAULT_ALGORITHM,
                ),
            }
        };
        check(status, "the product of cuBLAS")
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is live and this is its last use.
            unsafe { (self.functions.destroy)(self.handle) };
        }
    }
}
