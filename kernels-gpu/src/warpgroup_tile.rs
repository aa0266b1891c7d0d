//! The part of D that one warpgroup owns: 64 rows of it, in registers that the compiler never touches.
//!
//! # Contract
//! `N` columns by 64 rows of sums, which [`Accumulators`] holds under names of PTX. A warp has 16 of the rows, two times 8: in
//! each 8 columns a lane has a pair of sums in the upper 8 rows and a pair in the lower, the pairs of [`SumsOnTheWay`].
//!
//! That is one of two ways to D: the one for any epilogue and any D. While sums are on their way the warpgroup does not multiply, so
//! where an epilogue only scales, and D's rows consist of 16 bytes, they take a shorter one: they are scaled and rounded where
//! they are, take half of the room, and a lane fetches and stores 8 elements at a time. Nothing in between depends on what is
//! known at run time, so it is all written out.

use crate::bulk_panels::BulkPanel;
use crate::element::{Accumulator, Element};
use crate::epilogue::Epilogue;
use crate::params::GemmParams;
use crate::sums_on_the_way::{LANES, SumsOnTheWay};
use crate::tile::Origin;
use cuda_std::memory::SharedPtr;
use cuda_std::wgmma::{self, Accumulators, K, M, Major, THREADS};
use cuda_std::{hint, thread, unroll, warp};

/// Warps of a warpgroup.
const WARPS: u32 = THREADS / warp::WARP_SIZE;

/// Rows of a warp's sums.
const WARP_ROWS: usize = M / WARPS as usize;

/// Columns of the sums that take the way to D at a time.
const PART_COLS: usize = 64;

/// Rows and columns of sums that a warp holds together: 8 x 8, a pair in each lane.
const EIGHT: usize = 8;

/// Elements that a lane stores together where D's rows consist of them: 16 bytes.
const CHUNK: u32 = 8;

/// Words of a chunk.
const CHUNK_WORDS: u32 = 4;

/// Chunks and words of a row of a part, of which each row is 128 bytes.
const ROW_CHUNKS: u32 = 8;
const ROW_WORDS: u32 = ROW_CHUNKS * CHUNK_WORDS;

/// This lane's pairs in the upper and the lower 8 rows of 8 columns, whose registers begin with the one of this constant index.
macro_rules! pairs {
    ($sums:expr, $first:ident) => {
        [
            [$sums.get::<$first>(), $sums.get::<{ $first + 1 }>()],
            [$sums.get::<{ $first + 2 }>(), $sums.get::<{ $first + 3 }>()],
        ]
    };
}

/// Bytes of shared memory that the sums of one warp take on their way.
pub const BYTES_OF_WARP: u32 = (WARP_ROWS * PART_COLS * size_of::<f32>()) as u32;

/// The sums of a warpgroup.
pub struct WarpgroupTile<const N: usize> {
    sums: Accumulators<N>,
}

impl<const N: usize> WarpgroupTile<N> {
    /// The sums, of undefined values.
    ///
    /// # Safety
    /// As for [`Accumulators::declare`].
    #[inline(always)]
    #[track_caller]
    pub unsafe fn declare() -> Self {
        // SAFETY: as promised by the caller.
        WarpgroupTile { sums: unsafe { Accumulators::declare() } }
    }

