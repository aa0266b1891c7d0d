//! Copies of slices from global to shared memory for factors that are transposed on the way, by way of memory of the
//! thread's own.
//!
//! An asynchronous copy that transposes moves one element, and those of a warp, which come from eight columns of four
//! rows, take four passes through shared memory. Here a thread copies 16 bytes of a row of the factor asynchronously,
//! to a place that nobody else knows of. When they have arrived it reads them back and stores the elements one by one:
//! a quarter of the copies, and every store of a warp takes one pass. No other thread reads the place, so that nobody
//! has to be waited for; and no registers are taken by loads under way, which would be the price if the elements went
//! through registers alone.
//!
//! Vectors come in *groups*. A thread has places for a few of them, and whenever it has emptied one it begins to copy
//! to it again: what comes next, be it of the same slice or of the following one, is always under way
//! ([`Copier::bring_staged`]). Producers ([`crate::ladder::warp_specialised`]) do this.

use crate::element::Element;
use crate::kernel::{GemmKernel, copiers};
use crate::layout::Layout;
use crate::slices::copies::{Copier, Slice, SliceA, SliceB, Source};
use crate::slices::mover::{BANKS_BYTES, vector_len};
use crate::slices::{SWIZZLED_ROWS, Slices, shared_bytes};
use core::marker::PhantomData;
use cuda_std::async_copy::{self, copy_elements_async};
use cuda_std::memory::SharedPtr;
use cuda_std::{device_inline, shared, unroll};

/// Elements in a tile that counts as large: 128 x 256.
const LARGE_TILE: u32 = 128 * 256;

/// Vectors of a row that neighbouring threads copy: the elements of two, four rows apart in the slice, and of the 16
/// columns that the lanes of a warp have beside, go to different banks where rows of the slice are a multiple of all
/// banks and a vector apart.
const TOGETHER: usize = 2;

/// Vectors of a group.
const GROUP: usize = 4;

/// Most elements in a vector, of the types that are their own accumulators.
const MAX_VECTOR: usize = vector_len::<f32>();

/// Elements of shared memory that places for a group take, one of each of so many threads.
pub(crate) const fn len_of_places<T>(threads: usize) -> usize {
    GROUP * threads * vector_len::<T>()
}

/// Copies of a factor whose stored rows are columns of the slices.
pub(crate) struct Staged<'a, T, S>(pub &'a Source<T, S>);

