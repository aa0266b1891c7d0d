//! Fused multiply-add as one instruction of the host where it has one.
//!
//! `mul_add` is a slow library call unless the compiler may assume the instruction, so a function for which it may is
//! chosen at run time.

macro_rules! fused {
    ($name:ident, $with_instruction:ident, $t:ty) => {
        /// `a * b + c`, rounded once.
        #[inline(always)]
        pub(crate) fn $name(a: $t, b: $t, c: $t) -> $t {
            #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
            {
                #[target_feature(enable = "fma")]
                fn $with_instruction(a: $t, b: $t, c: $t) -> $t {
                    a.mul_add(b, c)
                }
                if std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has the instruction.
                    return unsafe { $with_instruction(a, b, c) };
                }
            }
            a.mul_add(b, c)
        }
    };
}

fused!(fma_f32, fma_instruction_f32, f32);
fused!(fma_f64, fma_instruction_f64, f64);
