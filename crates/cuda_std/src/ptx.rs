//! The device backend: one PTX instruction a function.
//!
//! Loads are `pure, readonly` for the compiler, which may then drop and move them but not across a store, a barrier or
//! any other instruction that writes memory. Section numbers are those of NVIDIA's PTX ISA manual, version 8.

#[path = "ptx/bulk_copy.rs"]
mod bulk_copy;
#[path = "ptx/cluster.rs"]
mod cluster;
#[path = "ptx/early_start.rs"]
mod early_start;
#[path = "ptx/grid_constant.rs"]
mod grid_constant;
#[path = "ptx/mbarrier.rs"]
mod mbarrier;
#[path = "ptx/mma.rs"]
mod mma;
#[path = "ptx/signal.rs"]
mod signal;
#[path = "ptx/warpgroups.rs"]
mod warpgroups;
#[path = "ptx/wgmma.rs"]
mod wgmma;

pub use bulk_copy::*;
pub use cluster::*;
pub use early_start::*;
pub use grid_constant::*;
pub use mbarrier::*;
pub use mma::*;
pub use signal::*;
pub use warpgroups::*;
pub use wgmma::*;

use core::arch::{asm, global_asm, nvptx};
use core::mem::{MaybeUninit, transmute_copy};
use half::f16;

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
const RESIDENT_THREADS: u32 = if cfg!(target_feature = "sm_120") {
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

/// `min_blocks`, or fewer where a multiprocessor cannot hold as many blocks of `max_threads`: ptxas would ignore the
/// directive altogether.
pub const fn blocks_that_fit(max_threads: u32, min_blocks: u32) -> u32 {
    let fit = RESIDENT_THREADS / max_threads;
    if min_blocks < fit { min_blocks } else { fit }
}

#[inline(always)]
pub fn lane_id() -> u32 {
    let lane;
    // SAFETY: reads a special register.
    unsafe { asm!("mov.u32 {}, %laneid;", out(reg32) lane, options(pure, nomem, nostack)) };
    lane
}

#[inline(always)]
pub unsafe fn sync_threads() {
    // SAFETY: the caller promises that the whole block gets here.
    unsafe { nvptx::_syncthreads() }
}

#[inline(always)]
pub unsafe fn sync_warp(mask: u32) {
    // SAFETY: the caller promises that the lanes of `mask` arrive together.
    unsafe { asm!("bar.warp.sync {};", in(reg32) mask, options(nostack)) }
}

/// `shfl.sync` (section 9.7.9.6): the third operand packs the segment mask and the clamp value.
macro_rules! shuffles {
    ($($name:ident => $mode:literal, $clamp:literal);* $(;)?) => {$(
        #[inline(always)]
        pub unsafe fn $name(mask: u32, value: u32, operand: u32) -> u32 {
            let result;
            // SAFETY: the caller promises that the lanes of `mask` arrive together.
            unsafe {
                asm!(
                    concat!("shfl.sync.", $mode, ".b32 {r}, {v}, {o}, ", $clamp, ", {m};"),
                    r = out(reg32) result, v = in(reg32) value, o = in(reg32) operand, m = in(reg32) mask,
                    options(nostack)
                )
            };
            result
        }
    )*};
}

shuffles! {
    shuffle_bfly => "bfly", "0x1f";
    shuffle_down => "down", "0x1f";
    shuffle_up => "up", "0";
    shuffle_idx => "idx", "0x1f";
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

/// `redux.sync` (section 9.7.13.12), whose result lies in a uniform register.
#[cfg(target_feature = "sm_80")]
#[inline(always)]
pub fn uniform(value: u32) -> u32 {
    let result;
    // SAFETY: combines registers of the lanes; the executing lane is one of the mask's. Not `pure`, or the compiler could move
    // it to where not all lanes come.
    unsafe {
        asm!("redux.sync.or.b32 {}, {}, 0xffffffff;", out(reg32) result, in(reg32) value,
            options(nomem, nostack))
    };
    result
}

/// Older targets lack the instruction.
#[cfg(not(target_feature = "sm_80"))]
#[inline(always)]
pub fn uniform(value: u32) -> u32 {
    value
}

#[inline(always)]
pub fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    core::f32::math::mul_add(a, b, c)
}

#[inline(always)]
pub fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    core::f64::math::mul_add(a, b, c)
}

/// "Floating Point Instructions: ex2", "rcp".
macro_rules! approximations {
    ($($name:ident => $instruction:literal),* $(,)?) => {$(
        #[inline(always)]
        pub fn $name(x: f32) -> f32 {
            let result;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(concat!($instruction, " {}, {};"), out(reg32) result, in(reg32) x, options(pure, nomem, nostack))
            };
            result
        }
    )*};
}

