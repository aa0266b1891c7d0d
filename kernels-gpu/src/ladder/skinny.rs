//! Products in which D has a few rows or a few columns: the speed of memory.
//!
//! With a handful of rows of A there is next to nothing to reuse: every element of B takes part in so few multiply-adds
//! that a GPU waits for memory whatever else it does. So the large factor is read once, straight to registers, in
//! vectors of 16 bytes and many of them in flight at a time. The small factor comes from the caches.
//!
//! For one row or column this is GEMV. On an H200 1 x 8192 x 8192 in f32 reads memory at 4.3 TB/s.
//!
//! A thread owns a vector of places along the *long* axis of D and up to `ROWS` along the *short* one. That leaves few
//! threads for all of K: so `GROUPS` groups of threads share it as in [`crate::ladder::sliced_k`], and their sums meet
//! in shared memory. Where even that leaves multiprocessors idle, blocks share K too ([`Schedule::SplitK`]). Where no
//! blocks share it each block has complete sums and applies the epilogue itself, without a second launch. Two things
//! may differ:
//!
//! - Which factor is the large one: B where D has few rows ([`FewRows`]), A where it has few columns ([`FewCols`]). The
//!   second is the first for the transposes, `D^T = B^T A^T`, and nothing here but the last store knows of it.
//! - How it lies in memory: elements that follow each other lie along the long axis, or along k. A thread's vector runs
//!   the same way, and neighbouring threads follow each other the same way: they own neighbouring places in the first
//!   case, and belong to neighbouring groups in the second.

use crate::element::{Accumulator, Element};
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Rung, Schedule, Summation, Tile};
use crate::layout::{Layout, Layouts, Nn, OperandLayouts};
use crate::params::{GemmParams, MatrixRef};
use crate::slices::mover::vector_len;
use crate::tile::block_tile;
use core::marker::PhantomData;
use cuda_std::memory::SharedPtr;
use cuda_std::{device_inline, shared, thread, unroll};
use half::f16;

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

/// Elements of 2 bytes, the shortest, in a vector: most places of a thread, and most values of k that it multiplies
/// together.
const MOST_IN_VECTOR: usize = vector_len::<f16>();

/// Slices of the large factor whose loads are in flight together.
const IN_FLIGHT: usize = 2;

/// The kernel for tiles of `ROWS` places along the short axis and `LONG` along the long one, `GROUPS` groups that share
/// the depth, the short axis `S`, factors in the layouts `L`, and results of `D`. A thread has a vector of places, and
/// a slice a vector of values of k for each group.
pub struct Skinny<
    T,
    const ROWS: usize,
    const LONG: usize,
    const GROUPS: usize,
    S = FewRows,
    L = Nn,
    D = T,
>(PhantomData<(T, S, L, D)>);

impl<
    T: Element,
    const ROWS: usize,
    const LONG: usize,
    const GROUPS: usize,
    S: Side,
    L: OperandLayouts,
    D: Element<Acc = T::Acc>,
