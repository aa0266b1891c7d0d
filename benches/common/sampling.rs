//! How samples are chosen: on a device whose clocks are up, and by the time that products take.

use crate::common::Failure;
use regemm::Stream;
use regemm::measure::{Sampling, alternate, products_a_sample};
use std::time::{Duration, Instant};

/// The device is kept busy for so long before times are taken: clocks go up.
const WARM_UP: Duration = Duration::from_millis(100);

/// Samples by which the time of a product is estimated.
const PILOT: Sampling = Sampling { warm_up: 1, rounds: 2 };

/// The vendor's algorithms are compared with one another for about this long, in seconds, by so many samples each.
const CHOICE_SECONDS: f64 = 2.0;
const CHOICE_ROUNDS: (f64, f64) = (2.0, 9.0);

/// How long products take, about.
pub struct Pilot {
    /// Products in a sample: the same for all contenders, whose times are compared.
    pub products: usize,
    /// One sample of each contender, in seconds.
    pub round: f64,
}

/// Brings the clocks up and estimates how long the products of so many contenders take. `enqueue(contender)` puts one
/// on the stream.
///
/// # Errors
/// A failure of the device, or what `enqueue` gives.
pub fn pilot(
    stream: &Stream,
    contenders: usize,
    mut enqueue: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<Pilot, Failure> {
    keep_busy(stream, &mut enqueue)?;
    let samples = alternate::<Failure>(stream, &vec![1; contenders], PILOT, &mut enqueue)?;
    let seconds = samples.iter().map(|samples| samples.median().as_secs_f64());
    let products = products_a_sample(seconds.clone().fold(f64::INFINITY, f64::min));
    Ok(Pilot { products, round: seconds.sum::<f64>() * products as f64 })
}

/// The fastest of the vendor's algorithms for a product, of which `enqueue(algorithm)` puts one on the stream; `None`
/// if none works.
///
/// # Errors
/// A failure of the device.
pub fn fastest_algorithm(
    stream: &Stream,
    algorithms: usize,
    mut enqueue: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<Option<usize>, Failure> {
    let working: Vec<usize> =
        (0..algorithms).filter(|&algorithm| enqueue(algorithm).is_ok()).collect();
    stream.synchronize()?;
    let Some(first) = working.first() else { return Ok(None) };
    let pilot = pilot(stream, 1, |_| enqueue(*first))?;
    let rounds = within(CHOICE_SECONDS / (working.len() as f64 * pilot.round), CHOICE_ROUNDS);
    let sampling = Sampling { warm_up: 1, rounds };
    let of_each = vec![pilot.products; working.len()];
    let samples =
        alternate::<Failure>(stream, &of_each, sampling, |index| enqueue(working[index]))?;
    let fastest = (0..working.len()).min_by_key(|&index| samples[index].median());
    Ok(fastest.map(|index| working[index]))
}

/// Runs the first contender until clocks are up.
fn keep_busy(
    stream: &Stream,
    enqueue: &mut impl FnMut(usize) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let start = Instant::now();
    while start.elapsed() < WARM_UP {
        enqueue(0)?;
        stream.synchronize()?;
    }
    Ok(())
}

/// A number rounded up and clamped; the least where it is no number.
pub fn within(value: f64, (least, most): (f64, f64)) -> usize {
    value.ceil().max(least).min(most) as usize
}
