//! Products in which D has a few rows or a few columns: the speed of memory.
//!
//! With a handful of rows of A there is next to nothing to reuse: every element of B takes part in so few multiply-adds that a
//! GPU waits for memory whatever else it does. So the large factor is read once, in vectors of 16 bytes and many of them in
//! flight at a time, and never by two threads; K is split among blocks ([`Schedule::SplitK`]) so that all multiprocessors
//! read. The small factor comes from the caches, the same element for all lanes of a warp.
//!
//! A thread owns `COLS` places along the *long* axis of D and up to `ROWS` along the *short* one. Two things may differ:
//!
//! - Which factor is the large one: B where D has few rows ([`FewRows`]), A where it has few columns ([`FewCols`]). The second
//!   is the first for the transposes, `D^T = B^T A^T`, and nothing here but the last store knows of it.
//! - How it lies in memory. Where the long axis is the one along which elements lie together, threads read their vectors
//!   straight to registers and walk down k (`Skinny::sum_along`). Where k is, neighbouring threads must read along k to read
//!   whole sectors, and each needs a row of its own; so slices go through shared memory, in several stages
//!   (`Skinny::sum_across`).

use crate::element::{Accumulator, Element};
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Rung, Schedule, Tile};
use crate::layout::{Layout, Layouts, Nn, OperandLayouts};
use crate::mover::vector_len;
use crate::params::{GemmParams, MatrixRef};
use crate::pipelined::wait_for_oldest;
use crate::ring::{after, before};
use crate::tile::block_tile;
use core::marker::PhantomData;
use cuda_std::async_copy::{commit_group, copy_elements_async};
use cuda_std::memory::SharedPtr;
use cuda_std::{shared, thread, unroll};

/// Which axis of D is short.
pub trait Side: 'static {
    /// Whether D has few columns, so that the product is computed for the transposes.
    const TRANSPOSED: bool;
}

/// D has few rows: B is the large factor.
pub struct FewRows;

impl Side for FewRows {
    const TRANSPOSED: bool = false;
}

/// D has few columns: A is the large factor.
pub struct FewCols;

impl Side for FewCols {
    const TRANSPOSED: bool = true;
}

/// Stages of shared memory where slices go through it: one is multiplied while two arrive.
const STAGES: u32 = 3;

/// The kernel for tiles of `ROWS` places along the short axis and `LONG` along the long one, steps of `BK` values of k,
/// `LONG / COLS` threads of `COLS` places each, the short axis `S`, and factors in the layouts `L`.
pub struct Skinny<
    T,
    const ROWS: usize,
    const LONG: usize,
    const BK: usize,
    const COLS: usize,
    S = FewRows,
    L = Nn,
>(PhantomData<(T, S, L)>);

impl<
    T: Element<Acc = T> + Accumulator,
    const ROWS: usize,
    const LONG: usize,
    const BK: usize,
    const COLS: usize,
    S: Side,
    L: OperandLayouts,
> GemmKernel for Skinny<T, ROWS, LONG, BK, COLS, S, L>
{
    type Element = T;
    const RUNG: Rung = Rung::Skinny;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const TILE: Tile = {
        let short = (ROWS as u32, ROWS as u32);
        let long = (LONG as u32, COLS as u32);
        let ((bm, tm), (bn, tn)) = if S::TRANSPOSED { (long, short) } else { (short, long) };
        Tile { bm, bn, bk: BK as u32, tm, tn, stages: if Self::ALONG { 0 } else { STAGES } }
    };
    const SCHEDULE: Schedule = Schedule::SplitK;
    const SHARED_BYTES: u32 = Self::TILE.stages * (Self::STAGE * size_of::<T>()) as u32;

    #[inline(always)]
    unsafe fn run<E: Epilogue<T>>(p: GemmParams<T, E>) {
        let origin = block_tile(&Self::TILE, p.n);
        let (slice, first) = p.slice_of_block();
        let factors = Factors::new(&slice, Self::LAYOUTS, S::TRANSPOSED);
        let (short, long) =
            if S::TRANSPOSED { (origin.col, origin.row) } else { (origin.row, origin.col) };
        let place = Place { short, long, first };
        // SAFETY: the launch keeps the kernel's contract; vectors are read where they are whole and aligned.
        let (sums, columns) = unsafe {
            if Self::ALONG {
                let wide = factors.has_vectors(COLS, factors.long);
                let columns = Self::columns(place, wide);
                (Self::sum_along(&factors, place, columns, wide), columns)
            } else {
                (Self::sum_across(&factors, place), Self::columns(place, false))
            }
        };
        for i in 0..ROWS {
            for j in 0..COLS {
                let (short, long) = (short + i as u32, columns.at(j));
                let inside = short < factors.short && long < factors.long;
                let (row, col) = if S::TRANSPOSED { (long, short) } else { (short, long) };
                // SAFETY: an element of the slice's sums where the predicate holds.
                unsafe { slice.d.at(row, col).store_if(inside, sums[i][j]) };
            }
        }
    }
}

