//! Measuring all kernels on a shape.
//!
//! Times are taken as [`crate::measure`] says. All kernels get a sample; those that are far from the fastest get no
//! more, those that are not near it a few, the others as many as their time allows. Times of short products are of
//! several launched one after another, as programs have them. Each result is compared with that of the first kernel,
//! bit by bit if both sum in the same order, so that a kernel that is wrong on this device is never chosen for being
//! fast.

use super::class::Shape;
use super::table::{Entry, Table, Time};
use crate::device::Device;
use crate::device::stream::Stream;
use crate::error::{Error, Result};
use crate::gemm::{Factor, Gemm, KernelChoice};
use crate::kernels::{Problem, Types, kernels_for, supports};
use crate::matrix::bytes_of;
use crate::matrix::view::MatrixView;
use crate::measure::{
    OperandSet, Part, Rotation, Samples, Sampling, SetLayout, alternate, products_a_sample,
};
use crate::verify::{Format, relative_difference};
use ndarray::Array2;
use regemm_kernels::element::{Accumulator, Dtype, Element, Yields};
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::layout::Layouts;
use std::num::NonZeroUsize;

/// Kernels that take longer than the fastest by this factor, and than so many seconds, get no sample but their first:
/// what the lowest rungs of the ladder take for large products is most of what a table takes. A single short one says
/// little.
const FAR: f64 = 4.0;
const LONG_SECONDS: f64 = 2e-3;

/// Samples of all others.
const FIRST_SAMPLES: usize = 3;

/// Of those, kernels that take longer than the fastest by this factor get no more.
const HOPELESS: f64 = 1.5;

/// Each of the others gets samples for this long, in seconds, but at most this many times the least number.
const SAMPLING_SECONDS: f64 = 30e-3;
const MOST_TIMES_LEAST: usize = 3;

/// Rows and columns at the end of D, where tiles are cut, that are compared between kernels.
const COMPARED: usize = 256;

/// The times of one kernel on one shape.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The kernel.
    pub kernel: &'static KernelInfo,
    /// Its times.
    pub samples: Samples,
}

/// An entry for a table: medians.
pub fn entry(shape: Shape, measured: &[Measured]) -> Entry {
    let time = |Measured { kernel, samples }: &Measured| Time {
        kernel,
        seconds: samples.median().as_secs_f64(),
    };
    Entry { shape, times: measured.iter().map(time).collect() }
}

/// A kernel and how many of its products make a sample.
struct Contender {
    kernel: &'static KernelInfo,
    products: usize,
}

/// Measures kernels with factors of `T` and results of `D` on a device; keeps the memory of its operands from shape to
/// shape.
pub struct Meter<T, D = T> {
    device: Device,
    stream: Stream,
    samples: usize,
    operands: Rotation<T, D>,
}

impl<T: Element + Yields<D>, D: Element<Acc = T::Acc>> Meter<T, D> {
    const TYPES: Types = Types { factors: T::DTYPE, results: D::DTYPE };

    /// Takes at least `samples` samples of each kernel that comes close to the fastest.
    ///
    /// # Errors
    /// [`Error::NotMeasurable`] on the simulator, or a failure of the device.
    pub fn new(device: &Device, samples: NonZeroUsize, seed: u64) -> Result<Meter<T, D>> {
        if device.is_sim() {
            return Err(Error::NotMeasurable {
                why: "the simulator counts work and has no clock".into(),
            });
        }
        let operands = Rotation::widening(device, seed);
        let (stream, device) = (device.stream()?, device.clone());
        Ok(Meter { device, stream, samples: samples.get(), operands })
    }

