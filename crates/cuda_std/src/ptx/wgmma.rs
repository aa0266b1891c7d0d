//! Warpgroup matrix instructions (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").

use super::convergent;
use crate::wgmma::{Element, Major};
use core::arch::{asm, nvptx};

/// Whether the target has these instructions.
pub const WGMMA: bool = cfg!(target_feature = "sm_90a");

/// Instructions without operands, or the end of the launch where the target has none.
macro_rules! wgmma {
    ($($name:ident),* $(,)?) => {$(
        #[inline(always)]
        pub unsafe fn $name() {
            // SAFETY: the caller promises that the whole warpgroup gets here.
            unsafe {
                if WGMMA { convergent::$name() } else { nvptx::trap() }
            }
        }
    )*};
}

wgmma! {
    wgmma_fence,
    wgmma_commit_group,
}

#[inline(always)]
pub unsafe fn wgmma_wait_group<const PENDING: usize>() {
    // SAFETY: the caller promises that the whole warpgroup gets here.
    unsafe { if WGMMA { convergent::wgmma_wait_group::<PENDING>() } else { nvptx::trap() } }
}

/// The start address of a matrix as the lowest bits of a descriptor have it: 14 bits, in units of 16 bytes.
#[inline(always)]
pub fn wgmma_start(address: u32) -> u64 {
    ((address & 0x3_ffff) >> 4) as u64
}

/// Declares the registers of a set of accumulators, which the other functions name. The compiler knows nothing of them:
/// 128 values that go in and out of every block would be copied around it, and the assembler would then run one matrix
/// instruction after the other.
#[inline(always)]
pub unsafe fn wgmma_declare<const N: usize, const SET: usize>() {
    // SAFETY: declares registers.
    unsafe {
        if WGMMA {
            asm!(".reg .f32 acc{s}_<{n}>;", s = const SET, n = const N / 2, options(nostack))
        } else {
            nvptx::trap()
        }
    }
}

#[inline(always)]
pub unsafe fn wgmma_get<const N: usize, const SET: usize, const I: usize>() -> f32 {
    // SAFETY: the caller promises that the registers have been declared. Not `pure`: it stays after the wait before it.
    unsafe {
        if WGMMA {
            let value;
            asm!("mov.f32 {v}, acc{s}_{i};", v = out(reg32) value, s = const SET + I / (N / 2), i = const I % (N / 2), options(nomem, nostack));
            value
        } else {
            nvptx::trap()
        }
    }
}

#[inline(always)]
pub unsafe fn wgmma_scaled<const N: usize, const SET: usize, const I: usize>(
    factor: f32,
    addend: f32,
) -> f32 {
    // SAFETY: as for `wgmma_get`.
    unsafe {
        if WGMMA {
            let value;
            asm!("fma.rn.f32 {v}, acc{s}_{i}, {f}, {a};", v = out(reg32) value, s = const SET + I / (N / 2), i = const I % (N / 2),
                f = in(reg32) factor, a = in(reg32) addend, options(nomem, nostack));
            value
        } else {
            nvptx::trap()
        }
    }
}

#[inline(always)]
pub unsafe fn wgmma_set<const N: usize, const SET: usize, const I: usize>(value: f32) {
    // SAFETY: the caller promises that the registers have been declared.
    unsafe {
        if WGMMA {
            asm!("mov.f32 acc{s}_{i}, {v};", v = in(reg32) value, s = const SET + I / (N / 2), i = const I % (N / 2), options(nomem, nostack))
        } else {
            nvptx::trap()
        }
    }
}

