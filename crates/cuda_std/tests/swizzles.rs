//! Swizzles against the figures of the PTX manual, and the rules of tensor maps.

use cuda_std::swizzle::Swizzle;
use cuda_std::tensor_map::{ElementType, TensorMapError, TiledTensor};

/// Bytes of a piece, and pieces that the figures show beside each other.
const PIECE: u32 = 16;
const LINE: usize = 8;

/// "Swizzling Modes": which piece lies where in lines of 128 bytes, from the first line after which the figure repeats.
fn figure(swizzle: Swizzle) -> Vec<[u32; LINE]> {
    match swizzle {
        Swizzle::None => vec![[0, 1, 2, 3, 4, 5, 6, 7]],
        Swizzle::Bytes32 => vec![[0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6]],
        Swizzle::Bytes64 => vec![
            [0, 1, 2, 3, 4, 5, 6, 7],
            [1, 0, 3, 2, 5, 4, 7, 6],
            [2, 3, 0, 1, 6, 7, 4, 5],
            [3, 2, 1, 0, 7, 6, 5, 4],
        ],
        Swizzle::Bytes128 => vec![
            [0, 1, 2, 3, 4, 5, 6, 7],
            [1, 0, 3, 2, 5, 4, 7, 6],
            [2, 3, 0, 1, 6, 7, 4, 5],
            [3, 2, 1, 0, 7, 6, 5, 4],
            [4, 5, 6, 7, 0, 1, 2, 3],
            [5, 4, 7, 6, 1, 0, 3, 2],
            [6, 7, 4, 5, 2, 3, 0, 1],
            [7, 6, 5, 4, 3, 2, 1, 0],
        ],
    }
}

#[test]
fn pieces_lie_where_the_figures_show_them() {
    for swizzle in Swizzle::ALL {
        let figure = figure(swizzle);
        let line_bytes = LINE as u32 * PIECE;
        for line in 0..3 * figure.len() as u32 {
            for place in 0..LINE as u32 {
                let piece = figure[line as usize % figure.len()][place as usize];
                let plain = line * line_bytes + piece * PIECE;
                let lies = line * line_bytes + place * PIECE;
                for byte in [0, 1, 15] {
                    assert_eq!(swizzle.apply(plain + byte), lies + byte, "{swizzle:?} {plain}");
                }
            }
        }
        if swizzle != Swizzle::None {
            assert_eq!(swizzle.repeats_after(), figure.len() as u32 * line_bytes);
        }
    }
}

/// What the patterns are for: pieces of one column of eight rows that follow each other lie in different sets of banks.
#[test]
fn a_column_of_pieces_meets_no_bank_twice() {
    for swizzle in [Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128] {
        for column in 0..swizzle.row_bytes() / PIECE {
            let mut places = Vec::from_iter((0..LINE as u32).map(|row| {
                let plain = row * swizzle.row_bytes() + column * PIECE;
                swizzle.apply(plain) / PIECE % LINE as u32
            }));
            places.sort_unstable();
            assert_eq!(places, [0, 1, 2, 3, 4, 5, 6, 7], "{swizzle:?} column {column}");
        }
    }
}

/// A tensor that keeps all rules.
fn tensor() -> TiledTensor {
    let swizzle = Swizzle::Bytes128;
    TiledTensor::matrix(ElementType::Bf16, 0x100, (100, 70), 144, (256, 64), swizzle)
}

#[test]
fn boxes_in_shared_memory() {
    let tensor = tensor();
    assert_eq!(tensor.check(), Ok(()));
    assert_eq!((tensor.box_row_bytes(), tensor.box_rows()), (128, 256));
    assert_eq!((tensor.box_bytes(), tensor.box_pitch()), (256 * 128, 128));
    let narrow = TiledTensor { box_dims: [16, 8, 1, 1, 1], ..tensor };
    assert_eq!((narrow.box_bytes(), narrow.box_pitch()), (8 * 32, 128));
    let cube = TiledTensor { rank: 3, strides: [144, 14400, 0, 0], ..tensor };
    assert_eq!(TiledTensor { dims: [70, 100, 3, 0, 0], ..cube }.check(), Ok(()));
    assert_eq!(TiledTensor { box_dims: [8, 4, 5, 0, 0], ..cube }.box_rows(), 20);
}

#[test]
fn descriptions_that_no_map_can_be_made_of() {
    use TensorMapError::*;
    let with = |change: &dyn Fn(&mut TiledTensor)| {
        let mut tensor = tensor();
        change(&mut tensor);
        tensor.check().unwrap_err()
    };
    for rank in [0, 6] {
        assert_eq!(with(&|t| t.rank = rank), Rank { found: rank });
    }
    assert_eq!(with(&|t| t.address = 0x108), Address { address: 0x108 });
    for found in [0, (1 << 32) + 1] {
        assert_eq!(with(&|t| t.dims[1] = found), Dim { dimension: 1, found });
    }
    // Not a multiple of 16, too short for a row, and too long.
    for found in [152, 128, 1 << 40] {
        let error = with(&|t| t.strides[0] = found);
        assert_eq!(error, Stride { dimension: 1, found, least: 140 });
    }
    for found in [0, 257] {
        assert_eq!(with(&|t| t.box_dims[1] = found), BoxDim { dimension: 1, found });
    }
    assert_eq!(with(&|t| t.box_dims[0] = 60), BoxRow { found: 120 });
    assert_eq!(with(&|t| t.box_dims[0] = 72), SwizzledRow { found: 144, most: 128 });
    assert_eq!(with(&|t| t.swizzle = Swizzle::Bytes32), SwizzledRow { found: 128, most: 32 });
    let plane = with(&|t| (t.rank, t.strides[1]) = (3, 144 * 100 - 16));
    assert_eq!(plane, Stride { dimension: 2, found: 14384, least: 14400 });
    assert!(plane.to_string().contains("from 14400 on"), "{plane}");
}

#[test]
fn matrices_may_lie_side_by_side_in_longer_rows() {
    let side_by_side = |count, pitch| {
        let (shape, strides) = ((count, 100, 40), (pitch, 416));
        TiledTensor::matrices(ElementType::Bf16, 0x100, shape, strides, (64, 32), Swizzle::None)
            .check()
    };
    assert_eq!(side_by_side(5, 80), Ok(()));
    assert_eq!(side_by_side(4, 96), Ok(()), "with gaps in between");
    // One more than there is room for in a row, and matrices that share columns.
    let error = side_by_side(6, 80).unwrap_err();
    assert_eq!(error, TensorMapError::Stride { dimension: 1, found: 416, least: 480 });
    let error = side_by_side(5, 64).unwrap_err();
    assert_eq!(error, TensorMapError::Stride { dimension: 2, found: 64, least: 80 });
}