impl<T: Element<Acc = T>, S: Slice> Staged<'_, T, S> {
    /// Elements in a vector.
    const VECTOR: usize = vector_len::<T>();
    /// Rows and columns of the slice that the threads copy at a time.
    const ROWS: usize = Self::VECTOR * TOGETHER;
    const COLS: usize = S::THREADS / TOGETHER;
    /// Vectors of a thread along the depth of the slice.
    const DEEP: usize = S::DEPTH / Self::ROWS;

    /// Groups of a thread.
    pub const GROUPS: usize = {
        assert!(S::DEPTH.is_multiple_of(Self::ROWS) && S::WIDTH.is_multiple_of(Self::COLS));
        // What is so far behind in the slice is as far behind in shared memory.
        let banks = BANKS_BYTES / size_of::<T>();
        assert!(Self::ROWS.is_multiple_of(SWIZZLED_ROWS) && Self::COLS.is_multiple_of(banks));
        let vectors = S::WIDTH / Self::COLS * Self::DEEP;
        assert!(vectors.is_multiple_of(GROUP), "whole groups");
        vectors / GROUP
    };

    /// Whether every stored row consists of whole, aligned vectors. The same for all threads.
    #[device_inline]
    pub fn is_possible(&self) -> bool {
        let vector = Self::VECTOR as u32;
        self.0.matrix.has_vectors(vector) && self.0.depth.is_multiple_of(vector)
    }

    /// Row and column of this thread's first vector in the slice.
    #[device_inline]
    fn first(thread: u32) -> (usize, usize) {
        let thread = thread as usize;
        (thread % TOGETHER * Self::VECTOR, thread / TOGETHER)
    }

    /// How far behind the thread's first vector the `v`-th one of a group lies: rows and columns of the slice.
    #[device_inline]
    const fn behind_first(group: usize, v: usize) -> (usize, usize) {
        let vector = group * GROUP + v;
        (vector % Self::DEEP * Self::ROWS, vector / Self::DEEP * Self::COLS)
    }

    /// This thread's place for the `v`-th vector of a group, among the `places` of all threads.
    #[device_inline]
    fn place(places: SharedPtr<T>, thread: u32, v: usize) -> SharedPtr<T> {
        let thread = places.add(thread * Self::VECTOR as u32);
        thread.add((v * S::THREADS * Self::VECTOR) as u32)
    }

    /// Begins to copy a group of this thread of the slice that begins at `k` to its place. Elements outside the matrix
    /// become zero where it is `checked`; elsewhere the slice lies inside.
    ///
    /// # Safety
    /// A and B are valid for their shapes, [it is possible](Self::is_possible), and the thread has read what was in its
    /// place.
    #[device_inline]
    #[track_caller]
    pub unsafe fn begin(
        &self,
        thread: u32,
        checked: bool,
        k: u32,
        group: usize,
        places: SharedPtr<T>,
    ) {
        let (row, col) = Self::first(thread);
        let (at, across) = (k + row as u32, col as u32);
        let source = self.0.matrix.at(self.0.first + across, at);
        for v in 0..GROUP {
            let (down, right) = Self::behind_first(group, v);
            let inside = !checked || self.0.holds(at + down as u32, across + right as u32);
            let source = source.add(right as u64 * self.0.matrix.ld + down as u64);
            let target = Self::place(places, thread, v);
            // SAFETY: as promised by the caller; vectors are aligned.
            unsafe { copy_elements_async(target, source, Self::VECTOR, inside) };
        }
    }

    /// Stores a group that has arrived in this thread's place to the slice.
    ///
    /// # Safety
    /// The thread has waited for the copies that it [began](Self::begin); nobody reads the slice until it has said so.
    #[device_inline]
    #[track_caller]
    pub unsafe fn finish(thread: u32, group: usize, places: SharedPtr<T>, slice: SharedPtr<T>) {
        let (row, col) = Self::first(thread);
        let mut vectors = [[T::ZERO; MAX_VECTOR]; GROUP];
        // SAFETY: as promised by the caller.
        unsafe {
            for v in 0..GROUP {
                let place = Self::place(places, thread, v);
                place.load_slice_if(true, &mut vectors[v][..Self::VECTOR]);
            }
            for v in 0..GROUP {
                let (down, right) = Self::behind_first(group, v);
                for e in 0..Self::VECTOR {
                    let element = S::place::<T>(row + e, col) + down * S::STRIDE + right;
                    slice.add(element as u32).store(vectors[v][e]);
                }
            }
        }
    }
}

/// What the producers of a kernel [stage](crate::slices::staged).
struct Staging<K>(PhantomData<K>);

impl<T: Element<Acc = T>, K: GemmKernel<Element = T>> Staging<K> {
    /// Whether A and B are staged where their rows allow it: what is transposed on the way, but of the larger slices of
    /// B only those of large tiles. Small tiles have half of the multiply-adds for each element, and producers less
    /// time.
    const FACTORS: (bool, bool) = (
        matches!(K::LAYOUTS.a, Layout::RowMajor),
        matches!(K::LAYOUTS.b, Layout::Transposed) && K::TILE.bm * K::TILE.bn >= LARGE_TILE,
    );
    /// Groups of a thread for a slice, of A and of both factors.
    const GROUPS_OF_A: usize = if Self::FACTORS.0 { Staged::<T, SliceA<K>>::GROUPS } else { 0 };
    const GROUPS: usize =
        Self::GROUPS_OF_A + if Self::FACTORS.1 { Staged::<T, SliceB<K>>::GROUPS } else { 0 };
    /// Places of a thread: a divisor of its groups, so that each group has its own.
    const PLACES: usize = if Self::GROUPS.is_multiple_of(3) { 3 } else { 2 };
    /// Elements of shared memory for one of the places of all threads.
    const LEN: usize = len_of_places::<T>(copiers::<K>() as usize);
}

/// Bytes of dynamic shared memory that a kernel with producers needs for slices: for all stages, and behind them for
/// what the producers [stage](crate::slices::staged).
pub const fn producers_shared_bytes<T: Element<Acc = T>, K: GemmKernel<Element = T>>() -> u32 {
    let places = if Staging::<K>::GROUPS > 0 { Staging::<K>::PLACES } else { 0 };
    shared_bytes::<K>() + (places * Staging::<K>::LEN * size_of::<T>()) as u32
}

