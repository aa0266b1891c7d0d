//! cuBLASLt, loaded at run time: what the kernels are compared with.
//!
//! Names and numbers are those of cuBLAS's documentation, section "Using the cuBLASLt API" (CUDA 12 and 13).

use crate::library::{
    Addresses, ColumnMajor, Handle, Product, Status, Types, WORKSPACE_BYTES, check, compute_type,
    data_type, on, one_and_zero, open, version,
};
use libloading::Library;
use regemm::{Dtype, Matrix, Stream};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`
const PREFERENCE_WORKSPACE: c_int = 1;
/// `CUBLASLT_MATMUL_DESC_TRANSA` and `CUBLASLT_MATMUL_DESC_TRANSB`
const OPERATIONS: [c_int; 2] = [3, 4];
/// `CUBLASLT_MATMUL_DESC_EPILOGUE` and `CUBLASLT_MATMUL_DESC_BIAS_POINTER`
const EPILOGUE: c_int = 7;
const BIAS_POINTER: c_int = 8;
/// `CUBLASLT_EPILOGUE_GELU_BIAS`: GELU by tanh, and a bias for each row of what is column-major.
const GELU_BIAS: c_int = 36;
/// `CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT`
const BATCH_COUNT: c_int = 5;
/// `CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET`
const BATCH_STRIDE: c_int = 6;
/// How many algorithms the heuristic is asked for; the fastest of them counts.
pub const ALGORITHMS: usize = 16;

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
    desc_set: unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> Status,
    desc_destroy: unsafe extern "C" fn(Handle) -> Status,
    layout_create: unsafe extern "C" fn(*mut Handle, c_int, u64, u64, i64) -> Status,
    layout_set: unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> Status,
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
        let library = open("cublasLt")?;
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
            desc_set: symbol!(b"cublasLtMatmulDescSetAttribute"),
            desc_destroy: symbol!(b"cublasLtMatmulDescDestroy"),
            layout_create: symbol!(b"cublasLtMatrixLayoutCreate"),
            layout_set: symbol!(b"cublasLtMatrixLayoutSetAttribute"),
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
        version(unsafe { (self.functions.version)() })
    }

    /// The algorithms for a product, best guess first; with a bias for each column, of which the address in device
    /// memory is given, and GELU if there is a bias.
    ///
    /// # Errors
    /// The failing function, as text.
    pub fn plan(
        &self,
        stream: &Stream,
        product: &Product,
        bias: Option<u64>,
    ) -> Result<Plan<'_>, String> {
        on(stream, |_| self.plan_in_context(product, bias))
    }

    fn plan_in_context(&self, product: &Product, bias: Option<u64>) -> Result<Plan<'_>, String> {
        let f = &self.functions;
        let Types { factors, results } = product.types;
        let mut plan = Plan {
            vendor: self,
            factors,
            description: null_mut(),
            layouts: [null_mut(); 3],
            preference: null_mut(),
            algorithms: Vec::new(),
        };
        // Factors are scaled in the type of the sums.
        let scale = data_type(if factors == Dtype::F64 { Dtype::F64 } else { Dtype::F32 });
        let matrices = product.column_major();
        // SAFETY: each call writes the handle that it is given, or reads a value of the size that it is told.
        unsafe {
            let compute = compute_type(factors, product.math);
            check((f.desc_create)(&mut plan.description, compute, scale), "MatmulDescCreate")?;
            for (attribute, factor) in OPERATIONS.into_iter().zip(&matrices) {
                set(f.desc_set, plan.description, attribute, &factor.operation)?;
            }
            if let Some(bias) = bias {
                set(f.desc_set, plan.description, EPILOGUE, &GELU_BIAS)?;
                set(f.desc_set, plan.description, BIAS_POINTER, &bias)?;
            }
            let dtypes = [factors, factors, results];
            for ((layout, matrix), dtype) in plan.layouts.iter_mut().zip(matrices).zip(dtypes) {
                let ColumnMajor { rows, cols, .. } = matrix;
                let (rows, cols, ld) = (rows as u64, cols as u64, matrix.ld() as i64);
                let create = f.layout_create;
                check(create(layout, data_type(dtype), rows, cols, ld), "MatrixLayoutCreate")?;
                if product.batch > 1 {
                    set(f.layout_set, *layout, BATCH_COUNT, &(product.batch as i32))?;
                    set(f.layout_set, *layout, BATCH_STRIDE, &(matrix.stride() as i64))?;
                }
            }
            check((f.preference_create)(&mut plan.preference), "MatmulPreferenceCreate")?;
            set(f.preference_set, plan.preference, PREFERENCE_WORKSPACE, &WORKSPACE_BYTES)?;
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
        let [first, second, result] = plan.layouts;
        let status = unsafe {
            (f.heuristic)(
                self.handle,
                plan.description,
                first,
                second,
                result,
                result,
                plan.preference,
                ALGORITHMS as c_int,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        check(status, "MatmulAlgoGetHeuristic")?;
        plan.algorithms = found[..count as usize]
            .iter()
            .filter(|result| result.status == 0)
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

/// One product's descriptions and algorithms.
pub struct Plan<'v> {
    vendor: &'v Vendor,
    factors: Dtype,
    description: Handle,
    /// The factors and the result, column-major.
    layouts: [Handle; 3],
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
    /// The matrices are those of the plan's product; they and its bias stay until the stream is synchronised.
    ///
    /// # Errors
    /// The failing function, as text.
    pub unsafe fn enqueue(
        &self,
        algorithm: usize,
        stream: &Stream,
        matrices: Addresses,
    ) -> Result<(), String> {
        // SAFETY: as promised by the caller; the stream's context is current.
        on(stream, |handle| unsafe { self.call(algorithm, handle, matrices) })
    }

    /// The call of the library alone.
    ///
    /// # Safety
    /// As for [`Plan::enqueue`]; the stream is live and its context current.
    pub unsafe fn call(
        &self,
        algorithm: usize,
        stream: *mut c_void,
        matrices: Addresses,
    ) -> Result<(), String> {
        let (one, zero) = one_and_zero(self.factors);
        let pointer = |address: u64| address as *mut c_void;
        let (beta, c) = matrices.c.map_or((zero, matrices.d), |c| (one, c));
        let [first, second, result] = self.layouts;
        // SAFETY: as promised by the caller; the workspace belongs to this library alone.
        let status = unsafe {
            (self.vendor.functions.matmul)(
                self.vendor.handle,
                self.description,
                one,
                pointer(matrices.b),
                first,
                pointer(matrices.a),
                second,
                beta,
                pointer(c),
                result,
                pointer(matrices.d),
                result,
                &self.algorithms[algorithm],
                pointer(self.vendor.workspace.address()),
                WORKSPACE_BYTES,
                stream,
            )
        };
        check(status, "cublasLtMatmul")
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
        for layout in self.layouts {
            destroy(layout, f.layout_destroy);
        }
        destroy(self.description, f.desc_destroy);
    }
}

/// Sets an attribute of a description.
///
/// # Safety
/// The object is live and the attribute's value has the type `V`.
unsafe fn set<V>(
    function: unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> Status,
    object: Handle,
    attribute: c_int,
    value: &V,
) -> Result<(), String> {
    // SAFETY: as promised by the caller; the library copies the value.
    let status = unsafe { function(object, attribute, (&raw const *value).cast(), size_of::<V>()) };
    check(status, "setting an attribute")
}
