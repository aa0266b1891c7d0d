//! Kernels that multiply f64 on tensor cores.
//!
//! | module | what it is |
//! |---|---|
//! | [`tensor_core`] | the rung: all threads copy, all multiply |
//! | [`bulk`] | slices in bulk for clusters of blocks, and nobody who multiplies waits in a loop |
//! | [`cluster_split`] | two blocks for one tile, each for half of K |
//! | [`split`] | any number of blocks for one tile, each for a slice of K |
//! | [`panels`], [`bulk_panels`] | slices in shared memory, as threads or bulk copies bring them |
//! | [`tile`] | a warp's sums, and the products that build them |
//! | [`sums`] | their way to D |

pub mod bulk;
pub mod bulk_panels;
pub mod cluster_split;
pub mod panels;
pub mod split;
pub mod sums;
pub mod tensor_core;
pub mod tile;
