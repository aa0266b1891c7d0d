//! A mapped D and a long epilogue, of large tiles: code written out for one half of the sums, to which the other half
//! is moved.

use super::{HALF, NO_ADDENDS, OF_TURN, addends_of, turns_of_part};
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::epilogue::pairs::{self, FetchedVectors};
use crate::params::GemmParams;
use crate::swapped::Operands;
use crate::tile::Origin;
use crate::warpgroup::outbox::Outbox;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::tile::{OF_EIGHT, Parked, WarpgroupTile};
use core::mem::replace;
use cuda_std::{device_inline, hint, unroll};

impl<const N: usize, const BM: usize, O: Operands> WarpgroupTile<N, BM, O> {
    /// [`store_written_out`](Self::store_written_out) by one copy of the code for a half of the sums, to which the
    /// other half is moved: a multiprocessor's instruction cache has no room for all of an epilogue like GELU beside
    /// the loop, and instructions that are not there take longer than those that move. The second half is parked, where
    /// results may be, and the first leaves before it is worked out.
    ///
    /// # Safety
    /// As for [`store_written_out`](Self::store_written_out). There are twice as many turns as [`HALF`].
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn store_in_halves<
        T: Element,
        E: Epilogue<D>,
        D: Outgoing,
        const BY_TANH: bool,
    >(
        &mut self,
        params: &GemmParams<T, E, D>,
        (factor, vectors): (f32, Option<FetchedVectors>),
        (origin, outbox): (Origin, &mut Outbox<O>),
    ) -> Parked<D> {
        const {
            let fits = Self::first_parked::<D>() == HALF || !D::IS_PARKED;
            assert!(fits, "what is not parked is one half");
        };
        let turns = const { turns_of_part::<D>() };
        // SAFETY: as promised by the caller.
        let index = unsafe { params.mapped_d().index };
        let mut parked = Parked { origin, index, ..Parked::nothing() };
        // What there is of the turns from the first on. A part is sent when all of its turns have been written.
        macro_rules! send {
            ($packed:expr, $first:expr; $($turn:literal)*) => {$(
                if $turn % turns == 0 {
                    outbox.wait();
                }
                D::write(outbox, $turn % turns, $packed[$turn]);
                if $turn % turns == turns - 1 {
                    let part = Self::part_at::<D>(origin, $first + $turn);
                    outbox.send(params.mapped_d(), part);
                }
            )*};
        }
        for half in 0..hint::opaque(2) {
            if half != 0 {
                // SAFETY: as promised by the caller.
                unsafe {
                    if const { D::IS_PARKED } {
                        send!(parked.packed, 0; 0 1 2 3);
                    }
                    self.move_half();
                }
            }
            let first = half * HALF;
            let scale = D::short_gelu_scale(BY_TANH);
            // SAFETY: as promised by the caller.
            let mut next =
                unsafe { addends_of::<D, O>(vectors, first % Self::TURNS_OF_PIECE, scale) };
            macro_rules! pack {
                ($($turn:literal)*) => {$(
                    // SAFETY: as promised by the caller.
                    unsafe {
                        let following = if const { $turn + 1 < HALF } {
                            let turn = (first + $turn + 1) % Self::TURNS_OF_PIECE;
                            addends_of::<D, O>(vectors, turn, scale)
                        } else {
                            NO_ADDENDS
                        };
                        let addends = replace(&mut next, following);
                        let values =
                            finished!(self.sums, $turn, factor, addends, true, BY_TANH);
                        parked.packed[$turn] = D::pack(values);
                        if const { !D::IS_PARKED } {
                            send!(parked.packed, first; $turn);
                        }
                    }
                )*};
            }
            pack!(0 1 2 3);
        }
        if const { D::IS_PARKED } { parked } else { Parked::nothing() }
    }

    /// Moves the sums of the second half of all turns to where those of the first are.
    ///
    /// # Safety
    /// All products have been waited for.
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn move_half(&mut self) {
        const SUMS: usize = HALF as usize * OF_TURN;
        macro_rules! of_eight {
            ($($first:literal)*) => {$(
                unroll!(i < 8, {
                    if const { SUMS + $first + i < Self::SUMS } {
                        // SAFETY: as promised by the caller.
                        unsafe {
                            let sum = self.sums.get::<{ SUMS + $first + i }>();
                            self.sums.set::<{ $first + i }>(sum);
                        }
                    }
                });
            )*};
        }
        of_eight!(0 8 16 24 32 40 48 56);
    }
}