> GemmKernel for Skinny<T, ROWS, LONG, GROUPS, S, L, D>
{
    type Element = T;
    type Target = D;
    const RUNG: Rung = Rung::Skinny;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation = Summation::InGroups;
    const TILE: Tile = {
        let short = (ROWS as u32, ROWS as u32);
        let long = (LONG as u32, Self::VECTOR as u32);
        let ((bm, tm), (bn, tn)) = if S::TRANSPOSED { (long, short) } else { (short, long) };
        Tile { bm, bn, bk: (GROUPS * Self::VECTOR) as u32, tm, tn, stages: 0 }
    };
    const SCHEDULE: Schedule = Schedule::SplitK;
    /// Results of another type than the factors' are left to the reducer, so that the kernel is the same for all.
    const FINISHES: bool = T::DTYPE as u8 == D::DTYPE as u8;
    const DEPTH_GROUPS: u32 = GROUPS as u32;
    const SHARED_BYTES: u32 = (ROWS * LONG * Self::STRIDE * size_of::<T::Acc>()) as u32;

    #[device_inline]
    unsafe fn run<E: Epilogue<D>>(p: GemmParams<T, E, D>) {
        let origin = block_tile(&Self::TILE, p.n);
        let slice = p.slice();
        let factors = Factors { k: slice.end, ..Factors::new(&p, Self::LAYOUTS, S::TRANSPOSED) };
        // The only slice is all of K, and no other launch follows that would read the workspace.
        let finish = p.workspace.partials.is_null();
        // Where one follows it adds up whole vectors: what is between the rows' ends is in the workspace, too.
        let cols = if finish { p.n } else { slice.sums.first.ld as u32 };
        let (short, long) =
            if S::TRANSPOSED { (origin.col, origin.row) } else { (origin.row, origin.col) };
        let thread = thread::thread_idx_x() as usize;
        let (group, place) = if Self::ALONG {
            (thread / Self::PLACES, thread % Self::PLACES)
        } else {
            (thread % GROUPS, thread / GROUPS)
        };
        // SAFETY: the launch keeps the kernel's contract; all threads of the block meet once.
        unsafe {
            let start = Start {
                short,
                long: long + (place * Self::VECTOR) as u32,
                first: slice.first + (group * Self::VECTOR) as u32,
            };
            let mut sums = [[T::Acc::ZERO; MOST_IN_VECTOR]; ROWS];
            // A single row, or column, of D takes a fraction of the registers and instructions.
            if factors.short - start.short == 1 {
                sums[0] = Self::sum::<1>(&factors, start)[0];
            } else {
                sums = Self::sum::<ROWS>(&factors, start);
            }
            for i in 0..ROWS {
                for j in 0..Self::VECTOR {
                    Self::place(i * LONG + place * Self::VECTOR + j, group).store(sums[i][j]);
                }
            }
            thread::sync_threads();
            // The reducer reads vectors that may reach beyond the last tile's columns.
            let beyond = Self::NARROW && !finish && short + ROWS as u32 >= p.n;
            let places = if beyond { (cols - short) as usize * LONG } else { ROWS * LONG };
            let mut index = thread;
            while index < places {
                let (short, long) = (short + (index / LONG) as u32, long + (index % LONG) as u32);
                let (row, col) = if S::TRANSPOSED { (long, short) } else { (short, long) };
                if Self::NARROW && index >= ROWS * LONG {
                    if row < p.m {
                        slice.sums.at(row, col).store(T::Acc::ZERO);
                    }
                } else if row < p.m && col < cols {
                    let mut sum = Self::place(index, 0).load();
                    for group in 1..GROUPS {
                        sum = T::Acc::add(sum, Self::place(index, group).load());
                    }
                    if finish {
                        let value = p.epilogue.apply(sum, row, col);
                        p.d.at(row, col).store(D::narrow(value));
                    } else {
                        slice.sums.at(row, col).store(sum);
                    }
                }
                index += Self::PLACES * GROUPS;
            }
        }
    }
}

/// Where a thread begins: along the short and the long axis of D, and along k.
#[derive(Clone, Copy)]
struct Start {
    short: u32,
    long: u32,
    first: u32,
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
    #[device_inline]
    fn new<E, D: Element>(p: &GemmParams<T, E, D>, layouts: Layouts, transposed: bool) -> Self {
        let layouts = layouts_of_factors(layouts, transposed);
        let GemmParams { a, b, m, n, k, .. } = *p;
        if transposed {
            Factors { small: b, large: a, layouts, short: n, long: m, k }
        } else {
            Factors { small: a, large: b, layouts, short: m, long: n, k }
        }
    }