    /// Makes all sums zero: those of a product without depth.
    ///
    /// # Safety
    /// No [product](Self::begin_products) is under way.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn clear(&mut self) {
        macro_rules! clear {
            ($($first:literal)*) => {$(
                unroll!(i < 32, {
                    if const { $first + i < N / 2 } {
                        // SAFETY: as promised by the caller.
                        unsafe { self.sums.set::<{ $first + i }>(0.0) };
                    }
                });
            )*};
        }
        clear!(0 32 64 96);
    }

    /// Begins to add the products of a slice: of 64 rows of A, from the `row`-th of its panel on, and all columns of B. For the
    /// `first` slice of a tile what the sums were before does not count.
    ///
    /// # Safety
    /// All threads of the warpgroup get here together. Nobody writes the panels until the products have been
    /// [waited for](Self::wait).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn begin_products<
        T: wgmma::Element,
        A: Major,
        B: Major,
        const BM: usize,
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
                self.sums.mma_async(a, b, !first || step != 0);
            });
            wgmma::commit_group();
        }
    }

    /// Waits until the products of all slices but the `NEWEST` have been added.
    ///
    /// # Safety
    /// All threads of the warpgroup get here together.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn wait<const NEWEST: usize>(&self) {
        // SAFETY: as promised by the caller.
        unsafe { wgmma::wait_group::<NEWEST>() }
    }

    /// Puts the sums through the epilogue and stores what lies in D, where the warpgroup's part begins at `origin`, by way of
    /// [`BYTES_OF_WARP`] bytes of shared memory from `scratch` on, which are this warp's own.
    ///
    /// # Safety
    /// All lanes of the warp get here together; all products have been waited for. D and the epilogue's operands are valid for
    /// the shapes in `params`.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store<T: Element<Acc = f32> + wgmma::Element, E: Epilogue<T>>(
        &self,
        params: &GemmParams<T, E>,
        origin: Origin,
        scratch: SharedPtr<f32>,
    ) {
        const { assert!(N.is_multiple_of(PART_COLS) && N / PART_COLS <= 4, "as many parts") };
        let warp = thread::thread_idx_x() % THREADS / warp::WARP_SIZE;
        let origin = Origin { row: origin.row + warp * WARP_ROWS as u32, ..origin };
        let whole = params.d.has_vectors(CHUNK) && params.n.is_multiple_of(CHUNK);
        // SAFETY: as promised by the caller.
        unsafe {
            match params.epilogue.only_scales() {
                Some(factor) if whole => self.store_scaled(params, factor, origin, scratch.cast()),
                _ => self.store_by_epilogue(params, origin, scratch),
            }
        }
    }

    /// [`store`](Self::store) for any epilogue and any D.
    ///
    /// # Safety
    /// As for [`store`](Self::store); `origin` is that of the warp's part.
    #[inline(always)]
    #[track_caller]
    unsafe fn store_by_epilogue<T: Element<Acc = f32>, E: Epilogue<T>>(
        &self,
        params: &GemmParams<T, E>,
        origin: Origin,
        scratch: SharedPtr<f32>,
    ) {
        let scratch = SumsOnTheWay::new(scratch, WARP_ROWS, PART_COLS);
        // One copy of the epilogue's code for all parts.
        for part in 0..hint::opaque((N / PART_COLS) as u32) {
            // Registers have names and no indices.
            macro_rules! write {
                ($($part:literal)*) => {$(
                    if const { $part < N / PART_COLS } && part == $part {
                        unroll!(j < PART_COLS / EIGHT, {
                            const FIRST: usize = ($part * PART_COLS / EIGHT + j) * 4;
                            // SAFETY: as promised by the caller.
                            unsafe {
                                let [upper, lower] = pairs!(self.sums, FIRST);
                                scratch.write(0, j, upper);
                                scratch.write(1, j, lower);
                            }
                        });
                    }
                )*};
            }
            write!(0 1 2 3);
            let col = origin.col + part * PART_COLS as u32;
            // SAFETY: as promised by the caller; the lanes write the next part when all have read this one.
            unsafe {
                scratch.store(params, Origin { col, ..origin });
                warp::sync_warp(warp::FULL_MASK);
            }
        }
    }

    /// [`store`](Self::store) where sums are only multiplied by `factor` and D's rows consist of chunks.
    ///
    /// A row of a part is 128 bytes in shared memory, as many as there are in all banks, and its chunks change places with those
    /// of the rows next to it: chunk `c` of row `r` lies where chunk `c ^ (r % 8)` would. So the pairs that lanes write together, in 8
    /// rows of one chunk, lie in different banks, as do the chunks that they read.
    ///
    /// # Safety
    /// As for [`store`](Self::store); `origin` is that of the warp's part.
    #[inline(always)]
    #[track_caller]
    unsafe fn store_scaled<T: Element<Acc = f32> + wgmma::Element, E>(
        &self,
        params: &GemmParams<T, E>,
        factor: f32,
        origin: Origin,
        scratch: SharedPtr<u32>,
    ) {
        const {
            assert!(PART_COLS as u32 == ROW_CHUNKS * CHUNK, "rows that fill all banks");
            assert!(2 * WARP_ROWS as u32 * ROW_WORDS * 4 <= BYTES_OF_WARP, "room for two parts");
        }
        let lane = warp::lane_id();
        let (g, t) = (lane / LANES.1 as u32, lane % LANES.1 as u32);
        let (row, chunk) = (lane / ROW_CHUNKS, lane % ROW_CHUNKS);
        let rows = warp::WARP_SIZE / ROW_CHUNKS;
        let first = params.d.of_block().at(origin.row + row, origin.col + chunk * CHUNK);
        let step = u64::from(rows) * params.d.first.ld;
        let scaled = |pair: [f32; 2]| wgmma::pack::<T>(pair.map(|sum| f32::fma(factor, sum, 0.0)));
        macro_rules! store {
            ($($part:literal)*) => {$(
                if const { $part < N / PART_COLS } {
                    // Lanes may still be reading the part before.
                    let scratch = scratch.add($part % 2 * WARP_ROWS as u32 * ROW_WORDS);
                    unroll!(j < PART_COLS / EIGHT, {
                        const FIRST: usize = ($part * PART_COLS / EIGHT + j) * 4;
                        let place = scratch.add(g * ROW_WORDS + (j as u32 ^ g) * CHUNK_WORDS + t);
                        // SAFETY: as promised by the caller; the room is the warp's own.
                        unsafe {
                            let [upper, lower] = pairs!(self.sums, FIRST);
                            place.store(scaled(upper));
                            place.add(EIGHT as u32 * ROW_WORDS).store(scaled(lower));
                        }
                    });
                    // SAFETY: all lanes get here together.
                    unsafe { warp::sync_warp(warp::FULL_MASK) };
                    unroll!(turn < WARP_ROWS * ROW_CHUNKS as usize / warp::WARP_SIZE as usize, {
                        let row = turn as u32 * rows + row;
                        let place = row * ROW_WORDS + (chunk ^ (row % ROW_CHUNKS)) * CHUNK_WORDS;
                        let col = $part * PART_COLS as u32;
                        let inside = origin.row + row < params.m
                            && origin.col + col + chunk * CHUNK < params.n;
                        let target = first.add(turn as u64 * step + u64::from(col));
                        // SAFETY: as promised by the caller; the part is written, and all of a chunk lies in D or nothing.
                        unsafe {
                            let elements = scratch.add(place).load_vec::<{ CHUNK_WORDS as usize }>();
                            target.cast::<u32>().store_vec_if(inside, elements);
                        }
                    });
                }
            )*};
        }
        store!(0 1 2 3);
    }
}