approximations! {
    exp2_approx_f32 => "ex2.approx.ftz.f32",
    reciprocal_approx_f32 => "rcp.approx.ftz.f32",
}

/// "Floating Point Instructions: min", which before sm_80 has no `.NaN`. One block: the magnitude is a modifier of the operand then,
/// where the compiler would make a mask of it.
#[inline(always)]
pub fn magnitude_up_to_f32(x: f32, limit: f32) -> f32 {
    if cfg!(target_feature = "sm_80") {
        let result;
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!("{{", ".reg .f32 m;", "abs.f32 m, {x};", "min.NaN.f32 {r}, m, {l};", "}}",
                r = out(reg32) result, x = in(reg32) x, l = in(reg32) limit, options(pure, nomem, nostack))
        };
        result
    } else if x.abs() > limit {
        limit
    } else {
        x.abs()
    }
}

/// One multiply-add for each of the listed registers, in that order, as one block.
macro_rules! fma_row {
    ($a:expr, $b:expr, $c:expr; $($index:literal $bj:ident $cj:ident),*; $($order_b:ident $order_c:ident),*) => {
        // SAFETY: arithmetic on registers. Not `pure`: the order of blocks is kept, too.
        unsafe {
            asm!(
                $(concat!(
                    "fma.rn.f32 {", stringify!($order_c), "}, {a}, {", stringify!($order_b), "}, {",
                    stringify!($order_c), "};"
                ),)*
                a = in(reg32) $a,
                $($bj = in(reg32) $b[$index],)*
                $($cj = inout(reg32) $c[$index],)*
                options(nomem, nostack)
            )
        }
    };
}

#[inline(always)]
pub fn fma_row_f32<const N: usize>(a: f32, b: &[f32; N], c: &mut [f32; N], backwards: bool) {
    match (N, backwards) {
        (16, false) => fma_row!(a, b, c;
            0 b0 c0, 1 b1 c1, 2 b2 c2, 3 b3 c3, 4 b4 c4, 5 b5 c5, 6 b6 c6, 7 b7 c7,
            8 b8 c8, 9 b9 c9, 10 b10 c10, 11 b11 c11, 12 b12 c12, 13 b13 c13, 14 b14 c14, 15 b15 c15;
            b0 c0, b1 c1, b2 c2, b3 c3, b4 c4, b5 c5, b6 c6, b7 c7,
            b8 c8, b9 c9, b10 c10, b11 c11, b12 c12, b13 c13, b14 c14, b15 c15),
        (16, true) => fma_row!(a, b, c;
            0 b0 c0, 1 b1 c1, 2 b2 c2, 3 b3 c3, 4 b4 c4, 5 b5 c5, 6 b6 c6, 7 b7 c7,
            8 b8 c8, 9 b9 c9, 10 b10 c10, 11 b11 c11, 12 b12 c12, 13 b13 c13, 14 b14 c14, 15 b15 c15;
            b15 c15, b14 c14, b13 c13, b12 c12, b11 c11, b10 c10, b9 c9, b8 c8,
            b7 c7, b6 c6, b5 c5, b4 c4, b3 c3, b2 c2, b1 c1, b0 c0),
        (8, false) => fma_row!(a, b, c;
            0 b0 c0, 1 b1 c1, 2 b2 c2, 3 b3 c3, 4 b4 c4, 5 b5 c5, 6 b6 c6, 7 b7 c7;
            b0 c0, b1 c1, b2 c2, b3 c3, b4 c4, b5 c5, b6 c6, b7 c7),
        (8, true) => fma_row!(a, b, c;
            0 b0 c0, 1 b1 c1, 2 b2 c2, 3 b3 c3, 4 b4 c4, 5 b5 c5, 6 b6 c6, 7 b7 c7;
            b7 c7, b6 c6, b5 c5, b4 c4, b3 c3, b2 c2, b1 c1, b0 c0),
        (4, false) => fma_row!(a, b, c;
            0 b0 c0, 1 b1 c1, 2 b2 c2, 3 b3 c3;
            b0 c0, b1 c1, b2 c2, b3 c3),
        (4, true) => fma_row!(a, b, c;
            0 b0 c0, 1 b1 c1, 2 b2 c2, 3 b3 c3;
            b3 c3, b2 c2, b1 c1, b0 c0),
        _ => {
            for j in 0..N {
                let j = if backwards { N - 1 - j } else { j };
                c[j] = fma_f32(a, b[j], c[j]);
            }
        }
    }
}

#[inline(always)]
pub fn f16_to_f32(value: f16) -> f32 {
    let result;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("cvt.f32.f16 {}, {};", out(reg32) result, in(reg16) value.to_bits(), options(pure, nomem, nostack))
    };
    result
}