impl<T: Element<Acc = T>, K: GemmKernel<Element = T>> Copier<K> {
    /// Where the threads' places for a group begin.
    #[device_inline]
    fn places(group: usize) -> SharedPtr<T> {
        let first = shared::dynamic().add(shared_bytes::<K>() / size_of::<T>() as u32);
        first.add((group % Staging::<K>::PLACES * Staging::<K>::LEN) as u32)
    }

    /// Whether A and B are staged. The same for all threads.
    #[device_inline]
    fn staged(&self) -> (bool, bool) {
        let (a, b) = Staging::<K>::FACTORS;
        (a && Staged(&self.a.source).is_possible(), b && Staged(&self.b.source).is_possible())
    }

    /// Begins to copy a group of the slices that begin at `k`, if its factor is staged.
    #[device_inline]
    #[track_caller]
    unsafe fn begin_group(&self, thread: u32, k: u32, group: usize, checked: bool) {
        let (of_a, places) = (Staging::<K>::GROUPS_OF_A, Self::places(group));
        let (a, b) = self.staged();
        // SAFETY: as promised by the caller; the place is the thread's own.
        unsafe {
            if group < of_a {
                if a {
                    Staged(&self.a.source).begin(thread, checked, k, group, places);
                }
            } else if b {
                Staged(&self.b.source).begin(thread, checked, k, group - of_a, places);
            }
        }
        async_copy::commit_group();
    }

    /// Begins to bring this thread's share of the slices that begin at `k`, the first of all.
    ///
    /// # Safety
    /// A and B are valid for their shapes. The thread has brought all that it began to bring before.
    #[device_inline]
    #[track_caller]
    pub unsafe fn begin(&self, thread: u32, k: u32) {
        if Staging::<K>::GROUPS > 0 {
            for group in 0..Staging::<K>::PLACES {
                // SAFETY: as promised by the caller.
                unsafe { self.begin_group(thread, k, group, true) };
            }
        }
    }

    /// Issues the copies of this thread's share of the slices that begin at `k`, of the factors that are not staged. Of
    /// slices past the end come zeros.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    #[device_inline]
    #[track_caller]
    pub unsafe fn bring_at_once(&self, thread: u32, k: u32, slices: &Slices<K>) {
        let (a, b) = self.staged();
        // SAFETY: as promised by the caller; a stage has room for both slices.
        unsafe {
            if !a {
                self.a.copy(thread, k, slices.a);
            }
            if !b {
                self.b.copy(thread, k, slices.b);
            }
        }
    }

    /// Stores this thread's share of the slices that begin at `k`, of the factors that are staged, and
    /// [begins](Self::begin) to bring those that begin at `next`, unless that is `k`.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy); others may read what the thread writes when it has said so.
    #[device_inline]
    #[track_caller]
    pub unsafe fn bring_staged(&self, thread: u32, (k, next): (u32, u32), slices: &Slices<K>) {
        if self.staged() == (false, false) {
            // To wait for groups of nothing would be to wait for the copies before them.
            return;
        }
        let whole = self.a.source.holds_slice(next) && self.b.source.holds_slice(next);
        // SAFETY: as promised by the caller.
        unsafe {
            if whole {
                self.bring_groups(thread, (k, next), false, slices);
            } else {
                self.bring_groups(thread, (k, next), true, slices);
            }
        }
    }

    #[device_inline]
    #[track_caller]
    unsafe fn bring_groups(
        &self,
        thread: u32,
        (k, next): (u32, u32),
        checked: bool,
        slices: &Slices<K>,
    ) {
        let (a, b) = self.staged();
        let (of_a, groups) = const { (Staging::<K>::GROUPS_OF_A, Staging::<K>::GROUPS) };
        // SAFETY: as promised by the caller; a stage has room for both slices.
        unsafe {
            unroll!(group < Staging::<K>::GROUPS, {
                if Staging::<K>::PLACES == 3 {
                    async_copy::wait_group::<2>();
                } else {
                    async_copy::wait_group::<1>();
                }
                let places = Self::places(group);
                if group < of_a {
                    if a {
                        Staged::<T, SliceA<K>>::finish(thread, group, places, slices.a);
                    }
                } else if b {
                    Staged::<T, SliceB<K>>::finish(thread, group - of_a, places, slices.b);
                }
                let later = group + Staging::<K>::PLACES;
                if later < groups {
                    self.begin_group(thread, k, later, checked);
                } else if next != k {
                    self.begin_group(thread, next, later - groups, checked);
                } else {
                    async_copy::commit_group();
                }
            });
        }
    }
}
