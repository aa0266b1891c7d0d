//! Tensor maps of the simulator: a [`TiledTensor`] in 128 bytes, and the boxes that it describes.

use super::global::Table;
use crate::bulk_copy::TensorMap;
use crate::swizzle::Swizzle;
use crate::tensor_map::{ElementType, MAX_RANK, TensorMapError, TiledTensor};
use std::sync::atomic::AtomicU32;

/// What a map of the simulator begins with: none of the driver does.
const MAGIC: u64 = u64::from_be_bytes(*b"SIMT-MAP");

/// Bytes of a piece of a row of a box: what a swizzle keeps together.
pub(super) const PIECE: u32 = 16;

/// Words of a map, by position.
const SHAPE: usize = 1;
const ADDRESS: usize = 2;
const DIMS: usize = 3;
const STRIDES: usize = DIMS + MAX_RANK;
const BOXES: usize = STRIDES + MAX_RANK - 1;

/// Bits of a field in the words for the shape and the boxes.
const FIELD: u32 = 16;

fn field(word: u64, index: usize) -> u32 {
    (word >> (FIELD * index as u32)) as u32 & u32::from(u16::MAX)
}

/// The map of a tensor.
pub(super) fn encode(tensor: &TiledTensor) -> Result<TensorMap, TensorMapError> {
    tensor.check()?;
    let mut opaque = [0; TensorMap::WORDS];
    opaque[0] = MAGIC;
    let shape = [tensor.rank, tensor.element as u32, tensor.swizzle as u32];
    opaque[SHAPE] = shape.iter().rev().fold(0, |word, &part| word << FIELD | u64::from(part));
    opaque[ADDRESS] = tensor.address;
    opaque[DIMS..STRIDES].copy_from_slice(&tensor.dims);
    opaque[STRIDES..BOXES].copy_from_slice(&tensor.strides);
    for (dimension, &elements) in tensor.box_dims.iter().enumerate() {
        let (word, index) = (BOXES + dimension / 4, dimension % 4);
        opaque[word] |= u64::from(elements) << (FIELD * index as u32);
    }
    Ok(TensorMap { opaque })
}

/// The tensor of a map; `None` where [`encode`] has not made it.
pub(super) fn decode(map: &TensorMap) -> Option<TiledTensor> {
    let opaque = &map.opaque;
    if opaque[0] != MAGIC {
        return None;
    }
    let mut box_dims = [0; MAX_RANK];
    for (dimension, elements) in box_dims.iter_mut().enumerate() {
        *elements = field(opaque[BOXES + dimension / 4], dimension % 4);
    }
    let shape = opaque[SHAPE];
    let tensor = TiledTensor {
        rank: field(shape, 0),
        element: *ElementType::ALL.get(field(shape, 1) as usize)?,
        swizzle: *Swizzle::ALL.get(field(shape, 2) as usize)?,
        address: opaque[ADDRESS],
        dims: opaque[DIMS..STRIDES].try_into().ok()?,
        strides: opaque[STRIDES..BOXES].try_into().ok()?,
        box_dims,
    };
    tensor.check().ok().map(|()| tensor)
}

/// A tensor and the memory behind it.
#[derive(Clone, Copy)]
pub(super) struct Mapped {
    pub(super) tensor: TiledTensor,
    /// The words of its allocation.
    pub(super) words: *const AtomicU32,
    /// Where it begins there, in bytes.
    offset: u64,
}

impl Mapped {
    /// Finds the memory of a whole tensor; fails with its length.
    pub(super) fn new(tensor: TiledTensor, table: &Table) -> Result<Self, u64> {
        let outer = tensor.dims[1..tensor.rank as usize].iter().zip(tensor.strides);
        let row = tensor.dims[0].saturating_mul(tensor.element.bytes().into());
        let bytes = outer.fold(row, |bytes, (&dim, stride)| {
            bytes.saturating_add((dim - 1).saturating_mul(stride))
        });
        let found = table.find(tensor.address);
        let found = found.filter(|(allocation, offset)| bytes <= allocation.bytes - offset);
        let (allocation, offset) = found.ok_or(bytes)?;
        Ok(Mapped { tensor, words: allocation.backing.words(), offset })
    }
}