    /// The times of all kernels for factors in these layouts that the device can run; none for a shape without
    /// elements.
    ///
    /// # Errors
    /// The device can run none, has no room for the operands, or fails.
    pub fn measure(&mut self, layouts: Layouts, shape: Shape) -> Result<Vec<Measured>> {
        if shape.m == 0 || shape.n == 0 || shape.k == 0 {
            return Ok(Vec::new());
        }
        let layout = layout::<T>(layouts, shape);
        self.operands.fit(layout)?;
        let contenders = self.agreeing(&layout, shape, self.runnable(layouts, shape)?)?;
        let all: Vec<Contender> =
            contenders.into_iter().map(|kernel| Contender { kernel, products: 1 }).collect();
        // Once before: what a kernel allocates at its first launch on a stream the host waits for, and takes up to 20
        // times as long.
        let first = self.sample(&all, Sampling { warm_up: 1, rounds: 1 })?;
        let (_, fastest) = seconds_of(&first);
        let (far, all): (Vec<_>, Vec<_>) = all
            .into_iter()
            .zip(first)
            .partition(|(_, first)| is_far(first.median().as_secs_f64(), fastest));
        let all = Vec::from_iter(all.into_iter().map(|(contender, _)| contender));
        let first = self.sample(&all, Sampling::rounds(FIRST_SAMPLES))?;
        let (seconds, fastest) = seconds_of(&first);
        let affordable =
            (SAMPLING_SECONDS / (fastest * products_a_sample(fastest) as f64)) as usize;
        let most = affordable.clamp(self.samples, self.samples * MOST_TIMES_LEAST);

        let far = far.into_iter();
        let mut measured = Vec::from_iter(
            far.map(|(Contender { kernel, .. }, samples)| Measured { kernel, samples }),
        );
        let (mut hopeful, mut hopeless) = (Vec::new(), Vec::new());
        for ((Contender { kernel, .. }, first), seconds) in all.into_iter().zip(first).zip(seconds)
        {
            let contender = Contender { kernel, products: products_a_sample(seconds) };
            if seconds <= HOPELESS * fastest {
                hopeful.push(contender);
            } else if contender.products > 1 {
                hopeless.push(contender);
            } else {
                measured.push(Measured { kernel, samples: first });
            }
        }
        for (contenders, samples) in [(hopeless, FIRST_SAMPLES), (hopeful, most)] {
            let samples = self.sample(&contenders, Sampling::rounds(samples))?;
            let kernels = contenders.into_iter().map(|contender| contender.kernel);
            let pairs = kernels.zip(samples);
            measured.extend(pairs.map(|(kernel, samples)| Measured { kernel, samples }));
        }
        Ok(measured)
    }

    /// The kernels that the device can run, compiled.
    ///
    /// # Errors
    /// The first kernel's reason where there are none.
    fn runnable(&self, layouts: Layouts, shape: Shape) -> Result<Vec<&'static KernelInfo>> {
        let Shape { m, n, k, .. } = shape;
        let problem = Problem::packed(Self::TYPES, (m, n, k), layouts);
        let runs = |kernel: &'static KernelInfo| {
            supports(kernel, &problem, self.device.info())?;
            self.device.kernel_report(kernel).map(|_| kernel)
        };
        let (mut runnable, mut first) = (Vec::new(), None);
        for kernel in kernels_for(Self::TYPES, layouts) {
            match runs(kernel) {
                Ok(kernel) => runnable.push(kernel),
                Err(why) => first = first.or(Some(why)),
            }
        }
        match first {
            Some(why) if runnable.is_empty() => Err(why),
            _ => Ok(runnable),
        }
    }

    /// Those whose result agrees with the first one's.
    fn agreeing(
        &mut self,
        layout: &SetLayout,
        shape: Shape,
        kernels: Vec<&'static KernelInfo>,
    ) -> Result<Vec<&'static KernelInfo>> {
        let end = |len: usize| len.saturating_sub(COMPARED)..len;
        let (rows, cols) = (end(layout.d.rows), end(layout.d.cols));
        // What no product of these operands is.
        let nan = D::narrow(D::Acc::constant(f64::NAN));
        let poison = Array2::from_elem((rows.len(), cols.len()), nan);
        let mut first: Option<(&'static KernelInfo, Vec<D>)> = None;
        let mut agreeing = Vec::with_capacity(kernels.len());
        for kernel in kernels {
            let OperandSet { a, b, mut d, .. } = self.operands.first_set()?;
            d.reborrow().slice(rows.clone(), cols.clone())?.copy_from(&poison.view())?;
            product(kernel, [a, b]).run(d.reborrow())?;
            let result = d.view().slice(rows.clone(), cols.clone())?.to_vec()?;
            let (reference, expected) = first.get_or_insert_with(|| (kernel, result.clone()));
            let same_order =
                (kernel.summation, kernel.schedule) == (reference.summation, reference.schedule);
            let same_bits = bytes_of(&result) == bytes_of(expected);
            if same_bits || !same_order && are_close(T::DTYPE, &result, expected, shape.k as usize)
            {
                agreeing.push(kernel);
            } else {
                log::warn!(
                    "{} is wrong on {}: it is not used",
                    kernel.name,
                    self.device.info().name
                );
            }
        }
        Ok(agreeing)
    }

    /// Samples of each of these contenders.
    fn sample(&mut self, contenders: &[Contender], sampling: Sampling) -> Result<Vec<Samples>> {
        let Meter { stream, operands, .. } = self;
        let products = Vec::from_iter(contenders.iter().map(|contender| contender.products));
        alternate::<Error>(stream, &products, sampling, |contender| {
            let OperandSet { a, b, d, .. } = operands.next_set()?;
            product(contenders[contender].kernel, [a, b]).enqueue(stream, d).map(drop)
        })
    }
}

