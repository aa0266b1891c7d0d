//! Products of batches whose matrices lie beside each other in the columns of one matrix, as the heads of attention do:
//! on the simulator, and on the first GPU if there is one.

mod gpu;

use regemm::ndarray::{Array2, s};
use regemm::{
    Accumulator, BatchView, BatchViewMut, Device, Element, Factor, Gemm, KernelChoice, KernelInfo,
    Matrix, Precision, Report, Result, Yields, bf16, f16, kernels,
};
use std::io::Write;
use std::num::NonZeroU32;

fn devices() -> Vec<Device> {
    gpu::with_simulator("batches side by side", |_| true)
}

/// The kernels that a device can run. Says of the others what they lack, past the harness, which keeps what tests print
/// to itself.
fn runnable(device: &Device) -> Vec<&'static KernelInfo> {
    let (kernels, left_out) = gpu::kernels(device);
    if left_out.count() > 0 {
        let _ = writeln!(std::io::stderr(), "of {} kernels {left_out}", device.info().name);
    }
    kernels
}

const HEADS: usize = 3;
const M: usize = 72;
const N: usize = 40;
const K: usize = 48;

fn narrow<T: Element>(value: f64) -> T {
    T::narrow(Accumulator::constant(value))
}

fn wide<T: Element>(matrix: &Array2<T>) -> Array2<f64> {
    matrix.map(|x| Accumulator::to_f64(x.widen()))
}

/// Columns between the matrices, and before the first one.
#[derive(Clone, Copy, Debug)]
struct Gaps {
    between: usize,
    before: usize,
}

/// What bulk copies can take, and bulk stores write, of any element type.
const WHOLE: Gaps = Gaps { between: 8, before: 16 };
const NONE: Gaps = Gaps { between: 0, before: 0 };
const ODD: Gaps = Gaps { between: 3, before: 1 };

/// The heads of a matrix, with the gaps around them.
struct Heads<T> {
    matrix: Matrix<T>,
    host: Array2<T>,
    cols: usize,
    gaps: Gaps,
}

impl<T: Element> Heads<T> {
    /// Of small integers, so that sums are exact, and of NaN in the gaps.
    fn new(device: &Device, rows: usize, cols: usize, gaps: Gaps, seed: usize) -> Self {
        let pitch = cols + gaps.between;
        let all = gaps.before + HEADS * pitch;
        let host = Array2::from_shape_fn((rows, all), |(i, j)| {
            let inside = j >= gaps.before && (j - gaps.before) % pitch < cols;
            narrow(if inside { ((i * 7 + j * 3 + seed * 5) % 5) as f64 - 2.0 } else { f64::NAN })
        });
        Heads { matrix: device.upload(&host.view()).unwrap(), host, cols, gaps }
    }

    fn pitch(&self) -> usize {
        self.cols + self.gaps.between
    }

    fn batch(&self) -> BatchView<'_, T> {
        let (rows, cols) = self.host.dim();
        let part = self.matrix.view().slice(0..rows, self.gaps.before..cols).unwrap();
        part.as_batch_of_cols(HEADS, self.cols, self.pitch()).unwrap()
    }

    fn batch_mut(&mut self) -> BatchViewMut<'_, T> {
        let ((rows, cols), pitch) = (self.host.dim(), self.pitch());
        let part = self.matrix.view_mut().slice(0..rows, self.gaps.before..cols).unwrap();
        part.into_batch_of_cols(HEADS, self.cols, pitch).unwrap()
    }

    fn head(&self, index: usize) -> Array2<T> {
        let first = self.gaps.before + index * self.pitch();
        self.host.slice(s![.., first..first + self.cols]).to_owned()
    }
}

