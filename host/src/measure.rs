//! How long products take on a GPU, measured so that the numbers can be compared.
//!
//! Times come from events on the device, never from the host's clock. Each sample is one product between two events,
//! behind a short piece of other work: by the time the device reaches the first event everything after it is queued, and
//! no sample contains a wait for the host. Contenders alternate, so that clocks, power and temperature are the same for
//! all. Operands are random, and rotate through more memory than the L2 cache holds, so that no product finds its
//! operands there.

use crate::device::Device;
use crate::device::stream::{Event, Stream};
use crate::error::Result;
use crate::gemm::{Gemm, KernelChoice};
use crate::matrix::Matrix;
use crate::verify::{Distribution, random_matrix, rng};
use regemm_kernels::element::Element;
use regemm_kernels::layout::Layouts;
use std::time::Duration;

/// Rounds before the first sample: modules are loaded, clocks go up.
const WARM_UP: usize = 3;

/// The rotating operands take this many times the L2 cache.
const L2_MULTIPLE: u64 = 3;

/// Most operand sets, which bounds the time to fill them for small products.
const MAX_SETS: u64 = 64;

/// Rows, columns and depth of the product that keeps the device busy while the host queues a sample: about 50 us of the
/// slowest kernel on a large GPU.
const SPACER: usize = 512;

/// Times of one contender.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// In ascending order.
    sorted: Vec<Duration>,
}

impl Samples {
    /// Sorts times; `None` if there are none.
    pub fn new(mut times: Vec<Duration>) -> Option<Samples> {
        times.sort_unstable();
        (!times.is_empty()).then_some(Samples { sorted: times })
    }

    /// The time that a fraction `q` in 0 to 1 of the samples does not exceed (nearest rank).
    pub fn quantile(&self, q: f64) -> Duration {
        let last = self.sorted.len() - 1;
        self.sorted[((last as f64 * q.clamp(0.0, 1.0)).round() as usize).min(last)]
    }

    /// The median.
    pub fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    /// The distance of the quartiles relative to the median: how much the samples scatter.
    pub fn spread(&self) -> f64 {
        (self.quantile(0.75).as_secs_f64() - self.quantile(0.25).as_secs_f64())
            / self.median().as_secs_f64()
    }

    /// Number of samples.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }
}

/// Sets of operands of this many bytes that together take more memory than the device's L2 holds.
pub(crate) fn rotation_sets(device: &Device, set_bytes: u64) -> usize {
    let l2 = device.info().l2_bytes.unwrap_or_default();
    (l2 * L2_MULTIPLE).div_ceil(set_bytes.max(1)).clamp(1, MAX_SETS) as usize
}

/// Operands of one product, several times over in different memory.
pub struct Rotation<T> {
    sets: Vec<OperandSet<T>>,
}

/// A, B and room for D, each packed.
pub struct OperandSet<T> {
    /// How A and B are stored.
    pub layouts: Layouts,
    /// A as it is stored: `m x k`, or `k x m` where it is transposed.
    pub a: Matrix<T>,
    /// B as it is stored: `k x n`, or `n x k` where it is transposed.
    pub b: Matrix<T>,
    /// D, `m x n`.
    pub d: Matrix<T>,
}

impl<T: Element> Rotation<T> {
    /// Random normal operands for `m x n x k` products, drawn from a seed, in more memory than the device's L2 holds.
    ///
    /// # Errors
    /// The device has no room for them, or fails.
    pub fn new(device: &Device, shape: (usize, usize, usize), seed: u64) -> Result<Self> {
        Rotation::in_layouts(device, Layouts::NN, shape, seed)
    }

    /// As [`Rotation::new`], with A and B stored in these layouts.
    ///
    /// # Errors
    /// As for [`Rotation::new`].
    pub fn in_layouts(
        device: &Device,
        layouts: Layouts,
        (m, n, k): (usize, usize, usize),
        seed: u64,
    ) -> Result<Self> {
        let set_bytes = ((m * k + k * n + m * n) * size_of::<T>()).max(1) as u64;
        let sets = (0..rotation_sets(device, set_bytes))
            .map(|set| {
                let mut rng = rng(seed, set as u64);
                let mut matrix = |(rows, cols)| {
                    let values = random_matrix::<T>(&mut rng, rows, cols, Distribution::Normal);
                    device.upload(&values.view())
                };
                let (a, b) = (layouts.a.stored(m, k), layouts.b.stored(k, n));
                Ok(OperandSet { layouts, a: matrix(a)?, b: matrix(b)?, d: matrix((m, n))? })
            })
            .collect::<Result<_>>()?;
        Ok(Rotation { sets })
    }

