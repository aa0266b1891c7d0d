//! Short bursts: what contenders do on a device that has rested.
//!
//! Large products bring a GPU to the limit of its power within tenths of a second, and its clock falls further than at
//! once. What a program gets that multiplies now and then is what it does before that: each burst is a few milliseconds
//! of products of one contender, after a pause in which the device does nothing.

use crate::contest::LEAST_AT_THE_LIMIT;
use crate::meter::Meter;
use ndarray::aview1;
use regemm::Stream;
use regemm::measure::{Samples, SmClock, Spacer, orders};
use regemm_report::versus::{Burst, Case};
use std::thread;
use std::time::Duration;

type Error = Box<dyn std::error::Error>;

/// A burst takes about this long, in seconds; one product that takes longer than the second number is none.
const SECONDS: f64 = 5e-3;
const MOST_SECONDS: f64 = 50e-3;
/// Most products in a burst: fewer than the queue of a stream holds.
const MOST_PRODUCTS: f64 = 256.0;

/// Bursts of each contender.
const BURSTS: usize = 5;

/// Repetitions of the work before a burst: some 0.8 ms that take little power (H200). A call of the vendor's libraries
/// takes over 0.05 ms after a rest.
const SPACERS: usize = 16;

/// The device rests so long before each burst, and longer before the first one, after which it is no longer hot from
/// before.
const PAUSE: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_millis(1500);

/// How many products of a case that takes this long are a burst; none if it is not measured in bursts.
pub fn products(case: &Case, seconds: f64) -> Option<usize> {
    let is_large = case.is_square() && case.m >= LEAST_AT_THE_LIMIT;
    let fits = seconds > 0.0 && seconds <= MOST_SECONDS;
    (is_large && fits).then(|| (SECONDS / seconds).ceil().clamp(1.0, MOST_PRODUCTS) as usize)
}

/// Measures contenders in bursts of so many products, in rounds of drawn order. `enqueue(contender)` puts one product
/// on the stream.
///
/// # Errors
/// A failure of the device, or what `enqueue` gives.
pub fn measure(
    case: &Case,
    stream: &Stream,
    meter: Option<&Meter>,
    (contenders, products): (usize, usize),
    mut enqueue: impl FnMut(usize) -> Result<(), Error>,
) -> Result<Vec<Option<Burst>>, Error> {
    let mut spacer = Spacer::new(stream)?;
    let mut clock = SmClock::new(stream.device(), contenders)?;
    // Loads its kernel.
    spacer.enqueue(stream)?;
    stream.synchronize()?;
    let mut times = vec![Vec::new(); contenders];
    let mut late = vec![0; contenders];
    let mut clocks = vec![Vec::new(); contenders];
    let mut watts = vec![Vec::new(); contenders];
    thread::sleep(FIRST_PAUSE.saturating_sub(PAUSE));
    for order in orders(contenders).take(BURSTS) {
        for contender in order {
            thread::sleep(PAUSE);
            watts[contender].extend(meter.and_then(Meter::watts));
            // The first event has to wait until the first product is queued, or it would measure the host, which takes
            // longer after a rest.
            for _ in 0..SPACERS {
                spacer.enqueue(stream)?;
            }
            clock.begin(stream, contender)?;
            let start = stream.record()?;
            enqueue(contender)?;
            // Once more would be no burst after a rest, so that it is counted instead.
            late[contender] += usize::from(start.has_passed()?);
            for _ in 1..products {
                enqueue(contender)?;
            }
            let end = stream.record()?;
            clock.end(stream, contender)?;
            clocks[contender].extend(clock.mhz()?[contender]);
            times[contender].push(end.elapsed_since(&start)?.div_f64(products as f64));
        }
    }
    let burst = |contender: usize| {
        let samples = Samples::new(std::mem::take(&mut times[contender]))?;
        let seconds = samples.median().as_secs_f64();
        Some(Burst {
            microseconds: seconds * 1e6,
            tflops: case.flops() / seconds / 1e12,
            spread: samples.spread(),
            bursts: samples.count(),
            products,
            late: late[contender],
            watts_before: aview1(&watts[contender]).mean(),
            sm_mhz: aview1(&clocks[contender]).mean(),
        })
    };
    Ok((0..contenders).map(burst).collect())
}
