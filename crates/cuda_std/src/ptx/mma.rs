//! Matrix products of a warp.

use core::arch::{asm, nvptx};

/// `mma.sync` of this shape exists from sm_80 on.
pub const TENSOR_CORES: bool = cfg!(target_feature = "sm_80");

/// `stmatrix` exists from sm_90 on.
pub const STORES_MATRICES: bool = cfg!(target_feature = "sm_90");

/// Ends the launch where the target has none.
#[inline(always)]
fn require_tensor_cores() {
    if !TENSOR_CORES {
        // SAFETY: a trap has no operands.
        unsafe { nvptx::trap() }
    }
}

/// `mma.sync.aligned.m16n8k16` and `m16n8k8` (section 9.7.14.5.14), or the end of the launch where the target does not
/// have it. Not `pure`: the order in which products are written is kept.
macro_rules! multiply_adds {
    ($($name:ident => $shape:literal, $format:literal;)*) => {$(
        #[inline(always)]
        pub unsafe fn $name(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
            let [mut d0, mut d1, mut d2, mut d3] = c;
            require_tensor_cores();
            // SAFETY: as promised by the caller.
            unsafe {
                asm!(
                    concat!("mma.sync.aligned.", $shape, ".row.col.f32.", $format, ".", $format, ".f32 ",
                        "{{{d0}, {d1}, {d2}, {d3}}}, {{{a0}, {a1}, {a2}, {a3}}}, {{{b0}, {b1}}}, ",
                        "{{{d0}, {d1}, {d2}, {d3}}};"),
                    d0 = inout(reg32) d0, d1 = inout(reg32) d1, d2 = inout(reg32) d2, d3 = inout(reg32) d3,
                    a0 = in(reg32) a[0], a1 = in(reg32) a[1], a2 = in(reg32) a[2], a3 = in(reg32) a[3],
                    b0 = in(reg32) b[0], b1 = in(reg32) b[1],
                    options(nomem, nostack)
                );
            }
            [d0, d1, d2, d3]
        }
    )*};
}

multiply_adds! {
    mma_f16 => "m16n8k16", "f16";
    mma_bf16 => "m16n8k16", "bf16";
    mma_tf32 => "m16n8k8", "tf32";
}

/// "Data Movement and Conversion Instructions: cvt".
#[inline(always)]
pub fn round_to_tf32(x: f32) -> f32 {
    require_tensor_cores();
    let bits: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("cvt.rna.tf32.f32 {}, {};", out(reg32) bits, in(reg32) x, options(pure, nomem, nostack))
    };
    f32::from_bits(bits)
}

/// `ldmatrix` (section 9.7.14.5.15).
macro_rules! ldmatrix {
    ($suffix:literal, $address:ident) => {{
        let (r0, r1, r2, r3);
        asm!(concat!("ldmatrix.sync.aligned.m8n8.x4", $suffix, ".shared.b16 {{{}, {}, {}, {}}}, [{}];"),
            out(reg32) r0, out(reg32) r1, out(reg32) r2, out(reg32) r3, in(reg32) $address,
            options(readonly, nostack));
        [r0, r1, r2, r3]
    }};
}

#[inline(always)]
pub unsafe fn load_matrices<const TRANSPOSED: bool>(address: u32) -> [u32; 4] {
    require_tensor_cores();
    // SAFETY: as promised by the caller.
    unsafe { if TRANSPOSED { ldmatrix!(".trans", address) } else { ldmatrix!("", address) } }
}

/// "Warp-level matrix store instruction: stmatrix".
macro_rules! stmatrix {
    ($suffix:literal, $address:ident, [$($register:ident),*]) => {
        asm!(concat!("stmatrix.sync.aligned.m8n8.x4", $suffix, ".shared.b16 [{}], {{{}, {}, {}, {}}};"),
            in(reg32) $address, $(in(reg32) $register,)* options(nostack))
    };
}

#[inline(always)]
pub unsafe fn store_matrices<const TRANSPOSED: bool>(address: u32, [r0, r1, r2, r3]: [u32; 4]) {
    // SAFETY: as promised by the caller; a trap has no operands.
    unsafe {
        if !STORES_MATRICES {
            nvptx::trap()
        } else if TRANSPOSED {
            stmatrix!(".trans", address, [r0, r1, r2, r3])
        } else {
            stmatrix!("", address, [r0, r1, r2, r3])
        }
    }
}

/// `mma.sync` of f64 with 16 rows exists from sm_90 on.
pub const LARGE_DOUBLE_SHAPES: bool = cfg!(target_feature = "sm_90");

/// `mma.sync.aligned` of f64: "Multiply-and-Accumulate Instruction: mma". Not `pure`, as above.
macro_rules! multiply_adds_of_doubles {
    ($(
        $name:ident = $shape:literal if $available:ident:
        $a:ident = $a_list:literal [$($i:literal)*],
        $b:ident = $b_list:literal [$($j:literal)*],
        $c:ident = $c_list:literal [$($l:literal)*];
    )*) => {$(
        #[inline(always)]
        pub unsafe fn $name(
            $a: [f64; [$($i),*].len()],
            $b: [f64; [$($j),*].len()],
            mut $c: [f64; [$($l),*].len()],
        ) -> [f64; [$($l),*].len()] {
            // SAFETY: as promised by the caller; a trap has no operands.
            unsafe {
                if !$available {
                    nvptx::trap()
                }
                asm!(
                    concat!("mma.sync.aligned.", $shape, ".row.col.f64.f64.f64.f64 ",
                        $c_list, ", ", $a_list, ", ", $b_list, ", ", $c_list, ";"),
                    $(inout(reg64) $c[$l],)*
                    $(in(reg64) $a[$i],)*
                    $(in(reg64) $b[$j],)*
                    options(nomem, nostack)
                );
            }
            $c
        }
    )*};
}

multiply_adds_of_doubles! {
    dmma_8x8x4 = "m8n8k4" if TENSOR_CORES:
        a = "{{{2}}}" [0], b = "{{{3}}}" [0], c = "{{{0}, {1}}}" [0 1];
    dmma_16x8x4 = "m16n8k4" if LARGE_DOUBLE_SHAPES:
        a = "{{{4}, {5}}}" [0 1], b = "{{{6}}}" [0], c = "{{{0}, {1}, {2}, {3}}}" [0 1 2 3];
    dmma_16x8x8 = "m16n8k8" if LARGE_DOUBLE_SHAPES:
        a = "{{{4}, {5}, {6}, {7}}}" [0 1 2 3], b = "{{{8}, {9}}}" [0 1],
        c = "{{{0}, {1}, {2}, {3}}}" [0 1 2 3];
    dmma_16x8x16 = "m16n8k16" if LARGE_DOUBLE_SHAPES:
        a = "{{{4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}}}" [0 1 2 3 4 5 6 7],
        b = "{{{12}, {13}, {14}, {15}}}" [0 1 2 3],
        c = "{{{0}, {1}, {2}, {3}}}" [0 1 2 3];
}
