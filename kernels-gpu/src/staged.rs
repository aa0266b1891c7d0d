//! Copies of slices from global to shared memory for factors that are transposed on the way, by way of memory of the thread's own.
//!
//! An asynchronous copy that transposes moves one element, and those of a warp, which come from eight columns of four rows, take
//! four passes through shared memory. Here a thread copies 16 bytes of a row of the factor asynchronously, to a place that nobody
//! else knows of, and does so for a whole slice while the slice before it is on its way. When that has arrived the thread
//! reads it back and stores its elements one by one: a quarter of the copies, and every store of a warp takes one pass. No other
//! thread reads the place, so that nobody has to be waited for; and neither registers nor time are spent on loads under way,
//! which would be the price if the elements went through registers alone. Producers ([`crate::warp_specialised`]) do this.

use crate::copies::{Slice, Source};
use crate::element::Element;
use crate::mover::vector_len;
use cuda_std::async_copy::copy_elements_async;
use cuda_std::memory::SharedPtr;

/// Vectors of a row that neighbouring threads copy: the elements of two, four rows apart in the slice, and of the 16 columns that
/// the lanes of a warp have beside, go to different banks where rows of the slice are a multiple of all banks and a vector apart.
const TOGETHER: usize = 2;

/// Most elements in a vector, of the types that are their own accumulators.
const MAX_VECTOR: usize = vector_len::<f32>();

/// Copies of a factor whose stored rows are columns of the slices.
pub(crate) struct Staged<'a, T, S>(pub &'a Source<T, S>);

impl<T: Element<Acc = T>, S: Slice> Staged<'_, T, S> {
    /// Elements in a vector.
    const VECTOR: usize = vector_len::<T>();
    /// Rows of the slice that the threads copy at a time.
    const ROWS: usize = Self::VECTOR * TOGETHER;
    /// Columns of the slice that the threads copy at a time.
    const COLS: usize = S::THREADS / TOGETHER;
    /// Vectors of a thread along the depth of the slice, and along its width.
    const DEEP: usize = S::DEPTH / Self::ROWS;
    const WIDE: usize = S::WIDTH / Self::COLS;

    /// Elements of shared memory for the places of all threads.
    pub const LEN: usize = {
        assert!(S::DEPTH.is_multiple_of(Self::ROWS) && S::WIDTH.is_multiple_of(Self::COLS));
        S::DEPTH * S::WIDTH
    };

    /// Whether every stored row consists of whole, aligned vectors. The same for all threads.
    #[inline(always)]
    pub fn is_possible(&self) -> bool {
        let vector = Self::VECTOR as u32;
        self.0.matrix.has_vectors(vector) && self.0.depth.is_multiple_of(vector)
    }

    /// The first of this thread's vectors: row and column of the slice, and its place. Each next one lies as far behind the one
    /// before as the vectors of all threads take.
    #[inline(always)]
    fn first(thread: usize, places: SharedPtr<T>) -> (usize, usize, SharedPtr<T>) {
        let place = places.add((thread * Self::VECTOR) as u32);
        (thread % TOGETHER * Self::VECTOR, thread / TOGETHER, place)
    }

    /// Where this thread's vector `(wide, deep)` has its place.
    #[inline(always)]
    fn place(first: SharedPtr<T>, wide: usize, deep: usize) -> SharedPtr<T> {
        first.add(((wide * Self::DEEP + deep) * S::THREADS * Self::VECTOR) as u32)
    }

    /// Begins to copy this thread's share of the slice that begins at `k` to its place. Elements outside the matrix become zero
    /// where it is `checked`; elsewhere the slice lies inside.
    ///
    /// # Safety
    /// A and B are valid for their shapes, [it is possible](Self::is_possible), and the thread has read what was in its place.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn begin(&self, thread: u32, checked: bool, k: u32, places: SharedPtr<T>) {
        let (row, col, place) = Self::first(thread as usize, places);
        let (at, across) = (k + row as u32, col as u32);
        let mut source = self.0.matrix.at(self.0.first + across, at);
        for wide in 0..Self::WIDE {
            for deep in 0..Self::DEEP {
                let (right, down) = ((wide * Self::COLS) as u32, (deep * Self::ROWS) as u32);
                let inside = !checked || self.0.holds(at + down, across + right);
                let target = Self::place(place, wide, deep);
                // SAFETY: as promised by the caller; vectors are aligned.
                unsafe {
                    copy_elements_async(target, source.add(down.into()), Self::VECTOR, inside);
                }
            }
            source = source.add(Self::COLS as u64 * self.0.matrix.ld);
        }
    }

    /// Stores what has arrived in this thread's place to the slice.
    ///
    /// # Safety
    /// The thread has waited for the copies that it [began](Self::begin); nobody reads the slice until it has said so.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn finish(&self, thread: u32, places: SharedPtr<T>, slice: SharedPtr<T>) {
        let (row, col, place) = Self::first(thread as usize, places);
        for wide in 0..Self::WIDE {
            for deep in 0..Self::DEEP {
                let (right, down) = (wide * Self::COLS, deep * Self::ROWS);
                let mut values = [T::ZERO; MAX_VECTOR];
                // SAFETY: as promised by the caller.
                unsafe {
                    let values = &mut values[..Self::VECTOR];
                    Self::place(place, wide, deep).load_slice_if(true, values);
                    for (e, value) in values.iter().enumerate() {
                        let element = (row + down + e) * S::STRIDE + col + right;
                        slice.add(element as u32).store(*value);
                    }
                }
            }
        }
    }
}
