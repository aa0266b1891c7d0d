//! Batches: their memory, products of them, and what is refused.

use crate::kernel;
use regemm::ndarray::{Array2, Array3, Axis, s};
use regemm::{
    Activation, Batch, BatchView, BatchViewMut, Device, Error, Gemm, KernelChoice, Operand,
};

const COUNT: usize = 5;
const M: usize = 6;
const N: usize = 7;
const K: usize = 4;

/// Small integers, so that products are exact.
fn integers(count: usize, rows: usize, cols: usize, seed: usize) -> Array3<f32> {
    Array3::from_shape_fn((count, rows, cols), |(c, i, j)| {
        ((c * 13 + i * 7 + j * 3 + seed * 5) % 11) as f32 - 5.0
    })
}

/// The products of matrices, of which those with one matrix are shared.
fn products(a: &Array3<f32>, b: &Array3<f32>, count: usize) -> Array3<f32> {
    let mut d = Array3::zeros((count, a.dim().1, b.dim().2));
    for (i, mut d) in d.outer_iter_mut().enumerate() {
        let of = |all: &Array3<f32>| all.index_axis(Axis(0), i.min(all.dim().0 - 1)).to_owned();
        d.assign(&of(a).dot(&of(b)));
    }
    d
}

struct Operands {
    device: Device,
    a: Batch<f32>,
    b: Batch<f32>,
    d: Batch<f32>,
    product: Array3<f32>,
}

fn operands() -> Operands {
    let device = Device::sim();
    let (a, b) = (integers(COUNT, M, K, 1), integers(COUNT, K, N, 2));
    Operands {
        a: device.upload_batch(&a.view()).unwrap(),
        b: device.upload_batch(&b.view()).unwrap(),
        d: device.batch(COUNT, M, N).unwrap(),
        product: products(&a, &b, COUNT),
        device,
    }
}

#[test]
fn a_batch_comes_back_as_it_was() {
    let device = Device::sim();
    let array = integers(4, 3, 5, 0);
    let views = [
        array.view(),
        array.view().permuted_axes([2, 0, 1]),
        array.slice(s![..;-1, 1.., ..;2]),
        array.slice(s![0..0, .., ..]),
        array.slice(s![.., 0..0, ..]),
        array.slice(s![.., .., 0..0]),
    ];
    for view in views {
        let batch = device.upload_batch(&view).unwrap();
        assert_eq!((batch.count(), batch.rows(), batch.cols()), view.dim());
        assert_eq!((batch.ld(), batch.stride()), (view.dim().2, view.dim().1 * view.dim().2));
        assert_eq!(batch.to_array().unwrap(), view);
    }
}

#[test]
fn gaps_of_a_batch_stay_as_they_are() {
    let device = Device::sim();
    let mut batch = device.batch_with_strides::<f32>(2, 2, 3, 4, 9).unwrap();
    let before: Vec<f32> = (100..118).map(|x| x as f32).collect();
    batch.write_raw(&before).unwrap();
    let array = integers(2, 2, 3, 0);
    batch.copy_from(&array.view()).unwrap();
    assert_eq!(batch.to_array().unwrap(), array);
    let raw = batch.read_raw().unwrap();
    let gaps = [3, 7, 8, 12, 16, 17];
    for gap in gaps {
        assert_eq!(raw[gap], before[gap]);
    }
    assert_eq!(raw.iter().zip(&before).filter(|(new, old)| new == old).count(), gaps.len());
    let error = batch.write_raw(&before[1..]).unwrap_err();
    assert!(matches!(error, Error::SliceLength { found: 17, needed: 18, .. }), "{error}");
}

