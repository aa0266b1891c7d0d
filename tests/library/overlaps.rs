//! Which operands may share memory.
//!
//! Borrows rule most overlaps out; these views are made from addresses. All are parts of one buffer of 16 x 16
//! elements.

use crate::kernel;
use regemm::ndarray::Array2;
use regemm::{Device, Error, Gemm, Matrix, MatrixView, MatrixViewMut, Operand};

const SIDE: usize = 16;

fn buffer() -> Matrix<f32> {
    Device::sim().upload(&Array2::from_elem((SIDE, SIDE), 1.0f32).view()).unwrap()
}

fn address(buffer: &Matrix<f32>, row: usize, col: usize) -> u64 {
    buffer.address() + ((row * SIDE + col) * size_of::<f32>()) as u64
}

/// The 4 x 4 part at a row and column of the buffer.
fn part(buffer: &Matrix<f32>, (row, col): (usize, usize)) -> MatrixView<'_, f32> {
    // SAFETY: inside the buffer; on the simulator work is done before anything else happens.
    unsafe { MatrixView::from_raw(buffer.device(), address(buffer, row, col), 4, 4, SIDE) }.unwrap()
}

fn part_mut(buffer: &Matrix<f32>, (row, col): (usize, usize)) -> MatrixViewMut<'_, f32> {
    // SAFETY: as above.
    unsafe { MatrixViewMut::from_raw(buffer.device(), address(buffer, row, col), 4, 4, SIDE) }
        .unwrap()
}

/// Where D is, and which operands at these places it must be told to overlap with.
const D: (usize, usize) = (4, 4);
const APART: [(usize, usize); 8] = [(0, 4), (8, 4), (4, 0), (4, 8), (0, 0), (8, 8), (0, 8), (8, 0)];
const TOUCHING: [(usize, usize); 8] =
    [(1, 4), (7, 4), (4, 1), (4, 7), (1, 1), (7, 7), (1, 7), (7, 1)];

#[test]
fn factors_must_not_overlap_the_result() {
    let buffer = buffer();
    let run = |a, b| {
        Gemm::new(part(&buffer, a), part(&buffer, b)).kernel(kernel()).run(part_mut(&buffer, D))
    };
    for place in TOUCHING.into_iter().chain([D]) {
        for (operand, result) in
            [(Operand::A, run(place, (0, 0))), (Operand::B, run((0, 0), place))]
        {
            let error = result.unwrap_err();
            let Error::Overlap { operand: found, .. } = error else { panic!("{error}") };
            assert_eq!(found, operand);
            assert!(error.to_string().contains("memory of its own"), "{error}");
        }
    }
    for place in APART {
        run(place, (0, 0)).unwrap();
        run((0, 0), place).unwrap();
    }
}

#[test]
fn factors_may_overlap_each_other() {
    let buffer = buffer();
    let (a, b) = (part(&buffer, (8, 8)), part(&buffer, (9, 9)));
    Gemm::new(a, b).kernel(kernel()).run(part_mut(&buffer, D)).unwrap();
}

#[test]
fn c_may_be_d_but_not_overlap_it_in_part() {
    let buffer = buffer();
    let run = |c| {
        let a = part(&buffer, (0, 0));
        Gemm::new(a, a).c(1.0, part(&buffer, c)).kernel(kernel()).run(part_mut(&buffer, D))
    };
    run(D).unwrap();
    for place in APART {
        run(place).unwrap();
    }
    for place in TOUCHING {
        let error = run(place).unwrap_err();
        assert!(matches!(error, Error::Overlap { operand: Operand::C, .. }), "{error}");
        assert!(error.to_string().contains("exactly the same matrix"), "{error}");
    }
}

#[test]
fn parts_with_another_leading_dimension_are_kept_apart_by_their_addresses() {
    let buffer = buffer();
    // Two rows of 4, 8 apart: between the columns of D, but that is not worked out.
    let at = address(&buffer, 4, 8);
    // SAFETY: as above.
    let a = unsafe { MatrixView::from_raw(buffer.device(), at, 4, 4, 8) }.unwrap();
    let b = part(&buffer, (0, 0));
    let error = Gemm::new(a, b).kernel(kernel()).run(part_mut(&buffer, D)).unwrap_err();
    assert!(matches!(error, Error::Overlap { operand: Operand::A, .. }), "{error}");
    // SAFETY: as above.
    let a = unsafe { MatrixView::from_raw(buffer.device(), address(&buffer, 8, 0), 4, 4, 8) };
    Gemm::new(a.unwrap(), b).kernel(kernel()).run(part_mut(&buffer, D)).unwrap();
}