/// "Data Movement and Conversion Instructions: cvt".
#[inline(always)]
pub fn wgmma_pack<T: Element>([low, high]: [f32; 2]) -> u32 {
    // SAFETY: registers alone; a trap has no operands.
    unsafe {
        if !WGMMA {
            nvptx::trap()
        }
        let packed;
        if T::BF16 {
            asm!("cvt.rn.bf16x2.f32 {}, {}, {};", out(reg32) packed, in(reg32) high, in(reg32) low, options(pure, nomem, nostack))
        } else {
            asm!("cvt.rn.f16x2.f32 {}, {}, {};", out(reg32) packed, in(reg32) high, in(reg32) low, options(pure, nomem, nostack))
        }
        packed
    }
}

/// A list of registers after the first ones.
macro_rules! list {
    ($first:literal; $($i:literal)*) => { concat!("acc{s}_", $first, $(", acc{s}_", $i),*) };
}

/// The accumulators of an instruction of so many columns: those of a narrower one and some more.
macro_rules! registers {
    (32) => {
        list!(0; 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (64) => {
        concat!(registers!(32), ", ", list!(16; 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31))
    };
    (80) => {
        concat!(registers!(64), ", ", list!(32; 33 34 35 36 37 38 39))
    };
    (96) => {
        concat!(registers!(80), ", ", list!(40; 41 42 43 44 45 46 47))
    };
    (112) => {
        concat!(registers!(96), ", ", list!(48; 49 50 51 52 53 54 55))
    };
    (128) => {
        concat!(registers!(112), ", ", list!(56; 57 58 59 60 61 62 63))
    };
    (144) => {
        concat!(registers!(128), ", ", list!(64; 65 66 67 68 69 70 71))
    };
    (160) => {
        concat!(registers!(144), ", ", list!(72; 73 74 75 76 77 78 79))
    };
    (176) => {
        concat!(registers!(160), ", ", list!(80; 81 82 83 84 85 86 87))
    };
    (192) => {
        concat!(registers!(176), ", ", list!(88; 89 90 91 92 93 94 95))
    };
    (208) => {
        concat!(registers!(192), ", ", list!(96; 97 98 99 100 101 102 103))
    };
    (224) => {
        concat!(registers!(208), ", ", list!(104; 105 106 107 108 109 110 111))
    };
    (240) => {
        concat!(registers!(224), ", ", list!(112; 113 114 115 116 117 118 119))
    };
    (256) => {
        concat!(registers!(240), ", ", list!(120; 121 122 123 124 125 126 127))
    };
}

/// "Asynchronous Multiply-and-Accumulate Instruction: wgmma.mma_async": both operands from shared memory, neither
/// negated.
macro_rules! mma_async {
    ($n:tt, $type:literal; $a:ident $A:ident, $b:ident $B:ident, $accumulate:ident, $SET:ident) => {
        asm!(
            "{{",
            ".reg .pred p;",
            "setp.ne.u32 p, {d}, 0;",
            concat!("wgmma.mma_async.sync.aligned.m64n", $n, "k16.f32.", $type, ".", $type, " {{"),
            registers!($n),
            "}}, {a}, {b}, p, 1, 1, {ta}, {tb};",
            "}}",
            a = in(reg64) $a,
            b = in(reg64) $b,
            d = in(reg32) $accumulate as u32,
            s = const $SET,
            ta = const $A::TRANSPOSED as u32,
            tb = const $B::TRANSPOSED as u32,
            options(nostack)
        )
    };
}

#[inline(always)]
pub unsafe fn wgmma_mma_async<T: Element, A: Major, B: Major, const N: usize, const SET: usize>(
    a: u64,
    b: u64,
    accumulate: bool,
) {
    macro_rules! by_columns {
        ($($n:tt)*) => {
            match (WGMMA, N, T::BF16) {
                $(
                    (true, $n, false) => mma_async!($n, "f16"; a A, b B, accumulate, SET),
                    (true, $n, true) => mma_async!($n, "bf16"; a A, b B, accumulate, SET),
                )*
                _ => nvptx::trap(),
            }
        };
    }
    // SAFETY: as promised by the caller.
    unsafe { by_columns!(32 64 80 96 112 128 144 160 176 192 208 224 240 256) }
}
