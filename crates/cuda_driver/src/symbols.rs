//! The definitions of the driver's symbols.
//!
//! The list below is the only one. The signatures are those of `cuda.h`, with every pointer, handle and callback as
//! [`Pointer`] and every enum as its integer, so a definition and the declaration that `cust_raw` generated from the
//! same header agree in their machine-level types. That makes plain Rust functions enough: no assembly, and every
//! 64-bit target works alike.

use crate::library::address;
use crate::result::listed;
use core::ffi::c_void;

#[cfg(test)]
mod tests;

/// A pointer, an opaque handle or a callback.
pub(crate) type Pointer = *mut c_void;

macro_rules! driver_functions {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// Positions in the list.
        #[allow(non_camel_case_types)]
        enum Index { $($name),* }

        /// Number of functions.
        pub(crate) const COUNT: usize = [$(Index::$name as usize),*].len();

        /// Their names in the driver's library.
        pub(crate) const NAMES: [&str; COUNT] = [$(stringify!($name)),*];

        $(
            // SAFETY: no other definition of this symbol is linked: the archives in `link` have none.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            unsafe extern "C" fn $name($($argument: $type),*) -> i32 {
                match address(Index::$name as usize) {
                    Ok(function) => {
                        // SAFETY: the driver's function of this name has this signature.
                        let function: unsafe extern "C" fn($($type),*) -> i32 =
                            unsafe { core::mem::transmute(function) };
                        // SAFETY: as promised by the caller.
                        listed(unsafe { function($($argument),*) })
                    }
                    Err(code) => code,
                }
            }
        )*

        /// One definition of each, for the linker.
        pub(crate) static DEFINITIONS: [Definition; COUNT] = [
            $(Definition($name as unsafe extern "C" fn($($type),*) -> i32 as *const ())),*
        ];

        /// Name, signature here and signature in `cust_raw` of each; where their numbers of parameters differ this does
        /// not compile.
        #[cfg(test)]
        fn signatures() -> [(&'static str, Vec<tests::Kind>, Vec<tests::Kind>); COUNT] {
            [$((
                stringify!($name),
                tests::kinds($name as unsafe extern "C" fn($($type),*) -> i32),
                tests::kinds(cust_raw::$name as unsafe extern "C" fn($(tests::any!($argument)),*) -> _),
            )),*]
        }
    };
}

/// The name of a function before CUDA 11.0, which gave some a new one with the same parameters.
pub(crate) fn older_name(name: &str) -> Option<&'static str> {
    match name {
        "cuDevicePrimaryCtxRelease_v2" => Some("cuDevicePrimaryCtxRelease"),
        "cuDevicePrimaryCtxReset_v2" => Some("cuDevicePrimaryCtxReset"),
        "cuDevicePrimaryCtxSetFlags_v2" => Some("cuDevicePrimaryCtxSetFlags"),
        _ => None,
    }
}

