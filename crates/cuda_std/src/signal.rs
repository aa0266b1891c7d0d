//! Blocks that wait for other blocks: words in global memory that one thread sets and another waits for.
//!
//! What a thread has done in global memory before it [`post`]s is visible to a thread that has [`wait`]ed for the
//! value, and so is what the first one had seen of others. With a block barrier on each side the same holds between
//! whole blocks:
//!
//! ```text
//! block i      stores of all threads; sync_threads; thread 0: post(signal, 1)
//! block j > i  thread 0: wait(signal, 1), clear(signal); sync_threads; loads by all threads
//! ```
//!
//! (PTX ISA, "Memory Consistency Model": a release pattern on the word and an acquire pattern that observes it
//! synchronise, section "Release and Acquire Patterns"; a barrier synchronises its threads, and causality order is
//! transitive over both, sections "Synchronization Operations" and "Causality Order".)
//!
//! On a GPU the same holds in shared memory, between threads of one block. The simulator orders shared memory by
//! barriers alone, and reports what nothing but a signal orders there as `FaultKind::SharedRace`.
//!
//! # Which block may wait for which
//!
//! A block may wait only for blocks of lower linear index in the grid, where x runs fastest. Blocks are started in that
//! order and run to their end once started; so while a block waits, the ones before it have been started, and the
//! lowest of those under way waits for nobody. A block that waited for a later one could keep that one from ever
//! starting, as soon as a grid has more blocks than the GPU has room for.
//!
//! # The words
//!
//! All words are zero before a launch, and the kernel sets them back: whoever waits last for a word [`clear`]s it,
//! unless the host clears the words before each launch. During a launch nothing else may access them.
//!
//! The simulator reports waits that could last for ever, and waits that another GPU could keep from ending, as
//! `FaultKind::SignalDeadlock`, and words that are not
//! zero before or after a launch as `FaultKind::SignalNotZero`.

use crate::backend;
use crate::memory::GlobalPtr;

/// Sets a word; what this thread has done in global memory before, and what it has seen of others there, is visible to
/// who waits for the value (`st.release.gpu`).
///
/// # Safety
/// The word must lie in live global memory and be aligned to 4 bytes, and during the launch only functions of this
/// module may access it.
#[inline(always)]
#[track_caller]
pub unsafe fn post(signal: GlobalPtr<u32>, value: u32) {
    // SAFETY: as promised by the caller.
    unsafe { post_if(true, signal, value) }
}

/// [`post`] where `predicate` holds, without a branch, for the reason that
/// [`store_3d_if`](crate::bulk_copy::store_3d_if) gives.
///
/// # Safety
/// As for [`post`] where `predicate` holds.
#[inline(always)]
#[track_caller]
pub unsafe fn post_if(predicate: bool, signal: GlobalPtr<u32>, value: u32) {
    // SAFETY: as promised by the caller.
    unsafe { backend::signal_post_if(predicate.into(), signal.address(), value) }
}

/// Waits until a word has a value that a block of lower linear index, or this one, posts (`ld.acquire.gpu`, in a loop).
///
/// # Safety
/// As for [`post`]. The value must stay until this thread has seen it.
#[inline(always)]
#[track_caller]
pub unsafe fn wait(signal: GlobalPtr<u32>, value: u32) {
    // SAFETY: as promised by the caller.
    unsafe { backend::signal_wait(signal.address(), value) }
}

/// Sets a word back to zero, which says nothing to anybody: no wait for earlier stores to arrive, as there is in
/// [`post`] (`st.relaxed.gpu`).
///
/// # Safety
/// As for [`post`]; all who wait for its value have seen it.
#[inline(always)]
#[track_caller]
pub unsafe fn clear(signal: GlobalPtr<u32>) {
    // SAFETY: as promised by the caller.
    unsafe { backend::signal_clear(signal.address()) }
}
