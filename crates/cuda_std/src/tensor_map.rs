//! Descriptions of tensors for [bulk copies](crate::bulk_copy), from which the driver or the simulator makes a
//! [`TensorMap`](crate::bulk_copy::TensorMap). On the host alone.
//!
//! The rules are those of `cuTensorMapEncodeTiled` (CUDA Driver API, "Tensor Map Object Management") without
//! interleaving and with neighbouring elements: element strides of one.

use crate::sim::limits::MAX_SHARED;
use crate::swizzle::Swizzle;

/// Most dimensions of a tensor.
pub const MAX_RANK: usize = 5;

/// What addresses, strides, and the rows of boxes are multiples of, in bytes.
pub const ALIGNMENT: u64 = 16;

/// Most elements of a box along any dimension.
pub const MAX_BOX_DIM: u32 = 256;

/// Most elements of a tensor along any dimension.
pub const MAX_DIM: u64 = 1 << 32;

/// What a stride must be less than, in bytes.
pub const STRIDE_LIMIT: u64 = 1 << 40;

/// What elements are. The numbers are those of `CUtensorMapDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ElementType {
    /// Unsigned, 8 bits.
    U8 = 0,
    /// Unsigned, 16 bits.
    U16 = 1,
    /// Unsigned, 32 bits.
    U32 = 2,
    /// Signed, 32 bits.
    I32 = 3,
    /// Unsigned, 64 bits.
    U64 = 4,
    /// Signed, 64 bits.
    I64 = 5,
    /// IEEE half precision.
    F16 = 6,
    /// IEEE single precision.
    F32 = 7,
    /// IEEE double precision.
    F64 = 8,
    /// The upper half of single precision.
    Bf16 = 9,
}

impl ElementType {
    /// All of them, by number.
    pub const ALL: [ElementType; 10] = {
        use ElementType::*;
        [U8, U16, U32, I32, U64, I64, F16, F32, F64, Bf16]
    };

    /// Bytes of an element.
    pub const fn bytes(self) -> u32 {
        use ElementType::*;
        match self {
            U8 => 1,
            U16 | F16 | Bf16 => 2,
            U32 | I32 | F32 => 4,
            U64 | I64 | F64 => 8,
        }
    }
}

/// A tensor in global memory and the shape of its boxes. Dimensions are counted from the innermost one, whose elements
/// are neighbours; those from `rank` on are ignored.
///
/// What the functions say of boxes holds for a description that [`check`](TiledTensor::check) accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TiledTensor {
    /// What its elements are.
    pub element: ElementType,
    /// Address of the first element, a multiple of 16.
    pub address: u64,
    /// Number of dimensions, 1 to 5.
    pub rank: u32,
    /// Elements along each dimension, 1 to 2^32.
    pub dims: [u64; MAX_RANK],
    /// Bytes from one element to the next along each dimension but the innermost: multiples of 16, less than 2^40. An
    /// outer dimension may have a shorter stride than an inner one, as where matrices lie side by side in longer rows.
    pub strides: [u64; MAX_RANK - 1],
    /// Elements of a box along each dimension, 1 to 256; along the innermost one a multiple of 16 bytes, and no more
    /// than a row of the swizzle. A box must fit the shared memory of a block.
    pub box_dims: [u32; MAX_RANK],
    /// How boxes lie in shared memory.
    pub swizzle: Swizzle,
}

/// A description that no map can be made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorMapError {
    /// The number of dimensions.
    #[error("a tensor has 1 to {MAX_RANK} dimensions, not {found}")]
    Rank {
        /// The number.
        found: u32,
    },
    /// The address.
    #[error("the tensor's address {address:#x} is not a multiple of {ALIGNMENT}")]
    Address {
        /// The address.
        address: u64,
    },
    /// A number of elements.
    #[error(
        "the tensor has {found} elements along dimension {dimension}, and there may be 1 to 2^32"
    )]
    Dim {
        /// Which dimension, from the innermost.
        dimension: usize,
        /// The number.
        found: u64,
    },
    /// A stride that bulk copies cannot take, or with which elements would lie on each other.
    #[error(
        "the stride of dimension {dimension} is {found} bytes, and it must be a multiple of {ALIGNMENT} from {least} on that is less than 2^40"
    )]
    Stride {
        /// Which dimension, from the innermost.
        dimension: usize,
        /// Bytes.
        found: u64,
        /// Bytes that the dimensions with shorter strides take, and a row.
        least: u64,
    },
    /// A number of elements of a box.
    #[error(
        "a box has {found} elements along dimension {dimension}, and there may be 1 to {MAX_BOX_DIM}"
    )]
    BoxDim {
        /// Which dimension, from the innermost.
        dimension: usize,
        /// The number.
        found: u32,
    },
    /// The rows of a box do not consist of whole pieces.
    #[error("a row of a box takes {found} bytes, and it must be a multiple of {ALIGNMENT}")]
    BoxRow {
        /// Bytes.
        found: u32,
    },
    /// The rows of a box are longer than those of the swizzle.
    #[error("a row of a box takes {found} bytes, more than the {most} of its swizzle")]
    SwizzledRow {
        /// Bytes.
        found: u32,
        /// Bytes of a row of the swizzle.
        most: u32,
    },
    /// A box that no block has room for.
    #[error("a box takes {found} bytes of shared memory, and a block may have {most}")]
    BoxBytes {
        /// Bytes.
        found: u64,
        /// Most bytes of shared memory that a block may have.
        most: u32,
    },
}

