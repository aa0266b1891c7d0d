//! Launches before a product, which make of its factors what a kernel can take.
//!
//! | module | what it is |
//! |---|---|
//! | [`mod@repack`] | copies in rows that bulk copies can take, or transposed |
//! | [`transposed`] | a kernel whose factors are transposed before |
//! | [`mod@split`] | two halves of each f32, or one |
//! | [`decision`] | whether halves stand for what is to be multiplied, or it is computed exactly |

pub mod decision;
pub mod repack;
pub mod split;
pub mod transposed;
