//! Stacks for the threads of a block, reused from block to block and from launch to launch.

use corosensei::stack::DefaultStack;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Bytes of a stack. Only pages that a thread touches take memory.
const STACK_BYTES: usize = 256 << 10;

/// Most stacks in use by one launch, and most that are kept between launches. Each takes two mappings of the
/// process, of which Linux allows 65,530 by default.
pub(super) const MAX_STACKS: usize = 16 << 10;

/// Stacks fetched at once from those that all workers share.
const BATCH: usize = 32;

static SHARED: Mutex<Vec<DefaultStack>> = Mutex::new(Vec::new());

/// The free stacks of one worker.
#[derive(Default)]
pub(super) struct Stacks {
    free: Vec<DefaultStack>,
}

impl Stacks {
    /// A free stack.
    pub(super) fn take(&mut self) -> io::Result<DefaultStack> {
        if self.free.is_empty() {
            let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
            let rest = shared.len().saturating_sub(BATCH);
            self.free.extend(shared.drain(rest..));
        }
        self.free.pop().map_or_else(|| DefaultStack::new(STACK_BYTES), Ok)
    }

    /// Gives one back.
    pub(super) fn put(&mut self, stack: DefaultStack) {
        self.free.push(stack);
    }

    /// Leaves all free stacks to other workers.
    pub(super) fn release(&mut self) {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.append(&mut self.free);
        shared.truncate(MAX_STACKS);
    }
}
