//! A kernel that notes what the multiprocessors' counters say: before and after others it tells at which clock these
//! ran.
//!
//! A management library gives the clock that a GPU has been set to. At a limit of power or current the multiprocessors
//! leave out cycles of it: products in bf16 whose clock is given as 1980 MHz have 1650 (4096, some milliseconds of them
//! on an H200 that has rested).

use cuda_std::memory::GlobalPtr;
use cuda_std::{clock, device_inline, thread};

/// Threads of a block.
pub const THREADS: u32 = 32;

/// Blocks for each multiprocessor, so that hardly any has none.
pub const BLOCKS: u32 = 2;

/// Words of a note: its mark, cycles and nanoseconds.
pub const WORDS: usize = 3;

/// Runs one thread: notes the counters of its multiprocessor where that is one of so many. Where several blocks run on
/// one any of their notes may be what is left.
///
/// # Safety
/// Launched with [`THREADS`] threads along x and blocks along x; there is room for [`WORDS`] words of each of so many
/// multiprocessors. Notes of one launch are read when it has ended.
#[device_inline]
#[track_caller]
pub unsafe fn note(to: GlobalPtr<u64>, multiprocessors: u32, mark: u32) {
    let multiprocessor = clock::multiprocessor();
    if thread::thread_idx_x() == 0 && multiprocessor < multiprocessors {
        let to = to.add(u64::from(multiprocessor) * WORDS as u64);
        // SAFETY: as promised by the caller.
        unsafe {
            to.store(mark.into());
            to.add(1).store(clock::cycles());
            to.add(2).store(clock::nanoseconds());
        }
    }
}