/// The product of factors that are stored as a kernel takes them.
fn product<'a, T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    kernel: &'static KernelInfo,
    [a, b]: [MatrixView<'a, T>; 2],
) -> Gemm<'a, T, D> {
    let Layouts { a: of_a, b: of_b } = kernel.layouts;
    let gemm = Gemm::widening(Factor::stored(a, of_a), Factor::stored(b, of_b));
    gemm.kernel(KernelChoice::Info(kernel))
}

/// The medians, and the least of them.
fn seconds_of(samples: &[Samples]) -> (Vec<f64>, f64) {
    let seconds = Vec::from_iter(samples.iter().map(|samples| samples.median().as_secs_f64()));
    let fastest = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    (seconds, fastest)
}

/// Whether a kernel's first time says enough.
fn is_far(seconds: f64, fastest: f64) -> bool {
    seconds > FAR * fastest && seconds > LONG_SECONDS
}

/// Products of half precision that a tensor core adds to a sum at a time (PTX ISA, matrix shapes `k16`), and then
/// truncates it.
const ADDED_AT_ONCE: usize = 16;

/// Whether results that were summed in different orders differ by no more than that explains. The errors of sums of `k`
/// random terms grow with the square root of `k` (Higham and Mary, "A New Approach to Probabilistic Rounding Error
/// Analysis", SIAM J. Sci. Comput. 41, 2019), relative to the norm of the result, and elements are rounded once more;
/// twice that for each of the two. Where tensor cores truncate sums all errors have one sign, and grow with their
/// number: a third of a unit roundoff each, as measured.
fn are_close<D: Element>(factors: Dtype, result: &[D], expected: &[D], k: usize) -> bool {
    let truncated = match factors {
        Dtype::F16 | Dtype::Bf16 => k.div_ceil(ADDED_AT_ONCE) as f64 / 3.0,
        Dtype::F32 | Dtype::F64 => 0.0,
    };
    let roundings = (k as f64).sqrt() + truncated;
    let sums = Format::of_sums(factors).unit_roundoff * roundings;
    let elements = Format::of_elements(D::DTYPE).unit_roundoff;
    let values = |elements: &[D]| elements.iter().map(|x| x.widen().to_f64()).collect::<Vec<_>>();
    let pairs = values(result).into_iter().zip(values(expected));
    relative_difference(pairs) <= 2.0 * (2.0 * sums + elements)
}

/// Of matrices that make a product of this shape.
fn layout<T: Element>(layouts: Layouts, shape: Shape) -> SetLayout {
    let [m, n, k] = [shape.m, shape.n, shape.k].map(|size| size as usize);
    // Rows of whole vectors lose their alignment by a leading dimension that is none.
    let packed = Shape::packed_in(layouts, T::DTYPE, shape.m, shape.n, shape.k);
    debug_assert!(packed.aligned || !shape.aligned, "no factors in {layouts} have rows of vectors");
    let gap = usize::from(packed.aligned && !shape.aligned);
    let part = |Part { rows, cols, ld }| Part { rows, cols, ld: ld + gap };
    let SetLayout { a, b, c, d } = SetLayout::packed_in(layouts, m, n, k);
    SetLayout { a: part(a), b: part(b), c, d: part(d) }
}

