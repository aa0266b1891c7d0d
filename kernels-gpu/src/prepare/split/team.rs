//! Which threads of a block have which elements of its lines, and how they find what a line has in common.

use super::THREADS;
use cuda_std::memory::SharedPtr;
use cuda_std::{device_inline, thread, warp};

/// Where a thread's vectors lie, one after another.
pub(super) struct Walk {
    /// Row and column of the first.
    first: (u32, u32),
    /// Rows and columns from one to the next.
    on: (u32, u32),
    /// How many times a thread loads all the vectors that it can have at a time.
    pub steps: u32,
}

impl Walk {
    /// Row and column of the `i`-th of `n` vectors of a step.
    #[device_inline]
    pub fn place(&self, step: u32, i: u32, n: u32) -> (u32, u32) {
        let i = step * n + i;
        (self.first.0 + i * self.on.0, self.first.1 + i * self.on.1)
    }
}

/// The threads that have elements of a line.
pub(super) struct Team {
    /// The thread's first line.
    pub line: u32,
    /// Whether the thread is the first one that has it.
    pub is_first: bool,
    /// Whether lines run across.
    across: bool,
    /// Lanes side by side that have other lines: 1, or a power of two.
    beside: u32,
    /// The warps of the team: the first, and how many.
    warps: (u32, u32),
}

/// Lines along rows, from line `first` on, as many as a block has, in vectors of `vector` elements, `together` at a
/// time. No fewer than one, which the compiler is told: else there is a path to a panic.
#[device_inline]
pub(super) fn along(
    first: u32,
    lines: u32,
    (vector, together): (u32, u32),
    cols: u32,
) -> (Team, Walk) {
    let threads = THREADS / lines.clamp(1, THREADS);
    let (line, index) = (thread::thread_idx_x() / threads, thread::thread_idx_x() % threads);
    let warps = threads / warp::WARP_SIZE;
    let team = Team {
        line: first + line,
        is_first: index == 0,
        across: false,
        beside: 1,
        warps: (line * warps, warps),
    };
    let steps = cols.div_ceil(threads * vector * together);
    (team, Walk { first: (first + line, index * vector), on: (0, threads * vector), steps })
}

/// Lines across rows, from line `first` on, a vector of lines for each of `beside` threads.
#[device_inline]
pub(super) fn across(
    first: u32,
    beside: u32,
    (vector, together): (u32, u32),
    rows: u32,
) -> (Team, Walk) {
    let beside = beside.clamp(1, THREADS);
    let threads = THREADS / beside;
    let (line, index) = (thread::thread_idx_x() % beside * vector, thread::thread_idx_x() / beside);
    let team = Team {
        line: first + line,
        is_first: index == 0,
        across: true,
        beside,
        warps: (0, THREADS / warp::WARP_SIZE),
    };
    let steps = rows.div_ceil(threads * together);
    (team, Walk { first: (index, first + line), on: (threads, 0), steps })
}

impl Team {
    /// Lines of a matrix of `rows x cols`.
    #[device_inline]
    pub fn lines_of(&self, rows: u32, cols: u32) -> u32 {
        if self.across { cols } else { rows }
    }

    /// The largest of all values for each line.
    ///
    /// # Safety
    /// All threads of the block get here, and not twice with the same room, which has a word for each value of each
    /// thread.
    #[device_inline]
    pub unsafe fn largest<const L: usize>(
        &self,
        mut values: [u32; L],
        room: SharedPtr<u32>,
    ) -> [u32; L] {
        // SAFETY: as promised by the caller; the words are read behind a barrier after they are written.
        unsafe {
            for bit in [16, 8, 4, 2, 1] {
                if bit >= self.beside {
                    for value in &mut values {
                        *value = (*value).max(warp::shuffle_xor(warp::FULL_MASK, *value, bit));
                    }
                }
            }
            for j in 0..L {
                room.add(j as u32 * THREADS + thread::thread_idx_x()).store(values[j]);
            }
            thread::sync_threads();
            let (first, warps) = self.warps;
            for warp in first..first + warps {
                for j in 0..L {
                    let word = j as u32 * THREADS + warp * warp::WARP_SIZE + warp::lane_id();
                    values[j] = values[j].max(room.add(word).load());
                }
            }
        }
        values
    }
}