#[test]
fn matrices_and_parts_of_a_batch() {
    let device = Device::sim();
    let array = integers(4, 5, 6, 0);
    let mut batch = device.upload_batch(&array.view()).unwrap();
    assert_eq!(batch.matrix(2).unwrap().to_array().unwrap(), array.slice(s![2, .., ..]));
    let part = batch.view().slice(1..3).unwrap().slice_each(1..4, 2..5).unwrap();
    assert_eq!((part.ld(), part.stride()), (6, 30));
    assert_eq!(part.to_array().unwrap(), array.slice(s![1..3, 1..4, 2..5]));
    let ones = Array3::ones((2, 5, 2));
    let mut written = batch.view_mut().slice(2..4).unwrap().slice_each(0..5, 1..3).unwrap();
    written.copy_from(&ones.view()).unwrap();
    batch.matrix_mut(0).unwrap().copy_from(&Array2::zeros((5, 6)).view()).unwrap();
    let mut expected = array;
    expected.slice_mut(s![2..4, .., 1..3]).assign(&ones);
    expected.slice_mut(s![0, .., ..]).fill(0.0);
    assert_eq!(batch.to_array().unwrap(), expected);
    for error in [
        batch.matrix(4).map(drop).unwrap_err(),
        batch.matrix(usize::MAX).map(drop).unwrap_err(),
        batch.matrix_mut(4).map(drop).unwrap_err(),
        batch.view().slice(3..5).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Range { axis: "matrices", len: 4, .. }), "{error}");
    }
    assert!(batch.view().slice_each(0..6, 0..1).is_err());
}

#[test]
fn a_tall_matrix_is_a_batch() {
    let device = Device::sim();
    let array = integers(1, 10, 3, 0).index_axis_move(Axis(0), 0);
    let mut matrix = device.upload(&array.view()).unwrap();
    let overlapping = matrix.view().as_batch(4, 3, 2).unwrap();
    for i in 0..4 {
        let expected = array.slice(s![2 * i..2 * i + 3, ..]);
        assert_eq!(overlapping.matrix(i).unwrap().to_array().unwrap(), expected);
    }
    assert!(matches!(matrix.view().as_batch(4, 5, 2), Err(Error::Range { .. })));
    assert!(matches!(matrix.view().as_batch(usize::MAX, 5, 2), Err(Error::Range { .. })));
    assert_eq!(matrix.view().as_batch(0, 11, 2).unwrap().count(), 0);
    let too_large = matrix.view().as_batch(0, usize::MAX, 0);
    assert!(matches!(too_large, Err(Error::SizeOverflow { .. })));
    let mut parts = matrix.view_mut().into_batch(3, 2, 4).unwrap();
    parts.copy_from(&Array3::zeros((3, 2, 3)).view()).unwrap();
    let rows = matrix.to_array().unwrap();
    assert!([0, 1, 4, 5, 8, 9].iter().all(|&row| rows.row(row).iter().all(|&x| x == 0.0)));
    assert!([2, 3, 6, 7].iter().all(|&row| rows.row(row) == array.row(row)));
    let error = matrix.view_mut().into_batch(4, 3, 2).map(drop).unwrap_err();
    assert!(matches!(error, Error::BatchStride { stride: 6, needed: 9, .. }), "{error}");
}

/// The same rows again and again take no memory on the device, but as many times as much on the host.
#[test]
fn a_batch_can_be_more_than_the_host_has() {
    let matrix = Device::sim().matrix::<f32>(2, 3).unwrap();
    let error = matrix.view().as_batch(usize::MAX, 2, 0).unwrap().to_array().unwrap_err();
    assert!(matches!(error, Error::SizeOverflow { rows: usize::MAX, ld: 6, .. }), "{error}");
    assert!(error.to_string().contains("18446744073709551615 x 6 elements"), "{error}");
    let error = matrix.view().as_batch(1 << 50, 1, 0).unwrap().to_array().unwrap_err();
    let Error::OutOfHostMemory { requested } = error else { panic!("{error}") };
    assert_eq!(requested, 12 << 50);
    let nothing = matrix.view().slice(0..2, 0..0).unwrap().as_batch(1 << 50, 1, 0).unwrap();
    assert_eq!(nothing.to_array().unwrap().dim(), (1 << 50, 1, 0));
}

#[test]
fn a_batch_is_one_launch() {
    let Operands { a, b, mut d, product, .. } = operands();
    let report = Gemm::new(&a, &b).kernel(kernel()).run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), product);
    let counters = report.counters.unwrap();
    // One block for each product; several launches would be counted one after the other.
    assert_eq!(counters.global_store_elements, (COUNT * M * N) as u64);
    assert_eq!(counters.global_load_elements, (2 * COUNT * M * N * K) as u64);
}