/// 16 bytes of a box.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    /// Where they lie in shared memory.
    pub(super) shared: u32,
    /// Where the first of its elements that lie in the tensor lies in the allocation.
    pub(super) global: usize,
    /// Which of its bytes lie in the tensor.
    pub(super) inside: (usize, usize),
}

/// The box of a tensor at some coordinates and its place in shared memory.
#[derive(Clone, Copy)]
pub(super) struct TensorBox {
    pub(super) mapped: Mapped,
    /// Coordinates of its first element.
    pub(super) at: [i32; MAX_RANK],
    pub(super) shared: u32,
}

impl TensorBox {
    /// The bytes of a row that lie in the tensor, as offsets in the allocation and in the row: `None` where there are
    /// none.
    pub(super) fn row(&self, row: u32) -> Option<(u64, u32, u32)> {
        let Mapped { tensor, offset, .. } = self.mapped;
        let mut global = offset;
        let mut left = row;
        for dimension in 1..tensor.rank as usize {
            let extent = tensor.box_dims[dimension];
            let at = i64::from(self.at[dimension]) + i64::from(left % extent);
            left /= extent;
            let at = u64::try_from(at).ok().filter(|&at| at < tensor.dims[dimension])?;
            global += at * tensor.strides[dimension - 1];
        }
        let first = i64::from(self.at[0]);
        let end = (first + i64::from(tensor.box_dims[0])).min(tensor.dims[0] as i64);
        let start = first.max(0);
        let bytes = tensor.element.bytes();
        (start < end).then(|| {
            let in_row = |element: i64| (element - first) as u32 * bytes;
            (global + start as u64 * u64::from(bytes), in_row(start), in_row(end))
        })
    }

    /// The bytes of all rows that lie in the tensor.
    pub(super) fn rows(&self) -> impl Iterator<Item = Option<(u64, u32, u32)>> {
        (0..self.mapped.tensor.box_rows()).map(|row| self.row(row))
    }

    /// Its pieces.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Piece> {
        let tensor = self.mapped.tensor;
        let (pitch, base) = (tensor.box_pitch(), self.shared);
        self.rows().enumerate().flat_map(move |(row, inside)| {
            (0..tensor.box_row_bytes()).step_by(PIECE as usize).map(move |start| {
                let shared = tensor.swizzle.apply(base + row as u32 * pitch + start);
                let (global, from, to) = inside.unwrap_or_default();
                let first = from.clamp(start, start + PIECE);
                let end = to.clamp(first, start + PIECE);
                Piece {
                    shared,
                    global: (global + u64::from(first - from.min(first))) as usize,
                    inside: ((first - start) as usize, (end - start) as usize),
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor() -> TiledTensor {
        let shape = (70_000, 5_000_000_000 >> 2);
        let swizzle = Swizzle::Bytes64;
        TiledTensor::matrix(ElementType::Bf16, 0x1230, shape, 1 << 33, (256, 32), swizzle)
    }

    #[test]
    fn a_map_says_what_it_was_made_of() {
        assert_eq!(decode(&encode(&tensor()).unwrap()), Some(tensor()));
        let five = TiledTensor {
            element: ElementType::F64,
            rank: 5,
            dims: [2, 3, 4, 5, 1 << 32],
            strides: [16, 48, 192, 960],
            box_dims: [2, 1, 256, 3, 4],
            swizzle: Swizzle::None,
            ..tensor()
        };
        assert_eq!(decode(&encode(&five).unwrap()), Some(five));
    }

    #[test]
    fn other_bytes_are_no_map() {
        let map = encode(&tensor()).unwrap();
        assert_eq!(decode(&TensorMap { opaque: [0; TensorMap::WORDS] }), None);
        for (word, value) in [(0, 1), (SHAPE, u64::MAX), (ADDRESS, 1), (DIMS, 0), (BOXES, 0)] {
            let mut other = map;
            other.opaque[word] = value;
            assert_eq!(decode(&other), None, "word {word}");
        }
    }
}
