//! How long products take on a GPU, measured so that the numbers can be compared.
//!
//! Times come from events on the device, never from the host's clock. Each sample is one product, or several short
//! ones, between two events, behind a piece of other work: by the time the device reaches the first event everything
//! after it is queued, and no sample contains a wait for the host; one where the device was there first is taken again.
//! Contenders alternate, so that clocks, power and temperature are the same for all. Operands are random, and every
//! product takes other ones than the product before it, of more memory than the L2 cache holds, so that none finds its
//! operands there: see [`Rotation`].

mod clock;
mod operands;

pub use clock::SmClock;
pub use operands::{OperandSet, Part, Rotation, SetLayout};

use crate::device::stream::{Event, Stream};
use crate::error::Result;
use crate::gemm::{Gemm, KernelChoice};
use crate::matrix::Matrix;
use crate::verify::{Distribution, random_matrix, rng};
use ndarray::aview1;
use rand::seq::SliceRandom;
use std::time::{Duration, Instant};

/// Rounds before the first sample: modules are loaded, clocks go up.
const WARM_UP: usize = 3;

/// Short products are repeated until a sample takes about this long, in seconds.
const SAMPLE_SECONDS: f64 = 150e-6;

/// Most products in a sample: so many that the queue of a stream holds several samples.
const MOST_PRODUCTS: f64 = 64.0;

/// Rows, columns and depth of the product that keeps the device busy while the host queues a sample: about 50 us of the
/// slowest kernel on a large GPU.
const SPACER: usize = 512;

/// The spacer lasts this many times as long as the host took to queue a sample before.
const SPACER_RESERVE: f64 = 2.0;

/// Most repetitions of the spacer before a sample.
const MOST_SPACERS: f64 = 64.0;

/// A sample is taken again at most so often where the host was late, behind twice as much other work each time. Then it
/// is kept, and [counted](Samples::late). Products that wait for the device themselves are always late.
const MOST_LATE: u32 = 3;

/// Times of one contender.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// In ascending order.
    sorted: Vec<Duration>,
    late: usize,
    sm_mhz: Option<f64>,
}

impl Samples {
    /// Sorts times; `None` if there are none.
    pub fn new(mut times: Vec<Duration>) -> Option<Samples> {
        times.sort_unstable();
        (!times.is_empty()).then_some(Samples { sorted: times, late: 0, sm_mhz: None })
    }

    /// The time that a fraction `q` in 0 to 1 of the samples does not exceed. Between two samples it is interpolated
    /// linearly (type 7 of R. J. Hyndman and Y. Fan, "Sample Quantiles in Statistical Packages", The American
    /// Statistician 50, 1996): at 0 it is the shortest, at 1 the longest.
    pub fn quantile(&self, q: f64) -> Duration {
        let last = self.sorted.len() - 1;
        let q = if q.is_nan() { 0.0 } else { q.clamp(0.0, 1.0) };
        let position = last as f64 * q;
        let (below, part) = (position as usize, position.fract());
        let (low, high) = (self.sorted[below], self.sorted[(below + 1).min(last)]);
        low + (high - low).mul_f64(part)
    }

    /// The median: of an even number of samples the mean of the two in the middle.
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

    /// How many of them the device began before all of them was queued, however often [`alternate`] took them: they may
    /// hold a wait for the host.
    pub fn late(&self) -> usize {
        self.late
    }

    /// The mean [clock](SmClock) of the multiprocessors in MHz while [`alternate`] took them.
    pub fn sm_mhz(&self) -> Option<f64> {
        self.sm_mhz
    }
}

/// How many samples are taken of each contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Rounds before the first sample.
    pub warm_up: usize,
    /// Samples of each contender; one where this is 0.
    pub rounds: usize,
}

impl Sampling {
    /// So many samples after the usual warm-up.
    pub fn rounds(rounds: usize) -> Sampling {
        Sampling { warm_up: WARM_UP, rounds }
    }
}