#[inline(always)]
pub fn f32_to_f16(value: f32) -> f16 {
    let bits: u16;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("cvt.rn.f16.f32 {}, {};", out(reg16) bits, in(reg32) value, options(pure, nomem, nostack))
    };
    f16::from_bits(bits)
}

/// The loads and stores of one state space, by bytes moved. The size of `V` is known when the function is compiled, so
/// only one arm of each match is left.
macro_rules! state_space {
    (
        $space:literal, address = $address:ty : $register:ident,
        $load:ident, $load_if:ident, $store:ident, $store_if:ident
    ) => {
        #[inline(always)]
        pub unsafe fn $load<V: Copy>(address: $address) -> V {
            // SAFETY: as promised by the caller; each arm moves exactly the bytes of `V`.
            unsafe {
                match size_of::<V>() {
                    1 | 2 => {
                        let v: u16;
                        if size_of::<V>() == 1 {
                            asm!(concat!("ld.", $space, ".u8 {}, [{}];"), out(reg16) v, in($register) address,
                                options(pure, readonly, nostack));
                        } else {
                            asm!(concat!("ld.", $space, ".b16 {}, [{}];"), out(reg16) v, in($register) address,
                                options(pure, readonly, nostack));
                        }
                        transmute_copy(&v)
                    }
                    4 => {
                        let v: u32;
                        asm!(concat!("ld.", $space, ".b32 {}, [{}];"), out(reg32) v, in($register) address,
                            options(pure, readonly, nostack));
                        transmute_copy(&v)
                    }
                    8 => {
                        let v: u64;
                        asm!(concat!("ld.", $space, ".b64 {}, [{}];"), out(reg64) v, in($register) address,
                            options(pure, readonly, nostack));
                        transmute_copy(&v)
                    }
                    16 => {
                        let v: [u32; 4];
                        let (a, b, c, d);
                        asm!(concat!("ld.", $space, ".v4.b32 {{{}, {}, {}, {}}}, [{}];"),
                            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in($register) address,
                            options(pure, readonly, nostack));
                        v = [a, b, c, d];
                        transmute_copy(&v)
                    }
                    _ => unreachable!(),
                }
            }
        }

        #[inline(always)]
        pub unsafe fn $load_if<V: Copy>(address: $address, predicate: bool) -> V {
            let p = predicate as u32;
            // SAFETY: as promised by the caller; each arm moves exactly the bytes of `V`.
            unsafe {
                match size_of::<V>() {
                    1 | 2 => {
                        let v: u16;
                        if size_of::<V>() == 1 {
                            asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {p}, 0;", "mov.b16 {v}, 0;",
                                concat!("@p ld.", $space, ".u8 {v}, [{a}];"), "}}",
                                v = out(reg16) v, p = in(reg32) p, a = in($register) address,
                                options(pure, readonly, nostack));
                        } else {
                            asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {p}, 0;", "mov.b16 {v}, 0;",
                                concat!("@p ld.", $space, ".b16 {v}, [{a}];"), "}}",
                                v = out(reg16) v, p = in(reg32) p, a = in($register) address,
                                options(pure, readonly, nostack));
                        }
                        transmute_copy(&v)
                    }
                    4 => {
                        let v: u32;
                        asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {p}, 0;", "mov.b32 {v}, 0;",
                            concat!("@p ld.", $space, ".b32 {v}, [{a}];"), "}}",
                            v = out(reg32) v, p = in(reg32) p, a = in($register) address,
                            options(pure, readonly, nostack));
                        transmute_copy(&v)
                    }
                    8 => {
                        let v: u64;
                        asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {p}, 0;", "mov.b64 {v}, 0;",
                            concat!("@p ld.", $space, ".b64 {v}, [{a}];"), "}}",
                            v = out(reg64) v, p = in(reg32) p, a = in($register) address,
                            options(pure, readonly, nostack));
                        transmute_copy(&v)
                    }
                    16 => {
                        let (x, y, z, w): (u32, u32, u32, u32);
                        asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {p}, 0;",
                            "mov.b32 {x}, 0;", "mov.b32 {y}, 0;", "mov.b32 {z}, 0;", "mov.b32 {w}, 0;",
                            concat!("@p ld.", $space, ".v4.b32 {{{x}, {y}, {z}, {w}}}, [{a}];"), "}}",
                            x = out(reg32) x, y = out(reg32) y, z = out(reg32) z, w = out(reg32) w,
                            p = in(reg32) p, a = in($register) address,
                            options(pure, readonly, nostack));
                        transmute_copy(&[x, y, z, w])
                    }
                    _ => unreachable!(),
                }
            }
        }

        #[inline(always)]
        pub unsafe fn $store<V: Copy>(address: $address, value: V) {
            // SAFETY: as promised by the caller; each arm moves exactly the bytes of `V`.
            unsafe {
                match size_of::<V>() {
                    1 => asm!(concat!("st.", $space, ".u8 [{}], {};"),
                        in($register) address, in(reg16) transmute_copy::<V, u8>(&value) as u16, options(nostack)),
                    2 => asm!(concat!("st.", $space, ".b16 [{}], {};"),
                        in($register) address, in(reg16) transmute_copy::<V, u16>(&value), options(nostack)),
                    4 => asm!(concat!("st.", $space, ".b32 [{}], {};"),
                        in($register) address, in(reg32) transmute_copy::<V, u32>(&value), options(nostack)),
                    8 => asm!(concat!("st.", $space, ".b64 [{}], {};"),
                        in($register) address, in(reg64) transmute_copy::<V, u64>(&value), options(nostack)),
                    16 => {
                        let [x, y, z, w] = words(value);
                        asm!(concat!("st.", $space, ".v4.b32 [{}], {{{}, {}, {}, {}}};"),
                            in($register) address, in(reg32) x, in(reg32) y, in(reg32) z, in(reg32) w,
                            options(nostack))
                    }
                    _ => unreachable!(),
                }
            }
        }

        #[inline(always)]
        pub unsafe fn $store_if<V: Copy>(address: $address, value: V, predicate: bool) {
            if predicate {
                // SAFETY: as promised by the caller.
                unsafe { $store(address, value) }
            }
        }
    };
}

