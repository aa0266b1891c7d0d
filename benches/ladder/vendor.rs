//! cuBLASLt, loaded at run time: what the kernels are compared with. Only benchmarks use it.
//!
//! Names and numbers are those of cuBLAS's documentation, section "Using the cuBLASLt API" (CUDA 12 and 13).

use libloading::Library;
use regemm::{Dtype, Element, Matrix, Stream};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

type Status = c_int;
type Handle = *mut c_void;

const SUCCESS: Status = 0;
/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`
const PREFERENCE_WORKSPACE: c_int = 1;
/// Memory that an algorithm may use beside the matrices.
const WORKSPACE_BYTES: usize = 32 << 20;
/// How many algorithms the heuristic is asked for; the fastest of them counts.
const ALGORITHMS: usize = 16;

/// `cublasLtMatmulHeuristicResult_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct Heuristic {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    status: Status,
    waves: f32,
    reserved: [c_int; 4],
}

/// The functions of the library that are used.
struct Functions {
    create: unsafe extern "C" fn(*mut Handle) -> Status,
    destroy: unsafe extern "C" fn(Handle) -> Status,
    desc_create: unsafe extern "C" fn(*mut Handle, c_int, c_int) -> Status,
    desc_destroy: unsafe extern "C" fn(Handle) -> Status,
    layout_create: unsafe extern "C" fn(*mut Handle, c_int, u64, u64, i64) -> Status,
    layout_destroy: unsafe extern "C" fn(Handle) -> Status,
    preference_create: unsafe extern "C" fn(*mut Handle) -> Status,
    preference_set: unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> Status,
    preference_destroy: unsafe extern "C" fn(Handle) -> Status,
    heuristic: unsafe extern "C" fn(
        Handle,
        Handle,
        Handle,
        Handle,
        Handle,
        Handle,
        Handle,
        c_int,
        *mut Heuristic,
        *mut c_int,
    ) -> Status,
    matmul: unsafe extern "C" fn(
        Handle,
        Handle,
        *const c_void,
        *const c_void,
        Handle,
        *const c_void,
        Handle,
        *const c_void,
        *const c_void,
        Handle,
        *mut c_void,
        Handle,
        *const [u64; 8],
        *mut c_void,
        usize,
        *mut c_void,
    ) -> Status,
    version: unsafe extern "C" fn() -> usize,
}

/// The library with a handle for the current context.
pub struct Vendor {
    functions: Functions,
    handle: Handle,
    workspace: Matrix<f32>,
    // Last, so that it is unloaded last.
    _library: Library,
}

impl Vendor {
    /// Loads cuBLASLt where the system's loader finds it.
    ///
    /// # Errors
    /// Why it cannot be used, as text.
    pub fn load(stream: &Stream) -> Result<Vendor, String> {
        const NAMES: [&str; 3] = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];
        // SAFETY: loading the vendor's library runs its initialisers, which is what is wanted.
        let library = NAMES
            .iter()
            .find_map(|name| unsafe { Library::new(*name) }.ok())
            .ok_or_else(|| format!("none of {} can be loaded", NAMES.join(", ")))?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type of the field is the function's in the library's header.
                *unsafe { library.get($name) }.map_err(|error| error.to_string())?
            };
        }
        let functions = Functions {
            create: symbol!(b"cublasLtCreate"),
            destroy: symbol!(b"cublasLtDestroy"),
            desc_create: symbol!(b"cublasLtMatmulDescCreate"),
            desc_destroy: symbol!(b"cublasLtMatmulDescDestroy"),
            layout_create: symbol!(b"cublasLtMatrixLayoutCreate"),
            layout_destroy: symbol!(b"cublasLtMatrixLayoutDestroy"),
            preference_create: symbol!(b"cublasLtMatmulPreferenceCreate"),
            preference_set: symbol!(b"cublasLtMatmulPreferenceSetAttribute"),
            preference_destroy: symbol!(b"cublasLtMatmulPreferenceDestroy"),
            heuristic: symbol!(b"cublasLtMatmulAlgoGetHeuristic"),
            matmul: symbol!(b"cublasLtMatmul"),
            version: symbol!(b"cublasLtGetVersion"),
        };
        let workspace = stream
            .device()
            .matrix(1, WORKSPACE_BYTES / size_of::<f32>())
            .map_err(|error| error.to_string())?;
        let mut handle = null_mut();
        // SAFETY: writes a handle.
        on(stream, |_| check(unsafe { (functions.create)(&mut handle) }, "cublasLtCreate"))?;
        Ok(Vendor { functions, handle, workspace, _library: library })
    }

    /// The library's version, for example `13.0.2`.
    pub fn version(&self) -> String {
        // SAFETY: only returns a number.
        let version = unsafe { (self.functions.version)() };
        format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    }

    /// The algorithms for `D[m x n] = A[m x k] * B[k x n]` of packed row-major matrices, best guess first.
    ///
    /// # Errors
    /// The failing function, as text.
    pub fn plan<T: Element>(
        &self,
        stream: &Stream,
        (m, n, k): (usize, usize, usize),
    ) -> Result<Plan<'_>, String> {
        on(stream, |_| self.plan_in_context::<T>(m, n, k))
    }

    fn plan_in_context<T: Element>(
        &self,
        m: usize,
        n: usize,
        k: usize,
    ) -> Result<Plan<'_>, String> {
        // `CUDA_R_32F` and so on, and `CUBLAS_COMPUTE_32F` or `CUBLAS_COMPUTE_64F`: no TF32.
        let (dtype, compute, scale) = match T::DTYPE {
            Dtype::F32 => (0, 68, 0),
            Dtype::F64 => (1, 70, 1),
            Dtype::F16 => (2, 68, 0),
            Dtype::Bf16 => (14, 68, 0),
        };
        let f = &self.functions;
        let mut plan = Plan {
            vendor: self,
            description: null_mut(),
            a: null_mut(),
            b: null_mut(),
            d: null_mut(),
            preference: null_mut(),
            algorithms: Vec::new(),
        };
        // The library is column-major: row-major D = A * B is column-major D' = B' * A'.
        let (m, n, k) = (m as u64, n as u64, k as u64);
        // SAFETY: each call writes the handle that it is given.
        unsafe {
            check((f.desc_create)(&mut plan.description, compute, scale), "MatmulDescCreate")?;
            check((f.layout_create)(&mut plan.a, dtype, n, k, n as i64), "MatrixLayoutCreate")?;
            check((f.layout_create)(&mut plan.b, dtype, k, m, k as i64), "MatrixLayoutCreate")?;
            check((f.layout_create)(&mut plan.d, dtype, n, m, n as i64), "MatrixLayoutCreate")?;
            check((f.preference_create)(&mut plan.preference), "MatmulPreferenceCreate")?;
            let bytes = WORKSPACE_BYTES;
            check(
                (f.preference_set)(
                    plan.preference,
                    PREFERENCE_WORKSPACE,
                    (&raw const bytes).cast(),
                    size_of_val(&bytes),
                ),
                "MatmulPreferenceSetAttribute",
            )?;
        }
        let empty = Heuristic {
            algorithm: [0; 8],
            workspace_bytes: 0,
            status: 0,
            waves: 0.0,
            reserved: [0; 4],
        };
        let mut found = [empty; ALGORITHMS];
        let mut count = 0;
        // SAFETY: the descriptions are live, and there is room for as many results as are asked for.
        let status = unsafe {
            (f.heuristic)(
                self.handle,
                plan.description,
                plan.a,
                plan.b,
                plan.d,
                plan.d,
                plan.preference,
                ALGORITHMS as c_int,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        check(status, "MatmulAlgoGetHeuristic")?;
        plan.algorithms = found[..count as usize]
            .iter()
            .filter(|result| result.status == SUCCESS)
            .map(|result| result.algorithm)
            .collect();
        if plan.algorithms.is_empty() {
            return Err("cuBLASLt knows no algorithm for this product".into());
        }
        Ok(plan)
    }
}