#[test]
fn matrices_are_shared_by_all_products() {
    let Operands { device, a, b, mut d, .. } = operands();
    let (host_a, host_b) = (integers(1, M, K, 3), integers(1, K, N, 4));
    let shared_a = device.upload(&host_a.index_axis(Axis(0), 0)).unwrap();
    let shared_b = device.upload(&host_b.index_axis(Axis(0), 0)).unwrap();
    Gemm::new(&shared_a, &b).kernel(kernel()).run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), products(&host_a, &integers(COUNT, K, N, 2), COUNT));
    Gemm::new(&a, &shared_b).kernel(kernel()).run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), products(&integers(COUNT, M, K, 1), &host_b, COUNT));
    Gemm::new(&shared_a, &shared_b).kernel(kernel()).run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), products(&host_a, &host_b, COUNT));
}

#[test]
fn every_product_has_its_own_c_and_bias_or_shares_them() {
    let Operands { device, a, b, mut d, product } = operands();
    let (c, bias) = (integers(COUNT, M, N, 5), integers(COUNT, 1, N, 6));
    let on_device = |array: &Array3<f32>| device.upload_batch(&array.view()).unwrap();
    let (dc, dbias) = (on_device(&c), on_device(&bias));
    Gemm::new(&a, &b).c(2.0, &dc).bias_per_column(&dbias).kernel(kernel()).run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), &product + &c * 2.0 + &bias);

    let shared_c = device.upload(&c.index_axis(Axis(0), 0)).unwrap();
    let vector: Vec<f32> = (0..M).map(|row| row as f32).collect();
    let shared_bias = device.vector(&vector).unwrap();
    Gemm::new(&a, &b)
        .c(1.0, &shared_c)
        .bias_per_row(&shared_bias)
        .activation(Activation::Relu)
        .kernel(kernel())
        .run(&mut d)
        .unwrap();
    let rows = Array2::from_shape_vec((M, 1), vector).unwrap();
    let expected = (&product + &c.slice(s![0..1, .., ..]) + &rows).mapv(|x| x.max(0.0));
    assert_eq!(d.to_array().unwrap(), expected);

    d.copy_from(&c.view()).unwrap();
    Gemm::new(&a, &b).accumulate(-1.0).kernel(kernel()).run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), &product - &c);
}

#[test]
fn batches_may_be_transposed_and_have_gaps() {
    let Operands { device, product, .. } = operands();
    let (a, b) = (integers(COUNT, M, K, 1), integers(COUNT, K, N, 2));
    let stored = |array: Array3<f32>, ld: usize, stride: usize| {
        let (count, rows, cols) = array.dim();
        let mut batch = device.batch_with_strides(count, rows, cols, ld, stride).unwrap();
        batch.copy_from(&array.view()).unwrap();
        batch
    };
    let a = stored(a.permuted_axes([0, 2, 1]).as_standard_layout().into_owned(), M + 1, 31);
    let b = stored(b.permuted_axes([0, 2, 1]).as_standard_layout().into_owned(), K + 2, 47);
    let mut d = device.batch_with_strides(COUNT, M, N, N + 3, 71).unwrap();
    for name in ["naive", "tiled16", "tiled32"] {
        let choice = KernelChoice::Named(name.into());
        let report = Gemm::new(a.t(), b.t()).kernel(choice).run(&mut d).unwrap();
        assert_eq!(d.to_array().unwrap(), product, "{}", report.kernel.name);
    }
}

#[test]
fn empty_batches_do_nothing() {
    let device = Device::sim();
    for (count, m, n) in [(0, M, N), (3, 0, N), (3, M, 0)] {
        let a = device.batch::<f32>(count, m, K).unwrap();
        let b = device.batch::<f32>(count, K, n).unwrap();
        let mut d = device.batch(count, m, n).unwrap();
        let report = Gemm::new(&a, &b).run(&mut d).unwrap();
        assert!(!report.launched && report.counters.is_none());
        assert_eq!(d.to_array().unwrap().dim(), (count, m, n));
    }
}

/// More products than a grid has blocks along y: the last of them is in the second launch.
#[test]
fn a_batch_larger_than_a_grid_is_several_launches() {
    const MANY: usize = 65_535 + 3;
    let device = Device::sim();
    let numbers = Array3::from_shape_fn((MANY, 1, 1), |(i, _, _)| (i % 1000) as f32);
    let a = device.upload_batch(&numbers.view()).unwrap();
    let bias = device.upload_batch(&numbers.view()).unwrap();
    let b = device.upload(&Array2::from_elem((1, 1), 2.0f32).view()).unwrap();
    let mut d = device.batch(MANY, 1, 1).unwrap();
    let gemm = Gemm::new(&a, &b).c(1.0, &a).bias_per_row(&bias).kernel(kernel());
    let report = gemm.run(&mut d).unwrap();
    assert_eq!(d.to_array().unwrap(), numbers * 4.0);
    assert_eq!(report.counters.unwrap().global_store_elements, MANY as u64);
}

