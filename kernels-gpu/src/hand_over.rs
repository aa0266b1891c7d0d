//! Sums that one block hands over to another through the workspace.
//!
//! Both have the same threads with the same parts of a tile, so it does not matter where in the workspace a sum lies, as long as
//! neighbouring threads have neighbouring words. Sums are stored and loaded one by one: registers that a vector is loaded to or
//! stored from must follow one another, and that would spoil their distribution among banks in the main loop (docs/measurements
//! has a log of what that costs).

use crate::double_panels::FragmentReader;
use crate::double_sums::PAIR;
use crate::double_tile::DoubleTile;
use crate::element::{Accumulator, Element};
use crate::kernel::{Acc, GemmKernel, consumers};
use crate::params::Workspace;
use crate::swapped::Operands;
use crate::thread_tile::{Arrangement, ThreadTile};
use crate::warpgroup_tile::WarpgroupTile;
use cuda_std::memory::GlobalPtr;
use cuda_std::{device_inline, signal, thread, unroll};

/// The value of a signal that says that the sums are there.
const READY: u32 = 1;

/// Rows of sums whose loads are under way at a time.
const TOGETHER: usize = 4;

/// Sums of one block in the workspace, and the signal that they are there.
pub struct HandOver<K: GemmKernel> {
    sums: GlobalPtr<Acc<K>>,
    signal: GlobalPtr<u32>,
}

impl<K: GemmKernel> HandOver<K> {
    /// Those of block `block`.
    #[device_inline]
    pub fn of_block(workspace: &Workspace<K::Element>, block: u32) -> Self {
        let elements = u64::from(K::TILE.bm * K::TILE.bn * K::DEPTH_GROUPS);
        HandOver {
            sums: workspace.partials.add(u64::from(block) * elements),
            signal: workspace.signals.add(u64::from(block)),
        }
    }

    /// Says that the sums are there. `barrier` is one of all threads that have a part of the tile.
    ///
    /// # Safety
    /// All those threads get here together, and have stored their sums.
    #[device_inline]
    #[track_caller]
    unsafe fn say(&self, barrier: impl Fn()) {
        barrier();
        if thread::thread_idx_x() == 0 {
            // SAFETY: as promised by the caller.
            unsafe { signal::post(self.signal, READY) };
        }
    }

    /// Waits until the sums are there, and takes back the signal.
    ///
    /// # Safety
    /// As for [`say`](Self::say); the block that says so has a lower index, and leaves its sums for this one alone.
    #[device_inline]
    #[track_caller]
    unsafe fn hear(&self, barrier: impl Fn()) {
        if thread::thread_idx_x() == 0 {
            // SAFETY: as promised by the caller.
            unsafe {
                signal::wait(self.signal, READY);
                signal::clear(self.signal);
            }
        }
        barrier();
    }
}

impl<K: GemmKernel, const TM: usize, const TN: usize, P: Arrangement<K>> ThreadTile<K, TM, TN, P> {
    /// From one of a thread's sums to the next.
    const STEP: u64 = consumers::<K>() as u64;

    /// Leaves the sums in the workspace and says so. `barrier` is one of all threads that have a part of the tile.
    ///
    /// # Safety
    /// All those threads get here together; the workspace has room for the block's sums, and nobody else writes there.
    #[device_inline]
    #[track_caller]
    pub unsafe fn leave(&self, to: &HandOver<K>, barrier: impl Fn()) {
        let target = to.sums.add(thread::thread_idx_x().into());
        unroll!(i < TM, {
            for j in 0..TN {
                // SAFETY: as promised by the caller.
                unsafe { target.add((i * TN + j) as u64 * Self::STEP).store(self.sums[i][j]) };
            }
        });
        // SAFETY: as promised by the caller; all threads have stored their sums.
        unsafe { to.say(barrier) };
    }

    /// Adds the sums that another block has left or will leave, and takes back its signal.
    ///
    /// # Safety
    /// As for [`leave`](Self::leave); that block has a lower index, and leaves its sums for this one alone.
    #[device_inline]
    #[track_caller]
    pub unsafe fn collect(&mut self, from: &HandOver<K>, barrier: impl Fn()) {
        // SAFETY: as promised by the caller.
        unsafe { from.hear(barrier) };
        let source = from.sums.add(thread::thread_idx_x().into());
        unroll!(batch < TM / TOGETHER, {
            let mut others = [[Acc::<K>::ZERO; TN]; TOGETHER];
            for i in 0..TOGETHER {
                for j in 0..TN {
                    let index = (batch * TOGETHER + i) * TN + j;
                    // SAFETY: the signal has been seen, so the sums are there.
                    others[i][j] = unsafe { source.add(index as u64 * Self::STEP).load() };
                }
            }
            for i in 0..TOGETHER {
                for j in 0..TN {
                    let sum = &mut self.sums[batch * TOGETHER + i][j];
                    *sum = Acc::<K>::fma(Acc::<K>::ONE, others[i][j], *sum);
                }
            }
        });
    }
}

/// Sums of a lane that are stored and loaded together: 16 bytes. Warpgroups' registers follow one another anyway.
pub const VECTOR: usize = 4;

/// Vectors whose loads are under way at a time.
const VECTORS_TOGETHER: usize = 8;