impl Drop for Vendor {
    fn drop(&mut self) {
        // SAFETY: the handle is live and this is its last use.
        unsafe { (self.functions.destroy)(self.handle) };
    }
}

/// One shape's descriptions and algorithms.
pub struct Plan<'v> {
    vendor: &'v Vendor,
    description: Handle,
    a: Handle,
    b: Handle,
    d: Handle,
    preference: Handle,
    algorithms: Vec<[u64; 8]>,
}

impl Plan<'_> {
    /// Number of algorithms.
    pub fn algorithms(&self) -> usize {
        self.algorithms.len()
    }

    /// Puts the product on a stream, with one of the algorithms.
    ///
    /// # Safety
    /// The matrices have the shapes and the type of the plan and no gaps, and stay until the stream is synchronised.
    ///
    /// # Errors
    /// The failing function, as text.
    pub unsafe fn enqueue<T: Element>(
        &self,
        algorithm: usize,
        stream: &Stream,
        a: &Matrix<T>,
        b: &Matrix<T>,
        d: &mut Matrix<T>,
    ) -> Result<(), String> {
        // Factors in the type that sums are taken in.
        let (one_f32, zero_f32, one_f64, zero_f64) = (1_f32, 0_f32, 1_f64, 0_f64);
        let (one, zero): (*const c_void, *const c_void) = if T::DTYPE == Dtype::F64 {
            ((&raw const one_f64).cast(), (&raw const zero_f64).cast())
        } else {
            ((&raw const one_f32).cast(), (&raw const zero_f32).cast())
        };
        let pointer = |address: u64| address as *mut c_void;
        on(stream, |handle| {
            // SAFETY: as promised by the caller; the workspace belongs to this library alone.
            let status = unsafe {
                (self.vendor.functions.matmul)(
                    self.vendor.handle,
                    self.description,
                    one,
                    pointer(b.address()),
                    self.a,
                    pointer(a.address()),
                    self.b,
                    zero,
                    pointer(d.address()),
                    self.d,
                    pointer(d.address()),
                    self.d,
                    &self.algorithms[algorithm],
                    pointer(self.vendor.workspace.address()),
                    WORKSPACE_BYTES,
                    handle,
                )
            };
            check(status, "cublasLtMatmul")
        })
    }
}

impl Drop for Plan<'_> {
    fn drop(&mut self) {
        let f = &self.vendor.functions;
        let destroy = |handle: Handle, function: unsafe extern "C" fn(Handle) -> Status| {
            if !handle.is_null() {
                // SAFETY: the handle is live and this is its last use.
                unsafe { function(handle) };
            }
        };
        destroy(self.preference, f.preference_destroy);
        for layout in [self.a, self.b, self.d] {
            destroy(layout, f.layout_destroy);
        }
        destroy(self.description, f.desc_destroy);
    }
}

/// Calls a function with the stream's handle while its context is current.
fn on<R>(
    stream: &Stream,
    call: impl FnOnce(*mut c_void) -> Result<R, String>,
) -> Result<R, String> {
    stream
        .with_cuda_handle(call)
        .map_err(|error| error.to_string())?
        .ok_or("cuBLASLt needs a CUDA stream")?
}

fn check(status: Status, function: &str) -> Result<(), String> {
    if status == SUCCESS { Ok(()) } else { Err(format!("{function} failed with status {status}")) }
}