/// A product of heads with a C of heads, which is checked; what is between the heads of D stays as it was.
fn check<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    device: &Device,
    kernel: &KernelInfo,
    gaps: Gaps,
    change: impl for<'a> FnOnce(Gemm<'a, T, D>) -> Gemm<'a, T, D>,
) -> Result<Report> {
    let (a_shape, b_shape) = (kernel.layouts.a.stored(M, K), kernel.layouts.b.stored(K, N));
    let a = Heads::<T>::new(device, a_shape.0, a_shape.1, gaps, 1);
    let b = Heads::<T>::new(device, b_shape.0, b_shape.1, gaps, 2);
    let c = Heads::<D>::new(device, M, N, gaps, 3);
    let mut d = Heads::<D>::new(device, M, N, gaps, 4);
    let factor_a = Factor::stored(a.batch(), kernel.layouts.a);
    let factor_b = Factor::stored(b.batch(), kernel.layouts.b);
    let two = Accumulator::constant(2.0);
    let report = change(Gemm::widening(factor_a, factor_b).c(two, c.batch())).run(d.batch_mut())?;

    let stored = |matrix: Array2<T>, shape: (usize, usize)| {
        let matrix = wide(&matrix);
        if matrix.dim() == shape { matrix } else { matrix.reversed_axes() }
    };
    let mut expected = wide(&d.host);
    for head in 0..HEADS {
        let product = stored(a.head(head), (M, K)).dot(&stored(b.head(head), (K, N)));
        let product = product + wide(&c.head(head)) * 2.0;
        let first = gaps.before + head * d.pitch();
        expected.slice_mut(s![.., first..first + N]).assign(&product);
    }
    let expected = expected.map(|&x| narrow::<D>(x));
    let found = d.matrix.to_array()?;
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let [found, expected] = [found, expected].map(|x| Accumulator::to_f64(x.widen()));
        let same = found == expected || (found.is_nan() && expected.is_nan());
        assert!(
            same,
            "{device:?}, {} {gaps:?}: element {at} is {found}, not {expected}",
            kernel.name
        );
    }
    Ok(report)
}

fn named(kernel: &KernelInfo) -> KernelChoice {
    KernelChoice::Named(kernel.name.into())
}

/// Kernels that fetch, multiply and store in every way there is: one of each family that the device can run.
#[test]
fn every_family_of_kernels_takes_and_writes_them() {
    fn of_types<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(device: &Device) -> usize {
        let of_types = |kernel: &&KernelInfo| (kernel.dtype, kernel.target) == (T::DTYPE, D::DTYPE);
        let mut families = Vec::new();
        for kernel in runnable(device).into_iter().filter(of_types) {
            let family = kernels::family_name(kernel);
            if !families.contains(&family) {
                families.push(family);
                for gaps in [WHOLE, ODD] {
                    check::<T, D>(device, kernel, gaps, |gemm| gemm.kernel(named(kernel))).unwrap();
                }
            }
        }
        families.len()
    }
    for device in devices() {
        let families = [
            of_types::<f32, f32>(&device),
            of_types::<f64, f64>(&device),
            of_types::<f16, f16>(&device),
            of_types::<bf16, f32>(&device),
        ];
        // Of some types the oldest GPUs have but two.
        let least = if device.is_sim() { 6 } else { 2 };
        assert!(families.iter().all(|&families| families >= least), "{device:?}: {families:?}");
    }
}

#[test]
fn bulk_copies_take_them_where_they_lie() {
    for device in devices() {
        for kernel in runnable(&device).into_iter().filter(|kernel| kernel.boxes.is_some()) {
            if kernels::family_name(kernel) != "warpgroup64" || kernel.dtype != bf16::DTYPE {
                continue;
            }
            for (gaps, repacked) in [(NONE, 0), (WHOLE, 0), (ODD, HEADS as u32)] {
                let report = if kernel.target == bf16::DTYPE {
                    check::<bf16, bf16>(&device, kernel, gaps, |gemm| gemm.kernel(named(kernel)))
                } else {
                    check::<bf16, f32>(&device, kernel, gaps, |gemm| gemm.kernel(named(kernel)))
                };
                let expected = kernels::Repack::new(repacked, repacked);
                assert_eq!(report.unwrap().repacked, expected, "{} {gaps:?}", kernel.name);
            }
        }
    }
}

#[test]
fn every_precision_takes_them() {
    let layouts = kernels::find("naive_f32").unwrap();
    let all = |(major, _): (u32, u32)| major == 9;
    for device in gpu::with_simulator("precisions of batches side by side", all) {
        for precision in
            [Precision::Exact, Precision::Split, Precision::Auto, Precision::Tf32, Precision::Fast]
        {
            for gaps in [WHOLE, ODD] {
                check::<f32, f32>(&device, layouts, gaps, |gemm| gemm.precision(precision))
                    .unwrap();
            }
        }
    }
}

#[test]
fn depth_may_be_split_among_blocks() {
    for device in devices() {
        let names = ["split_k_f32", "stream_k_f32"];
        for kernel in runnable(&device).into_iter().filter(|kernel| names.contains(&kernel.name)) {
            for slices in [1, 2, 5].map(|slices| NonZeroU32::new(slices).unwrap()) {
                check::<f32, f32>(&device, kernel, ODD, |gemm| {
                    gemm.kernel(named(kernel)).slices(slices)
                })
                .unwrap();
            }
        }
    }
}