/// Where a block begins: along the short and the long axis of D, and along k.
#[derive(Clone, Copy)]
struct Place {
    short: u32,
    long: u32,
    first: u32,
}

/// A thread's places along the long axis.
#[derive(Clone, Copy)]
struct Columns {
    first: u32,
    step: u32,
}

impl Columns {
    #[inline(always)]
    fn at(&self, j: usize) -> u32 {
        self.first + j as u32 * self.step
    }
}

/// The factors of the product, or of its transpose where D has few columns: `short x k` and `k x long`.
struct Factors<T> {
    small: MatrixRef<T>,
    large: MatrixRef<T>,
    layouts: Layouts,
    short: u32,
    long: u32,
    k: u32,
}

impl<T: Element> Factors<T> {
    #[inline(always)]
    fn new<E>(p: &GemmParams<T, E>, layouts: Layouts, transposed: bool) -> Self {
        let layouts = layouts_of_factors(layouts, transposed);
        let GemmParams { a, b, m, n, k, .. } = *p;
        if transposed {
            Factors { small: b, large: a, layouts, short: n, long: m, k }
        } else {
            Factors { small: a, large: b, layouts, short: m, long: n, k }
        }
    }

    /// Whether the stored rows of the large factor, `len` elements long, consist of whole, aligned vectors. The same for all
    /// threads.
    #[inline(always)]
    fn has_vectors(&self, vector: usize, len: u32) -> bool {
        self.large.has_vectors(vector as u32) && len.is_multiple_of(vector as u32)
    }

    /// Element `(row, k)` of the small factor where that is `inside`, else zero. All threads read the same.
    #[inline(always)]
    #[track_caller]
    unsafe fn small(&self, row: u32, k: u32, inside: bool) -> T {
        // SAFETY: an element of the factor where the predicate holds.
        unsafe { self.small.at_in(self.layouts.a, row, k).load_if(inside) }
    }
}

/// The layouts of the small and the large factor: those of A and B, or of their transposes the other way round.
const fn layouts_of_factors(layouts: Layouts, transposed: bool) -> Layouts {
    if transposed {
        Layouts { a: layouts.b.transposed(), b: layouts.a.transposed() }
    } else {
        layouts
    }
}

impl<
    T: Element<Acc = T> + Accumulator,
    const ROWS: usize,
    const LONG: usize,
    const BK: usize,
    const COLS: usize,
    S: Side,
    L: OperandLayouts,
