//! The device backend: one PTX instruction a function.
//!
//! Loads are `pure, readonly` for the compiler, which may then drop and move them but not across a store, a barrier or
//! any other instruction that writes memory. Section numbers are those of NVIDIA's PTX ISA manual, version 8.

#[path = "ptx/arithmetic.rs"]
mod arithmetic;
#[path = "ptx/async_copy.rs"]
mod async_copy;
#[path = "ptx/bulk_copy.rs"]
mod bulk_copy;
#[path = "ptx/clock.rs"]
mod clock;
#[path = "ptx/cluster.rs"]
mod cluster;
#[path = "ptx/convergent.rs"]
mod convergent;
#[path = "ptx/counter.rs"]
mod counter;
#[path = "ptx/early_start.rs"]
mod early_start;
#[path = "ptx/grid_constant.rs"]
mod grid_constant;
#[path = "ptx/mbarrier.rs"]
mod mbarrier;
#[path = "ptx/memory.rs"]
mod memory;
#[path = "ptx/mma.rs"]
mod mma;
#[path = "ptx/signal.rs"]
mod signal;
#[path = "ptx/warpgroups.rs"]
mod warpgroups;
#[path = "ptx/wgmma.rs"]
mod wgmma;

pub use arithmetic::*;
pub use async_copy::*;
pub use bulk_copy::*;
pub use clock::*;
pub use cluster::*;
pub use counter::*;
pub use early_start::*;
pub use grid_constant::*;
pub use mbarrier::*;
pub use memory::*;
pub use mma::*;
pub use signal::*;
pub use warpgroups::*;
pub use wgmma::*;

use core::arch::{asm, global_asm, nvptx};

macro_rules! special_registers {
    ($($name:ident => $intrinsic:ident),* $(,)?) => {$(
        #[inline(always)]
        pub fn $name() -> u32 {
            // SAFETY: reads a special register.
            unsafe { nvptx::$intrinsic() as u32 }
        }
    )*};
}

special_registers! {
    thread_idx_x => _thread_idx_x,
    thread_idx_y => _thread_idx_y,
    thread_idx_z => _thread_idx_z,
    block_idx_x => _block_idx_x,
    block_idx_y => _block_idx_y,
    block_idx_z => _block_idx_z,
    block_dim_x => _block_dim_x,
    block_dim_y => _block_dim_y,
    block_dim_z => _block_dim_z,
    grid_dim_x => _grid_dim_x,
    grid_dim_y => _grid_dim_y,
    grid_dim_z => _grid_dim_z,
}

/// Threads that a multiprocessor holds (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
pub const RESIDENT_THREADS: u32 = if cfg!(target_feature = "sm_120") {
    1536
} else if cfg!(target_feature = "sm_90") {
    2048
} else if cfg!(target_feature = "sm_86") {
    1536
} else if cfg!(target_feature = "sm_80") {
    2048
} else {
    1024 // sm_75
};

/// Blocks that a multiprocessor holds, however small (the same table).
pub const RESIDENT_BLOCKS: u32 = if cfg!(target_feature = "sm_120") {
    24
} else if cfg!(target_feature = "sm_90") {
    32
} else if cfg!(target_feature = "sm_89") {
    24
} else if cfg!(target_feature = "sm_86") {
    16
} else if cfg!(target_feature = "sm_80") {
    32
} else {
    16 // sm_75
};

#[inline(always)]
pub fn lane_id() -> u32 {
    let lane;
    // SAFETY: reads a special register.
    unsafe { asm!("mov.u32 {}, %laneid;", out(reg32) lane, options(pure, nomem, nostack)) };
    lane
}

#[inline(always)]
pub fn trap() -> ! {
    // SAFETY: it has no operands.
    unsafe { nvptx::trap() }
}

#[inline(always)]
pub unsafe fn sync_threads() {
    // SAFETY: the caller promises that the whole block gets here.
    unsafe { convergent::barrier_all(0) }
}

#[inline(always)]
pub unsafe fn sync_warp(mask: u32) {
    // SAFETY: the caller promises that the lanes of `mask` arrive together.
    unsafe { convergent::bar_warp_sync(mask) }
}

/// `shfl.sync` (section 9.7.9.6): the third operand packs the segment mask and the clamp value.
macro_rules! shuffles {
    ($($name:ident => $intrinsic:ident, $clamp:literal);* $(;)?) => {$(
        #[inline(always)]
        pub unsafe fn $name(mask: u32, value: u32, operand: u32) -> u32 {
            // SAFETY: the caller promises that the lanes of `mask` arrive together.
            unsafe { convergent::$intrinsic(mask, value, operand, $clamp) }
        }
    )*};
}

shuffles! {
    shuffle_bfly => shfl_sync_bfly, 0x1f;
    shuffle_down => shfl_sync_down, 0x1f;
    shuffle_up => shfl_sync_up, 0;
    shuffle_idx => shfl_sync_idx, 0x1f;
}

// One declaration for the whole module; the launch gives the size (section 5.1.6.1).
global_asm!(".extern .shared .align 1024 .b8 cuda_std_dynamic_shared[];");

#[inline(always)]
pub fn shared_dynamic() -> u32 {
    let address;
    // SAFETY: takes the address of a variable.
    unsafe {
        asm!("mov.u32 {}, cuda_std_dynamic_shared;", out(reg32) address, options(pure, nomem, nostack))
    };
    address
}

#[inline(always)]
pub fn shared_dynamic_bytes() -> u32 {
    let bytes;
    // SAFETY: reads a special register.
    unsafe {
        asm!("mov.u32 {}, %dynamic_smem_size;", out(reg32) bytes, options(pure, nomem, nostack))
    };
    bytes
}

#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    let result;
    // SAFETY: moves a register. Not `pure`, or the compiler would know that two results are the same.
    unsafe { asm!("mov.b32 {}, {};", out(reg32) result, in(reg32) value, options(nomem, nostack)) };
    result
}

#[inline(always)]
pub fn whole(value: u64) -> u64 {
    let result;
    // SAFETY: moves a register.
    unsafe {
        asm!("mov.b64 {}, {};", out(reg64) result, in(reg64) value, options(pure, nomem, nostack))
    };
    result
}

#[inline(always)]
pub fn copied(value: f32) -> f32 {
    let result;
    // SAFETY: multiplies registers.
    unsafe {
        asm!("mul.rn.f32 {}, {}, 0f3F800000;", out(reg32) result, in(reg32) value, options(pure, nomem, nostack))
    };
    result
}

/// `redux.sync` (section 9.7.13.12), whose result lies in a uniform register; older targets lack it.
#[inline(always)]
pub unsafe fn uniform(value: u32) -> u32 {
    if cfg!(target_feature = "sm_80") {
        // SAFETY: combines registers of the lanes, which the caller promises are all here.
        unsafe { convergent::redux_sync_or(value, u32::MAX) }
    } else {
        value
    }
}
