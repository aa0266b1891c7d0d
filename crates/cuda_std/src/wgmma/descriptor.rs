//! Where in shared memory an operand lies: its layout, known at compile time, and the descriptor of one matrix.

use super::Element;
use crate::backend;
use crate::memory::SharedPtr;
use crate::swizzle::Swizzle;
use core::marker::PhantomData;

/// Bytes of the unit in which addresses and offsets are given.
const UNIT: u32 = 16;

/// Bytes of an element.
const SIZE: u32 = 2;

/// Elements of a unit.
const U: u32 = UNIT / SIZE;

/// Bytes that the base offset counts.
#[cfg(not(target_arch = "nvptx64"))]
const BASE_UNIT: u32 = 128;

/// Bits of an address or an offset before it is divided by [`UNIT`].
const ADDRESS_BITS: u32 = 18;

/// Where the fields of a descriptor begin.
const LEADING_BIT: u32 = 16;
const STRIDE_BIT: u32 = 32;
const BASE_BIT: u32 = 49;
const SWIZZLE_BIT: u32 = 62;

/// Which dimension of an operand is contiguous in shared memory.
pub trait Major: super::sealed::Sealed + Copy + 'static {
    /// Whether it is M or N.
    const TRANSPOSED: bool;
}

/// Elements that follow each other along K are neighbours: a row-major A, a column-major B.
#[derive(Clone, Copy, Debug)]
pub struct KMajor;

/// Elements that follow each other along M (of A) or N (of B) are neighbours: a column-major A, a row-major B.
#[derive(Clone, Copy, Debug)]
pub struct MnMajor;

impl Major for KMajor {
    const TRANSPOSED: bool = false;
}

impl Major for MnMajor {
    const TRANSPOSED: bool = true;
}

/// The two highest bits of a descriptor for a swizzle.
const fn swizzle_bits(swizzle: Swizzle) -> u64 {
    match swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes128 => 1,
        Swizzle::Bytes64 => 2,
        Swizzle::Bytes32 => 3,
    }
}

/// Encodes an address or an offset in bytes.
const fn encode(bytes: u32) -> u64 {
    assert!(bytes.is_multiple_of(UNIT), "addresses and offsets are multiples of 16 bytes");
    assert!(bytes < 1 << ADDRESS_BITS, "addresses and offsets are less than 256 KiB");
    (bytes / UNIT) as u64
}

/// The bytes that a field stands for, the lowest in `field`.
const fn decode(field: u64) -> u32 {
    (field as u32 & ((1 << (ADDRESS_BITS - UNIT.trailing_zeros())) - 1)) * UNIT
}

/// What a descriptor says but for the start, in bytes.
#[derive(Clone, Copy)]
struct Strides {
    leading: u32,
    stride: u32,
    swizzle: Swizzle,
}

impl Strides {
    const fn new(bits: u64) -> Self {
        Strides {
            leading: decode(bits >> LEADING_BIT),
            stride: decode(bits >> STRIDE_BIT),
            swizzle: match bits >> SWIZZLE_BIT {
                0 => Swizzle::None,
                1 => Swizzle::Bytes128,
                2 => Swizzle::Bytes64,
                _ => Swizzle::Bytes32,
            },
        }
    }

    /// Bytes from the start to element `(i, k)`, but for the swizzle: the table of [`Layout`].
    const fn offset(self, transposed: bool, i: u32, k: u32) -> u32 {
        let Strides { leading, stride, swizzle } = self;
        let b = swizzle.row_bytes();
        let w = b / SIZE;
        match (transposed, swizzle) {
            (false, Swizzle::None) => {
                i % U * UNIT + i / U * stride + k / U * leading + k % U * SIZE
            }
            (false, _) => i % U * b + i / U * stride + k * SIZE,
            (true, Swizzle::None) => k % U * UNIT + k / U * leading + i / U * stride + i % U * SIZE,
            (true, _) => k % U * b + k / U * stride + i / w * leading + i % w * SIZE,
        }
    }
}

/// How operands of one kind lie in shared memory: a constant of the kernel, which [`at`](Self::at) makes a
/// [`Descriptor`] of.
///
/// Let `u` be the elements of 16 bytes (8), and `w` those of a row of the swizzle. Element `(i, k)` of an operand, `i`
/// along M or N, begins without swizzle at this many bytes from the start, and with swizzle at that address `apply`ed
/// ([`Swizzle::apply`]) (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Strides"):
///
/// | | no swizzle | swizzle of rows of `b` bytes |
/// |---|---|---|
/// | [`KMajor`] | `i % 8 * 16 + i / 8 * stride + k / u * leading + k % u * size` | `i % 8 * b + i / 8 * stride + k * size` |
/// | [`MnMajor`] | `k % 8 * 16 + k / 8 * leading + i / u * stride + i % u * size` | `k % 8 * b + k / 8 * stride + i / w * leading + i % w * size` |
///
/// Where a swizzled operand is K-major, `leading` is not used, since a row holds all of an instruction's K: its next 16
/// columns begin 32 bytes further on ([`Descriptor::advance`]).
#[derive(Clone, Copy, Debug)]
pub struct Layout<T, M> {
    bits: u64,
    operand: PhantomData<fn() -> (T, M)>,
}

