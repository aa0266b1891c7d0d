//! The same product on the host's processor, for comparison.

use crate::command::verdict::verification_json;
use ndarray::{ArrayView2, LinalgScalar};
use regemm::measure::Samples;
use regemm::verify::{Expectation, ShapeError, Verification, host_cores, host_product};
use regemm::{Accumulator, Dtype, Element, Yields};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Samples are taken for so long at most, but a few always: a large product takes a processor seconds.
const SAMPLING: Duration = Duration::from_secs(2);
const FEWEST: usize = 3;

/// Bytes that it takes beside the factors and D as they are stored: both factors and the product in what it is computed
/// in. `None` are more than an address can count.
pub fn bytes(factors: Dtype, (m, n, k): (usize, usize, usize)) -> Option<usize> {
    let of_a_and_b = m.checked_mul(k)?.checked_add(k.checked_mul(n)?)?;
    let elements = of_a_and_b.checked_add(m.checked_mul(n)?)?;
    elements.checked_mul(computed_in(factors).bytes())
}

fn computed_in(factors: Dtype) -> Dtype {
    if factors == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }
}

/// A product on the processor.
pub struct OnCpu {
    /// What its sums are computed in: f32, or f64 for factors of that.
    pub dtype: Dtype,
    pub verification: Verification,
    samples: Samples,
}

impl OnCpu {
    /// Verifies the product and takes at most so many samples of its time.
    pub fn measure<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
        factors: [ArrayView2<'_, T>; 2],
        expectation: &Expectation<'_, T, D>,
        most: usize,
    ) -> Result<OnCpu, ShapeError> {
        match computed_in(T::DTYPE) {
            Dtype::F64 => OnCpu::measure_in(factors, expectation, most, |x| x, |x| x),
            _ => OnCpu::measure_in(factors, expectation, most, |x| x as f32, f64::from),
        }
    }

    fn measure_in<T, D, S>(
        factors: [ArrayView2<'_, T>; 2],
        expectation: &Expectation<'_, T, D>,
        most: usize,
        from: impl Fn(f64) -> S,
        to: impl Fn(S) -> f64,
    ) -> Result<OnCpu, ShapeError>
    where
        T: Element + Yields<D>,
        D: Element<Acc = T::Acc>,
        S: LinalgScalar + Send + Sync,
    {
        let [a, b] = factors.map(|factor| factor.mapv(|x| from(x.widen().to_f64())));
        let product = || host_product(&a.view(), &b.view());
        // The first is not measured.
        let d = product().mapv(|x| D::narrow(D::Acc::constant(to(x))));
        let verification = expectation.check(&d.view())?;
        drop(d);
        let begin = Instant::now();
        let mut times = Vec::new();
        while times.len() < FEWEST || times.len() < most && begin.elapsed() < SAMPLING {
            let start = Instant::now();
            std::hint::black_box(product());
            times.push(start.elapsed());
        }
        let samples = Samples::new(times).expect("a few are always taken");
        Ok(OnCpu { dtype: computed_in(T::DTYPE), verification, samples })
    }

    /// None where it is wrong.
    pub fn seconds(&self) -> Option<f64> {
        self.verification.pass().then(|| self.samples.median().as_secs_f64())
    }

    pub fn json(&self, operations: f64) -> Value {
        let seconds = self.seconds();
        json!({
            "dtype": self.dtype.to_string(),
            "cores": host_cores(),
            "seconds": seconds,
            "spread": seconds.map(|_| self.samples.spread()),
            "gflops": seconds.map(|seconds| operations / seconds / 1e9),
            "verification": verification_json(&self.verification),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_counted_in_what_is_computed_in() {
        let elements = 3 * 5 + 5 * 4 + 3 * 4;
        for (factors, size) in [(Dtype::F64, 8), (Dtype::F32, 4), (Dtype::Bf16, 4)] {
            assert_eq!(bytes(factors, (3, 4, 5)), Some(elements * size));
        }
        assert_eq!(bytes(Dtype::F32, (usize::MAX, 2, 2)), None);
    }
}
