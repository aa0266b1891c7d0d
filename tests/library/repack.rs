//! Factors that bulk copies cannot take: what is repacked and what is not, the memory for it, and the products.

use regemm::kernels::{self, LaunchShape, Problem, Repack};
use regemm::ndarray::{Array2, Array3, ArrayView2, Axis};
use regemm::{
    BatchView, Device, Element, Error, Factor, Gemm, KernelChoice, KernelInfo, Layout, Layouts,
    MatrixView, Report, Rung, WorkspaceSize, bf16, f16,
};

const M: usize = 70;
const N: usize = 90;
const K: usize = 75;

/// The smallest kernel that makes bulk copies.
fn warpgroup() -> KernelChoice {
    KernelChoice::Named("warpgroup64".into())
}

/// Small integers, so that products are exact in half precision.
fn integers<T: Element>(count: usize, rows: usize, cols: usize, seed: usize) -> Array3<T> {
    Array3::from_shape_fn((count, rows, cols), |(c, i, j)| {
        let value = ((c * 13 + i * 7 + j * 3 + seed * 5) % 5) as f64 - 2.0;
        T::narrow(regemm::Accumulator::constant(value))
    })
}

/// The product as elements of this type, of sums that are exact.
fn exact<T: Element>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Array2<f64> {
    let wide = |x: &T| regemm::Accumulator::to_f64(x.widen());
    let narrow = |x: &f64| wide(&T::narrow(regemm::Accumulator::constant(*x)));
    a.map(wide).dot(&b.map(wide)).map(narrow)
}

/// `count` matrices in a larger one that is NaN around them: as they are stored, `left` elements from the beginning of
/// its rows, which are `ld` long, and `pitch` rows apart.
#[derive(Clone, Copy)]
struct Place {
    left: usize,
    ld: usize,
    pitch: usize,
}

fn place<T: Element>(
    device: &Device,
    matrices: &Array3<T>,
    layout: Layout,
    place: Place,
) -> regemm::Matrix<T> {
    let Place { left, ld, pitch } = place;
    let nan = T::narrow(regemm::Accumulator::constant(f64::NAN));
    let mut all = Array2::from_elem((matrices.dim().0 * pitch, ld), nan);
    for (index, matrix) in matrices.outer_iter().enumerate() {
        let stored = if layout == Layout::RowMajor { matrix } else { matrix.reversed_axes() };
        for ((row, col), x) in stored.indexed_iter() {
            all[(index * pitch + row, left + col)] = *x;
        }
    }
    device.upload(&all.view()).unwrap()
}

/// A single product of factors in these places, checked.
fn single<T: Element>(layouts: Layouts, of_a: Place, of_b: Place) -> Report {
    let device = Device::sim();
    let (a, b) = (integers::<T>(1, M, K, 1), integers::<T>(1, K, N, 2));
    let (in_a, in_b) = (place(&device, &a, layouts.a, of_a), place(&device, &b, layouts.b, of_b));
    fn part<T: Element>(
        matrix: &regemm::Matrix<T>,
        shape: (usize, usize),
        left: usize,
    ) -> MatrixView<'_, T> {
        matrix.view().slice(0..shape.0, left..left + shape.1).unwrap()
    }
    let part_a = part(&in_a, layouts.a.stored(M, K), of_a.left);
    let part_b = part(&in_b, layouts.b.stored(K, N), of_b.left);
    let mut d = device.matrix::<T>(M, N).unwrap();
    let (factor_a, factor_b) =
        (Factor::stored(part_a, layouts.a), Factor::stored(part_b, layouts.b));
    let report = Gemm::new(factor_a, factor_b).kernel(warpgroup()).run(&mut d).unwrap();
    let expected = exact(a.index_axis(Axis(0), 0), b.index_axis(Axis(0), 0));
    let found = d.to_array().unwrap().map(|x| regemm::Accumulator::to_f64(x.widen()));
    assert_eq!(found, expected, "{layouts}");
    report
}

/// Rows in a place where bulk copies can take them, and in two where they cannot.
const ALIGNED: Place = Place { left: 8, ld: 128, pitch: 90 };
const ODD_ROWS: Place = Place { left: 0, ld: 101, pitch: 90 };
const ODD_START: Place = Place { left: 3, ld: 128, pitch: 90 };

fn elements_loaded<T>(report: &Report) -> usize {
    report.counters.unwrap().global_load_bytes as usize / size_of::<T>()
}