/// The address of a definition.
pub(crate) struct Definition(#[allow(dead_code, reason = "kept for its relocation")] *const ());

// SAFETY: the address of a function, which never changes.
unsafe impl Sync for Definition {}

driver_functions! {
    // Initialisation, version, errors
    fn cuDriverGetVersion(driver_version: Pointer);
    fn cuGetErrorName(error: i32, p_str: Pointer);
    fn cuGetErrorString(error: i32, p_str: Pointer);
    fn cuInit(flags: u32);

    // Devices and contexts
    fn cuCtxCreate_v2(pctx: Pointer, flags: u32, dev: i32);
    fn cuCtxDestroy_v2(ctx: Pointer);
    fn cuCtxGetApiVersion(ctx: Pointer, version: Pointer);
    fn cuCtxGetCacheConfig(pconfig: Pointer);
    fn cuCtxGetCurrent(pctx: Pointer);
    fn cuCtxGetDevice(device: Pointer);
    fn cuCtxGetFlags(flags: Pointer);
    fn cuCtxGetLimit(pvalue: Pointer, limit: i32);
    fn cuCtxGetSharedMemConfig(p_config: Pointer);
    fn cuCtxGetStreamPriorityRange(least_priority: Pointer, greatest_priority: Pointer);
    fn cuCtxPopCurrent_v2(pctx: Pointer);
    fn cuCtxPushCurrent_v2(ctx: Pointer);
    fn cuCtxSetCacheConfig(config: i32);
    fn cuCtxSetCurrent(ctx: Pointer);
    fn cuCtxSetLimit(limit: i32, value: usize);
    fn cuCtxSetSharedMemConfig(config: i32);
    fn cuCtxSynchronize();
    fn cuDeviceGet(device: Pointer, ordinal: i32);
    fn cuDeviceGetAttribute(pi: Pointer, attrib: i32, dev: i32);
    fn cuDeviceGetCount(count: Pointer);
    fn cuDeviceGetName(name: Pointer, len: i32, dev: i32);
    fn cuDevicePrimaryCtxRelease_v2(dev: i32);
    fn cuDevicePrimaryCtxReset_v2(dev: i32);
    fn cuDevicePrimaryCtxRetain(pctx: Pointer, dev: i32);
    fn cuDevicePrimaryCtxSetFlags_v2(dev: i32, flags: u32);
    fn cuDeviceTotalMem_v2(bytes: Pointer, dev: i32);

    // Memory
    fn cuMemAdvise(dev_ptr: u64, count: usize, advice: i32, device: i32);
    fn cuMemAllocAsync(dptr: Pointer, bytesize: usize, h_stream: Pointer);
    fn cuMemAllocHost_v2(pp: Pointer, bytesize: usize);
    fn cuMemAllocManaged(dptr: Pointer, bytesize: usize, flags: u32);
    fn cuMemAlloc_v2(dptr: Pointer, bytesize: usize);
    fn cuMemFreeAsync(dptr: u64, h_stream: Pointer);
    fn cuMemFreeHost(p: Pointer);
    fn cuMemFree_v2(dptr: u64);
    fn cuMemGetInfo_v2(free: Pointer, total: Pointer);
    fn cuMemPrefetchAsync(dev_ptr: u64, count: usize, dst_device: i32, h_stream: Pointer);

    // Copies and fills
    fn cuMemcpy2DAsync_v2(p_copy: Pointer, h_stream: Pointer);
    fn cuMemcpy2D_v2(p_copy: Pointer);
    fn cuMemcpyAtoH_v2(dst_host: Pointer, src_array: Pointer, src_offset: usize, byte_count: usize);
    fn cuMemcpyDtoDAsync_v2(dst_device: u64, src_device: u64, byte_count: usize, h_stream: Pointer);
    fn cuMemcpyDtoD_v2(dst_device: u64, src_device: u64, byte_count: usize);
    fn cuMemcpyDtoHAsync_v2(
        dst_host: Pointer, src_device: u64, byte_count: usize, h_stream: Pointer
    );
    fn cuMemcpyDtoH_v2(dst_host: Pointer, src_device: u64, byte_count: usize);
    fn cuMemcpyHtoA_v2(dst_array: Pointer, dst_offset: usize, src_host: Pointer, byte_count: usize);
    fn cuMemcpyHtoDAsync_v2(
        dst_device: u64, src_host: Pointer, byte_count: usize, h_stream: Pointer
    );
    fn cuMemcpyHtoD_v2(dst_device: u64, src_host: Pointer, byte_count: usize);
    fn cuMemsetD16Async(dst_device: u64, us: u16, n: usize, h_stream: Pointer);
    fn cuMemsetD16_v2(dst_device: u64, us: u16, n: usize);
    fn cuMemsetD32Async(dst_device: u64, ui: u32, n: usize, h_stream: Pointer);
    fn cuMemsetD32_v2(dst_device: u64, ui: u32, n: usize);
    fn cuMemsetD8Async(dst_device: u64, uc: u8, n: usize, h_stream: Pointer);
    fn cuMemsetD8_v2(dst_device: u64, uc: u8, n: usize);

    // Modules and linking
    fn cuLinkAddData_v2(
        state: Pointer, kind: i32, data: Pointer, size: usize, name: Pointer, num_options: u32,
        options: Pointer, option_values: Pointer
    );
    fn cuLinkComplete(state: Pointer, cubin_out: Pointer, size_out: Pointer);
    fn cuLinkCreate_v2(
        num_options: u32, options: Pointer, option_values: Pointer, state_out: Pointer
    );
    fn cuLinkDestroy(state: Pointer);
    fn cuModuleGetFunction(hfunc: Pointer, hmod: Pointer, name: Pointer);
    fn cuModuleGetGlobal_v2(dptr: Pointer, bytes: Pointer, hmod: Pointer, name: Pointer);
    fn cuModuleLoad(module: Pointer, fname: Pointer);
    fn cuModuleLoadData(module: Pointer, image: Pointer);
    fn cuModuleLoadDataEx(
        module: Pointer, image: Pointer, num_options: u32, options: Pointer, option_values: Pointer
    );
    fn cuModuleUnload(hmod: Pointer);

    // Functions, launches and occupancy
    fn cuFuncGetAttribute(pi: Pointer, attrib: i32, hfunc: Pointer);
    fn cuFuncSetAttribute(hfunc: Pointer, attrib: i32, value: i32);
    fn cuFuncSetCacheConfig(hfunc: Pointer, config: i32);
    fn cuFuncSetSharedMemConfig(hfunc: Pointer, config: i32);
    fn cuLaunchHostFunc(h_stream: Pointer, callback: Pointer, user_data: Pointer);
    fn cuLaunchKernel(
        f: Pointer, grid_dim_x: u32, grid_dim_y: u32, grid_dim_z: u32, block_dim_x: u32,
        block_dim_y: u32, block_dim_z: u32, shared_mem_bytes: u32, h_stream: Pointer,
        kernel_params: Pointer, extra: Pointer
    );
    fn cuOccupancyAvailableDynamicSMemPerBlock(
        dynamic_smem_size: Pointer, func: Pointer, num_blocks: i32, block_size: i32
    );
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        num_blocks: Pointer, func: Pointer, block_size: i32, dynamic_smem_size: usize
    );
    fn cuOccupancyMaxPotentialBlockSize(
        min_grid_size: Pointer, block_size: Pointer, func: Pointer,
        block_size_to_dynamic_smem_size: Pointer, dynamic_smem_size: usize, block_size_limit: i32
    );

    // Streams and events
    fn cuEventCreate(ph_event: Pointer, flags: u32);
    fn cuEventDestroy_v2(h_event: Pointer);
    fn cuEventElapsedTime(p_milliseconds: Pointer, h_start: Pointer, h_end: Pointer);
    fn cuEventQuery(h_event: Pointer);
    fn cuEventRecord(h_event: Pointer, h_stream: Pointer);
    fn cuEventSynchronize(h_event: Pointer);
    fn cuStreamCreateWithPriority(ph_stream: Pointer, flags: u32, priority: i32);
    fn cuStreamDestroy_v2(h_stream: Pointer);
    fn cuStreamGetFlags(h_stream: Pointer, flags: Pointer);
    fn cuStreamGetPriority(h_stream: Pointer, priority: Pointer);
    fn cuStreamSynchronize(h_stream: Pointer);
    fn cuStreamWaitEvent(h_stream: Pointer, h_event: Pointer, flags: u32);

    // Graphs
    fn cuGraphAddKernelNode(
        ph_graph_node: Pointer, h_graph: Pointer, dependencies: Pointer, num_dependencies: usize,
        node_params: Pointer
    );
    fn cuGraphCreate(ph_graph: Pointer, flags: u32);
    fn cuGraphDebugDotPrint(h_graph: Pointer, path: Pointer, flags: u32);
    fn cuGraphDestroy(h_graph: Pointer);
    fn cuGraphGetEdges(h_graph: Pointer, from: Pointer, to: Pointer, num_edges: Pointer);
    fn cuGraphGetNodes(h_graph: Pointer, nodes: Pointer, num_nodes: Pointer);
    fn cuGraphKernelNodeGetParams(h_node: Pointer, node_params: Pointer);
    fn cuGraphNodeGetType(h_node: Pointer, kind: Pointer);

    // Arrays, textures, surfaces and external memory
    fn cuArray3DCreate_v2(p_handle: Pointer, p_allocate_array: Pointer);
    fn cuArray3DGetDescriptor_v2(p_array_descriptor: Pointer, h_array: Pointer);
    fn cuArrayDestroy(h_array: Pointer);
    fn cuDestroyExternalMemory(ext_mem: Pointer);
    fn cuExternalMemoryGetMappedBuffer(dev_ptr: Pointer, ext_mem: Pointer, buffer_desc: Pointer);
    fn cuImportExternalMemory(ext_mem_out: Pointer, mem_handle_desc: Pointer);
    fn cuSurfObjectCreate(p_surf_object: Pointer, p_res_desc: Pointer);
    fn cuSurfObjectDestroy(surf_object: u64);
    fn cuSurfObjectGetResourceDesc(p_res_desc: Pointer, surf_object: u64);
    fn cuTexObjectCreate(
        p_tex_object: Pointer, p_res_desc: Pointer, p_tex_desc: Pointer, p_res_view_desc: Pointer
    );
    fn cuTexObjectDestroy(tex_object: u64);
    fn cuTexObjectGetResourceDesc(p_res_desc: Pointer, tex_object: u64);
    fn cuTexObjectGetResourceViewDesc(p_res_view_desc: Pointer, tex_object: u64);
}
