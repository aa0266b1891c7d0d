//! Arithmetic on registers.

use core::arch::asm;
use half::f16;

#[inline(always)]
pub fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    core::f32::math::mul_add(a, b, c)
}

#[inline(always)]
pub fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    core::f64::math::mul_add(a, b, c)
}

/// "Floating Point Instructions: ex2", "rcp", "tanh".
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
    tanh_approx_f32 => "tanh.approx.f32",
}

/// "Floating Point Instructions: max".
#[inline(always)]
pub fn at_least_f32(x: f32, limit: f32) -> f32 {
    let result;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("max.NaN.f32 {}, {}, {};", out(reg32) result, in(reg32) x, in(reg32) limit, options(pure, nomem, nostack))
    };
    result
}

/// "Floating Point Instructions: min", which before sm_80 has no `.NaN`. One block: the magnitude is a modifier of the
/// operand then, where the compiler would make a mask of it.
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