#[test]
fn each_factor_is_repacked_if_it_must_be_and_not_otherwise() {
    fn check<T: Element>() {
        for layouts in Layouts::ALL {
            let in_place = single::<T>(layouts, ALIGNED, ALIGNED);
            for (a, b, repacked) in [
                (ALIGNED, ALIGNED, (0, 0)),
                (ODD_ROWS, ALIGNED, (1, 0)),
                (ALIGNED, ODD_START, (0, 1)),
                (ODD_START, ODD_ROWS, (1, 1)),
            ] {
                let report = single::<T>(layouts, a, b);
                assert_eq!(report.repacked, Repack::new(repacked.0, repacked.1), "{layouts}");
                // Beside what the kernel loads anyway each element that is repacked is loaded at least once, in one or
                // two vectors.
                let elements = repacked.0 as usize * M * K + repacked.1 as usize * K * N;
                let loaded = elements_loaded::<T>(&report) - elements_loaded::<T>(&in_place);
                assert!((elements..=2 * elements).contains(&loaded), "{layouts}: {loaded}");
            }
        }
    }
    check::<f16>();
    check::<bf16>();
}

#[test]
fn batches_are_repacked_by_matrices_and_what_is_shared_once() {
    const COUNT: usize = 3;
    let device = Device::sim();
    // Rows of whole vectors and others, in matrices that lie apart, and in ones that share rows with their neighbours.
    for (pitch, ld, repacked) in [(90, 96, 0), (90, 97, COUNT), (40, 97, COUNT), (40, 96, COUNT)] {
        for shared in [(false, false), (true, false), (false, true), (true, true)] {
            let stored = |rows, cols, seed| -> (regemm::Matrix<bf16>, Vec<Array2<bf16>>) {
                let all = integers::<bf16>(1, (COUNT - 1) * pitch + rows, ld, seed);
                let all = all.index_axis_move(Axis(0), 0);
                let matrix = |i: usize| {
                    all.slice(regemm::ndarray::s![i * pitch..i * pitch + rows, ..cols]).to_owned()
                };
                (device.upload(&all.view()).unwrap(), (0..COUNT).map(matrix).collect())
            };
            let ((in_a, a), (in_b, b)) = (stored(M, K, 3), stored(K, N, 4));
            let batch = |matrix, rows, cols| -> BatchView<'_, bf16> {
                let matrix: &regemm::Matrix<bf16> = matrix;
                let view = matrix.view().slice(0..matrix.rows(), 0..cols).unwrap();
                view.as_batch(COUNT, rows, pitch).unwrap()
            };
            let (batch_a, batch_b) = (batch(&in_a, M, K), batch(&in_b, K, N));
            let mut d = device.batch::<bf16>(COUNT, M, N).unwrap();
            let factor_a: Factor<'_, bf16> =
                if shared.0 { batch_a.matrix(0).unwrap().into() } else { batch_a.into() };
            let factor_b: Factor<'_, bf16> =
                if shared.1 { batch_b.matrix(0).unwrap().into() } else { batch_b.into() };
            let gemm = Gemm::new(factor_a, factor_b).kernel(warpgroup());
            let report = gemm.run(&mut d).unwrap();
            let found = d.to_array().unwrap();
            for (i, found) in found.outer_iter().enumerate() {
                let (of_a, of_b) = (if shared.0 { 0 } else { i }, if shared.1 { 0 } else { i });
                let found = found.map(|x| f64::from(x.to_f32()));
                assert_eq!(
                    found,
                    exact(a[of_a].view(), b[of_b].view()),
                    "{pitch}, {ld}, {shared:?}"
                );
            }
            // One that is shared has no distance to others.
            let of = |shared| match (shared, ld) {
                (true, 97) => 1,
                (true, _) => 0,
                (false, _) => repacked as u32,
            };
            assert_eq!(report.repacked, Repack::new(of(shared.0), of(shared.1)));
        }
    }
}

