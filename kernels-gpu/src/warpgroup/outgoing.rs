//! Elements of D on their way out, and of C on their way in: what a warp makes of its sums, and how it writes that to a
//! [part] and reads it from one.
//!
//! Of 16 bits matrices of 8 x 8 go to shared memory and come from there with one instruction; of f32 lanes write and
//! read their own pairs.

use crate::element::Element;
use crate::epilogue::pairs::{self, Pairs, Words};
use crate::swapped::Operands;
use crate::warpgroup::outbox::Outbox;
use crate::warpgroup::part::{self, BLOCK};
use cuda_std::{device_inline, hint, mma, warp, wgmma};
use half::{bf16, f16};

/// An element of D, and of C that has come as a [part].
pub trait Outgoing: Element<Acc = f32> {
    /// Whether the last of a tile may be kept in registers until later: of 32 bits it takes twice as many as there are.
    const IS_PARKED: bool;

    /// A lane's values of [`pairs::COLS`] columns as they are written.
    type Packed: Copy + Default;

    /// Makes them of the values.
    fn pack(values: Pairs<f32>) -> Self::Packed;

    /// Writes a lane's values of the `turn`-th [`pairs::COLS`] columns of the part.
    ///
    /// # Safety
    /// All lanes of the warp get here together. The room is the warp's own, and a part has so many columns.
    #[track_caller]
    unsafe fn write<O: Operands>(outbox: &Outbox<O>, turn: u32, packed: Self::Packed);

    /// Reads a lane's elements of the `turn`-th [`pairs::COLS`] columns of the part that begins at an address of shared
    /// memory: that of the warp, or, where operands are swapped, of its warpgroup.
    ///
    /// # Safety
    /// All lanes of the warp get here together. The part is there, and has so many columns.
    #[track_caller]
    unsafe fn read<O: Operands>(part: u32, turn: u32) -> [[Words; pairs::PAIRS]; pairs::ROWS];
}

macro_rules! rounded {
    ($($t:ident)*) => {$(
        impl Outgoing for $t {
            const IS_PARKED: bool = true;
            type Packed = [[u32; 4]; pairs::COLS / BLOCK];

            #[device_inline]
            fn pack(values: Pairs<f32>) -> Self::Packed {
                let [upper, lower] = values.map(|row| row.map(wgmma::pack::<$t>));
                [0, 2].map(|j| [upper[j], lower[j], upper[j + 1], lower[j + 1]])
            }

            #[device_inline]
            #[track_caller]
            unsafe fn write<O: Operands>(outbox: &Outbox<O>, turn: u32, packed: Self::Packed) {
                let first = turn * packed.len() as u32;
                for (block, words) in packed.into_iter().enumerate() {
                    // SAFETY: as promised by the caller.
                    unsafe { outbox.write_block(first + block as u32, words) };
                }
            }

            #[device_inline]
            #[track_caller]
            unsafe fn read<O: Operands>(
                part: u32,
                turn: u32,
            ) -> [[Words; pairs::PAIRS]; pairs::ROWS] {
                let first = turn * (pairs::COLS / BLOCK) as u32;
                // What of places is the same for all tiles would take registers all the while.
                let lane = hint::opaque(warp::lane_id());
                let read = |block: u32| {
                    // SAFETY: as promised by the caller.
                    unsafe {
                        if const { O::SWAPPED } {
                            let place = part::transposed_block(part, first + block, lane);
                            mma::load_matrices::<$t, true>(place.cast())
                        } else {
                            mma::load_matrices::<$t, false>(part::block(part, first + block, lane).cast())
                        }
                    }
                };
                let [left, right] = [read(0), read(1)];
                [0, 1].map(|i| [left[i], left[i + 2], right[i], right[i + 2]].map(|pair| [pair, 0]))
            }
        }
    )*};
}

rounded!(f16 bf16);

impl Outgoing for f32 {
    const IS_PARKED: bool = false;
    type Packed = Pairs<f32>;

    #[device_inline]
    fn pack(values: Pairs<f32>) -> Self::Packed {
        values
    }

    #[device_inline]
    #[track_caller]
    unsafe fn write<O: Operands>(outbox: &Outbox<O>, _turn: u32, values: Pairs<f32>) {
        if const { O::SWAPPED } {
            unreachable!("lanes store them themselves");
        }
        // SAFETY: as promised by the caller.
        unsafe { part::write_f32(outbox.part(), values) };
    }

    #[device_inline]
    #[track_caller]
    unsafe fn read<O: Operands>(part: u32, _turn: u32) -> [[Words; pairs::PAIRS]; pairs::ROWS] {
        // SAFETY: as promised by the caller.
        unsafe {
            if const { O::SWAPPED } {
                part::read_transposed_f32(part)
            } else {
                part::read_f32(part)
            }
        }
    }
}
