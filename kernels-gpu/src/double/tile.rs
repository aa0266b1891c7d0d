//! The part of D that one warp owns in double precision, and the products of tensor cores that build it.
//!
//! # Contract
//! That of [`crate::warp::tile`]: a block of `TM x TN` thread tiles owns `BM x BN` elements of D, a warp `8 TM x 4 TN`
//! of them. Two of a thread's rows by two of its columns are a product of 16 x 8 ([`cuda_std::mma::double`]).
//!
//! Half of a warp's registers are sums. A step is only 4 values of k, so that there is room for the fragments of two:
//! those of the next step are read while those of this one are multiplied, and have all of its time to arrive.
//!
//! The sums go to D [through shared memory](crate::double::sums), where slices are no longer needed by then.

mod hand_over;

use crate::double::panels::{DoubleReader, FragmentReader};
use crate::double::sums::{self, DoubleSums, PAIR};
use crate::element::Accumulator;
use crate::epilogue::Epilogue;
use crate::kernel::GemmKernel;
use crate::params::GemmParams;
use crate::tile::Origin;
use crate::warp::panels::{Panel, PanelA, PanelB, Panels};
use crate::warp::sums_on_the_way::LANES;
use core::marker::PhantomData;
use cuda_std::memory::SharedPtr;
use cuda_std::mma::double;
use cuda_std::{device_inline, hint, shared, thread, unroll, warp};

/// Values of k of a step.
pub const STEP: usize = double::SMALLEST_K;

/// A lane's elements of what a warp multiplies in a step: one for each 8 rows of A, and one for each 8 columns of B, of
/// which there are half as many as a thread has columns.
#[derive(Clone, Copy)]
pub struct Fragments<const TM: usize, const TN: usize> {
    a: [f64; TM],
    b: [f64; TN],
}

/// A thread's part of the sums of its warp's part of D.
pub struct DoubleTile<
    K: GemmKernel,
    const TM: usize,
    const TN: usize,
    A = DoubleReader<PanelA<K>>,
    B = DoubleReader<PanelB<K>>,
> {
    sums: [[f64; TN]; TM],
    a: A,
    b: B,
    kernel: PhantomData<K>,
}

impl<
    K: GemmKernel<Element = f64>,
    const TM: usize,
    const TN: usize,
    A: FragmentReader,
    B: FragmentReader,