/// How many products that take this many seconds a sample holds. One event pair around a product of a few microseconds
/// measures mostly the start of the kernel, and does not see that a launch can begin while the one before it ends, from
/// which some kernels gain and others do not.
pub fn products_a_sample(seconds: f64) -> usize {
    (SAMPLE_SECONDS / seconds).ceil().clamp(1.0, MOST_PRODUCTS) as usize
}

/// Measures contenders in rounds, each in another order: `enqueue(contender)` puts one product on the stream, with
/// operands that are [next](Rotation::next_set). A sample of a contender holds as many products as `products` says of
/// it, and is their time divided by their number. Gives one set of samples a contender.
///
/// # Errors
/// [`Error::NotMeasurable`](crate::Error::NotMeasurable) on the simulator, or what `enqueue` gives.
pub fn alternate<E: From<crate::Error>>(
    stream: &Stream,
    products: &[usize],
    sampling: Sampling,
    mut enqueue: impl FnMut(usize) -> std::result::Result<(), E>,
) -> std::result::Result<Vec<Samples>, E> {
    let (warm_up, rounds) = (sampling.warm_up, sampling.rounds.max(1));
    let contenders = products.len();
    if contenders == 0 {
        return Ok(Vec::new());
    }
    let mut spacer = Spacer::new(stream)?;
    // How long the host takes to queue a sample: the first round also loads modules, so the quickest counts.
    let mut queueing = vec![Duration::MAX; contenders];
    for _ in 0..warm_up {
        for (contender, quickest) in queueing.iter_mut().enumerate() {
            let start = Instant::now();
            for _ in 0..products[contender] {
                enqueue(contender)?;
            }
            *quickest = start.elapsed().min(*quickest);
            stream.synchronize()?;
        }
    }
    let measured = queueing.into_iter().filter(|time| *time < Duration::MAX);
    spacer.cover(stream, measured.max().unwrap_or_default())?;

    let mut times = vec![Vec::with_capacity(rounds); contenders];
    let mut too_late = vec![0; contenders];
    let mut clock = SmClock::new(stream.device(), contenders)?;
    let mut clocks = vec![Vec::with_capacity(rounds); contenders];
    for order in orders(contenders).take(rounds) {
        let mut events: Vec<(usize, Event, Event)> = Vec::with_capacity(contenders);
        for contender in order {
            let mut repetitions = 0;
            loop {
                for _ in 0..1 << repetitions {
                    spacer.enqueue(stream)?;
                }
                clock.begin(stream, contender)?;
                let start = stream.record()?;
                for _ in 0..products[contender] {
                    enqueue(contender)?;
                }
                let end = stream.record()?;
                clock.end(stream, contender)?;
                let is_late = start.has_passed()?;
                if repetitions == MOST_LATE || !is_late {
                    too_late[contender] += usize::from(is_late);
                    events.push((contender, start, end));
                    break;
                }
                repetitions += 1;
            }
        }
        for (contender, start, end) in events {
            let together = end.elapsed_since(&start)?;
            times[contender].push(together.div_f64(products[contender].max(1) as f64));
        }
        for (clocks, mhz) in clocks.iter_mut().zip(clock.mhz()?) {
            clocks.extend(mhz);
        }
    }
    let samples = times.into_iter().filter_map(Samples::new).zip(too_late).zip(clocks);
    let complete = |((samples, late), clocks): (_, Vec<f64>)| {
        let sm_mhz = aview1(&clocks).mean();
        Samples { late, sm_mhz, ..samples }
    };
    Ok(samples.map(complete).collect())
}

/// The order of contenders in each round, at random but always the same, without end. A card that is at its power limit
/// is slower behind who takes more of it than others, and of what a contender leaves in the L2 cache the next may find
/// some: who always followed the same other would be off by up to 1 %.
pub fn orders(contenders: usize) -> impl Iterator<Item = Vec<usize>> {
    let mut rng = rng(0, 0);
    std::iter::repeat_with(move || {
        let mut order: Vec<usize> = (0..contenders).collect();
        order.shuffle(&mut rng);
        order
    })
}

