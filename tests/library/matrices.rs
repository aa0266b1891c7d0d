//! Matrices, vectors, views, and copies between host and device.

use crate::{expected, integers, kernel, product};
use regemm::ndarray::{Array2, ShapeBuilder, s};
use regemm::{Device, Element, Error, Gemm, Operand, bf16, f16};

#[test]
fn arrays_of_any_strides_come_back_as_they_were() {
    let device = Device::sim();
    let array = integers(6, 8, 0);
    let column_major = Array2::from_shape_vec((6, 8).f(), (0..48).map(|x| x as f32).collect());
    let column_major = column_major.unwrap();
    let views = [
        array.view(),
        array.t(),
        array.slice(s![1..5, 2..7]),
        array.slice(s![..;2, ..;-1]),
        array.slice(s![..;-1, ..;3]),
        column_major.view(),
        array.slice(s![0..0, ..]),
        array.slice(s![.., 3..3]),
    ];
    for view in views {
        let matrix = device.upload(&view).unwrap();
        assert_eq!(
            (matrix.rows(), matrix.cols(), matrix.ld()),
            (view.nrows(), view.ncols(), view.ncols())
        );
        assert_eq!(matrix.to_array().unwrap(), view);
        assert_eq!(matrix.to_vec().unwrap(), view.iter().copied().collect::<Vec<_>>());
    }
}

#[test]
fn every_element_type_keeps_its_bits() {
    fn check<T: Element>(values: &[T]) {
        let device = Device::sim();
        let matrix = device.upload_slice(values, 2, 2, 2).unwrap();
        assert_eq!(matrix.to_vec().unwrap(), values);
        assert_eq!(device.vector(values).unwrap().to_vec().unwrap(), values);
    }
    check([1.5f32, -0.0, f32::MIN_POSITIVE, f32::INFINITY].as_slice());
    check([1.5f64, -0.0, f64::MIN_POSITIVE, f64::INFINITY].as_slice());
    check([1.5, -0.0, 6e-8, 65504.0].map(f16::from_f32).as_slice());
    check([1.5, -0.0, 1e-38, 3e38].map(bf16::from_f32).as_slice());
}

#[test]
fn a_vector_is_overwritten() {
    let device = Device::sim();
    let mut vector = device.vector(&[1.0f32, 2.0, 3.0]).unwrap();
    vector.copy_from(&[4.0, 5.0, 6.0]).unwrap();
    assert_eq!(vector.to_vec().unwrap(), [4.0, 5.0, 6.0]);
    for other in [&[0.0; 2][..], &[0.0; 4]] {
        let error = vector.copy_from(other).unwrap_err();
        assert!(matches!(error, Error::SliceLength { needed: 3, .. }), "{error}");
    }
    device.vector::<f32>(&[]).unwrap().copy_from(&[]).unwrap();
}

#[test]
fn fresh_memory_is_poisoned() {
    let matrix = Device::sim().matrix_with_ld::<f32>(2, 3, 5).unwrap();
    let raw = matrix.read_raw().unwrap();
    assert_eq!(raw.len(), 10);
    assert!(raw.iter().all(|x| x.to_bits() == u32::MAX), "{raw:?}");
}

#[test]
fn slices_keep_their_leading_dimension_and_gaps() {
    let device = Device::sim();
    let data: Vec<f32> = (0..14).map(|x| x as f32).collect();
    let matrix = device.upload_slice(&data, 3, 4, 5).unwrap();
    assert_eq!((matrix.rows(), matrix.cols(), matrix.ld()), (3, 4, 5));
    assert_eq!(matrix.to_vec().unwrap(), [0., 1., 2., 3., 5., 6., 7., 8., 10., 11., 12., 13.]);
    let raw = matrix.read_raw().unwrap();
    assert_eq!(raw[..14], data);
    assert!(raw[14].is_nan(), "the last gap was not in the slice");
}

#[test]
fn copying_elements_leaves_gaps_alone() {
    let mut matrix = Device::sim().matrix_with_ld::<f32>(3, 2, 4).unwrap();
    matrix.write_raw(&[-1.0; 12]).unwrap();
    matrix.copy_from(&integers(3, 2, 0).view()).unwrap();
    let raw = matrix.read_raw().unwrap();
    for row in 0..3 {
        assert_eq!(raw[row * 4 + 2..row * 4 + 4], [-1.0, -1.0]);
    }
    assert_eq!(matrix.to_array().unwrap(), integers(3, 2, 0));
}

#[test]
fn views_are_parts_of_the_matrix() {
    let device = Device::sim();
    let array = integers(7, 9, 1);
    let matrix = device.upload(&array.view()).unwrap();
    let part = matrix.view().slice(1..6, 2..8).unwrap();
    assert_eq!((part.rows(), part.cols(), part.ld()), (5, 6, 9));
    assert_eq!(part.to_array().unwrap(), array.slice(s![1..6, 2..8]));
    let inner = part.slice(2..4, 0..3).unwrap();
    assert_eq!(inner.to_array().unwrap(), array.slice(s![3..5, 2..5]));
    assert_eq!(part.slice(5..5, 6..6).unwrap().to_vec().unwrap(), [0.0; 0]);
}