#[test]
fn the_numbers_of_matrices_must_agree_with_those_of_d() {
    let Operands { device, a, b, mut d, .. } = operands();
    let fewer = a.view().slice(0..2).unwrap();
    let c = device.batch::<f32>(COUNT + 1, M, N).unwrap();
    let bias = device.batch::<f32>(1, 1, N).unwrap();
    let mut single = device.matrix(M, N).unwrap();
    let mismatch = |error: Error, operand, found, expected| {
        let Error::BatchMismatch { operand: o, found: f, expected: e } = error else {
            panic!("{error}")
        };
        assert_eq!((o, f, e), (operand, found, expected), "{error}");
        assert!(error.to_string().contains("shared"), "{error}");
    };
    let error = Gemm::new(fewer, &b).run(&mut d).unwrap_err();
    mismatch(error, Operand::A, 2, Some(COUNT));
    let error = Gemm::new(&a, b.view().slice(0..0).unwrap()).run(&mut d).unwrap_err();
    mismatch(error, Operand::B, 0, Some(COUNT));
    let error = Gemm::new(&a, &b).c(1.0, &c).run(&mut d).unwrap_err();
    mismatch(error, Operand::C, COUNT + 1, Some(COUNT));
    let error = Gemm::new(&a, &b).bias_per_column(&bias).run(&mut d).unwrap_err();
    mismatch(error, Operand::Bias, 1, Some(COUNT));
    let error = Gemm::new(&a, &b).run(&mut single).unwrap_err();
    mismatch(error, Operand::A, COUNT, None);
    let error = d.copy_from(&Array3::zeros((COUNT + 1, M, N)).view()).unwrap_err();
    mismatch(error, Operand::Array, COUNT + 1, Some(COUNT));
}

#[test]
fn shapes_of_batches_must_fit() {
    let Operands { device, a, b, mut d, .. } = operands();
    let tall = device.batch::<f32>(COUNT, 2, N).unwrap();
    let error = Gemm::new(&a, &b).bias_per_column(&tall).run(&mut d).unwrap_err();
    assert!(error.to_string().contains("the bias is 2 x 7 but must be 1 x 7"), "{error}");
    let error = Gemm::new(&b, &a).run(&mut d).unwrap_err();
    assert!(matches!(error, Error::ShapeMismatch { operand: Operand::B, .. }), "{error}");
    let error = device.batch_with_strides::<f32>(3, M, N, N + 1, 46).unwrap_err();
    assert!(matches!(error, Error::BatchStride { stride: 46, needed: 47, .. }), "{error}");
    let error = device.batch_with_strides::<f32>(3, M, N, N - 1, 100).unwrap_err();
    assert!(matches!(error, Error::LeadingDimension { ld: 6, cols: 7 }), "{error}");
    for (count, rows, cols) in [(usize::MAX, 2, 2), (2, usize::MAX, 2), (1 << 40, 1 << 40, 1)] {
        let error = device.batch::<f32>(count, rows, cols).unwrap_err();
        assert!(matches!(error, Error::SizeOverflow { .. }), "{error}");
    }
    let other = Device::sim();
    let elsewhere = other.batch::<f32>(COUNT, K, N).unwrap();
    let error = Gemm::new(&a, &elsewhere).run(&mut d).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { operand: Operand::B, .. }), "{error}");
}

/// A batch of 4 matrices of 2 x 2 elements, 8 apart, from an element of a buffer on.
fn part(buffer: &Batch<f32>, first: usize) -> BatchView<'_, f32> {
    let address = buffer.address() + (first * size_of::<f32>()) as u64;
    // SAFETY: inside the buffer; on the simulator work is done before anything else happens.
    unsafe { BatchView::from_raw(buffer.device(), address, 4, (2, 2), 2, 8) }.unwrap()
}

fn part_mut(buffer: &Batch<f32>, first: usize) -> BatchViewMut<'_, f32> {
    let address = buffer.address() + (first * size_of::<f32>()) as u64;
    // SAFETY: as above.
    unsafe { BatchViewMut::from_raw(buffer.device(), address, 4, (2, 2), 2, 8) }.unwrap()
}

