//! What is different where a tile [fits](crate::warpgroup::fit): it may have fewer columns than there are accumulators.
//!
//! Instructions multiply its columns alone. Where it may have more than two parts the first two of a piece are whole,
//! and leave as those of any tile; to put all of the rest through the epilogue is quicker than to ask which of it there
//! is. Of what is [parked](Parked) whole parts wait, what is left of one leaves at once, and columns behind those of
//! the tile are forgotten. Where A and B are [swapped](crate::swapped) columns of a tile are rows of D, and what is
//! left of a part waits too.

use super::store::turns_of_part;
use super::{Parked, WarpgroupTile};
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::params::GemmParams;
use crate::slices::ring::Ring;
use crate::swapped::Operands;
use crate::warpgroup::bulk_panels::BulkPanel;
use crate::warpgroup::fit::has_width;
use crate::warpgroup::outbox::{self, Outbox};
use crate::warpgroup::outgoing::Outgoing;
use core::hint::unreachable_unchecked;
use cuda_std::device_inline;
use cuda_std::unroll;
use cuda_std::wgmma::{self, K, M, Major};

impl<const N: usize, const BM: usize, O: Operands> WarpgroupTile<N, BM, O> {
    /// [`begin_products`](Self::begin_products) of `cols` columns.
    ///
    /// # Safety
    /// As for that; it is one of the [widths](crate::warpgroup::fit::widths).
    #[device_inline]
    #[track_caller]
    pub unsafe fn begin_products_of_cols<T: wgmma::Element, A: Major, B: Major, const BK: usize>(
        &mut self,
        a: (BulkPanel<T, A, BM, BK>, u32),
        (b, cols): (BulkPanel<T, B, N, BK>, u32),
        first: bool,
    ) {
        macro_rules! begin {
            ($($cols:literal)*) => {
                match cols {
                    // SAFETY: as promised by the caller.
                    $($cols if const { has_width(N, $cols) } => unsafe {
                        self.begin_products_of::<$cols, T, A, B, BK>(a, b, first)
                    },)*
                    // SAFETY: as promised by the caller.
                    _ => unsafe { unreachable_unchecked() },
                }
            };
        }
        begin!(80 96 112 128 144 160 176 192 208 224 240 256);
    }

    /// Adds the products of so many slices more of `cols` columns, whose panels are in the stages that the ring gives
    /// next: a loop for each width, since to find the instructions of a width for each slice anew takes as long as some
    /// of them multiply. Those of the last are still under way then.
    ///
    /// # Safety
    /// As for [`begin_products_of_cols`](Self::begin_products_of_cols), for each slice; there has been one before.
    #[device_inline]
    #[track_caller]
    pub unsafe fn add_products_of_cols<
        T: wgmma::Element,
        A: Major,
        B: Major,
        const BK: usize,
        const STAGES: u32,
    >(
        &mut self,
        cols: u32,
        slices: u32,
        ring: &mut Ring<STAGES>,
        panels: impl Fn(u32) -> ((BulkPanel<T, A, BM, BK>, u32), BulkPanel<T, B, N, BK>),
    ) {
        macro_rules! add {
            ($($cols:literal)*) => {
                match cols {
                    $($cols if const { has_width(N, $cols) } => for _ in 0..slices {
                        // SAFETY: as promised by the caller; a stage is given back when its products have been waited
                        // for.
                        unsafe {
                            let (a, b) = panels(ring.wait_full());
                            self.begin_products_of::<$cols, T, A, B, BK>(a, b, false);
                            self.wait::<1>();
                            ring.emptied();
                        }
                    },)*
                    // SAFETY: as promised by the caller.
                    _ => unsafe { unreachable_unchecked() },
                }
            };
        }
        add!(80 96 112 128 144 160 176 192 208 224 240 256);
    }

    /// [`begin_products`](Self::begin_products) of `COLS` columns.
    ///
    /// # Safety
    /// As for [`begin_products`](Self::begin_products).
    #[device_inline]
    #[track_caller]
    unsafe fn begin_products_of<
        const COLS: usize,
        T: wgmma::Element,
        A: Major,
        B: Major,
        const BK: usize,
    >(
        &mut self,
        (a, row): (BulkPanel<T, A, BM, BK>, u32),
        b: BulkPanel<T, B, N, BK>,
        first: bool,
    ) {
        let (a, b) = (a.operand(row), b.operand(0));
        // SAFETY: as promised by the caller.
        unsafe {
            wgmma::fence();
            unroll!(step < BK / K, {
                let a = BulkPanel::<T, A, BM, BK>::step(a, step as u32);
                let b = BulkPanel::<T, B, N, BK>::step(b, step as u32);
                self.sums.mma_async_of_cols::<COLS, _, _, _>(a, b, !first || step != 0);
                if let Some(below) = &mut self.below {
                    let a = BulkPanel::<T, A, BM, BK>::further(a, M as u32);
                    below.mma_async_of_cols::<COLS, _, _, _>(a, b, !first || step != 0);
                }
            });
            wgmma::commit_group();
        }
    }

    /// Sends what a tile of `cols` columns has besides whole parts, once it has been [stored](Self::store_or_park).
    ///
    /// # Safety
    /// As for [`send_parked`](Self::send_parked); `params` have no columns behind those of the tile.
    #[device_inline]
    #[track_caller]
    pub unsafe fn send_rest<T: Element, E: Epilogue<D>, D: Outgoing>(
        params: &GemmParams<T, E, D>,
        parked: &Parked<D>,
        cols: u32,
        outbox: &mut Outbox<O>,
    ) {
        let turns = const { turns_of_part::<D>() };
        let (whole, rest) = whole_and_rest::<D>(cols);
        if !parked.is_there() || rest == 0 {
            return;
        }
        macro_rules! send {
            ($($i:literal)*) => {$(
                if const { Self::first_parked::<D>() + $i < Self::TURNS }
                    && (Self::first_parked::<D>() + $i) / turns == whole
                {
                    // SAFETY: as promised by the caller.
                    unsafe {
                        if $i % turns == 0 {
                            outbox.wait();
                        }
                        D::write(outbox, $i % turns, parked.packed[$i]);
                        if $i % turns == turns - 1 {
                            let turn = const { Self::first_parked::<D>() + $i };
                            outbox.send_pieces(params, Self::part_at::<D>(parked.origin, turn));
                        }
                    }
                }
            )*};
        }
        send!(0 1 2 3);
    }
}

/// Whole parts of a tile, and columns besides.
#[device_inline]
const fn whole_and_rest<D>(cols: u32) -> (u32, u32) {
    let of_part = outbox::cols::<D>() as u32;
    (cols / of_part, cols % of_part)
}