state_space!("global", address = u64: reg64, global_load, global_load_if, global_store, global_store_if);
state_space!("shared", address = u32: reg32, shared_load, shared_load_if, shared_store, shared_store_if);

/// The four words of a 16-byte value, of any alignment.
#[inline(always)]
fn words<V: Copy>(value: V) -> [u32; 4] {
    let mut words = MaybeUninit::<[u32; 4]>::uninit();
    // SAFETY: `V` is an array of scalars of 16 bytes in all, so its bytes are the bytes of four words.
    unsafe {
        words.as_mut_ptr().cast::<V>().write_unaligned(value);
        words.assume_init()
    }
}

/// `cp.async` (section 9.7.9.25.3.1) of a number of bytes; where the predicate does not hold it reads none of them and
/// writes zeros.
#[cfg(target_feature = "sm_80")]
macro_rules! cp_async {
    ($cache:literal, $bytes:literal, $target:ident, $source:ident, $predicate:ident) => {
        asm!("{{", ".reg .pred p;", ".reg .b32 s;", "setp.ne.u32 p, {p}, 0;",
            concat!("selp.b32 s, ", $bytes, ", 0, p;"),
            concat!("cp.async.", $cache, ".shared.global [{t}], [{a}], ", $bytes, ", s;"), "}}",
            p = in(reg32) $predicate as u32, t = in(reg32) $target, a = in(reg64) $source, options(nostack))
    };
}

/// Through the L1 cache but for whole vectors, which go past it: only those can.
#[cfg(target_feature = "sm_80")]
#[inline(always)]
pub unsafe fn copy_async<V: Copy>(target: u32, source: u64, predicate: bool) {
    // SAFETY: as promised by the caller; each arm moves exactly the bytes of `V`.
    unsafe {
        match size_of::<V>() {
            4 => cp_async!("ca", "4", target, source, predicate),
            8 => cp_async!("ca", "8", target, source, predicate),
            16 => cp_async!("cg", "16", target, source, predicate),
            _ => unreachable!(),
        }
    }
}

/// Sections 9.7.9.25.3.2 and 9.7.9.25.3.3.
#[cfg(target_feature = "sm_80")]
#[inline(always)]
pub fn commit_group() {
    // SAFETY: no operands.
    unsafe { asm!("cp.async.commit_group;", options(nostack)) }
}

#[cfg(target_feature = "sm_80")]
#[inline(always)]
pub fn wait_group<const N: usize>() {
    // SAFETY: no operands but a constant; the compiler keeps reads of memory after it.
    unsafe { asm!("cp.async.wait_group {};", const N, options(nostack)) }
}

/// Before sm_80: done when it returns.
#[cfg(not(target_feature = "sm_80"))]
#[inline(always)]
pub unsafe fn copy_async<V: Copy>(target: u32, source: u64, predicate: bool) {
    // SAFETY: as promised by the caller.
    unsafe { shared_store(target, global_load_if::<V>(source, predicate)) }
}

/// Nothing is under way.
#[cfg(not(target_feature = "sm_80"))]
#[inline(always)]
pub fn commit_group() {}

/// Nothing is under way.
#[cfg(not(target_feature = "sm_80"))]
#[inline(always)]
pub fn wait_group<const N: usize>() {}
