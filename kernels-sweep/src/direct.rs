//! Tiles without shared memory: each thread loads its operands from global memory, and the L1 cache is all that threads
//! share.
//!
//! A block owns `BM x BN` elements of D and a thread `TM x TN` of those, as in [`regemm_kernels::ladder::microkernel`],
//! and for each k a thread multiplies `TM` elements of A with `TN` of B. But no slice comes to shared memory before.
//! Threads of a block that own the same rows load the same elements of A, those that own the same columns the same of
//! B, and find them in the L1 cache if another one has loaded them a short while before. So the thread tile decides how
//! many elements are loaded, `K * (TM + TN)` by each thread that owns an element of D, and the block tile how many of
//! those have to come from further away than the cache. Nobody waits for anybody: there are no barriers.
//!
//! The loop over k stands where [`loop_order`](crate::loop_order) has it, and partial sums are parked in D as often:
//!
//! | order | partial sums go to memory and back |
//! |---|---|
//! | standard | for every k: `STEP = 1` |
//! | k after the thread loops | for every `BK` values of k: `STEP = BK` |
//! | k innermost | never: `STEP = ALL` |
//!
//! Nothing else is done slice by slice, so that in the other two orders `BK` changes nothing.
//!
//! Tiles of `1 x BN` with thread tiles of `1 x 1` are the plainest mapping of a product to a GPU: a block is a row of D
//! and a thread a column. A block has at most 1024 threads, so where D has more columns than that a row of it is
//! several blocks.
//!
//! The order of the additions is that of all kernels of the sweep, and so are the bits of the result.

use core::marker::PhantomData;
use cuda_std::memory::GlobalPtr;
use cuda_std::{device_inline, hint};
use regemm_kernels::element::Element;
use regemm_kernels::epilogue::Epilogue;
use regemm_kernels::kernel::{GemmKernel, Rung, Tile};
use regemm_kernels::params::GemmParams;
use regemm_kernels::thread_tile::{Fragments, ThreadTile};
use regemm_kernels::tile::{Origin, block_tile};

/// The `STEP` that is all of k: partial sums are in registers throughout.
pub const ALL: u32 = u32::MAX;

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, and partial sums that are in D between
/// every `STEP` values of k and the next; with [`ALL`] never.
///
/// # Contract
/// That of [`GemmKernel`], with one difference where partial sums are in D: C must not be D. They are rounded to
/// elements of D, which is why the element type is its own accumulator.
pub struct Direct<
    T,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STEP: u32,
>(PhantomData<T>);

impl<
    T: Element<Acc = T>,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STEP: u32,
> GemmKernel for Direct<T, BM, BN, BK, TM, TN, STEP>
{
    type Element = T;
    type Target = T;
    /// The rung whose operands come straight from global memory, too.
    const RUNG: Rung = Rung::Naive;
    const TILE: Tile = Tile {
        bm: BM as u32,
        bn: BN as u32,
        bk: BK as u32,
        tm: TM as u32,
        tn: TN as u32,
        stages: 0,
    };
    const SHARED_BYTES: u32 = 0;

    #[device_inline]
    unsafe fn run<E: Epilogue<T>>(p: GemmParams<T, E>) {
        let origin = block_tile(&Self::TILE, p.n);
        let mut sums = ThreadTile::<Self, TM, TN>::new();
        // Nobody waits for a thread that owns nothing.
        if sums.row_of_d(origin, 0) >= p.m || sums.col_of_d(origin, 0) >= p.n {
            return;
        }

        // SAFETY: the launch keeps the kernel's contract, and only this thread touches its elements of D.
        unsafe {
            let mut k = 0;
            while k < p.k {
                // Kept from step to step, addresses would take a thread more registers than its sums.
                let origin = Origin { row: hint::opaque(origin.row), ..origin };
                // Before the first step the sums are zero, whatever D holds.
                if STEP < ALL && k > 0 {
                    sums.resume(&p, origin);
                }
                let steps = STEP.min(p.k - k);
                if Operands::<Self, TM, TN, true>::may_load_from(&p) {
                    let operands = Operands::<_, _, _, true>::new(&p, origin, &sums, k);
                    operands.multiply::<STEP>(&mut sums, steps);
                } else {
                    let operands = Operands::<_, _, _, false>::new(&p, origin, &sums, k);
                    operands.multiply::<STEP>(&mut sums, steps);
                }
                if STEP < ALL {
                    sums.park(&p, origin);
                }
                k += steps;
            }
            sums.store(&p, origin);
        }
    }
}