/// Measures one shape on a device, for a table.
pub(super) fn measure_once(
    device: &Device,
    (types, layouts): (Types, Layouts),
    shape: Shape,
    samples: NonZeroUsize,
) -> Result<Table> {
    fn measure<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
        device: &Device,
        layouts: Layouts,
        shape: Shape,
        samples: NonZeroUsize,
    ) -> Result<Entry> {
        let mut meter = Meter::<T, D>::new(device, samples, 0)?;
        Ok(entry(shape, &meter.measure(layouts, shape)?))
    }
    let mut table = Table::in_layouts(types, layouts);
    table.insert(crate::with_types!(types, measure(device, layouts, shape, samples))?);
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn operands_are_laid_out_as_their_shape_says() {
        for (dtype_aligned, shape_aligned) in [(true, true), (true, false), (false, false)] {
            let n = if dtype_aligned { 64 } else { 63 };
            let shape = Shape { m: 100, n, k: 32, aligned: shape_aligned };
            let SetLayout { a, b, d, .. } = layout::<f32>(Layouts::NN, shape);
            assert_eq!([a.rows, a.cols, b.rows, b.cols], [100, 32, 32, n as usize]);
            let vectors = |part: &Part| Shape::has_vectors(Dtype::F32, 0, part.cols, part.ld);
            assert_eq!(vectors(&a) && vectors(&b) && vectors(&d), shape_aligned, "{n}");
            let SetLayout { a, b, .. } = layout::<f32>(Layouts::TT, shape);
            assert_eq!([a.rows, a.cols, b.rows, b.cols], [32, 100, n as usize, 32]);
            if dtype_aligned {
                assert_eq!(vectors(&a) && vectors(&b), shape_aligned, "transposed");
            }
        }
    }

    #[test]
    fn what_is_slow_and_long_is_measured_once() {
        let far = |micros: f64, fastest: f64| is_far(micros * 1e-6, fastest * 1e-6);
        assert!(far(40_000.0, 900.0) && far(2001.0, 500.0));
        assert!(!far(2001.0, 510.0), "not that slow");
        assert!(!far(150.0, 15.0), "not that long");
    }

    #[test]
    fn the_simulator_is_not_measured() {
        let meter = Meter::<f32>::new(&Device::sim(), NonZeroUsize::MIN, 0);
        assert!(matches!(meter.err(), Some(Error::NotMeasurable { .. })));
    }

    #[test]
    fn results_of_other_orders_are_close_and_wrong_ones_are_not() {
        const K: usize = 4096;
        let expected: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.7).sin() * 64.0).collect();
        let scaled = |factor: f32| Vec::from_iter(expected.iter().map(|x| x * factor));
        assert!(are_close(Dtype::F32, &expected, &expected, K));
        assert!(are_close(Dtype::F32, &scaled(1.0 + 2e-6), &expected, K));
        assert!(!are_close(Dtype::F32, &scaled(1.0 + 1e-4), &expected, K));
        let mut one_missing = expected.clone();
        one_missing[7] = 0.0;
        assert!(!are_close(Dtype::F32, &one_missing, &expected, K));
        let mut undefined = expected.clone();
        undefined[7] = f32::NAN;
        assert!(!are_close(Dtype::F32, &undefined, &expected, K));
        assert!(
            are_close(Dtype::Bf16, &scaled(1.0 - 7.3e-5), &expected, 65_536),
            "what 4096 truncations take away, on an H200"
        );
        assert!(!are_close(Dtype::Bf16, &scaled(1.0 - 5e-4), &expected, 65_536));
        let half = |values: &[f32]| Vec::from_iter(values.iter().map(|x| f16::from_f32(*x)));
        assert!(are_close(Dtype::F16, &half(&scaled(1.0 + 1e-4)), &half(&expected), K));
        assert!(!are_close(Dtype::F16, &half(&one_missing), &half(&expected), K));
    }
}