impl TiledTensor {
    /// A row-major matrix of `rows x cols` elements, whose rows begin `stride` bytes apart, in boxes of `box_shape`
    /// (rows, columns).
    pub fn matrix(
        element: ElementType,
        address: u64,
        (rows, cols): (u64, u64),
        stride: u64,
        box_shape: (u32, u32),
        swizzle: Swizzle,
    ) -> TiledTensor {
        let (box_rows, box_cols) = box_shape;
        TiledTensor {
            element,
            address,
            rank: 2,
            dims: [cols, rows, 1, 1, 1],
            strides: [stride, 0, 0, 0],
            box_dims: [box_cols, box_rows, 1, 1, 1],
            swizzle,
        }
    }

    /// `count` row-major matrices of `rows x cols` elements that begin `pitch` bytes apart, as [`matrix`](Self::matrix)
    /// describes one: a box is a part of one of them. The pitch of a single one may be anything.
    pub fn matrices(
        element: ElementType,
        address: u64,
        (count, rows, cols): (u64, u64, u64),
        (pitch, stride): (u64, u64),
        box_shape: (u32, u32),
        swizzle: Swizzle,
    ) -> TiledTensor {
        let one = Self::matrix(element, address, (rows, cols), stride, box_shape, swizzle);
        // The rules hold for strides that nobody uses, too.
        let pitch = if count == 1 { rows.saturating_mul(stride) } else { pitch };
        let [cols, rows, ..] = one.dims;
        TiledTensor {
            rank: 3,
            dims: [cols, rows, count, 1, 1],
            strides: [stride, pitch, 0, 0],
            ..one
        }
    }

    /// Checks all rules.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn check(&self) -> Result<(), TensorMapError> {
        let rank = self.rank as usize;
        if !(1..=MAX_RANK).contains(&rank) {
            return Err(TensorMapError::Rank { found: self.rank });
        }
        if !self.address.is_multiple_of(ALIGNMENT) {
            return Err(TensorMapError::Address { address: self.address });
        }
        for dimension in 0..rank {
            let found = self.dims[dimension];
            if !(1..=MAX_DIM).contains(&found) {
                return Err(TensorMapError::Dim { dimension, found });
            }
            let found = self.box_dims[dimension];
            if !(1..=MAX_BOX_DIM).contains(&found) {
                return Err(TensorMapError::BoxDim { dimension, found });
            }
        }
        self.check_strides()?;
        let found = self.box_row_bytes();
        if !u64::from(found).is_multiple_of(ALIGNMENT) {
            return Err(TensorMapError::BoxRow { found });
        }
        let most = self.swizzle.row_bytes();
        if self.swizzle != Swizzle::None && found > most {
            return Err(TensorMapError::SwizzledRow { found, most });
        }
        let rows = self.box_dims[1..rank].iter().map(|&rows| u64::from(rows)).product::<u64>();
        let (found, most) = (rows * u64::from(self.box_pitch()), MAX_SHARED);
        if found > most.into() {
            return Err(TensorMapError::BoxBytes { found, most });
        }
        Ok(())
    }

    /// Checks the strides from the shortest on: whatever their order, no elements lie on each other.
    fn check_strides(&self) -> Result<(), TensorMapError> {
        let mut dimensions = [1, 2, 3, 4];
        let dimensions = &mut dimensions[..self.rank as usize - 1];
        let stride = |dimension: usize| self.strides[dimension - 1];
        dimensions.sort_unstable_by_key(|&dimension| (stride(dimension), dimension));
        let mut least = self.dims[0].saturating_mul(self.element.bytes().into());
        for &mut dimension in dimensions {
            let found = stride(dimension);
            if !(least..STRIDE_LIMIT).contains(&found) || !found.is_multiple_of(ALIGNMENT) {
                return Err(TensorMapError::Stride { dimension, found, least });
            }
            least = found.saturating_mul(self.dims[dimension]);
        }
        Ok(())
    }

    /// Bytes of a row of a box.
    pub const fn box_row_bytes(&self) -> u32 {
        self.box_dims[0] * self.element.bytes()
    }

    /// Rows of a box, of all dimensions but the innermost.
    pub fn box_rows(&self) -> u32 {
        self.box_dims[1..self.rank as usize].iter().product()
    }

    /// Bytes of a box, which is what the phase of an mbarrier counts.
    pub fn box_bytes(&self) -> u32 {
        self.box_row_bytes() * self.box_rows()
    }

    /// Bytes from one row of a box to the next in shared memory: a row of the swizzle, even where that of the box is
    /// shorter.
    pub fn box_pitch(&self) -> u32 {
        self.box_row_bytes().max(self.swizzle.row_bytes())
    }
}