#[test]
fn the_whole_of_a_batch_counts_for_overlaps() {
    let device = Device::sim();
    let buffer = device.upload_batch(&Array3::ones((1, 1, 128)).view()).unwrap();
    // D is from 32 on; its last element is 24 + 3 further.
    let run = |a, b| {
        Gemm::new(part(&buffer, a), part(&buffer, b)).kernel(kernel()).run(part_mut(&buffer, 32))
    };
    run(0, 64).unwrap();
    run(4, 60).unwrap();
    for (a, b, overlapping) in [(5, 64, Operand::A), (32, 64, Operand::A), (0, 59, Operand::B)] {
        let error = run(a, b).unwrap_err();
        assert!(
            matches!(error, Error::Overlap { operand, .. } if operand == overlapping),
            "{error}"
        );
    }
    let with_c = |c| {
        let gemm = Gemm::new(part(&buffer, 0), part(&buffer, 64)).kernel(kernel());
        gemm.c(1.0, part(&buffer, c)).run(part_mut(&buffer, 32))
    };
    with_c(32).unwrap();
    with_c(96).unwrap();
    assert!(matches!(with_c(33).unwrap_err(), Error::Overlap { operand: Operand::C, .. }));
    // The first matrix of D as a C that all products share: the others would read it while it is written.
    let shared = part(&buffer, 32).matrix(0).unwrap();
    let gemm = Gemm::new(part(&buffer, 0), part(&buffer, 64)).c(1.0, shared).kernel(kernel());
    let error = gemm.run(part_mut(&buffer, 32)).unwrap_err();
    assert!(matches!(error, Error::Overlap { operand: Operand::C, .. }), "{error}");
}

#[test]
fn memory_of_others_is_checked() {
    let device = Device::sim();
    // SAFETY: these views are refused, or hold no memory that is read.
    unsafe {
        let error = BatchViewMut::<f32>::from_raw(&device, 0, 2, (3, 4), 4, 11).unwrap_err();
        assert!(matches!(error, Error::BatchStride { stride: 11, needed: 12, .. }), "{error}");
        BatchView::<f32>::from_raw(&device, 0, 2, (3, 4), 4, 0).unwrap();
        let error = BatchView::<f32>::from_raw(&device, u64::MAX - 99, 2, (3, 4), 4, 12);
        // Two strides and a matrix.
        assert!(matches!(error, Err(Error::AddressOverflow { bytes: 144, .. })));
        let error = BatchView::<f32>::from_raw(&device, 0, usize::MAX, (3, 4), 4, 12);
        assert!(matches!(error, Err(Error::SizeOverflow { .. })));
    }
}

#[test]
fn batches_are_enqueued_like_matrices() {
    let Operands { device, a, b, mut d, product } = operands();
    let stream = device.stream().unwrap();
    Gemm::new(&a, &b).kernel(kernel()).enqueue(&stream, &mut d).unwrap();
    drop((a, b));
    assert_eq!(d.to_array().unwrap(), product);
}

/// What lies between the parts does not matter where there is but one, and no number of theirs is too large to say so.
#[test]
fn a_single_part_needs_no_distance() {
    let device = Device::sim();
    let mut matrix = device.matrix::<f32>(4, 3).unwrap();
    for pitch in [0, 1, usize::MAX] {
        let view = matrix.view();
        let one = view.as_batch(1, 2, pitch).unwrap();
        assert_eq!((one.count(), one.rows()), (1, 2));
        assert_eq!(view.as_batch(0, 2, pitch).unwrap().count(), 0);
        let one = matrix.view_mut().into_batch(1, 4, pitch).unwrap();
        assert_eq!((one.count(), one.rows()), (1, 4));
        assert_eq!(matrix.view_mut().into_batch(0, 2, pitch).unwrap().count(), 0);
    }
    for (count, rows, pitch) in [(2, 2, usize::MAX), (usize::MAX, 1, usize::MAX), (1, 5, 0)] {
        let error = matrix.view().as_batch(count, rows, pitch).unwrap_err();
        assert!(matches!(error, Error::Range { .. }), "{error}");
        assert!(matrix.view_mut().into_batch(count, rows, pitch).is_err());
    }
    // Nothing may be many times.
    let none = device.matrix::<f32>(0, 3).unwrap();
    assert_eq!(none.view().as_batch(usize::MAX, 0, 0).unwrap().count(), usize::MAX);
}
