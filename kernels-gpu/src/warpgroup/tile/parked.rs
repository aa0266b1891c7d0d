//! The last parts of a tile on their way to D, in registers while the next tile is multiplied.
//!
//! An [outbox] has room for two parts. Who has more to send waits until hardware has read the first of them, for longer
//! than all instructions of an epilogue take, and nobody multiplies meanwhile. So the third and the fourth part stay
//! where they are, packed into half as many registers as their sums had, and leave when the next tile's products are
//! under way:
//!
//! ```text
//! products   ..  last |                          | 0 | 1 | 2 | 3 ..    the next tile
//! sums                | 0 send  1 send  2   3    |
//! parked                              ----------------- | wait, 2 send, wait, 3 send
//! ```

use super::WarpgroupTile;
use super::store::turns_of_part;
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::maps::Mapped;
use crate::params::GemmParams;
use crate::swapped::Operands;
use crate::tile::Origin;
use crate::warpgroup::outbox::{self, Outbox};
use crate::warpgroup::outgoing::Outgoing;
use cuda_std::device_inline;

/// How many times [`pairs::COLS`](crate::epilogue::pairs::COLS) columns of 16 bits are parked at most.
pub(super) const TURNS: usize = 4;

/// What is left of a warp's part of D, if anything is.
#[derive(Clone, Copy)]
pub struct Parked<D: Outgoing> {
    /// By [`pairs::COLS`](crate::epilogue::pairs::COLS) columns.
    pub(super) packed: [D::Packed; TURNS],
    /// Where the warp's part of D begins.
    pub(super) origin: Origin,
    /// Which of the matrices D of a [map](Mapped) it is of; negative where nothing is left.
    pub(super) index: i32,
}

impl<D: Outgoing> Parked<D> {
    /// Nothing.
    #[device_inline]
    pub fn nothing() -> Self {
        Parked {
            packed: [D::Packed::default(); TURNS],
            origin: Origin { row: 0, col: 0 },
            index: -1,
        }
    }

    /// Whether anything is left.
    #[device_inline]
    pub(super) fn is_there(&self) -> bool {
        self.index >= 0
    }
}

impl<const N: usize, const BM: usize, O: Operands> WarpgroupTile<N, BM, O> {
    /// The first of the turns that are parked: parts before it find room in the outbox.
    pub(super) const fn first_parked<D>() -> u32 {
        outbox::ROOMS * turns_of_part::<D>()
    }

    /// Sends what is left of a warp's part of D, of a tile of `cols` columns where it [fits](crate::warpgroup::fit):
    /// then whole parts, or, where A and B are [swapped](crate::swapped), what there is of any. Columns behind those of
    /// the tile are forgotten.
    ///
    /// # Safety
    /// All lanes of the warp get here together. D is valid for the shape in `params`.
    #[device_inline]
    #[track_caller]
    pub unsafe fn send_parked<T: Element, E: Epilogue<D>, D: Outgoing, const FITS: bool>(
        params: &GemmParams<T, E, D>,
        parked: &Parked<D>,
        cols: impl Fn() -> u32,
        outbox: &mut Outbox<O>,
    ) {
        let turns = const { turns_of_part::<D>() };
        let cols = if const { FITS } { cols() } else { 0 };
        let of_part = const { outbox::cols::<D>() as u32 };
        let parts = if const { O::SWAPPED } { cols.div_ceil(of_part) } else { cols / of_part };
        if !parked.is_there() {
            return;
        }
        macro_rules! send {
            ($($i:literal)*) => {$(
                if const { Self::first_parked::<D>() + $i < Self::TURNS }
                    && (const { !FITS } || (Self::first_parked::<D>() + $i) / turns < parts)
                {
                    // SAFETY: as promised by the caller; only of a mapped D parts are left. A part is sent when all of
                    // its turns have been written.
                    unsafe {
                        if $i % turns == 0 {
                            outbox.wait();
                        }
                        D::write(outbox, $i % turns, parked.packed[$i]);
                        if $i % turns == turns - 1 {
                            let turn = const { Self::first_parked::<D>() + $i };
                            let d = Mapped { index: parked.index, ..params.mapped_d() };
                            let part = Self::part_at::<D>(parked.origin, turn);
                            if const { FITS && O::SWAPPED } {
                                outbox.send_before(d, part, parked.origin.col + cols);
                            } else {
                                outbox.send(d, part);
                            }
                        }
                    }
                }
            )*};
        }
        send!(0 1 2 3);
    }
}
