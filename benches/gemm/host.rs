//! What a call costs the host: the time until the function that puts a product on a stream returns.

use crate::contest::Libraries;
use crate::library::{Addresses, Math, Product, Types, on};
use regemm::measure::{Rotation, Samples, SetLayout};
use regemm::{Dtype, Element, Gemm, Precision, Stream, Yields};
use regemm_report::versus::{CallCost, HostCost};
use std::time::{Duration, Instant};

type Error = Box<dyn std::error::Error>;

/// Rows, columns and depth: the device must be done with a product before the host has queued the next.
const SIZE: usize = 64;

/// Calls between two synchronisations: fewer than the queue of a stream holds, so that no call waits for room in it.
const CALLS: usize = 256;

/// Repetitions, in which the contenders alternate. The first is not counted.
const ROUNDS: usize = 21;

/// Times the calls of this library in a precision, and of the vendor's beside it.
///
/// # Errors
/// A failure of the device or of a library.
pub fn cost<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    stream: &Stream,
    libraries: &Libraries,
    (precision, math): (Precision, Math),
    seed: u64,
) -> Result<HostCost, Error> {
    let mut operands = Rotation::<T, D>::widening(stream.device(), seed);
    operands.fit(SetLayout::packed(SIZE, SIZE, SIZE))?;
    let mut set = operands.first_set()?;
    let (a, b, d) = (set.a.address(), set.b.address(), set.d.address());
    let addresses = Addresses { a, b, c: None, d };
    let types = Types { factors: T::DTYPE, results: D::DTYPE };
    let product = Product { math, ..Product::of(types, (SIZE, SIZE, SIZE)) };
    // A library that has no such product on this GPU is left out, as it is from the cases.
    let plan = libraries.lt.as_ref().ok().and_then(|lt| lt.plan(stream, &product, None).ok());
    let blas = libraries.blas.as_ref().ok().filter(|library| {
        // SAFETY: packed matrices of the product's shape, which outlive the synchronisation.
        let once = on(stream, |_| unsafe { library.call(&product, addresses) });
        once.is_ok() && stream.synchronize().is_ok()
    });

    let (mut own, mut of_lt, mut of_blas) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for _ in 0..CALLS {
            own.push(timed(|| {
                let gemm = Gemm::widening(set.a, set.b).precision(precision);
                gemm.enqueue(stream, &mut set.d).map(drop)
            })?);
        }
        stream.synchronize()?;
        if let Some(plan) = &plan {
            // SAFETY: packed matrices of the product's shape, which outlive the synchronisation below.
            let call = |raw| timed(|| unsafe { plan.call(0, raw, addresses) });
            on(stream, |raw| (0..CALLS).try_for_each(|_| call(raw).map(|time| of_lt.push(time))))?;
            stream.synchronize()?;
        }
        if let Some(library) = blas {
            // SAFETY: as above.
            let call = || timed(|| unsafe { library.call(&product, addresses) });
            on(stream, |_| (0..CALLS).try_for_each(|_| call().map(|time| of_blas.push(time))))?;
            stream.synchronize()?;
        }
    }
    let names = ["Gemm::enqueue", "cublasLtMatmul", blas_name(T::DTYPE, math)];
    let entries = names.into_iter().zip([own, of_lt, of_blas]);
    Ok(HostCost {
        size: SIZE,
        calls: CALLS * (ROUNDS - 1),
        entries: entries.filter_map(|(name, times)| call_cost(name, times)).collect(),
    })
}

/// How long a call takes that does not fail.
fn timed<E>(call: impl FnOnce() -> Result<(), E>) -> Result<Duration, E> {
    let start = Instant::now();
    call()?;
    Ok(start.elapsed())
}

fn call_cost(name: &str, times: Vec<Duration>) -> Option<CallCost> {
    let samples = Samples::new(times.into_iter().skip(CALLS).collect())?;
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
    Some(CallCost {
        name: name.to_owned(),
        median: microseconds(samples.median()),
        p95: microseconds(samples.quantile(0.95)),
    })
}

fn blas_name(dtype: Dtype, math: Math) -> &'static str {
    match (dtype, math) {
        (Dtype::F32, Math::AsTheyAre) => "cublasSgemm",
        (Dtype::F64, _) => "cublasDgemm",
        _ => "cublasGemmEx",
    }
}