    /// The operands for a round.
    pub fn set(&mut self, round: usize) -> &mut OperandSet<T> {
        let count = self.sets.len();
        &mut self.sets[round % count]
    }
}

/// Measures contenders in turn: `enqueue(contender, round)` puts one product on the stream. Gives one set of `rounds` samples
/// a contender.
///
/// # Errors
/// [`Error::NotMeasurable`](crate::Error::NotMeasurable) on the simulator, or what `enqueue` gives.
pub fn alternate<E: From<crate::Error>>(
    stream: &Stream,
    contenders: usize,
    rounds: usize,
    mut enqueue: impl FnMut(usize, usize) -> std::result::Result<(), E>,
) -> std::result::Result<Vec<Samples>, E> {
    let mut spacer = Spacer::new(stream)?;
    for round in 0..WARM_UP {
        for contender in 0..contenders {
            enqueue(contender, round)?;
        }
    }
    stream.synchronize()?;

    let mut times = vec![Vec::with_capacity(rounds); contenders];
    for round in 0..rounds {
        let mut events: Vec<(usize, Event, Event)> = Vec::with_capacity(contenders);
        for turn in 0..contenders {
            // Another one begins each round, so that none always follows the same other.
            let contender = (turn + round) % contenders;
            spacer.enqueue(stream)?;
            let start = stream.record()?;
            enqueue(contender, round)?;
            events.push((contender, start, stream.record()?));
        }
        for (contender, start, end) in events {
            times[contender].push(end.elapsed_since(&start)?);
        }
    }
    Ok(times.into_iter().filter_map(Samples::new).collect())
}

/// Work that keeps the device busy while the host queues a sample: for measurements that are not taken in the rounds of
/// [`alternate`].
pub struct Spacer {
    a: Matrix<f32>,
    b: Matrix<f32>,
    d: Matrix<f32>,
}

impl Spacer {
    /// For samples on this stream.
    ///
    /// # Errors
    /// The device has no room for it, or fails.
    pub fn new(stream: &Stream) -> Result<Spacer> {
        let device = stream.device();
        let mut rng = rng(0, 0);
        let mut matrix = || {
            let values = random_matrix(&mut rng, SPACER, SPACER, Distribution::Normal);
            device.upload(&values.view())
        };
        Ok(Spacer { a: matrix()?, b: matrix()?, d: matrix()? })
    }

    /// Puts the work on the stream: before the first event of a sample.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn enqueue(&mut self, stream: &Stream) -> Result<()> {
        let slowest = KernelChoice::Rung(regemm_kernels::kernel::Rung::Naive);
        Gemm::new(&self.a, &self.b).kernel(slowest).enqueue(stream, &mut self.d).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use approx::assert_relative_eq;

    fn millis(values: &[u64]) -> Vec<Duration> {
        values.iter().map(|&ms| Duration::from_millis(ms)).collect()
    }

    #[test]
    fn median_and_spread_of_known_times() {
        let samples = Samples::new(millis(&[50, 10, 30, 20, 40])).unwrap();
        assert_eq!(samples.median(), Duration::from_millis(30));
        assert_eq!(samples.quantile(0.0), Duration::from_millis(10));
        assert_eq!(samples.quantile(1.0), Duration::from_millis(50));
        assert_relative_eq!(samples.spread(), 20.0 / 30.0, max_relative = 1e-12);
        assert_eq!(samples.count(), 5);
        assert_eq!(Samples::new(Vec::new()), None);
    }

    #[test]
    fn the_simulator_gives_no_times() {
        let device = Device::sim();
        let stream = device.stream().unwrap();
        let mut rotation = Rotation::<f32>::new(&device, (8, 8, 8), 1).unwrap();
        let outcome = alternate::<Error>(&stream, 1, 1, |_, round| {
            let set = rotation.set(round);
            Gemm::new(&set.a, &set.b).enqueue(&stream, &mut set.d).map(drop)
        });
        assert!(matches!(outcome, Err(Error::NotMeasurable { .. })), "{outcome:?}");
    }
}
