//! Kernels whose warps multiply matrices of half precision on tensor cores, on all GPUs from sm_80 on.
//!
//! | module | what it is |
//! |---|---|
//! | [`tensor_core`] | the rung |
//! | [`halves`] | the same for f32, in two halves each |
//! | [`pipeline`] | the frame of both: slices travel while others are multiplied |
//! | [`panels`] | slices in shared memory |
//! | [`tile`] | a warp's sums, and the products that build them |
//! | [`sums_on_the_way`] | their way to D |

pub mod halves;
pub mod panels;
pub mod pipeline;
pub mod sums_on_the_way;
pub mod tensor_core;
pub mod tile;
