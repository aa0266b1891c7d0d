//! Seeded random operands. The same seed gives the same matrices on every machine.

use super::bound::Format;
use ndarray::Array2;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;
use regemm_kernels::element::{Accumulator, Element};

/// How random elements are distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Normal with mean 0 and variance 1.
    Normal,
    /// Uniform in [-1, 1).
    Uniform,
    /// Uniform in [0, 1): nothing cancels.
    UnitInterval,
    /// Normal, each element times one of the powers of two from 2^-8 to 2^7.
    Wide,
    /// Integers from `-limit` to `limit`, each as likely.
    Integers {
        /// The largest magnitude.
        limit: u32,
    },
}

/// Half the number of exponents in [`Distribution::Wide`].
const WIDE_EXPONENT: i32 = 8;

/// A generator for this seed; different streams of one seed are independent.
pub fn rng(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// A random `rows x cols` matrix.
pub fn random_matrix<T: Element>(
    rng: &mut ChaCha8Rng,
    rows: usize,
    cols: usize,
    distribution: Distribution,
) -> Array2<T> {
    Array2::from_shape_simple_fn((rows, cols), || element(rng, distribution))
}

/// A random vector of `len` elements.
pub fn random_vector<T: Element>(
    rng: &mut ChaCha8Rng,
    len: usize,
    distribution: Distribution,
) -> Vec<T> {
    (0..len).map(|_| element(rng, distribution)).collect()
}

fn element<T: Element>(rng: &mut ChaCha8Rng, distribution: Distribution) -> T {
    let value: f64 = match distribution {
        Distribution::Normal => rng.sample(StandardNormal),
        Distribution::Uniform => rng.random_range(-1.0..1.0),
        Distribution::UnitInterval => rng.random_range(0.0..1.0),
        Distribution::Wide => {
            let exponent: i32 = rng.random_range(-WIDE_EXPONENT..WIDE_EXPONENT);
            let normal: f64 = rng.sample(StandardNormal);
            normal * f64::from(exponent).exp2()
        }
        Distribution::Integers { limit } => {
            let limit = i64::from(limit);
            rng.random_range(-limit..=limit) as f64
        }
    };
    T::narrow(T::Acc::constant(value))
}

/// The largest `limit` of [`Distribution::Integers`] for which sums of `k` products are exact in the accumulator with
/// room for addends of the same magnitude, and the integers exact in the element type. At most 16, so that results
/// stay small; 0 where `k` is too large for any.
pub fn exact_integer_limit<T: Element>(k: usize) -> u32 {
    const LARGEST: f64 = 16.0;
    let sums = 0.5 / Format::of_sums(T::DTYPE).unit_roundoff;
    let elements = 1.0 / Format::of_elements(T::DTYPE).unit_roundoff;
    (sums / k.max(1) as f64).sqrt().min(elements).min(LARGEST) as u32
}