/// Where a thread finds its operands; `WIDE` where it loads neighbouring columns of B at once.
struct Operands<K: GemmKernel, const TM: usize, const TN: usize, const WIDE: bool> {
    /// The next elements of its rows of A.
    rows: [GlobalPtr<K::Element>; TM],
    /// The next elements of its columns of B; of those that are loaded at once only the first is used.
    cols: [GlobalPtr<K::Element>; TN],
    /// From an element of a column of B to the next.
    below: u64,
}

impl<
    T: Element<Acc = T>,
    K: GemmKernel<Element = T>,
    const TM: usize,
    const TN: usize,
    const WIDE: bool,
> Operands<K, TM, TN, WIDE>
{
    /// Columns of the thread that lie side by side, and how many of them it loads at once.
    const VECTOR: usize = ThreadTile::<K, TM, TN>::COL_VECTOR;
    const WIDTH: usize = if WIDE { Self::VECTOR } else { 1 };

    /// Whether rows of B consist of whole, aligned vectors. The same for all threads.
    #[device_inline]
    fn may_load_from<E>(p: &GemmParams<T, E>) -> bool {
        p.b.has_vectors(Self::WIDTH as u32) && p.n.is_multiple_of(Self::WIDTH as u32)
    }

    /// The operands from `k` on.
    ///
    /// Instead of what lies outside of the matrices a thread loads what lies inside next to it. That needs no
    /// predicates in the loop over k, and the sums that come of it belong to no element of D.
    #[device_inline]
    fn new<E>(p: &GemmParams<T, E>, origin: Origin, sums: &ThreadTile<K, TM, TN>, k: u32) -> Self {
        let mut operands = Operands { rows: [p.a.data; TM], cols: [p.b.data; TN], below: p.b.ld };
        for i in 0..TM {
            let row = sums.row_of_d(origin, i).min(p.m - 1);
            operands.rows[i] = p.a.at(row, k);
        }
        for j in (0..TN).step_by(Self::WIDTH) {
            let col = sums.col_of_d(origin, j / Self::VECTOR) + (j % Self::VECTOR) as u32;
            operands.cols[j] = p.b.at(k, col.min(p.n - Self::WIDTH as u32));
        }
        operands
    }

    /// Adds the outer products of the next `steps` values of k: `STEP`, or fewer where K ends before.
    ///
    /// # Safety
    /// A and B are valid for their shapes, and so deep.
    #[device_inline]
    #[track_caller]
    unsafe fn multiply<const STEP: u32>(mut self, sums: &mut ThreadTile<K, TM, TN>, steps: u32) {
        // Values of k that are written out, so that loads for one overlap with multiplications of another. The more
        // sums a thread has, the less room there is beside them for operands of several k.
        let unroll = match (STEP, TM * TN) {
            (1, _) => 1,
            (_, ..16) => 8,
            (_, 16..32) => 4,
            _ => 2,
        };
        // SAFETY: as promised by the caller.
        unsafe {
            for _ in 0..steps / unroll {
                for _ in 0..unroll {
                    sums.add_rows(&self.next());
                }
            }
            for _ in 0..steps % unroll {
                sums.add_rows(&self.next());
            }
        }
    }

    /// Loads the thread's part of a column of A and of a row of B, and goes on to the next.
    ///
    /// # Safety
    /// A and B are valid for their shapes, and have one more k.
    #[device_inline]
    #[track_caller]
    unsafe fn next(&mut self) -> Fragments<T, TM, TN> {
        let mut fragments = Fragments { a: [T::ZERO; TM], b: [T::ZERO; TN] };
        // SAFETY: as promised by the caller; vectors are aligned where they are loaded at once.
        unsafe {
            for i in 0..TM {
                fragments.a[i] = self.rows[i].load();
                self.rows[i] = self.rows[i].add(1);
            }
            for j in (0..TN).step_by(Self::WIDTH) {
                self.cols[j].load_slice_if(true, &mut fragments.b[j..j + Self::WIDTH]);
                self.cols[j] = self.cols[j].add(self.below);
            }
        }
        fragments
    }
}