#[test]
fn products_of_parts_write_into_a_part() {
    let device = Device::sim();
    let (a, b) = (integers(9, 8, 1), integers(8, 9, 2));
    let (da, db) = (device.upload(&a.view()).unwrap(), device.upload(&b.view()).unwrap());
    let mut d = device.upload(&Array2::from_elem((6, 7), 99.0f32).view()).unwrap();

    let left = da.view().slice(2..6, 1..7).unwrap();
    let right = db.view().slice(0..6, 3..8).unwrap();
    let target = d.view_mut().slice(1..5, 1..6).unwrap();
    Gemm::new(left, right).kernel(kernel()).run(target).unwrap();

    let mut want = Array2::from_elem((6, 7), 99.0);
    let exact = expected(&a.slice(s![2..6, 1..7]), &b.slice(s![0..6, 3..8]));
    want.slice_mut(s![1..5, 1..6]).assign(&exact);
    assert_eq!(d.to_array().unwrap(), want);
}

#[test]
fn one_part_of_a_matrix_can_be_computed_from_others() {
    let device = Device::sim();
    let array = integers(4, 12, 3);
    let mut matrix = device.upload(&array.view()).unwrap();
    let (factors, d) = matrix.view_mut().split_at_col(8).unwrap();
    let a = factors.view().slice(0..4, 0..4).unwrap();
    let b = factors.view().slice(0..4, 4..8).unwrap();
    Gemm::new(a, b).kernel(kernel()).run(d).unwrap();

    let result = matrix.to_array().unwrap();
    assert_eq!(result.slice(s![.., ..8]), array.slice(s![.., ..8]));
    assert_eq!(
        result.slice(s![.., 8..]),
        expected(&array.slice(s![.., 0..4]), &array.slice(s![.., 4..8]))
    );

    let (mut above, mut below) = matrix.view_mut().split_at_row(1).unwrap();
    above.copy_from(&integers(1, 12, 5).view()).unwrap();
    below.reborrow().copy_from(&integers(3, 12, 6).view()).unwrap();
    assert_eq!(matrix.to_array().unwrap().slice(s![1.., ..]), integers(3, 12, 6));
}

#[test]
fn memory_that_somebody_else_owns() {
    use regemm::{MatrixView, MatrixViewMut};
    let device = Device::sim();
    let (a, b) = (integers(5, 4, 1), integers(4, 6, 2));
    let (da, db) = (device.upload(&a.view()).unwrap(), device.upload(&b.view()).unwrap());
    let d = device.matrix::<f32>(5, 6).unwrap();
    // SAFETY: the memory is that of live matrices, and nobody else uses it meanwhile.
    unsafe {
        let a = MatrixView::from_raw(&device, da.address(), 5, 4, 4).unwrap();
        let d = MatrixViewMut::from_raw(&device, d.address(), 5, 6, 6).unwrap();
        Gemm::new(a, &db).kernel(kernel()).run(d).unwrap();
    }
    assert_eq!(d.to_array().unwrap(), expected(&a.view(), &b.view()));
}

#[test]
fn memory_is_given_back() {
    let device = Device::sim_with_memory(1 << 20);
    for _ in 0..16 {
        let matrix = device.matrix::<f32>(256, 512).unwrap();
        assert_eq!(matrix.rows(), 256);
    }
}

#[test]
fn any_thread_may_use_a_device_and_its_matrices() {
    let device = Device::sim();
    let (a, b) = (integers(20, 10, 1), integers(10, 15, 2));
    let (da, db) = (device.upload(&a.view()).unwrap(), device.upload(&b.view()).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let d = product(&da, &db);
                assert_eq!(d.to_array().unwrap(), expected(&a.view(), &b.view()));
            });
        }
    });
}

#[test]
fn matrices_of_zeros() {
    let device = Device::sim();
    let zeros = device.zeros::<f32>(3, 5).unwrap();
    assert_eq!(zeros.to_array().unwrap(), Array2::<f32>::zeros((3, 5)));
    assert_eq!(device.zeros::<f32>(0, 5).unwrap().rows(), 0);
    let batch = device.zeros_batch::<f64>(2, 3, 4).unwrap();
    assert!(batch.to_array().unwrap().iter().all(|&x| x == 0.0));
}

#[test]
fn matrices_are_copied_on_the_device() {
    let device = Device::sim();
    let stream = device.stream().unwrap();
    let array = integers(6, 7, 1);
    let source = device.upload(&array.view()).unwrap();
    let mut whole = device.matrix::<f32>(6, 7).unwrap();
    whole.copy_from_matrix(&source).unwrap();
    assert_eq!(whole.to_array().unwrap(), array);

    // A part into a part: what is around it stays.
    let mut zeros = device.zeros::<f32>(9, 10).unwrap();
    let mut part = zeros.view_mut().slice(2..5, 3..7).unwrap();
    part.enqueue_copy(&stream, source.view().slice(1..4, 2..6).unwrap()).unwrap();
    let mut expected = Array2::zeros((9, 10));
    expected.slice_mut(s![2..5, 3..7]).assign(&array.slice(s![1..4, 2..6]));
    assert_eq!(zeros.to_array().unwrap(), expected);

    let error = zeros.copy_from_matrix(&source).unwrap_err();
    assert!(
        error.to_string().contains("the matrix to be copied is 6 x 7 but must be 9 x 10"),
        "{error}"
    );
    let elsewhere = Device::sim();
    let error = elsewhere.matrix::<f32>(6, 7).unwrap().copy_from_matrix(&source).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { operand: Operand::Source, .. }), "{error}");
    assert!(error.to_string().contains("but the copy is to be made on sim"), "{error}");
    let error = whole.enqueue_copy(&elsewhere.stream().unwrap(), &source).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { operand: Operand::Source, .. }), "{error}");
    device.matrix::<f32>(0, 7).unwrap().copy_from_matrix(&device.matrix(0, 7).unwrap()).unwrap();
}
