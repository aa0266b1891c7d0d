//! Which block sums what, where that is not one block for each tile ([`Schedule`](crate::kernel::Schedule)): split-K,
//! stream-K, persistent blocks.
//!
//! | module | what it is |
//! |---|---|
//! | [`shares`] | which blocks sum what of the tiles that they share |
//! | [`parts`] | what a block that stays sums, one part of D after another |
//! | [`batches`] | that of several products |
//! | [`hand_over`] | how one block passes its sums on to another |
//! | [`partials`] | the sums of slices of K in the workspace |
//! | [`reduce`] | the launch that adds them up |

pub mod batches;
pub mod hand_over;
pub mod partials;
pub mod parts;
pub mod reduce;
pub mod shares;