    /// Whether the stored rows of the large factor consist of whole, aligned vectors. The same for all threads.
    #[device_inline]
    fn is_wide(&self) -> bool {
        let vector = vector_len::<T>() as u32;
        let row = match self.layouts.b {
            Layout::RowMajor => self.long,
            Layout::Transposed => self.k,
        };
        self.large.has_vectors(vector) && row.is_multiple_of(vector)
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
    T: Element,
    const ROWS: usize,
    const LONG: usize,
    const GROUPS: usize,
    S: Side,
    L: OperandLayouts,
    D: Element<Acc = T::Acc>,
> Skinny<T, ROWS, LONG, GROUPS, S, L, D>
{
    /// Places of a thread along the long axis, and values of k of each slice.
    const VECTOR: usize = vector_len::<T>();

    /// Threads of a group.
    const PLACES: usize = LONG / Self::VECTOR;

    /// Whether a tile has fewer columns than a vector of sums.
    const NARROW: bool = S::TRANSPOSED && ROWS < vector_len::<T::Acc>();

    /// Values of k in a slice.
    const DEPTH: usize = GROUPS * Self::VECTOR;

    /// Whether elements of the large factor lie together along the long axis.
    const ALONG: bool = matches!(layouts_of_factors(L::LAYOUTS, S::TRANSPOSED).b, Layout::RowMajor);

    /// Sums from one place to the next in shared memory: those of all groups, and one more, so that neither threads of
    /// one group nor of all groups meet in a bank.
    const STRIDE: usize = GROUPS + 1;

    /// Where the sum of a group for a place of the tile lies in shared memory.
    #[device_inline]
    fn place(place: usize, group: usize) -> SharedPtr<T::Acc> {
        shared::dynamic().add((place * Self::STRIDE + group) as u32)
    }

    /// The sums of a thread for the first `R` places along the short axis, over its values of k of all slices.
    #[device_inline]
    unsafe fn sum<const R: usize>(
        factors: &Factors<T>,
        start: Start,
    ) -> [[T::Acc; MOST_IN_VECTOR]; R] {
        let mut sums = [[T::Acc::ZERO; MOST_IN_VECTOR]; R];
        let mut k = start.first;
        // SAFETY: as promised by the caller. The branch is the same for all threads.
        unsafe {
            if factors.is_wide() {
                while k < factors.k {
                    Self::add::<IN_FLIGHT, R>(factors, start, true, k, &mut sums);
                    k += (IN_FLIGHT * Self::DEPTH) as u32;
                }
            } else {
                // Elements one by one are as many loads as that.
                while k < factors.k {
                    Self::add::<1, R>(factors, start, false, k, &mut sums);
                    k += Self::DEPTH as u32;
                }
            }
        }
        sums
    }

    /// Adds a thread's values of k of `SLICES` slices, from `k` on. All loads come first, those of the large factor
    /// before those of the small one.
    #[device_inline]
    unsafe fn add<const SLICES: usize, const R: usize>(
        factors: &Factors<T>,
        start: Start,
        wide: bool,
        k: u32,
        sums: &mut [[T::Acc; MOST_IN_VECTOR]; R],
    ) {
        // Element `(k, place)` is `[slice][k][place]`, or `[slice][place][k]` where vectors lie along k.
        let mut large = [[[T::ZERO; MOST_IN_VECTOR]; MOST_IN_VECTOR]; SLICES];
        let mut small = [[[T::ZERO; R]; MOST_IN_VECTOR]; SLICES];
        unroll!(n < SLICES * MOST_IN_VECTOR, {
            let (s, i) = (n / MOST_IN_VECTOR, n % MOST_IN_VECTOR);
            if i < Self::VECTOR {
                let k = k + (s * Self::DEPTH) as u32;
                // SAFETY: as promised by the caller; vectors are whole and aligned where `wide` holds.
                unsafe { Self::load(factors, start.long, k, i, wide, &mut large[s][i]) };
            }
        });
        unroll!(n < SLICES * MOST_IN_VECTOR, {
            let (s, i) = (n / MOST_IN_VECTOR, n % MOST_IN_VECTOR);
            if i < Self::VECTOR {
                let first = k + (s * Self::DEPTH) as u32;
                let k = first + i as u32;
                let first = factors.small.at_in(factors.layouts.a, start.short, first);
                let (down, right) = factors.small.steps_in(factors.layouts.a);
                for row in 0..R {
                    let short = start.short + row as u32;
                    let element = first.add(row as u64 * down + i as u64 * right);
                    // SAFETY: an element of the factor where the predicate holds.
                    small[s][i][row] =
                        unsafe { element.load_if(k < factors.k && short < factors.short) };
                }
            }
        });
        unroll!(n < SLICES * MOST_IN_VECTOR, {
            let (s, i) = (n / MOST_IN_VECTOR, n % MOST_IN_VECTOR);
            if i < Self::VECTOR {
                for j in 0..Self::VECTOR {
                    let large = if Self::ALONG { large[s][i][j] } else { large[s][j][i] }.widen();
                    for row in 0..R {
                        sums[row][j] = T::Acc::fma(small[s][i][row].widen(), large, sums[row][j]);
                    }
                }
            }
        });
    }

    /// Loads vector `i` of a thread's part of a slice: places for `k + i`, or values of k for place `long + i`. What
    /// lies outside is zero.
    #[device_inline]
    unsafe fn load(
        factors: &Factors<T>,
        long: u32,
        k: u32,
        i: usize,
        wide: bool,
        vector: &mut [T; MOST_IN_VECTOR],
    ) {
        let (down, right) = if Self::ALONG { (k, long) } else { (long, k) };
        let (rows, row) =
            if Self::ALONG { (factors.k, factors.long) } else { (factors.long, factors.k) };
        let source = factors.large.at(down, right).add(i as u64 * factors.large.ld);
        let inside = down + (i as u32) < rows;
        // SAFETY: as promised by the caller; elements of the factor where the predicates hold.
        unsafe {
            if wide {
                source.load_slice_if(inside && right < row, &mut vector[..Self::VECTOR]);
            } else {
                for j in 0..Self::VECTOR {
                    let inside = inside && right + (j as u32) < row;
                    vector[j] = source.add(j as u64).load_if(inside);
                }
            }
        }
    }
}
