//! Launches that begin before the one before them has ended (CUDA C++ Programming Guide, "Programmatic Dependent Launch
//! and Synchronization"; PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol").
//!
//! Launches of a stream run one after the other, and from the last instruction of one to the first of the next a GPU
//! takes more than a microsecond: until all that was written has arrived, blocks have been handed out, parameters been
//! fetched. A kernel marked [`#[kernel(early_start)]`](macro@crate::kernel) has its blocks handed out meanwhile. It may
//! then do what concerns nobody else, such as initialising mbarriers, and before it touches global memory each thread
//! [`wait`]s until what came before on the stream is done and can be seen.
//!
//! That is for launches that ask for it; after others, and on targets before sm_90, the wait is over at once. The
//! simulator runs one launch after the other, but does not let a thread of such a kernel touch global memory that has
//! not waited.

use crate::backend;

/// Whether the target has it: where it has [bulk copies](crate::bulk_copy::AVAILABLE).
pub const AVAILABLE: bool = backend::EARLY_STARTS;

/// Waits until all launches before this one on its stream are done and what they have written can be seen
/// (`griddepcontrol.wait`).
#[inline(always)]
#[track_caller]
pub fn wait() {
    backend::wait_for_earlier_launches();
}