impl<T: Element, M: Major> Layout<T, M> {
    /// The layout with these two offsets, in bytes.
    ///
    /// # Panics
    /// Where an offset is no multiple of 16 or not less than 256 KiB: meant to be evaluated at compile time.
    pub const fn new(swizzle: Swizzle, leading: u32, stride: u32) -> Self {
        let bits = encode(leading) << LEADING_BIT
            | encode(stride) << STRIDE_BIT
            | swizzle_bits(swizzle) << SWIZZLE_BIT;
        Layout { bits, operand: PhantomData }
    }

    /// The same for matrices whose swizzle pattern does not begin at a multiple of its length, but `rows` times 128
    /// bytes later ("Matrix base offset"). `rows` is less than 8.
    ///
    /// # Panics
    /// Where it is not: meant to be evaluated at compile time.
    pub const fn with_base_offset(self, rows: u32) -> Self {
        assert!(rows < 8, "the pattern begins within 1024 bytes");
        let bits = self.bits & !(7 << BASE_BIT) | (rows as u64) << BASE_BIT;
        Layout { bits, operand: PhantomData }
    }

    /// Bytes from the start of an operand to its element `(i, k)`, where the start is one of a swizzle pattern and the
    /// base offset is 0: where a kernel that fills the operand itself stores that element. Of a swizzled K-major
    /// operand, `k` is less than the elements of a row.
    #[inline(always)]
    pub const fn offset(self, i: u32, k: u32) -> u32 {
        let strides = Strides::new(self.bits);
        strides.swizzle.apply(strides.offset(M::TRANSPOSED, i, k))
    }

    /// The matrix that starts there. The address must be a multiple of 16, and with swizzle lie in the first row of the
    /// pattern.
    #[inline(always)]
    #[track_caller]
    pub fn at(self, start: SharedPtr<T>) -> Descriptor<T, M> {
        let bits = self.bits | backend::wgmma_start(start.address());
        Descriptor { bits, operand: PhantomData }
    }
}

/// An operand in shared memory, as the instruction wants it (PTX ISA, "Matrix Descriptor Format").
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<T, M> {
    bits: u64,
    operand: PhantomData<fn() -> (T, M)>,
}

impl<T: Element, M: Major> Descriptor<T, M> {
    /// The matrix that starts `bytes` further on, a multiple of 16.
    #[inline(always)]
    pub const fn advance(self, bytes: u32) -> Self {
        // Nothing is carried out of the lower word, and so half of the addition is.
        let low = (self.bits as u32).wrapping_add(bytes / UNIT);
        Descriptor { bits: self.bits & !(u32::MAX as u64) | low as u64, operand: PhantomData }
    }

    /// The 64 bits.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.bits
    }
}

/// A descriptor as the simulator reads it.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    /// The lowest 18 bits of the address.
    pub(crate) start: u32,
    strides: Strides,
    base_offset: u32,
    transposed: bool,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Operand {
    /// Bits that belong to no field, among those whose meaning the manual leaves open.
    const RESERVED: u64 = 0b11 << 14 | 0b11 << 30 | 0b111 << 46;

    /// What the bits say, or what is wrong with them.
    pub(crate) fn decode(bits: u64, transposed: bool) -> Result<Self, &'static str> {
        let strides = Strides::new(bits);
        let (start, swizzle) = (decode(bits), strides.swizzle);
        let base_offset = (bits >> BASE_BIT) as u32 % 8;
        if bits & Self::RESERVED != 0 {
            return Err("has bits set that belong to no field: an offset has left its 18 bits");
        }
        if swizzle != Swizzle::None {
            let rows = swizzle.repeats_after() / BASE_UNIT;
            if start / BASE_UNIT % rows != base_offset % rows {
                return Err(
                    "does not start in the first row of a swizzle pattern, and its base offset does not say so",
                );
            }
            let row = swizzle.row_bytes();
            if !transposed && start % row + super::K as u32 * SIZE > row {
                return Err("is K-major and runs off the end of its swizzled rows");
            }
        }
        Ok(Operand { start, strides, base_offset, transposed })
    }

    /// Bytes from address 0 to the unit of 8 elements that begins with `(i, k)`, where the lowest bits of the address
    /// are those of the start.
    pub(crate) fn unit(&self, i: u32, k: u32) -> u32 {
        let base = self.base_offset * BASE_UNIT;
        let address = self.start + self.strides.offset(self.transposed, i, k);
        self.strides.swizzle.apply(address.wrapping_sub(base)).wrapping_add(base)
    }
}
