//! What does not compile on purpose, each beside what differs from it in one place and does: an example that is to fail
//! passes for whatever reason it fails.
//!
//! A parameter that takes no bytes:
//!
//! ```
//! #[cuda_std::kernel]
//! unsafe fn tagged(tag: [u8; 1], value: u32) {}
//! # fn main() {
//! assert_eq!(tagged::ENTRY.parameters.len(), 2);
//! # }
//! ```
//!
//! ```compile_fail,E0080
//! #[cuda_std::kernel]
//! unsafe fn tagged(tag: [u8; 0], value: u32) {}
//! # fn main() {
//! assert_eq!(tagged::ENTRY.parameters.len(), 2);
//! # }
//! ```
//!
//! A number of registers that `setmaxnreg` does not take:
//!
//! ```
//! #[cuda_std::kernel(max_threads = 128, min_blocks = 1)]
//! unsafe fn gives() {
//!     unsafe { cuda_std::registers::decrease::<32>() }
//! }
//! # fn main() {
//! assert_eq!(gives::ENTRY.max_threads, Some(128));
//! # }
//! ```
//!
//! ```compile_fail,E0080
//! #[cuda_std::kernel(max_threads = 128, min_blocks = 1)]
//! unsafe fn gives() {
//!     unsafe { cuda_std::registers::decrease::<36>() }
//! }
//! # fn main() {
//! assert_eq!(gives::ENTRY.max_threads, Some(128));
//! # }
//! ```
//!
//! A loop of more rounds than are written out:
//!
//! ```
//! let mut sum = 0;
//! cuda_std::unroll!(i < 32, { sum += i });
//! assert_eq!(sum, 496);
//! ```
//!
//! ```compile_fail,E0080
//! let mut sum = 0;
//! cuda_std::unroll!(i < 33, { sum += i });
//! assert_eq!(sum, 496);
//! ```
//!
//! A function with conditions, called as if it had none:
//!
//! ```
//! let value: fn(u32) -> u32 = |value| unsafe { cuda_std::hint::uniform(value) };
//! ```
//!
//! ```compile_fail,E0133
//! let value: fn(u32) -> u32 = |value| cuda_std::hint::uniform(value);
//! ```
