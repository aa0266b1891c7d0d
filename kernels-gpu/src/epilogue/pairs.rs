//! Sums as tensor cores leave them in the lanes of a warp: pairs of neighbouring columns in two rows.
//!
//! Of each 8 columns by 16 rows a lane holds a pair in one of the upper eight rows and one in the same columns of the
//! row eight below ([`cuda_std::wgmma`]). An epilogue that works on several such at once has enough to do while it
//! waits for one thing or another: for what it reads from memory, and for the result of one instruction before the
//! next.

use crate::element::Element;
use crate::params::MatrixRef;
use core::mem::transmute_copy;
use cuda_std::device_inline;
use cuda_std::memory::GlobalPtr;
use cuda_std::scalar::Scalar;
use cuda_std::warp;

/// Pairs of a row that are worked on at once.
pub const PAIRS: usize = 4;

/// Rows of a lane.
pub const ROWS: usize = 2;

/// Rows from a lane's first to its second, and columns from one pair to the next.
pub const STEP: u32 = 8;

/// Columns that the pairs of all lanes take together.
pub const COLS: usize = PAIRS * STEP as usize;

/// Values of a lane: `[row][pair][column]`.
pub type Pairs<A> = [[[A; 2]; PAIRS]; ROWS];

/// A pair of elements as it comes from memory. Two of 16 bits are in the first word, the first element in its lower
/// half, and the second word is zero, which takes no register; of 32 bits each has a word.
pub type Words = [u32; 2];

/// Whether elements of `T` share a word: if not they have one each.
const fn share_a_word<T>() -> bool {
    assert!(size_of::<T>() <= size_of::<u32>(), "an element fits into a word");
    size_of::<T>() < size_of::<u32>()
}

/// The elements of a pair.
#[device_inline]
pub fn unpack<T: Element>(words: Words) -> [T; 2] {
    if const { share_a_word::<T>() } {
        let halves = [words[0] as u16, (words[0] >> u16::BITS) as u16];
        // SAFETY: an element is a scalar, for which any bits are valid, and of this size.
        halves.map(|bits| unsafe { transmute_copy(&bits) })
    } else {
        // SAFETY: as above.
        words.map(|bits| unsafe { transmute_copy(&bits) })
    }
}

/// A pair of the bits of its elements.
#[device_inline]
const fn in_words<T>([low, high]: [u32; 2]) -> Words {
    if const { share_a_word::<T>() } { [low | high << u16::BITS, 0] } else { [low, high] }
}

/// The bits of a pair's first element alone, if it is to be loaded.
///
/// # Safety
/// As for [`GlobalPtr::load`] if it is.
#[device_inline]
#[track_caller]
unsafe fn load_element<T: Element>(element: GlobalPtr<T>, there: bool) -> u32 {
    // SAFETY: as promised by the caller.
    unsafe {
        if const { share_a_word::<T>() } {
            element.cast::<u16>().load_if(there).into()
        } else {
            element.cast::<u32>().load_if(there)
        }
    }
}

/// Where they belong: pair `j` of row `i` in D's columns `col + 8 j` and the next one, of row `row + 8 i`.
#[derive(Clone, Copy, Debug)]
pub struct PairsAt {
    /// The first row.
    pub row: u32,
    /// The first column, an even one.
    pub col: u32,
    /// Rows of D.
    pub m: u32,
    /// The column behind the last that is stored: that behind the last of D, or of the tile where tiles
    /// [fit](crate::warpgroup::fit). No address is to be worked out from it.
    pub n: u32,
    /// Whether it is not D but its transpose that all this is said of, since [A and B are swapped](crate::swapped): a
    /// pair is of rows below each other then. The same for all of a kernel, to which it is a constant.
    pub swapped: bool,
    /// Whether what follows from a matrix is to be worked out anew for each turn, since registers are scarce. The same
    /// for all of a kernel, too.
    pub is_scarce: bool,
}

impl PairsAt {
    /// The row and column of D of element `e` of pair `j` of row `i`.
    #[device_inline]
    pub const fn place(&self, i: usize, j: usize, e: usize) -> (u32, u32) {
        let (row, col) = (self.row(i), self.col(j) + e as u32);
        if self.swapped { (col, row) } else { (row, col) }
    }

    /// Row `i` of the two.
    #[device_inline]
    pub const fn row(&self, i: usize) -> u32 {
        self.row + i as u32 * STEP
    }

    /// The first column of pair `j`.
    #[device_inline]
    pub const fn col(&self, j: usize) -> u32 {
        self.col + j as u32 * STEP
    }

    /// How many elements of pair `j` of row `i` lie in D.
    #[device_inline]
    pub const fn inside(&self, i: usize, j: usize) -> u32 {
        let cols = self.n.saturating_sub(self.col(j));
        if self.row(i) >= self.m {
            0
        } else if cols < 2 {
            cols
        } else {
            2
        }
    }

    /// A matrix, [anew](MatrixRef::anew) where registers are scarce.
    #[device_inline]
    pub fn afresh<T: Scalar>(&self, matrix: MatrixRef<T>) -> MatrixRef<T> {
        if self.is_scarce { matrix.anew() } else { matrix }
    }

