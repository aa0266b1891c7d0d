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
const ALIGNED_BITS: i32 = f32::MANTISSA_DIGITS as i32 - 1 + 2;

/// Columns that are worked on together, so that compilers use vectors.
const TOGETHER: usize = 8;

/// Adds the product of `a`, `K` rows of `M`, and `b`, `K` rows of `n`, to the first `n` columns of `d`, `M` rows of
/// `columns`, which count as 0 unless `accumulate`.
pub(super) fn multiply_add(
    d: (&mut [f32], usize),
    a: &[f64],
    b: (&[f64], usize),
    accumulate: bool,
) {
    #[cfg(target_arch = "x86_64")]
    {
        /// The same code in vectors twice as long as those that every such processor has.
        #[target_feature(enable = "avx2")]
        fn in_long_vectors(
            d: (&mut [f32], usize),
            a: &[f64],
            b: (&[f64], usize),
            accumulate: bool,
        ) {
            multiply_add_here(d, a, b, accumulate);
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has them.
            return unsafe { in_long_vectors(d, a, b, accumulate) };
        }
    }
    multiply_add_here(d, a, b, accumulate);
}

/// [`multiply_add`], written out in its caller.
#[inline(always)]
fn multiply_add_here(
    (d, columns): (&mut [f32], usize),
    a: &[f64],
    (b, n): (&[f64], usize),
    accumulate: bool,
) {
    let mut rows: Vec<&mut [f32]> = d.chunks_exact_mut(columns).map(|row| &mut row[..n]).collect();
    if !accumulate {
        rows.iter_mut().for_each(|row| row.fill(0.0));
    }
    let finite = a.iter().chain(b).all(|x| x.is_finite())
        && rows.iter().all(|row| row.iter().all(|d| d.is_finite()));
    for (i, row) in rows.into_iter().enumerate() {
        for (first, d) in (0..n).step_by(TOGETHER).zip(row.chunks_exact_mut(TOGETHER)) {
            let mut products = [[0.0; TOGETHER]; K];
            for (k, products) in products.iter_mut().enumerate() {
                let b = &b[k * n + first..][..TOGETHER];
                for (product, b) in products.iter_mut().zip(b) {
                    *product = a[k * M + i] * b;
                }
            }
            let sums = std::array::from_fn(|j| d[j].into());
            d.copy_from_slice(&add(&sums, &products, finite));
        }
    }
}

/// Sums and the products that are added to them, as tensor cores add; all may be known to be finite.
#[inline(always)]
pub(super) fn add(
    sums: &[f64; TOGETHER],
    products: &[[f64; TOGETHER]; K],
    finite: bool,
) -> [f32; TOGETHER] {
    if finite { added(sums, products) } else { added_somewhere_infinite(sums, products) }
}

/// Finite sums and the products that are added to them, as tensor cores add.
#[inline(always)]
fn added(sums: &[f64; TOGETHER], products: &[[f64; TOGETHER]; K]) -> [f32; TOGETHER] {
    let mut largest = sums.map(f64::abs);
    for products in products {
        for (largest, product) in largest.iter_mut().zip(products) {
            *largest = if product.abs() > *largest { product.abs() } else { *largest };
        }
    }
    // What the lowest bit that is kept counts for, and how often that is in 1.
    let units = largest.map(|largest| power_of_two(exponent(largest) - ALIGNED_BITS));
    let parts = largest.map(|largest| power_of_two(ALIGNED_BITS - exponent(largest)));
    let mut kept: [i32; TOGETHER] = std::array::from_fn(|j| cut_off(sums[j] * parts[j]));
    for products in products {
        for j in 0..TOGETHER {
            kept[j] += cut_off(products[j] * parts[j]);
        }
    }
    std::array::from_fn(|j| truncate(f64::from(kept[j]) * units[j]))
}

/// The whole part of a number that is aligned: less than 2^26.
#[inline(always)]
fn cut_off(aligned: f64) -> i32 {
    debug_assert!(aligned.abs() < 2.0 * (1 << ALIGNED_BITS) as f64);
    // SAFETY: it is a finite number that is small enough, since it was divided by one with the largest number's
    // exponent.
    unsafe { aligned.to_int_unchecked() }
}

/// Sums and products of which some are not finite, or of others in the same matrices: what is finite is added as
/// otherwise.
fn added_somewhere_infinite(
    sums: &[f64; TOGETHER],
    products: &[[f64; TOGETHER]; K],
) -> [f32; TOGETHER] {
    std::array::from_fn(|j| {
        let exact = products.iter().fold(sums[j], |sum, products| sum + products[j]);
        if !exact.is_finite() {
            return exact as f32;
        }
        let (mut one_sum, mut of_one) = ([0.0; TOGETHER], [[0.0; TOGETHER]; K]);
        one_sum[0] = sums[j];
        for (of_one, products) in of_one.iter_mut().zip(products) {
            of_one[0] = products[j];
        }
        added(&one_sum, &of_one)[0]
    })
}

/// The exponent of a number's first bit: of zero, one so small that nothing is cut off.
#[inline(always)]
fn exponent(magnitude: f64) -> i32 {
    const BIAS: i32 = f64::MAX_EXP - 1;
    (magnitude.to_bits() >> (f64::MANTISSA_DIGITS - 1)) as i32 - BIAS
}

/// For exponents of normal numbers; beyond them the largest or the smallest.
#[inline(always)]
fn power_of_two(exponent: i32) -> f64 {
    const BIAS: i32 = f64::MAX_EXP - 1;
    let biased = (exponent + BIAS).clamp(1, 2 * BIAS);
    f64::from_bits((biased as u64) << (f64::MANTISSA_DIGITS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One row of A times one column of B, beside others that are zero.
    fn sum(accumulator: f32, products: &[(f64, f64)]) -> f32 {
        let n = TOGETHER;
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
}