/// Work that keeps the device busy while the host queues a sample: for measurements that are not taken in the rounds of
/// [`alternate`].
pub struct Spacer {
    a: Matrix<f32>,
    b: Matrix<f32>,
    d: Matrix<f32>,
    repetitions: usize,
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
        Ok(Spacer { a: matrix()?, b: matrix()?, d: matrix()?, repetitions: 1 })
    }

    /// Puts the work on the stream: before the first event of a sample.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn enqueue(&mut self, stream: &Stream) -> Result<()> {
        for _ in 0..self.repetitions {
            let slowest = KernelChoice::Rung(regemm_kernels::kernel::Rung::Naive);
            Gemm::new(&self.a, &self.b).kernel(slowest).enqueue(stream, &mut self.d)?;
        }
        Ok(())
    }

    /// Repeats the work so often that it lasts while the host queues for this long.
    fn cover(&mut self, stream: &Stream, queueing: Duration) -> Result<()> {
        // The first run loads the kernel.
        self.enqueue(stream)?;
        let start = stream.record()?;
        self.enqueue(stream)?;
        let once = stream.record()?.elapsed_since(&start)?.as_secs_f64() / self.repetitions as f64;
        let needed = SPACER_RESERVE * queueing.as_secs_f64() / once.max(f64::MIN_POSITIVE);
        self.repetitions = needed.ceil().clamp(1.0, MOST_SPACERS) as usize;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Error};
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
        assert_eq!((samples.count(), samples.late()), (5, 0));
        let one = Samples::new(millis(&[7])).unwrap();
        assert_eq!([0.0, 0.5, 1.0].map(|q| one.quantile(q)), [Duration::from_millis(7); 3]);
        assert_eq!(Samples::new(Vec::new()), None);
    }

    #[test]
    fn quantiles_between_samples_are_interpolated() {
        let samples = Samples::new(millis(&[40, 10, 20, 30])).unwrap();
        assert_eq!(samples.median(), Duration::from_millis(25));
        assert_eq!(samples.quantile(0.25), Duration::from_micros(17_500));
        assert_eq!(samples.quantile(0.9), Duration::from_millis(37));
        assert_relative_eq!(samples.spread(), 15.0 / 25.0, max_relative = 1e-12);
        let ten = Samples::new(millis(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10])).unwrap();
        assert_eq!(ten.median(), Duration::from_micros(5_500));
        assert_eq!([-1.0, 2.0, f64::NAN].map(|q| ten.quantile(q).as_millis()), [1, 10, 1]);
    }

    #[test]
    fn short_products_share_a_sample() {
        assert_eq!([1.0, 150e-6, 149e-6].map(products_a_sample), [1, 1, 2]);
        assert_eq!([10e-6, 3e-6, 1e-9, 0.0].map(products_a_sample), [15, 50, 64, 64]);
    }

    #[test]
    fn none_always_follows_the_same_other() {
        const ROUNDS: usize = 400;
        for contenders in 2..6 {
            let mut follows = vec![vec![0; contenders]; contenders];
            let turns: Vec<usize> = orders(contenders).take(ROUNDS).flatten().collect();
            assert_eq!(turns.len(), ROUNDS * contenders);
            for pair in turns.windows(2) {
                follows[pair[1]][pair[0]] += 1;
            }
            // A contender follows itself only from one round to the next.
            let expected = ROUNDS / contenders;
            for (contender, follows) in follows.iter().enumerate() {
                let others = follows.iter().enumerate().filter(|&(other, _)| other != contender);
                for (other, &times) in others {
                    let message = format!("{contender} follows {other} {times} times");
                    assert!(times > expected * 7 / 10 && times < ROUNDS * 3 / 4, "{message}");
                }
            }
        }
    }

    #[test]
    fn the_simulator_gives_no_times() {
        let device = Device::sim();
        let stream = device.stream().unwrap();
        let mut rotation = Rotation::<f32>::of_product(&device, (8, 8, 8), 1).unwrap();
        let outcome = alternate::<Error>(&stream, &[1], Sampling::rounds(1), |_| {
            let OperandSet { a, b, d, .. } = rotation.next_set()?;
            Gemm::new(a, b).enqueue(&stream, d).map(drop)
        });
        assert!(matches!(outcome, Err(Error::NotMeasurable { .. })), "{outcome:?}");
    }
}
