//! Whether a product of f32 is computed by [halves](crate::warpgroup::halves) or exactly, which the GPU decides by
//! itself.
//!
//! What the halves of a factor can stand for is known when it is [split](mod@crate::prepare::split), on the GPU, while
//! the host has long put the next launches on the stream. So there are always three of them:
//!
//! 1. the factors are split, and whoever finds a line that is marked sets the *mark* of its matrix,
//! 2. the product by halves: its blocks look at the marks of their A and their B when they start, note what they find,
//!    and leave if one is set,
//! 3. the exact product: its blocks look at that note, and leave unless one was set. They clear the marks for the next
//!    time.
//!
//! All blocks of a product find the same, so that one of both launches computes all of its D, and does so as if it were
//! alone. The other one costs its start. Of a batch each product has a note of its own.
//!
//! Nobody clears notes: they say which way was taken until the next product writes them.

use cuda_std::memory::GlobalPtr;
use cuda_std::{device_inline, early_start, thread};

/// The marks of a factor's matrices.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// A word for each matrix: not zero where one of its lines is marked.
    pub words: GlobalPtr<u32>,
    /// Words from that of one product to that of the next: none where all products share a matrix.
    pub stride: u32,
    /// Whether they are cleared behind a product, which they are not if the halves are kept.
    pub passing: u32,
}

impl Marks {
    /// The word of the running block's product.
    #[device_inline]
    fn of_block(&self) -> GlobalPtr<u32> {
        self.words.add(u64::from(thread::block_idx_y()) * u64::from(self.stride))
    }
}

/// What the launches of a product tell one another.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    /// Those of A.
    pub a: Marks,
    /// Those of B.
    pub b: Marks,
    /// The notes: a word for each product, not zero where it is computed exactly. Null where there is nothing to
    /// decide, and all is computed by halves.
    pub exact: GlobalPtr<u32>,
}

impl Decision {
    /// There is nothing to decide.
    pub const NONE: Decision = {
        let marks = Marks { words: GlobalPtr::null(), stride: 0, passing: 0 };
        Decision { a: marks, b: marks, exact: GlobalPtr::null() }
    };

    /// Whether the running block's product is computed by halves; notes it where there is something to decide. All
    /// threads get the same answer.
    ///
    /// # Safety
    /// Launched along y with a block for each product; there are so many marks and notes, or none at all.
    #[device_inline]
    #[track_caller]
    pub unsafe fn unmarked(&self) -> bool {
        if self.exact.is_null() {
            return true;
        }
        early_start::wait();
        // SAFETY: as promised by the caller; nobody sets marks any more.
        unsafe {
            let marks = self.a.of_block().load() | self.b.of_block().load();
            if is_first() {
                self.note().store(u32::from(marks != 0));
            }
            marks == 0
        }
    }

    /// Whether the running block's product is computed exactly; clears the marks. All threads get the same answer.
    ///
    /// # Safety
    /// As for [`unmarked`](Decision::unmarked), and launched behind a kernel that has asked that.
    #[device_inline]
    #[track_caller]
    pub unsafe fn marked(&self) -> bool {
        early_start::wait();
        // SAFETY: as promised by the caller; nobody reads marks in this launch.
        unsafe {
            if is_first() {
                for marks in [self.a, self.b] {
                    marks.of_block().store_if(marks.passing != 0, 0);
                }
            }
            self.note().load() != 0
        }
    }

    /// The note of the running block's product.
    #[device_inline]
    fn note(&self) -> GlobalPtr<u32> {
        self.exact.add(thread::block_idx_y().into())
    }
}

/// Whether this is the thread of its product that writes words, or where K is split one of the few, a slice each, which
/// all write the same.
#[device_inline]
fn is_first() -> bool {
    thread::block_idx_x() == 0 && thread::thread_idx_x() == 0
}
