//! Kernels that do not compile on purpose, each beside what differs from it in one place and does: an example that is
//! to fail passes for whatever reason it fails.
//!
//! Thread tiles that do not tile the block's tile:
//!
//! ```
//! # use regemm_kernels::{epilogue::Linear, gemm_kernels};
//! # use regemm_kernels::ladder::microkernel::Microkernel;
//! gemm_kernels! {
//!     KERNELS:
//!     kernel = Microkernel<f32, 64, 64, 8, 8, 8>, epilogue = Linear<f32>, min_blocks = 1;
//! }
//! # fn main() {
//! assert_eq!(KERNELS[0].name, "kernel");
//! # }
//! ```
//!
//! ```compile_fail,E0080
//! # use regemm_kernels::{epilogue::Linear, gemm_kernels};
//! # use regemm_kernels::ladder::microkernel::Microkernel;
//! gemm_kernels! {
//!     KERNELS:
//!     kernel = Microkernel<f32, 64, 72, 8, 8, 8>, epilogue = Linear<f32>, min_blocks = 1;
//! }
//! # fn main() {
//! assert_eq!(KERNELS[0].name, "kernel");
//! # }
//! ```
//!
//! More stages than a pipeline has:
//!
//! ```
//! # use regemm_kernels::{epilogue::Linear, gemm_kernels};
//! # use regemm_kernels::ladder::pipelined::Pipelined;
//! gemm_kernels! {
//!     KERNELS:
//!     kernel = Pipelined<f32, 64, 64, 8, 8, 8, 4>, epilogue = Linear<f32>, min_blocks = 1;
//! }
//! # fn main() {
//! assert_eq!(KERNELS[0].name, "kernel");
//! # }
//! ```
//!
//! ```compile_fail,E0080
//! # use regemm_kernels::{epilogue::Linear, gemm_kernels};
//! # use regemm_kernels::ladder::pipelined::Pipelined;
//! gemm_kernels! {
//!     KERNELS:
//!     kernel = Pipelined<f32, 64, 64, 8, 8, 8, 5>, epilogue = Linear<f32>, min_blocks = 1;
//! }
//! # fn main() {
//! assert_eq!(KERNELS[0].name, "kernel");
//! # }
//! ```
//!
//! More columns of a slice that are copied together than there are threads:
//!
//! ```
//! # use regemm_kernels::{epilogue::Linear, gemm_kernels};
//! # use regemm_kernels::ladder::pipelined::Pipelined;
//! gemm_kernels! {
//!     KERNELS:
//!     kernel = Pipelined<f32, 8, 8, 4, 4, 4, 2>, epilogue = Linear<f32>, min_blocks = 1;
//! }
//! # fn main() {
//! assert_eq!(KERNELS[0].name, "kernel");
//! # }
//! ```
//!
//! ```compile_fail,E0080
//! # use regemm_kernels::{epilogue::Linear, gemm_kernels};
//! # use regemm_kernels::ladder::pipelined::Pipelined;
//! gemm_kernels! {
//!     KERNELS:
//!     kernel = Pipelined<f32, 8, 8, 8, 4, 4, 2>, epilogue = Linear<f32>, min_blocks = 1;
//! }
//! # fn main() {
//! assert_eq!(KERNELS[0].name, "kernel");
//! # }
//! ```
//!
//! A depth of slices that is not shared out equally among groups of threads:
//!
//! ```
//! # use regemm_kernels::{epilogue::Linear, gemm_kernels};
//! # use regemm_kernels::{ladder::sliced_k::SlicedK, layout::Nn};
//! gemm_kernels! {
//!     KERNELS:
//!     kernel = SlicedK<f32, 64, 128, 64, 8, 16, 4, 4, Nn>, epilogue = Linear<f32>, min_blocks = 1;
//! }
//! # fn main() {
//! assert_eq!(KERNELS[0].name, "kernel");
//! # }
//! ```
//!
//! ```compile_fail,E0080
//! # use regemm_kernels::{epilogue::Linear, gemm_kernels};
//! # use regemm_kernels::{ladder::sliced_k::SlicedK, layout::Nn};
//! gemm_kernels! {
//!     KERNELS:
//!     kernel = SlicedK<f32, 64, 128, 64, 8, 16, 4, 3, Nn>, epilogue = Linear<f32>, min_blocks = 1;
//! }
//! # fn main() {
//! assert_eq!(KERNELS[0].name, "kernel");
//! # }
//! ```
//!
//! Bulk copies without maps for them:
//!
//! ```
//! # use regemm_kernels::{epilogue::Linear, gemm_kernels};
//! # use regemm_kernels::{layout::Nn, warpgroup::Warpgroup};
//! gemm_kernels! {
//!     KERNELS:
//!     kernel = Warpgroup<half::bf16, 128, 128, 64, 4, Nn>, epilogue = Linear<half::bf16>, min_blocks = 1,
//!         factors = mapped;
//! }
//! # fn main() {
//! assert_eq!(KERNELS[0].name, "kernel");
//! # }
//! ```
//!
//! ```compile_fail,E0080
//! # use regemm_kernels::{epilogue::Linear, gemm_kernels};
//! # use regemm_kernels::{layout::Nn, warpgroup::Warpgroup};
//! gemm_kernels! {
//!     KERNELS:
//!     kernel = Warpgroup<half::bf16, 128, 128, 64, 4, Nn>, epilogue = Linear<half::bf16>, min_blocks = 1;
//! }
//! # fn main() {
//! assert_eq!(KERNELS[0].name, "kernel");
//! # }
//! ```