    /// The elements of a matrix of D's shape; zero where there are none.
    ///
    /// # Safety
    /// The matrix is valid for its shape.
    #[device_inline]
    #[track_caller]
    pub unsafe fn load<T: Element>(&self, matrix: MatrixRef<T>) -> [[Words; PAIRS]; ROWS] {
        if self.swapped {
            // SAFETY: as promised by the caller.
            return unsafe { self.load_elements(matrix) };
        }
        let whole = self.afresh(matrix).has_vectors(2) && self.n.is_multiple_of(2);
        [0, 1].map(|i| {
            let row = matrix.at(self.row(i), self.col);
            // SAFETY: as promised by the caller.
            unsafe { self.load_row(row, self.row(i) < self.m, whole) }
        })
    }

    /// The same of a matrix of which a pair's elements do not lie together.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[device_inline]
    #[track_caller]
    unsafe fn load_elements<T: Element>(&self, matrix: MatrixRef<T>) -> [[Words; PAIRS]; ROWS] {
        let mut words = [[[0; 2]; PAIRS]; ROWS];
        for i in 0..ROWS {
            for j in 0..PAIRS {
                let element = |e| {
                    let (row, col) = self.place(i, j, e as usize);
                    let there = self.inside(i, j) > e;
                    // SAFETY: as promised by the caller.
                    unsafe { load_element(matrix.at(row, col), there) }
                };
                words[i][j] = in_words::<T>([element(0), element(1)]);
            }
        }
        words
    }

    /// The elements of a vector that has one for each column of D; zero where there are none.
    ///
    /// # Safety
    /// The vector is valid for its length.
    #[device_inline]
    #[track_caller]
    pub unsafe fn load_of_cols<T: Element>(&self, vector: GlobalPtr<T>) -> [Words; PAIRS] {
        let whole =
            vector.address().is_multiple_of(2 * size_of::<T>() as u64) && self.n.is_multiple_of(2);
        // SAFETY: as promised by the caller.
        unsafe { self.load_row(vector.add(self.col.into()), true, whole) }
    }

    /// The elements of a vector that has one for each row of D, those of both rows as a pair; zero where there are
    /// none.
    ///
    /// # Safety
    /// The vector is valid for its length.
    #[device_inline]
    #[track_caller]
    pub unsafe fn load_of_rows<T: Element>(&self, vector: GlobalPtr<T>) -> Words {
        // They are kept while products are under way, so in as few registers as hold them.
        in_words::<T>([0, 1].map(|i| {
            let row = self.row(i);
            // SAFETY: as promised by the caller.
            unsafe { load_element(vector.add(row.into()), row < self.m) }
        }))
    }

    /// The pairs of a row whose first element in these columns is at `row`: both elements of a pair together where
    /// pairs are `whole`, that is, lie in D or not and are aligned.
    ///
    /// # Safety
    /// If the row is there, it is valid up to D's last column.
    #[device_inline]
    #[track_caller]
    unsafe fn load_row<T: Element>(
        &self,
        row: GlobalPtr<T>,
        there: bool,
        whole: bool,
    ) -> [Words; PAIRS] {
        let pair = |j: usize| row.add((j as u32 * STEP).into());
        let inside = |j: usize, e: u32| there && self.col(j) + e < self.n;
        let mut words = [[0; 2]; PAIRS];
        // SAFETY: as promised by the caller.
        unsafe {
            if whole {
                for j in 0..PAIRS {
                    if const { share_a_word::<T>() } {
                        words[j][0] = pair(j).cast::<u32>().load_if(inside(j, 0));
                    } else {
                        words[j] = pair(j).cast::<u32>().load_vec_if::<2>(inside(j, 0));
                    }
                }
            } else {
                for j in 0..PAIRS {
                    let low = load_element(pair(j), inside(j, 0));
                    let high = load_element(pair(j).add(1), inside(j, 1));
                    words[j] = in_words::<T>([low, high]);
                }
            }
        }
        words
    }
}

/// What an epilogue has read from a matrix of D's shape for some pairs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fetched {
    /// The elements.
    pub elements: [[Words; PAIRS]; ROWS],
}

/// What an epilogue has read from vectors.
#[derive(Clone, Copy, Debug, Default)]
pub struct FetchedVectors {
    /// Of one that has an element for each column.
    pub of_cols: [Words; PAIRS],
    /// Of one that has an element for each row: those of both rows.
    pub of_rows: Words,
}

/// Lanes that have the pairs of a row.
const LANES_OF_ROW: u32 = STEP / 2;

/// Which [`COLS`] columns this lane fetches the elements of vectors for: all lanes together those of 8 times as many,
/// each once.
#[device_inline]
pub fn turn_of_lane() -> u32 {
    warp::lane_id() / LANES_OF_ROW
}

impl FetchedVectors {
    /// What this lane needs for the `turn`-th [`COLS`] columns, of what all lanes have fetched of `T` for those of
    /// their [turns](turn_of_lane).
    ///
    /// # Safety
    /// All lanes of the warp get here together; there are at most 8 turns.
    #[device_inline]
    #[track_caller]
    pub unsafe fn of_turn<T: Element>(&self, turn: u32) -> Self {
        let lane = turn * LANES_OF_ROW + warp::lane_id() % LANES_OF_ROW;
        // SAFETY: as promised by the caller.
        let shuffle = |word| unsafe { warp::shuffle(warp::FULL_MASK, word, lane) };
        let of_cols = self.of_cols.map(|[first, second]| {
            let second = if const { share_a_word::<T>() } { 0 } else { shuffle(second) };
            [shuffle(first), second]
        });
        FetchedVectors { of_cols, ..*self }
    }
}