> DoubleTile<K, TM, TN, A, B>
{
    /// Rows and columns of D that a warp owns.
    const ROWS: usize = LANES.0 * TM;
    const COLS: usize = LANES.1 * TN;
    /// Warps along a row of the block's tile.
    const WARPS_N: usize = K::TILE.bn as usize / Self::COLS;
    /// Bytes of shared memory that the sums of a block take on their way.
    pub const BYTES: u32 = K::TILE.bm * K::TILE.bn * size_of::<f64>() as u32;
    /// The same where each warp takes this way with [8 rows](Self::store_in_parts) at a time.
    pub const PART_BYTES: u32 = Self::BYTES / TM as u32;

    /// The tile of this thread, all sums zero.
    #[device_inline]
    #[allow(clippy::new_without_default)] // which thread calls it matters
    pub fn new() -> Self {
        let (row, col) = Self::of_warp(thread::thread_idx_x());
        DoubleTile { sums: [[0.0; TN]; TM], a: A::new(row), b: B::new(col), kernel: PhantomData }
    }

    /// First row and column of the part of the block's tile that belongs to the warp of a thread.
    #[device_inline]
    fn of_warp(thread: u32) -> (u32, u32) {
        let warp = thread / warp::WARP_SIZE;
        let warps = Self::WARPS_N as u32;
        (warp / warps * Self::ROWS as u32, warp % warps * Self::COLS as u32)
    }

    /// Which of `parts` equal parts of the block's rows the warp's are in. It is worked out each time anew, of what is
    /// in a register anyway.
    #[device_inline]
    pub fn part_of_rows(&self, parts: u32) -> u32 {
        hint::opaque(self.a.offset()) / (PanelA::<K>::BYTES / parts)
    }

    /// Reads the fragments of step `step` of a slice.
    ///
    /// # Safety
    /// All lanes of the warp call it together; the panels are written, and nobody writes them before this warp has said
    /// that it has read them.
    #[device_inline]
    #[track_caller]
    pub unsafe fn fragments(&self, panels: Panels, step: usize) -> Fragments<TM, TN> {
        let mut fragments = Fragments { a: [0.0; TM], b: [0.0; TN] };
        for i in 0..TM {
            // SAFETY: as promised by the caller.
            fragments.a[i] = unsafe { self.a.read(panels.a, i, step) };
        }
        for j in 0..TN / 2 {
            // SAFETY: as promised by the caller.
            fragments.b[j] = unsafe { self.b.read(panels.b, j, step) };
        }
        fragments
    }

    /// Adds the products of a step.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[device_inline]
    #[track_caller]
    pub unsafe fn multiply(&mut self, fragments: &Fragments<TM, TN>) {
        let Fragments { a, b } = fragments;
        unroll!(j < TN / 2, {
            for i in 0..TM / 2 {
                let (upper, lower, left, right) = (2 * i, 2 * i + 1, 2 * j, 2 * j + 1);
                let sums = &mut self.sums;
                let c =
                    [sums[upper][left], sums[upper][right], sums[lower][left], sums[lower][right]];
                // SAFETY: as promised by the caller.
                let d = unsafe { double::multiply_add([a[upper], a[lower]], [b[j]], c) };
                [sums[upper][left], sums[upper][right]] = [d[0], d[1]];
                [sums[lower][left], sums[lower][right]] = [d[2], d[3]];
            }
        });
    }

    /// Adds the products of two steps, by instructions that take them at once.
    ///
    /// # Safety
    /// All lanes of the warp call it together, on a target that has them.
    #[device_inline]
    #[track_caller]
    pub unsafe fn multiply_two(&mut self, [first, second]: &[Fragments<TM, TN>; 2]) {
        unroll!(j < TN / 2, {
            for i in 0..TM / 2 {
                let (upper, lower, left, right) = (2 * i, 2 * i + 1, 2 * j, 2 * j + 1);
                let a = [first.a[upper], first.a[lower], second.a[upper], second.a[lower]];
                let sums = &mut self.sums;
                let c =
                    [sums[upper][left], sums[upper][right], sums[lower][left], sums[lower][right]];
                // SAFETY: as promised by the caller.
                let d = unsafe { double::multiply_add_16x8x8(a, [first.b[j], second.b[j]], c) };
                [sums[upper][left], sums[upper][right]] = [d[0], d[1]];
                [sums[lower][left], sums[lower][right]] = [d[2], d[3]];
            }
        });
    }

    /// Gives each pair of neighbouring sums of the first or second half of the warp's rows to `take`, with its number
    /// in that.
    #[device_inline]
    pub fn for_each_pair_of<const HALF: usize>(&self, take: impl Fn(usize, [f64; PAIR])) {
        unroll!(i < TM / 2, {
            unroll!(j < TN / 2, {
                let row = &self.sums[HALF * TM / 2 + i];
                take(i * TN / 2 + j, [row[2 * j], row[2 * j + 1]]);
            });
        });
    }

    /// Adds to each pair of neighbouring sums of such a half what `load` gives for its number. From then on these are
    /// the sums of the first half.
    #[device_inline]
    pub fn add_pairs_to<const HALF: usize>(&mut self, load: impl Fn(usize) -> [f64; PAIR]) {
        unroll!(i < TM / 2, {
            let mut others = [0.0; TN];
            for j in 0..TN / 2 {
                [others[2 * j], others[2 * j + 1]] = load(i * TN / 2 + j);
            }
            for j in 0..TN {
                self.sums[i][j] = self.sums[HALF * TM / 2 + i][j] + others[j];
            }
        });
    }

    /// Adds to each pair of neighbouring sums what `load` gives for its number, as if the second half of the rows
    /// followed the first; those of a row are loaded together.
    #[device_inline]
    pub fn add_pairs(&mut self, load: impl Fn(usize) -> [f64; PAIR]) {
        unroll!(i < TM, {
            let mut others = [0.0; TN];
            for j in 0..TN / 2 {
                [others[2 * j], others[2 * j + 1]] = load(i * TN / 2 + j);
            }
            for j in 0..TN {
                self.sums[i][j] += others[j];
            }
        });
    }

    /// Row and column of a thread's first sums in an 8 x 8 part.
    #[device_inline]
    fn of_lane(thread: u32) -> (u32, u32) {
        let lane = thread % warp::WARP_SIZE;
        let (g, t) = (lane / LANES.1 as u32, lane % LANES.1 as u32);
        (A::of_lanes(g), B::of_lanes(t * PAIR as u32))
    }

    /// Puts the sums through the epilogue and stores what lies in D, in vectors where D's rows consist of them.
    ///
    /// # Safety
    /// All lanes of the warp call it together, and no thread reads or writes slices any more, or what other warps have
    /// of the [`BYTES`](Self::BYTES) of dynamic shared memory. D and the epilogue's operands are valid for the shapes
    /// in `params`.
    #[device_inline]
    #[track_caller]
    pub unsafe fn store<E: Epilogue<f64>>(self, params: &GemmParams<f64, E>, origin: Origin) {
        // SAFETY: as promised by the caller.
        unsafe { self.store_part::<1, _>(params, origin, 0) }
    }

    /// The same for the sums of the first half, which are those of the `half`-th half of the warp's rows of D. They
    /// take the first half of its room.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    #[device_inline]
    #[track_caller]
    pub unsafe fn store_half<E: Epilogue<f64>>(
        self,
        params: &GemmParams<f64, E>,
        origin: Origin,
        half: u32,
    ) {
        // SAFETY: as promised by the caller.
        unsafe { self.store_part::<2, _>(params, origin, half) }
    }

    /// [`store`](Self::store) for the `part`-th of `PARTS` equal parts of the warp's rows.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    #[device_inline]
    #[track_caller]
    unsafe fn store_part<const PARTS: usize, E: Epilogue<f64>>(
        self,
        params: &GemmParams<f64, E>,
        origin: Origin,
        part: u32,
    ) {
        const {
            assert!(A::SECOND_FOUR == sums::ROWS as u32, "rows follow each other");
            assert!(sums::fills_banks(Self::COLS), "rows of sums fill all banks");
        };
        let rows = Self::ROWS / PARTS;
        let sums = DoubleSums::new(Self::room(), rows, Self::COLS, A::SECOND_FOUR);
        let (row, col) = Self::of_warp(thread::thread_idx_x());
        let origin = Origin { row: origin.row + row + part * rows as u32, col: origin.col + col };
        let (row, col) = Self::of_lane(thread::thread_idx_x());
        // SAFETY: as promised by the caller; a warp reads what it has written itself.
        unsafe {
            unroll!(i < TM / PARTS, {
                unroll!(j < TN / 2, {
                    let pair = (B::of_eight(j) + col) / PAIR as u32;
                    let of_pair = [self.sums[i][2 * j], self.sums[i][2 * j + 1]];
                    sums.write(A::of_eight(i) + row, pair, of_pair);
                });
            });
            if const { Self::ROWS.is_multiple_of(PARTS * sums::rows_of_turn(Self::COLS, sums::ROWS)) }
            {
                sums.store::<{ sums::ROWS }, _>(params, origin);
            } else {
                sums.store::<PAIR, _>(params, origin);
            }
        }
    }

    /// The same 8 rows after 8 others, by way of `room`, where all warps have [`PART_BYTES`](Self::PART_BYTES). One
    /// copy of the epilogue's code works on the first of them, and the others move up.
    ///
    /// # Safety
    /// All lanes of the warp call it together, and nobody else uses its part of the room. D and the epilogue's operands
    /// are valid for the shapes in `params`.
    #[device_inline]
    #[track_caller]
    pub unsafe fn store_in_parts<E: Epilogue<f64>>(
        mut self,
        params: &GemmParams<f64, E>,
        origin: Origin,
        room: SharedPtr<f64>,
    ) {
        const { assert!(sums::fills_banks(Self::COLS), "rows of sums fill all banks") };
        // All that follows is worked out after the sums: kept all the while it would take registers from them.
        let thread = hint::opaque(thread::thread_idx_x());
        let room = room.add(thread / warp::WARP_SIZE * (LANES.0 * Self::COLS) as u32);
        let sums = DoubleSums::new(room, LANES.0, Self::COLS, A::SECOND_FOUR);
        let (row, col) = Self::of_warp(thread);
        let (row_of_lane, col_of_lane) = Self::of_lane(thread);
        // The second four rows follow the first there.
        let (four, second) = (sums::ROWS as u32, row_of_lane / A::SECOND_FOUR);
        let row_of_lane = row_of_lane % four + second * four;
        for part in 0..hint::opaque(TM as u32) {
            let row = origin.row + row + A::of_eight(part as usize);
            // SAFETY: as promised by the caller; a warp reads what it has written itself, and writes again when all
            // lanes have read.
            unsafe {
                unroll!(j < TN / 2, {
                    let pair = (B::of_eight(j) + col_of_lane) / PAIR as u32;
                    sums.write(row_of_lane, pair, [self.sums[0][2 * j], self.sums[0][2 * j + 1]]);
                });
                sums.store::<PAIR, _>(params, Origin { row, col: origin.col + col });
                warp::sync_warp(warp::FULL_MASK);
            }
            for i in 1..TM {
                self.sums[i - 1] = self.sums[i];
            }
        }
    }

    /// Stores the sums that lie in D straight from registers, multiplied with a factor: by pairs, of which four lanes
    /// fill two sectors.
    ///
    /// # Safety
    /// D is valid for the shape in `params`.
    #[device_inline]
    #[track_caller]
    pub unsafe fn store_scaled<E>(&self, params: &GemmParams<f64, E>, origin: Origin, alpha: f64) {
        // Worked out after the sums, as above.
        let thread = hint::opaque(thread::thread_idx_x());
        let (row, col) = Self::of_warp(thread);
        let (row_of_lane, col_of_lane) = Self::of_lane(thread);
        let (row, col) = (origin.row + row + row_of_lane, origin.col + col + col_of_lane);
        let d = params.d.of_block();
        let first = d.at(row, col);
        let scaled = |sum| f64::fma(alpha, sum, 0.0);
        // Worked out anew for each row: kept they would take registers from the sums.
        let target = |down| first.add(u64::from(hint::opaque(down)) * d.ld);
        let wide = d.has_vectors(PAIR as u32) && params.n.is_multiple_of(PAIR as u32);
        // SAFETY: as promised by the caller; where rows consist of pairs all of one lies in D where its first element
        // does.
        unsafe {
            if wide {
                unroll!(i < TM, {
                    let down = A::of_eight(i);
                    let (target, inside) = (target(down), row + down < params.m);
                    unroll!(j < TN / 2, {
                        let right = B::of_eight(j);
                        let pair = [scaled(self.sums[i][2 * j]), scaled(self.sums[i][2 * j + 1])];
                        let inside = inside && col + right < params.n;
                        target.add(right.into()).store_vec_if(inside, pair);
                    });
                });
            } else {
                unroll!(i < TM, {
                    let down = A::of_eight(i);
                    let (target, inside) = (target(down), row + down < params.m);
                    unroll!(j < TN / 2, {
                        for e in 0..PAIR {
                            let right = B::of_eight(j) + e as u32;
                            let inside = inside && col + right < params.n;
                            let value = scaled(self.sums[i][2 * j + e]);
                            target.add(right.into()).store_if(inside, value);
                        }
                    });
                });
            }
        }
    }

    /// Where the warp's sums lie in shared memory, when they do: as many as it has.
    #[device_inline]
    pub fn room() -> SharedPtr<f64> {
        let warp = thread::thread_idx_x() / warp::WARP_SIZE;
        shared::dynamic::<f64>().add(warp * (Self::ROWS * Self::COLS) as u32)
    }
}
