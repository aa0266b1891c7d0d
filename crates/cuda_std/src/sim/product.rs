//! The arithmetic of matrix instructions on 16-bit numbers, of warpgroups and of warps.
//!
//! The products are exact. NVIDIA does not document in which order a tensor core adds them up, nor how it rounds in
//! between. What is known of those before (M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of
//! NVIDIA tensor cores", 2021): products and accumulator are aligned to the largest of them, what lies below a few bits
//! more than f32 has is cut off, and so is what the sum has more than an f32. So it is here:
//!
//! ```text
//! accumulator   1 1 0 1 0 . . . 1 0 0 1 0 0        24 bits, or what they are aligned to
//! product 0         1 0 1 1 . . . 0 1 1 0 | 1 1     cut off below two bits more
//! ..
//! product 15    1 0 0 1 . . . . 0 1 0 1 1 | 0
//! sum         1 0 1 1 0 . . . . 0 1 | 1 0           exact, and cut off to 24 bits
//! ```
//!
//! That there are two bits more, and 16 products that are added at once, is a model: the one that gives the errors that
//! were measured on an H200 for factors of 22 bits whose halves were multiplied apart. The relative errors in norm for
//! K = 4096, with sums that were taken over to f32 registers after every so many products, or never:
//!
//! | values | | never | 512 | 128 |
//! |---|---|---|---|---|
//! | normal | measured | 4.9e-6 | 6.5e-7 | 2.3e-7 |
//! | | model | 4.9e-6 | 6.4e-7 | 2.3e-7 |
//! | uniform in [0, 1) | measured | 2.4e-5 | 2.5e-6 | 4.7e-7 |
//! | | model | 2.3e-5 | 2.5e-6 | 4.6e-7 |
//!
//! With one bit more or less, or 8 products at a time, at least one of them is off by half.
//!
//! Those are measurements of warpgroups. Instructions of warps are executed by the same tensor cores, and add so many
//! products, too; earlier ones than Hopper's are known to add fewer at once and to keep fewer bits (the same authors),
//! which is another model, and not this one.

use super::mma::truncate;
use super::operands::UNIT;
use crate::mma::{M as M_OF_WARP, N as N_OF_WARP};
use crate::wgmma::{K, M};
use half::{bf16, f16};

/// Elements of a unit.
pub(super) const ELEMENTS: usize = UNIT / size_of::<u16>();

/// Where the units of an operand of `rows` rows or columns begin, in the order in which they are read: `(i, k)`.
pub(super) fn units(rows: usize, transposed: bool) -> impl Iterator<Item = (usize, usize)> {
    let (i_step, k_step) = if transposed { (ELEMENTS, 1) } else { (1, ELEMENTS) };
    (0..K).step_by(k_step).flat_map(move |k| (0..rows).step_by(i_step).map(move |i| (i, k)))
}

/// The operand whose units are given, as `K` rows of `rows` numbers.
pub(super) fn operand(
    units_read: impl Iterator<Item = [u8; UNIT]>,
    rows: usize,
    transposed: bool,
    is_bf16: bool,
) -> Vec<f64> {
    let mut numbers = vec![0.0; K * rows];
    for ((i, k), unit) in units(rows, transposed).zip(units_read) {
        for (e, bytes) in unit.chunks_exact(size_of::<u16>()).enumerate() {
            let bits = u16::from_le_bytes([bytes[0], bytes[1]]);
            let number = if is_bf16 {
                bf16::from_bits(bits).to_f64()
            } else {
                f16::from_bits(bits).to_f64()
            };
            let (i, k) = if transposed { (i + e, k) } else { (i, k + e) };
            numbers[k * rows + i] = number;
        }
    }
    numbers
}

/// Bits behind the first one that products and accumulator keep when they are aligned.
const ALIGNED_BITS: i64 = f32::MANTISSA_DIGITS as i64 - 1 + 2;

/// Most sums that are worked on together: loops over so many compilers turn into vectors, which they do not where they
/// write all rounds of a loop out.
const TOGETHER: usize = 64;

type Numbers = [f64; TOGETHER];

