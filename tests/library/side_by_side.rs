//! Batches whose matrices lie beside each other in the columns of one matrix, as the heads of attention do: which there
//! are, and products that read and write them.

use crate::kernel;
use regemm::ndarray::{Array2, Array3, Axis, s};
use regemm::{
    Accumulator, BatchView, BatchViewMut, Device, Element, Error, Factor, Gemm, KernelChoice,
    KernelInfo, Matrix, Operand, Precision, Report, Result, Yields, bf16, f16, kernels,
};
use std::num::NonZeroU32;

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
    kernel: &KernelInfo,
    gaps: Gaps,
    change: impl for<'a> FnOnce(Gemm<'a, T, D>) -> Gemm<'a, T, D>,
) -> Result<Report> {
    let device = Device::sim();
    let (a_shape, b_shape) = (kernel.layouts.a.stored(M, K), kernel.layouts.b.stored(K, N));
    let a = Heads::<T>::new(&device, a_shape.0, a_shape.1, gaps, 1);
    let b = Heads::<T>::new(&device, b_shape.0, b_shape.1, gaps, 2);
    let c = Heads::<D>::new(&device, M, N, gaps, 3);
    let mut d = Heads::<D>::new(&device, M, N, gaps, 4);
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
        assert!(same, "{} {gaps:?}: element {at} is {found}, not {expected}", kernel.name);
    }
    Ok(report)
}

fn named(kernel: &KernelInfo) -> KernelChoice {
    KernelChoice::Named(kernel.name.into())
}

/// Kernels that fetch, multiply and store in every way there is: one of each family.
#[test]
fn every_family_of_kernels_takes_and_writes_them() {
    fn of_types<T: Element + Yields<D>, D: Element<Acc = T::Acc>>() -> usize {
        let of_types = |kernel: &&KernelInfo| (kernel.dtype, kernel.target) == (T::DTYPE, D::DTYPE);
        let mut families = Vec::new();
        for kernel in kernels::kernels().iter().filter(of_types) {
            let family = kernels::family_name(kernel);
            if !families.contains(&family) {
                families.push(family);
                for gaps in [WHOLE, ODD] {
                    check::<T, D>(kernel, gaps, |gemm| gemm.kernel(named(kernel))).unwrap();
                }
            }
        }
        families.len()
    }
    let families = [
        of_types::<f32, f32>(),
        of_types::<f64, f64>(),
        of_types::<f16, f16>(),
        of_types::<bf16, f32>(),
    ];
    assert!(families.iter().all(|&families| families > 5), "{families:?}");
}

#[test]
fn bulk_copies_take_them_where_they_lie() {
    for kernel in kernels::kernels().iter().filter(|kernel| kernel.boxes.is_some()) {
        if kernels::family_name(kernel) != "warpgroup64" || kernel.dtype != bf16::DTYPE {
            continue;
        }
        for (gaps, repacked) in [(NONE, 0), (WHOLE, 0), (ODD, HEADS as u32)] {
            let report = if kernel.target == bf16::DTYPE {
                check::<bf16, bf16>(kernel, gaps, |gemm| gemm.kernel(named(kernel)))
            } else {
                check::<bf16, f32>(kernel, gaps, |gemm| gemm.kernel(named(kernel)))
            };
            let expected = kernels::Repack::new(repacked, repacked);
            assert_eq!(report.unwrap().repacked, expected, "{} {gaps:?}", kernel.name);
        }
    }
}

#[test]
fn every_precision_takes_them() {
    let layouts = kernels::find("naive_f32").unwrap();
    for precision in
        [Precision::Exact, Precision::Split, Precision::Auto, Precision::Tf32, Precision::Fast]
    {
        for gaps in [WHOLE, ODD] {
            check::<f32, f32>(layouts, gaps, |gemm| gemm.precision(precision)).unwrap();
        }
    }
}

#[test]
fn depth_may_be_split_among_blocks() {
    for name in ["split_k_f32", "stream_k_f32"] {
        let kernel = kernels::find(name).unwrap();
        for slices in [1, 2, 5].map(|slices| NonZeroU32::new(slices).unwrap()) {
            check::<f32, f32>(kernel, ODD, |gemm| gemm.kernel(named(kernel)).slices(slices))
                .unwrap();
        }
    }
}