> Skinny<T, ROWS, LONG, BK, COLS, S, L>
{
    const ZERO: T = <T as Element>::ZERO;

    const THREADS: usize = LONG / COLS;

    /// Whether elements of the large factor lie together along the long axis.
    const ALONG: bool = matches!(layouts_of_factors(L::LAYOUTS, S::TRANSPOSED).b, Layout::RowMajor);

    /// Elements from one place along the long axis to the next in shared memory. A vector more than are there: threads read
    /// neighbouring places, which then begin four banks apart.
    const STRIDE: usize = BK + vector_len::<T>();

    /// Elements of a stage.
    const STAGE: usize = LONG * Self::STRIDE;

    /// The places of a thread: consecutive ones where it reads them as a vector, else those that let neighbouring threads
    /// read neighbours.
    #[inline(always)]
    fn columns(place: Place, wide: bool) -> Columns {
        let thread = thread::thread_idx_x();
        if wide {
            Columns { first: place.long + thread * COLS as u32, step: 1 }
        } else {
            Columns { first: place.long + thread, step: Self::THREADS as u32 }
        }
    }

    /// Sums of a large factor whose rows lie along the long axis: each thread reads its own columns.
    #[inline(always)]
    unsafe fn sum_along(
        factors: &Factors<T>,
        place: Place,
        columns: Columns,
        wide: bool,
    ) -> [[T; COLS]; ROWS] {
        let mut sums = [[Self::ZERO; COLS]; ROWS];
        let mut k = place.first;
        // SAFETY: as promised by the caller.
        unsafe {
            while k + BK as u32 <= factors.k {
                Self::add_along::<BK>(factors, place.short, columns, wide, k, &mut sums);
                k += BK as u32;
            }
            while k < factors.k {
                Self::add_along::<1>(factors, place.short, columns, wide, k, &mut sums);
                k += 1;
            }
        }
        sums
    }

    /// Adds `DEPTH` values of k from `k` on, all of which exist. All loads of the large factor come first.
    #[inline(always)]
    unsafe fn add_along<const DEPTH: usize>(
        factors: &Factors<T>,
        short: u32,
        columns: Columns,
        wide: bool,
        k: u32,
        sums: &mut [[T; COLS]; ROWS],
    ) {
        let mut large = [[Self::ZERO; COLS]; DEPTH];
        // SAFETY: as promised by the caller: elements of the factor where the predicates hold.
        unsafe {
            let first = factors.large.at(k, columns.first);
            let step = factors.large.ld;
            if wide {
                unroll!(i < DEPTH, {
                    let place = first.add(i as u64 * step);
                    place.load_slice_if(columns.first < factors.long, &mut large[i]);
                });
            } else {
                unroll!(i < DEPTH, {
                    let place = first.add(i as u64 * step);
                    for j in 0..COLS {
                        let inside = columns.at(j) < factors.long;
                        large[i][j] = place.add((j * Self::THREADS) as u64).load_if(inside);
                    }
                });
            }
            unroll!(i < DEPTH, {
                unroll!(row < ROWS, {
                    let short = short + row as u32;
                    let small = factors.small(short, k + i as u32, short < factors.short);
                    for j in 0..COLS {
                        sums[row][j] = T::fma(small, large[i][j], sums[row][j]);
                    }
                });
            });
        }
    }

    /// Sums of a large factor whose columns lie along k: through shared memory, a place along the long axis after another.
    #[inline(always)]
    unsafe fn sum_across(factors: &Factors<T>, place: Place) -> [[T; COLS]; ROWS] {
        let mut sums = [[Self::ZERO; COLS]; ROWS];
        let wide = factors.has_vectors(vector_len::<T>(), factors.k);
        let copy = |k: u32, stage: u32| {
            // SAFETY: as promised by the caller, and see below for the stage.
            unsafe {
                if wide {
                    Self::copy(factors, vector_len::<T>(), place.long, k, stage);
                } else {
                    Self::copy(factors, 1, place.long, k, stage);
                }
            }
            commit_group();
        };
        for stage in 0..STAGES - 1 {
            copy(place.first + stage * BK as u32, stage);
        }
        let mut stage = 0;
        let mut k = place.first;
        while k < factors.k {
            wait_for_oldest::<STAGES>();
            // SAFETY: all threads of the block count to the same k. What they have copied is visible to all after the barrier,
            // and all have read the stage that is filled next.
            unsafe { thread::sync_threads() };
            copy(k + (STAGES - 1) * BK as u32, before::<STAGES>(stage));
            // SAFETY: the stage is written.
            unsafe { Self::add_across(factors, place.short, k, stage, &mut sums) };
            stage = after::<STAGES>(stage);
            k += BK as u32;
        }
        sums
    }

    /// Copies this thread's share of the `BK` values of k from `k` on to a stage, in vectors of `len`; zeros where there is
    /// nothing. Threads lie along k first, so that a warp reads whole sectors.
    #[inline(always)]
    unsafe fn copy(factors: &Factors<T>, len: usize, long: u32, k: u32, stage: u32) {
        if k >= factors.k {
            return;
        }
        let target = Self::stage(stage);
        let vectors = BK / len;
        let thread = thread::thread_idx_x() as usize;
        let rows = Self::THREADS / vectors;
        for i in 0..LONG / rows {
            let (row, col) = (thread / vectors + i * rows, thread % vectors * len);
            let (across, at) = (long + row as u32, k + col as u32);
            let inside = across < factors.long && at < factors.k;
            let target = target.add((row * Self::STRIDE + col) as u32);
            // Its stored rows are columns of the factor.
            let source = factors.large.at(across, at);
            // SAFETY: as promised by the caller; vectors are whole and aligned.
            unsafe { copy_elements_async(target, source, len, inside) };
        }
    }

    /// Adds a stage, which holds the values of k from `k` on.
    #[inline(always)]
    unsafe fn add_across(
        factors: &Factors<T>,
        short: u32,
        k: u32,
        stage: u32,
        sums: &mut [[T; COLS]; ROWS],
    ) {
        let vector = const { vector_len::<T>() };
        let thread = thread::thread_idx_x() as usize;
        for step in (0..BK).step_by(vector) {
            let mut large = [[Self::ZERO; MOST_IN_VECTOR]; COLS];
            for j in 0..COLS {
                let row = (thread + j * Self::THREADS) * Self::STRIDE;
                let place = Self::stage(stage).add((row + step) as u32);
                // SAFETY: all of the stage is written.
                unsafe { place.load_slice_if(true, &mut large[j][..vector]) };
            }
            unroll!(i < MOST_IN_VECTOR, {
                if i < vector {
                    unroll!(row < ROWS, {
                        let (short, k) = (short + row as u32, k + (step + i) as u32);
                        let inside = short < factors.short && k < factors.k;
                        // SAFETY: as promised by the caller.
                        let small = unsafe { factors.small(short, k, inside) };
                        for j in 0..COLS {
                            sums[row][j] =
                                T::fma(small, large[j][i % MOST_IN_VECTOR], sums[row][j]);
                        }
                    });
                }
            });
        }
    }

    /// Where a stage lies in the dynamic shared memory.
    #[inline(always)]
    fn stage(stage: u32) -> SharedPtr<T> {
        shared::dynamic().add(stage * Self::STAGE as u32)
    }
}

/// Elements of 4 bytes, the shortest that are their own sums, in a vector.
const MOST_IN_VECTOR: usize = vector_len::<f32>();