impl<const N: usize, const BM: usize, O: Operands> WarpgroupTile<N, BM, O> {
    /// Leaves the sums in the workspace and says so. `barrier` is one of all threads that multiply.
    ///
    /// # Safety
    /// All those threads get here together, all products have been waited for; the workspace has room for the block's sums, and nobody else
    /// writes there.
    #[device_inline]
    #[track_caller]
    pub unsafe fn leave<K: GemmKernel<Element: Element<Acc = f32>>>(
        &self,
        to: &HandOver<K>,
        barrier: impl Fn(),
    ) {
        // SAFETY: as promised by the caller; all threads have stored their sums when the signal is given.
        unsafe {
            self.for_each_vector(|i, sums| vector(to, i).store_vec(sums));
            to.say(barrier);
        }
    }

    /// Adds the sums that another block has left or will leave, and takes back its signal.
    ///
    /// # Safety
    /// As for [`leave`](Self::leave); that block has a lower index, and leaves its sums for this one alone.
    #[device_inline]
    #[track_caller]
    pub unsafe fn collect<K: GemmKernel<Element: Element<Acc = f32>>>(
        &mut self,
        from: &HandOver<K>,
        barrier: impl Fn(),
    ) {
        // SAFETY: as promised by the caller; when the signal has been seen the sums are there.
        unsafe {
            from.hear(barrier);
            self.add_vectors(|i| vector(from, i).load_vec());
        }
    }

    /// Gives each vector of a thread's sums to `take`, with its number.
    ///
    /// # Safety
    /// All products have been waited for.
    #[device_inline]
    #[track_caller]
    pub unsafe fn for_each_vector(&self, take: impl Fn(usize, [f32; VECTOR])) {
        unroll!(i < 32, {
            if const { i < Self::SUMS / VECTOR } {
                // SAFETY: as promised by the caller.
                let sums = unsafe {
                    [
                        self.get::<{ i * VECTOR }>(),
                        self.get::<{ i * VECTOR + 1 }>(),
                        self.get::<{ i * VECTOR + 2 }>(),
                        self.get::<{ i * VECTOR + 3 }>(),
                    ]
                };
                take(i, sums);
            }
        });
    }

    /// Adds to each vector of a thread's sums what `load` gives for its number; several are loaded at a time.
    ///
    /// # Safety
    /// All products have been waited for.
    #[device_inline]
    #[track_caller]
    pub unsafe fn add_vectors(&mut self, load: impl Fn(usize) -> [f32; VECTOR]) {
        // Registers have names and no indices.
        macro_rules! add {
            ($batch:literal, $others:ident: $($i:literal)*) => {$(
                let [x, y, z, w] = $others[$i];
                // SAFETY: as promised by the caller.
                unsafe {
                    self.add::<{ ($batch * VECTORS_TOGETHER + $i) * VECTOR }>(x);
                    self.add::<{ ($batch * VECTORS_TOGETHER + $i) * VECTOR + 1 }>(y);
                    self.add::<{ ($batch * VECTORS_TOGETHER + $i) * VECTOR + 2 }>(z);
                    self.add::<{ ($batch * VECTORS_TOGETHER + $i) * VECTOR + 3 }>(w);
                }
            )*};
        }
        macro_rules! batches {
            ($($batch:literal)*) => {$(
                if const { $batch * VECTORS_TOGETHER < Self::SUMS / VECTOR } {
                    let mut others = [[0.0; VECTOR]; VECTORS_TOGETHER];
                    for (i, others) in others.iter_mut().enumerate() {
                        *others = load($batch * VECTORS_TOGETHER + i);
                    }
                    add!($batch, others: 0 1 2 3 4 5 6 7);
                }
            )*};
        }
        batches!(0 1 2 3);
    }
}

impl<
    K: GemmKernel<Element = f64>,
    const TM: usize,
    const TN: usize,
    A: FragmentReader,
    B: FragmentReader,
> DoubleTile<K, TM, TN, A, B>
{
    /// Leaves the sums in the workspace and says so. `barrier` is one of all threads that multiply.
    ///
    /// # Safety
    /// All those threads get here together; the workspace has room for the block's sums, and nobody else writes there.
    #[device_inline]
    #[track_caller]
    pub unsafe fn leave(&self, to: &HandOver<K>, barrier: impl Fn()) {
        // SAFETY: as promised by the caller; all threads have stored their sums when the signal is given.
        unsafe {
            self.for_each_pair_of::<0>(|i, sums| pair(to, i).store_vec(sums));
            self.for_each_pair_of::<1>(|i, sums| pair(to, TM * TN / 4 + i).store_vec(sums));
            to.say(barrier);
        }
    }

    /// Adds the sums that another block has left or will leave, and takes back its signal.
    ///
    /// # Safety
    /// As for [`leave`](Self::leave); that block has a lower index, and leaves its sums for this one alone.
    #[device_inline]
    #[track_caller]
    pub unsafe fn collect(&mut self, from: &HandOver<K>, barrier: impl Fn()) {
        // SAFETY: as promised by the caller; when the signal has been seen the sums are there.
        unsafe {
            from.hear(barrier);
            self.add_pairs(|i| pair(from, i).load_vec());
        }
    }
}

/// Where the `index`-th pair of this thread lies among those of all that multiply.
#[device_inline]
fn pair<K: GemmKernel<Element = f64>>(of: &HandOver<K>, index: usize) -> GlobalPtr<f64> {
    let pair = index as u32 * consumers::<K>() + thread::thread_idx_x();
    of.sums.add(u64::from(pair) * PAIR as u64)
}

/// Where the `index`-th vector of this thread lies among those of all that multiply.
#[device_inline]
fn vector<K: GemmKernel<Element: Element<Acc = f32>>>(
    of: &HandOver<K>,
    index: usize,
) -> GlobalPtr<f32> {
    let vector = index as u32 * consumers::<K>() + thread::thread_idx_x();
    of.sums.add(u64::from(vector) * VECTOR as u64)
}
