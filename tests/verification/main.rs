//! The checks must be able to fail: each test here hands them a result that is wrong in one way, or right but unusual.
//!
//! Results that are right come from `device_like`, which computes as the kernels promise to: `k` fused multiply-adds in
//! ascending order, two more in the epilogue, one rounding to the element type.
//!
//! | file | theme |
//! |---|---|
//! | `accuracy.rs` | the measure of errors |
//! | `bound.rs` | the bound is wide enough for what the kernels promise, and too narrow for less precision |
//! | `comparison.rs` | every way in which a result can be wrong is caught, at the right place |
//! | `special_values.rs` | NaN, infinities and overflow |
//! | `references.rs` | exact references, shapes and inputs |
//! | `sampled.rs` | Freivalds' test and sampled checks |
//! | `canaries.rs` | canaries |

mod accuracy;
mod bound;
mod canaries;
mod comparison;
mod harness;
mod references;
mod sampled;
mod special_values;
