//! Long turns: what contenders do on a device at the limit of its power that is theirs alone.
//!
//! The board limits a power that it averages over longer than a sample, so that contenders which alternate sample by
//! sample all run at one clock: what one of them saves of the power speeds up the others as well. A program has the
//! device for itself. So each contender multiplies by itself for a while, without a pause after the one before; in the
//! first half of its turn the board's control of the power settles on the new load, and the second half is measured.

use crate::contest::LEAST_AT_THE_LIMIT;
use crate::meter::{self, Meter};
use ndarray::aview1;
use regemm::Stream;
use regemm::measure::{Samples, SmClock, orders};
use regemm_report::versus::{Case, Group, Turn};
use std::time::Duration;

type Error = Box<dyn std::error::Error>;

/// Half a turn, in seconds: longer than the board takes to settle.
const HALF_SECONDS: f64 = 0.5;

/// One product that takes longer, in seconds, leaves too few of them in half a turn.
const MOST_SECONDS: f64 = 0.1;

/// Turns of each contender, of which one is the median.
const ROUNDS: usize = 5;

/// Products that are queued beyond the first half before the host waits for its end: some milliseconds of them, so that
/// the device does not run dry before the host goes on; but fewer than the queue of a stream holds.
const AHEAD_SECONDS: f64 = 10e-3;
const MOST_AHEAD: f64 = 256.0;

/// Between two readings of the power.
const READING_PAUSE: Duration = Duration::from_millis(20);

/// Whether a case is measured in turns whose slowest contender takes so many seconds: large squares, and those with an
/// epilogue.
pub fn is_measured(case: &Case, seconds: f64) -> bool {
    let is_of_group = matches!(case.group, Group::Squares | Group::Epilogue);
    let fits = seconds > 0.0 && seconds <= MOST_SECONDS;
    is_of_group && case.m >= LEAST_AT_THE_LIMIT && fits
}

/// How many products last so long, and at least one.
fn lasting(time: f64, seconds: f64) -> f64 {
    (time / seconds).ceil().max(1.0)
}

/// Measures contenders in long turns. `seconds` is about what a product of each takes; `enqueue(contender)` puts one on
/// the stream.
///
/// # Errors
/// A failure of the device, or what `enqueue` gives.
pub fn measure(
    case: &Case,
    stream: &Stream,
    meter: Option<&Meter>,
    seconds: &[f64],
    mut enqueue: impl FnMut(usize) -> Result<(), Error>,
) -> Result<Vec<Option<Turn>>, Error> {
    let contenders = seconds.len();
    let products: Vec<usize> =
        seconds.iter().map(|seconds| lasting(HALF_SECONDS, *seconds) as usize).collect();
    let mut clock = SmClock::new(stream.device(), contenders)?;
    let mut times = vec![Vec::new(); contenders];
    let mut clocks = vec![Vec::new(); contenders];
    let mut watts = vec![Vec::new(); contenders];
    for order in orders(contenders).take(ROUNDS) {
        for contender in order {
            let products = products[contender];
            let mut repeat = |times| (0..times).try_for_each(|_| enqueue(contender));
            repeat(products)?;
            clock.begin(stream, contender)?;
            let start = stream.record()?;
            let ahead = lasting(AHEAD_SECONDS, seconds[contender]).min(MOST_AHEAD) as usize;
            let ahead = ahead.min(products);
            repeat(ahead)?;
            start.synchronize()?;
            let rest = || -> Result<_, Error> {
                repeat(products - ahead)?;
                let end = stream.record()?;
                clock.end(stream, contender)?;
                clocks[contender].extend(clock.mhz()?[contender]);
                end.synchronize()?;
                Ok(end)
            };
            let (end, conditions) = meter::during(meter, READING_PAUSE, rest);
            times[contender].push(end?.elapsed_since(&start)?.div_f64(products as f64));
            watts[contender].extend(conditions.and_then(|conditions| conditions.watts));
        }
    }
    let turn = |contender: usize| {
        let samples = Samples::new(std::mem::take(&mut times[contender]))?;
        let seconds = samples.median().as_secs_f64();
        Some(Turn {
            microseconds: seconds * 1e6,
            tflops: case.flops() / seconds / 1e12,
            spread: samples.spread(),
            turns: samples.count(),
            products: products[contender],
            sm_mhz: aview1(&clocks[contender]).mean(),
            watts: aview1(&watts[contender]).mean(),
        })
    };
    Ok((0..contenders).map(turn).collect())
}