/// Defines a function that does what another one does, which must always be inlined, in the longest vectors that the
/// processor has. The results are the same in all.
macro_rules! in_longest_vectors {
    ($(#[$about:meta])* $name:ident = $here:ident($($argument:ident: $kind:ty),*)) => {
        $(#[$about])*
        pub(super) fn $name($($argument: $kind),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
                fn of_64_bytes($($argument: $kind),*) {
                    $here($($argument),*);
                }
                #[target_feature(enable = "avx2")]
                fn of_32_bytes($($argument: $kind),*) {
                    $here($($argument),*);
                }
                let all = is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512vl");
                if all && is_x86_feature_detected!("avx512f") {
                    // SAFETY: the processor has them.
                    return unsafe { of_64_bytes($($argument),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has them.
                    return unsafe { of_32_bytes($($argument),*) };
                }
            }
            $here($($argument),*);
        }
    };
}

in_longest_vectors! {
    /// Adds the product of `a`, `K` rows of `M`, and `b`, `K` rows of `n`, to the first `n` columns of `d`, `M` rows of
    /// `columns`, which count as 0 unless `accumulate`.
    multiply_add = multiply_add_here(
        d: (&mut [f32], usize), a: &[f64], b: (&[f64], usize), accumulate: bool
    )
}

in_longest_vectors! {
    /// Adds the product of `a` and `b` to `sums`.
    multiply_add_of_warp = multiply_add_of_warp_here(
        sums: &mut [[f32; N_OF_WARP]; M_OF_WARP],
        a: &[[f64; K]; M_OF_WARP],
        b: &[[f64; N_OF_WARP]; K]
    )
}

#[inline(always)]
fn multiply_add_here(
    (d, columns): (&mut [f32], usize),
    a: &[f64],
    (b, n): (&[f64], usize),
    accumulate: bool,
) {
    let mut addition = Addition::new();
    for (i, row) in d.chunks_exact_mut(columns).enumerate() {
        for (d, first) in row[..n].chunks_mut(TOGETHER).zip((0..n).step_by(TOGETHER)) {
            if !accumulate {
                d.fill(0.0);
            }
            for (k, products) in addition.products.iter_mut().enumerate() {
                let a = a[k * M + i];
                for (product, b) in products.iter_mut().zip(&b[k * n + first..][..d.len()]) {
                    *product = a * b;
                }
            }
            addition.add_to(d);
        }
    }
}

#[inline(always)]
fn multiply_add_of_warp_here(
    sums: &mut [[f32; N_OF_WARP]; M_OF_WARP],
    a: &[[f64; K]; M_OF_WARP],
    b: &[[f64; N_OF_WARP]; K],
) {
    const ROWS: usize = TOGETHER / N_OF_WARP;
    let mut addition = Addition::new();
    for (sums, a) in sums.chunks_exact_mut(ROWS).zip(a.chunks_exact(ROWS)) {
        for (k, products) in addition.products.iter_mut().enumerate() {
            for (products, a) in products.chunks_exact_mut(N_OF_WARP).zip(a) {
                for (product, b) in products.iter_mut().zip(&b[k]) {
                    *product = a[k] * b;
                }
            }
        }
        addition.add_to(sums.as_flattened_mut());
    }
}

/// The products that are added to sums, as tensor cores add. No whole number here comes near to what its type holds;
/// where builds check that for each addition, compilers use no vectors.
struct Addition {
    products: [Numbers; K],
    sums: Numbers,
}

impl Addition {
    #[inline(always)]
    fn new() -> Self {
        Addition { products: [[0.0; TOGETHER]; K], sums: [0.0; TOGETHER] }
    }

    /// Adds the first products of each row to as many sums.
    #[inline(always)]
    fn add_to(&mut self, d: &mut [f32]) {
        for (sum, d) in self.sums.iter_mut().zip(&*d) {
            *sum = (*d).into();
        }
        let largest = self.largest(d.len());
        if largest[..d.len()].iter().fold(true, |all, largest| all & (*largest < INFINITE)) {
            return self.add_finite_to(d, &largest);
        }
        let mut exact = self.sums;
        for products in &self.products {
            for (exact, product) in exact[..d.len()].iter_mut().zip(products) {
                *exact += product;
            }
        }
        // Where an exact sum is finite all of its parts are. The others are left out.
        let exact = &exact[..d.len()];
        for numbers in self.products.iter_mut().chain([&mut self.sums]) {
            for (number, exact) in numbers.iter_mut().zip(exact) {
                *number = if exact.is_finite() { *number } else { 0.0 };
            }
        }
        self.add_finite_to(d, &self.largest(d.len()));
        for (d, exact) in d.iter_mut().zip(exact) {
            *d = if exact.is_finite() { *d } else { *exact as f32 };
        }
    }

    /// For each of the first sums the largest magnitude of what is added up, as bits, which are in the same order; what
    /// is not finite is larger than all others.
    #[inline(always)]
    fn largest(&self, sums: usize) -> [i64; TOGETHER] {
        let mut largest = [0; TOGETHER];
        for numbers in self.products.iter().chain([&self.sums]) {
            for (largest, number) in largest[..sums].iter_mut().zip(numbers) {
                *largest = (number.abs().to_bits() as i64).max(*largest);
            }
        }
        largest
    }

    /// [`add_to`](Self::add_to) where all are finite.
    #[inline(always)]
    fn add_finite_to(&self, d: &mut [f32], largest: &[i64; TOGETHER]) {
        // How often what the lowest bit that is kept counts for is in 1.
        let mut parts = [0.0; TOGETHER];
        for (part, largest) in parts[..d.len()].iter_mut().zip(largest) {
            *part = power_of_two(ALIGNED_BITS.wrapping_sub(exponent(*largest)));
        }
        let mut kept = [0; TOGETHER];
        for numbers in self.products.iter().chain([&self.sums]) {
            for ((kept, number), part) in kept[..d.len()].iter_mut().zip(numbers).zip(&parts) {
                *kept = i32::wrapping_add(*kept, cut_off(number * part));
            }
        }
        for ((d, kept), largest) in d.iter_mut().zip(kept).zip(largest) {
            let unit = power_of_two(exponent(*largest).wrapping_sub(ALIGNED_BITS));
            *d = truncate(f64::from(kept) * unit);
        }
    }
}

/// The bits of infinity: those of finite magnitudes are smaller, those of NaN larger.
const INFINITE: i64 = f64::INFINITY.to_bits() as i64;

/// The whole part of a number that is aligned: less than 2^26.
#[inline(always)]
fn cut_off(aligned: f64) -> i32 {
    debug_assert!(aligned.abs() < 2.0 * (1 << ALIGNED_BITS) as f64);
    // SAFETY: it is a finite number that is small enough, since it was divided by one with the largest number's
    // exponent.
    unsafe { aligned.to_int_unchecked() }
}

/// The exponent of the first bit of a magnitude, of which these are the bits: of zero, one so small that nothing is cut
/// off.
#[inline(always)]
fn exponent(magnitude: i64) -> i64 {
    const BIAS: i64 = f64::MAX_EXP as i64 - 1;
    (magnitude >> (f64::MANTISSA_DIGITS - 1)).wrapping_sub(BIAS)
}

/// For exponents of normal numbers; beyond them the largest or the smallest.
#[inline(always)]
fn power_of_two(exponent: i64) -> f64 {
    const BIAS: i64 = f64::MAX_EXP as i64 - 1;
    let biased = exponent.wrapping_add(BIAS).clamp(1, 2 * BIAS);
    f64::from_bits((biased as u64) << (f64::MANTISSA_DIGITS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One row of A times one column of B, beside others that are zero.
    fn sum(accumulator: f32, products: &[(f64, f64)]) -> f32 {
        let n = 8;
        let (mut a, mut b, mut d) = (vec![0.0; K * M], vec![0.0; K * n], vec![0.0; M * n]);
        let (i, j) = (5, 3);
        for (k, &(x, y)) in products.iter().enumerate() {
            (a[k * M + i], b[k * n + j]) = (x, y);
        }
        d[i * n + j] = accumulator;
        multiply_add((&mut d, n), &a, (&b, n), true);
        let finite = products.iter().all(|&(x, y)| x.is_finite() && y.is_finite());
        for (at, &d) in d.iter().enumerate().filter(|&(at, _)| (at / n, at % n) != (i, j)) {
            // What is infinite meets the zeros of its row and its column, which gives no number.
            let beside = at / n == i || at % n == j;
            assert!(d == 0.0 || beside && !finite && d.is_nan(), "{at}: {d}");
        }
        d[i * n + j]
    }

    #[test]
    fn what_two_bits_more_do_not_hold_is_cut_off() {
        let ulp = f64::from(f32::EPSILON);
        // Each is a quarter of the last bit, and kept: four of them count.
        assert_eq!(sum(1.0, &[(ulp / 4.0, 1.0); 4]), 1.0 + f32::EPSILON);
        assert_eq!(sum(1.0, &[(ulp / 4.0, 1.0); 3]), 1.0, "the sum is cut off");
        assert_eq!(sum(1.0, &[(ulp / 8.0, 1.0); 16]), 1.0, "each of them is");
        assert_eq!(sum(-1.0, &[(ulp * 1.2, -1.0); 1]), -1.0 - f32::EPSILON, "towards zero");
        // The largest is a product.
        assert_eq!(sum(f32::EPSILON / 8.0, &[(1.0, 1.0), (-1.0, 1.0)]), 0.0);
    }

    #[test]
    fn exact_sums_are_exact() {
        let products: Vec<_> = (0..16).map(|k| (f64::from(k) - 7.0, 3.0)).collect();
        assert_eq!(sum(10.0, &products), 10.0 + 3.0 * 8.0);
        assert_eq!(sum(0.0, &[]), 0.0);
        let tiny = f64::from(f32::from_bits(1));
        assert_eq!(sum(0.0, &[(tiny, 1.0)]), f32::from_bits(1));
        assert_eq!(sum(0.0, &[(tiny, 0.5)]), 0.0);
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        let infinite = f64::INFINITY;
        assert_eq!(sum(1.0, &[(infinite, 1.0)]), f32::INFINITY);
        assert!(sum(1.0, &[(infinite, 1.0), (infinite, -1.0)]).is_nan());
        assert!(sum(f32::NAN, &[(1.0, 1.0)]).is_nan());
        assert_eq!(sum(f32::MAX, &[(f64::from(f32::MAX), 1.0)]), f32::INFINITY);
    }

    /// What an element of D must be, one step after the other.
    fn expected(sum: f32, products: &[f64]) -> f32 {
        let exact = products.iter().fold(f64::from(sum), |exact, product| exact + product);
        if !exact.is_finite() {
            return exact as f32;
        }
        let parts = || products.iter().copied().chain([f64::from(sum)]);
        let largest = parts().fold(0.0, |largest, part| f64::max(largest, part.abs()));
        if largest == 0.0 {
            return 0.0;
        }
        let unit = 2.0_f64.powi((exponent(largest.to_bits() as i64) - ALIGNED_BITS) as i32);
        truncate(parts().map(|part| (part / unit).trunc()).sum::<f64>() * unit)
    }

    #[test]
    fn sums_are_the_same_however_many_are_added_together_and_in_vectors_of_any_length() {
        // Numbers of both signs and of magnitudes that are far apart, and some that are not finite.
        let number = |i: usize, infinite: bool| match i * 7919 % 1009 {
            at if infinite && at == 5 => f64::INFINITY,
            at if infinite && at == 77 => f64::NAN,
            at => (at as f64 - 500.0) * 2.0_f64.powi((i * 31 % 23) as i32 - 11) / 512.0,
        };
        for n in [8, 72, 96, 256] {
            for infinite in [false, true] {
                let a: Vec<f64> = (0..K * M).map(|i| number(i, infinite)).collect();
                let b: Vec<f64> = (0..K * n).map(|i| number(3 * i + 1, infinite)).collect();
                let columns = n + 8;
                let before: Vec<f32> =
                    (0..M * columns).map(|i| number(5 * i, infinite) as f32).collect();
                let (mut longest, mut shortest) = (before.clone(), before.clone());
                multiply_add((&mut longest, columns), &a, (&b, n), true);
                multiply_add_here((&mut shortest, columns), &a, (&b, n), true);
                let bits = |d: &[f32]| {
                    Vec::from_iter(
                        d.iter().map(|d| if d.is_nan() { f32::NAN } else { *d }.to_bits()),
                    )
                };
                assert_eq!(bits(&longest), bits(&shortest), "{n}");
                for (at, (&d, &before)) in longest.iter().zip(&before).enumerate() {
                    let (i, j) = (at / columns, at % columns);
                    let products: Vec<f64> =
                        (0..K).map(|k| a[k * M + i] * b[k * n + j.min(n - 1)]).collect();
                    let expected = if j < n { expected(before, &products) } else { before };
                    let is_same = d == expected || d.is_nan() && expected.is_nan();
                    assert!(is_same, "{n}: {d} at {i}, {j}, expected {expected}");
                    assert!(infinite || d.is_finite());
                }
            }
        }
    }
}