#[test]
fn nothing_is_repacked_for_other_kernels_or_where_nothing_is_multiplied() {
    let device = Device::sim();
    let upload = |rows, cols, seed| {
        let array = integers::<f16>(1, rows, cols, seed).index_axis_move(Axis(0), 0);
        device.upload(&array.view()).unwrap()
    };
    let (a, b) = (upload(M, K, 1), upload(K, N - 1, 2));
    let mut d = device.matrix(M, N - 1).unwrap();
    let tensor_core = KernelChoice::Rung(Rung::TensorCore);
    let report = Gemm::new(&a, &b).kernel(tensor_core.clone()).run(&mut d).unwrap();
    assert_eq!(report.repacked, Repack::default());
    let gemm = Gemm::new(&a, &b).kernel(warpgroup());
    let report = gemm.clone().run(&mut d).unwrap();
    assert_eq!(report.repacked, Repack::new(1, 1));

    let unread = gemm.clone().alpha(0.0);
    assert_eq!(unread.workspace_size(&mut d).unwrap(), WorkspaceSize::default());
    let report = unread.run(&mut d).unwrap();
    assert_eq!(report.repacked, Repack::default());
    assert!(d.to_array().unwrap().iter().all(|x| x.to_f32() == 0.0));
    let (no_a, no_b) = (device.matrix::<f16>(M, 0).unwrap(), device.matrix(0, N - 1).unwrap());
    let report = Gemm::new(&no_a, &no_b).kernel(warpgroup()).run(&mut d).unwrap();
    assert_eq!(report.repacked, Repack::default());
    let nothing = device.matrix::<f16>(K, 0).unwrap();
    let report = Gemm::new(&a, &nothing).kernel(warpgroup());
    let report = report.run(&mut device.matrix(M, 0).unwrap()).unwrap();
    assert!(!report.launched && report.repacked.is_nothing());
}

#[test]
fn copies_lie_in_the_workspace() {
    let device = Device::sim();
    let (a, b) = (integers::<bf16>(1, M, K, 1), integers::<bf16>(1, K, N - 1, 2));
    let (a, b) = (a.index_axis_move(Axis(0), 0), b.index_axis_move(Axis(0), 0));
    let (in_a, in_b) = (device.upload(&a.view()).unwrap(), device.upload(&b.view()).unwrap());
    let mut d = device.matrix(M, N - 1).unwrap();
    let gemm = Gemm::new(&in_a, &in_b).kernel(warpgroup());
    let needed = gemm.workspace_size(&mut d).unwrap();
    // Rows of 75 and of 89 elements, in whole lines of 128 bytes.
    let copy_bytes = (M * 256 + K * 256) as u64;
    assert_eq!(needed, WorkspaceSize { copy_bytes, ..WorkspaceSize::default() });
    let small = WorkspaceSize { copy_bytes: copy_bytes - 1, ..needed };
    let small = device.workspace(small).unwrap();
    let error = gemm.clone().workspace(&small).run(&mut d).unwrap_err();
    assert!(matches!(error, Error::WorkspaceTooSmall { .. }), "{error}");
    assert!(error.to_string().contains("bytes for copies"), "{error}");
    // What was in it before is not read, also where it is used again.
    let enough = device.workspace(needed).unwrap();
    for _ in 0..2 {
        gemm.clone().workspace(&enough).run(&mut d).unwrap();
        let found = d.to_array().unwrap().map(|x| f64::from(x.to_f32()));
        assert_eq!(found, exact(a.view(), b.view()));
    }
}

/// By rule, on a machine that has all instructions.
#[test]
fn large_odd_products_are_repacked_by_themselves() {
    let device = Device::sim();
    let upload = |rows, cols, seed| {
        let array = integers::<bf16>(1, rows, cols, seed).index_axis_move(Axis(0), 0);
        device.upload(&array.view()).unwrap()
    };
    let chosen = |size: usize, depth: usize| {
        let (a, b) = (upload(size, depth, 1), upload(depth, size, 2));
        Gemm::new(&a, &b).run(&mut device.matrix(size, size).unwrap()).unwrap()
    };
    // What is less than this takes less time than a launch that copies.
    let report = chosen(181, 131);
    assert_eq!(report.kernel.rung, Rung::Warpgroup);
    assert_eq!(report.repacked, Repack::new(1, 1));
    let report = chosen(129, 33);
    assert_eq!(report.kernel.rung, Rung::TensorCore);
    assert!(report.repacked.is_nothing());
    let report = chosen(136, 136);
    assert_eq!(report.kernel.rung, Rung::Warpgroup);
    assert!(report.repacked.is_nothing());
}

/// Every kernel that makes bulk copies runs any problem that others run.
#[test]
fn no_alignment_is_refused() {
    let device = Device::sim();
    let makes_copies = |kernel: &&'static KernelInfo| kernel.boxes.is_some();
    let mut found = 0;
    for kernel in kernels::kernels().iter().filter(makes_copies) {
        let problem = Problem::packed(kernel.dtype, (255, 511, 127), kernel.layouts);
        let problem = Problem { target: kernel.target, ..problem };
        kernels::supports(kernel, &problem, device.info()).unwrap();
        let shape = LaunchShape::new(kernel, &problem, device.info(), None);
        let both = Repack { transposed: kernel.transposes(), ..Repack::new(1, 1) };
        assert_eq!(shape.repack, both, "{}", kernel.name);
        found += 1;
    }
    assert!(found > 0);
}
