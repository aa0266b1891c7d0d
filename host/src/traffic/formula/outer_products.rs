//! The rungs between tiles and tensor cores.

use super::super::request::Request;
use super::super::{PASS_BYTES, WARP_LANES};
use super::{Launch, Sums, VECTOR};
use regemm_kernels::kernel::{Rung, Tile};
use regemm_kernels::ladder::decoupled::ROUND;
use regemm_kernels::layout::{Layout, Layouts};
use regemm_kernels::thread_tile::WARP_TILE;

/// Columns of a slice of A that neighbouring lanes copy asynchronously to a transposed one: see
/// [`regemm_kernels::slices::mover`].
const COLUMNS_TOGETHER: u64 = PASS_BYTES / VECTOR;

impl Launch {
    /// The rungs that build a tile of D in the registers of each thread.
    pub(super) fn outer_products(&self) -> Sums {
        let Tile { bm, bn, bk, tm, tn, .. } = self.tile;
        let [bm, bn, bk, tm, tn] = [bm, bn, bk, tm, tn].map(u64::from);
        // Values of k that are multiplied, and those that are loaded from shared memory for that: where the next is
        // loaded while this one is multiplied, there is one too many in the end.
        let whole_slices = self.slices * bk;
        let (steps, loaded) = match self.rung {
            Rung::WarpTiled => (whole_slices, whole_slices + u64::from(self.k > 0)),
            Rung::Decoupled => {
                let rounds = self.k.next_multiple_of(ROUND as u64);
                (rounds, rounds + u64::from(self.k > 0))
            }
            _ => (whole_slices, whole_slices),
        };
        let block_threads = self.blocks() * u128::from(self.threads);
        // Slices that reach shared memory, and barriers of the whole block.
        let (stored, barriers) = match self.rung {
            // One more slice than there is, of zeros; and the first has a barrier of its own.
            Rung::DoubleBuffered if self.k > 0 => (self.slices + 1, self.slices + 1),
            Rung::Pipelined | Rung::WarpTiled => (self.slices, self.slices),
            // Where the memory barriers are made.
            Rung::Decoupled => (self.slices, 1),
            _ => (self.slices, 2 * self.slices),
        };
        let stored = self.blocks() * u128::from(stored);
        let (store, vector) = self.store();
        let row_of_vectors = u128::from(self.n.next_multiple_of(vector));
        let mut sums = Sums {
            store_sectors: store.sectors(self.m, self.n, self.result_bytes),
            shared_load_bytes: block_threads * u128::from(loaded * (tm + tn) * self.sum_bytes),
            shared_store_bytes: stored * u128::from(bk * (bm + bn) * self.sum_bytes),
            barriers: self.blocks() * u128::from(barriers),
            fma: block_threads * u128::from(steps * tm * tn) + u128::from(self.m) * row_of_vectors,
            ..Sums::default()
        };
        let (of_a, of_b) = (self.mover((bm, bk), self.k), self.mover((bk, bn), self.n));
        // Asynchronous copies of a slice that is transposed on the way.
        let cols = COLUMNS_TOGETHER.min(bk);
        let across = Request::rectangle(WARP_LANES / cols, cols);
        let (request_a, request_b, replays) = match self.rung {
            Rung::Pipelined => (across, of_b.request(), 0),
            Rung::WarpTiled | Rung::Decoupled => {
                let along_a = || self.mover((bk, bm), self.m).request();
                let Layouts { a, b } = self.layouts;
                let request_a = if a == Layout::RowMajor { across } else { along_a() };
                let request_b = if b == Layout::RowMajor { of_b.request() } else { across };
                (request_a, request_b, 0)
            }
            _ => (of_a.request(), of_b.request(), self.replays(&of_a)),
        };
        let free_passes = u128::from(bm * bk * self.sum_bytes / PASS_BYTES);
        sums.conflicts = stored * free_passes * u128::from(replays);
        self.load_by_blocks(&mut sums, request_a, request_b);
        sums
    }

    /// How a block moves slices of the given shape of a matrix with `matrix_cols` columns: in the widest vectors with
    /// which all threads carry the same number of them, if the rows of the matrix are whole vectors, else by elements.
    fn mover(&self, (rows, cols): (u64, u64), matrix_cols: u64) -> Mover {
        let share = rows * cols / self.threads;
        let mut width = VECTOR / self.element_bytes;
        let even = |width: u64| {
            share.is_multiple_of(width)
                && cols.is_multiple_of(width)
                && self.threads.is_multiple_of(cols / width)
        };
        while width > 1 && !even(width) {
            width /= 2;
        }
        let width = if matrix_cols.is_multiple_of(width) { width } else { 1 };
        Mover { width, across: (cols / width).min(WARP_LANES) }
    }

    /// Passes that bank conflicts add to each pass of the stores of a transposed slice of A.
    fn replays(&self, of_a: &Mover) -> u64 {
        // The lanes that are served together, and the columns that they hold elements of.
        let lanes = PASS_BYTES / self.sum_bytes;
        let columns = of_a.across.min(lanes);
        (columns * of_a.width / COLUMNS_TOGETHER).saturating_sub(1)
    }

    /// What a warp stores in one step, and the elements of a thread's vector. Threads lie along the rows of D; each has
    /// a vector of columns, and as many consecutive rows, of which it stores one a step.
    fn store(&self) -> (Request, u64) {
        let vector = |owned: u32| u64::from(owned).min(VECTOR / self.sum_bytes);
        let (rows, cols) = (vector(self.tile.tm), vector(self.tile.tn));
        let across = match self.rung {
            Rung::WarpTiled | Rung::Decoupled => WARP_TILE.1 as u64,
            _ => u64::from(self.tile.bn / self.tile.tn).min(WARP_LANES),
        };
        let piece = if self.n.is_multiple_of(cols) { cols } else { 1 };
        let down = WARP_LANES.min(self.threads) / across;
        (Request::spread((down, rows), (across, cols), piece), cols)
    }
}

/// How the threads of a block share a slice.
struct Mover {
    /// Elements that a lane moves at once.
    width: u64,
    /// Lanes along a row of the slice.
    across: u64,
}

impl Mover {
    fn request(&self) -> Request {
        Request::rectangle(WARP_LANES / self.across, self.across * self.width)
    }
}
