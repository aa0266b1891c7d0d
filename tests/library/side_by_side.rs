//! Batches whose matrices lie beside each other in the columns of one matrix, as the heads of attention do: which there
//! are. Products of them are in a program of their own, `tests/side_by_side.rs`.

use crate::kernel;
use regemm::ndarray::{Array2, Array3, Axis, s};
use regemm::{BatchViewMut, Device, Error, Gemm, Operand, Result};

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