#[test]
fn matrices_by_columns() {
    let device = Device::sim();
    let array = crate::integers(4, 11, 0);
    let mut matrix = device.upload(&array.view()).unwrap();
    // Queries, keys and values of two heads side by side, say.
    let keys = matrix.view().slice(0..4, 1..11).unwrap().as_batch_of_cols(2, 2, 5).unwrap();
    assert_eq!((keys.count(), keys.rows(), keys.cols()), (2, 4, 2));
    assert_eq!((keys.ld(), keys.stride()), (11, 5));
    for (i, first) in [(0, 1), (1, 6)] {
        let expected = array.slice(s![.., first..first + 2]);
        assert_eq!(keys.matrix(i).unwrap().to_array().unwrap(), expected);
        assert_eq!(keys.to_array().unwrap().index_axis(Axis(0), i), expected);
    }
    // Those that are only read may overlap.
    assert_eq!(matrix.view().as_batch_of_cols(6, 6, 1).unwrap().count(), 6);

    let mut parts = matrix.view_mut().into_batch_of_cols(2, 3, 7).unwrap();
    parts.copy_from(&Array3::zeros((2, 4, 3)).view()).unwrap();
    let mut one = parts.reborrow().into_matrix(1).unwrap();
    one.copy_from(&Array2::ones((4, 3)).view()).unwrap();
    let mut expected = array.clone();
    expected.slice_mut(s![.., 0..3]).fill(0.0);
    expected.slice_mut(s![.., 7..10]).fill(1.0);
    assert_eq!(matrix.to_array().unwrap(), expected);

    let range = |result: Result<()>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Range { axis: "columns", len: 11, .. }), "{error}");
    };
    range(matrix.view().as_batch_of_cols(3, 4, 4).map(drop));
    range(matrix.view().as_batch_of_cols(usize::MAX, 4, usize::MAX).map(drop));
    range(matrix.view_mut().into_batch_of_cols(1, 12, 0).map(drop));
    let error = matrix.view_mut().into_batch_of_cols(3, 4, 3).map(drop).unwrap_err();
    let Error::BatchStride { stride: 3, cols: 4, ld: 11, .. } = error else { panic!("{error}") };
    assert!(error.to_string().contains("at least 4 and all side by side in the 11"), "{error}");
    // One needs no distance, and none at all lie anywhere.
    assert_eq!(matrix.view_mut().into_batch_of_cols(1, 4, usize::MAX).unwrap().count(), 1);
    assert_eq!(matrix.view().as_batch_of_cols(0, 11, 9).unwrap().count(), 0);
    let error = matrix.view().as_batch_of_cols(0, 12, 9).map(drop).unwrap_err();
    assert!(matches!(error, Error::LeadingDimension { ld: 11, cols: 12 }), "{error}");
}

#[test]
fn a_batch_may_own_them() {
    let device = Device::sim();
    let mut batch = device.batch_with_strides::<f32>(3, 2, 2, 7, 2).unwrap();
    batch.write_raw(&[9.0; 14]).unwrap();
    let array = Array3::from_shape_fn((3, 2, 2), |(c, i, j)| (c * 4 + i * 2 + j) as f32);
    batch.copy_from(&array.view()).unwrap();
    assert_eq!(batch.to_array().unwrap(), array);
    let raw = batch.read_raw().unwrap();
    assert_eq!(raw, [0., 1., 4., 5., 8., 9., 9., 2., 3., 6., 7., 10., 11., 9.]);
    let error = batch.write_raw(&[0.0; 6]).unwrap_err();
    assert!(matches!(error, Error::SliceLength { found: 6, needed: 14, .. }), "{error}");
    let error = device.batch_with_strides::<f32>(4, 2, 2, 7, 2).map(drop).unwrap_err();
    assert!(matches!(error, Error::BatchStride { stride: 2, needed: 9, .. }), "{error}");
}

/// Memory of others is known by addresses alone.
#[test]
fn from_addresses() {
    let device = Device::sim();
    let mut memory = device.upload(&crate::integers(5, 12, 1).view()).unwrap();
    let at = memory.address();
    // SAFETY: inside the matrix, which is used by nobody else meanwhile.
    let heads =
        |stride| unsafe { BatchViewMut::<f32>::from_raw(&device, at, 3, (5, 4), 12, stride) };
    heads(4).unwrap().copy_from(&Array3::ones((3, 5, 4)).view()).unwrap();
    assert!(matches!(heads(3), Err(Error::BatchStride { .. })));
    assert!(matches!(heads(5), Err(Error::BatchStride { .. })), "the last one would not fit");
    assert!(memory.to_array().unwrap().iter().all(|&x| x == 1.0));
    memory.copy_from(&Array2::zeros((5, 12)).view()).unwrap();
}

/// Parts of one matrix share no memory where the borrows say so, however they interleave.
#[test]
fn operands_may_interleave() {
    let device = Device::sim();
    let ones = Array3::<f32>::ones((3, 4, 4));
    let b = device.upload_batch(&ones.view()).unwrap();
    // Two halves, each of which is a batch by rows.
    let mut matrix = device.upload(&Array2::<f32>::ones((12, 8)).view()).unwrap();
    let (left, right) = matrix.view_mut().split_at_col(4).unwrap();
    let (a, mut d) = (left.into_batch(3, 4, 4).unwrap(), right.into_batch(3, 4, 4).unwrap());
    Gemm::new(&a, &b).kernel(kernel()).run(&mut d).unwrap();
    Gemm::new(&b, &b).c(1.0, &a).kernel(kernel()).run(&mut d).unwrap();
    assert!(d.view().to_array().unwrap().iter().all(|&x| x == 5.0));

    // Two parts of each head: read from the one, written to the other.
    let memory = device.upload(&Array2::<f32>::ones((4, 3 * 8)).view()).unwrap();
    let part = |first: u64| {
        let address = memory.address() + first * 4;
        // SAFETY: inside the matrix, which is used by nobody else meanwhile.
        unsafe { BatchViewMut::<f32>::from_raw(&device, address, 3, (4, 4), 24, 8) }.unwrap()
    };
    Gemm::new(&part(0), &b).kernel(kernel()).run(part(4)).unwrap();
    let found = memory.to_array().unwrap();
    let expected = |j: usize| if j % 8 < 4 { 1.0 } else { 4.0 };
    assert!(found.indexed_iter().all(|((_, j), &x)| x == expected(j)));
    for first in [1, 3, 5] {
        let error = Gemm::new(&part(0), &b).kernel(kernel()).run(part(first)).unwrap_err();
        assert!(matches!(error, Error::Overlap { operand: Operand::A, .. }), "{error}");
    }
}
