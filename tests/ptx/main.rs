//! The embedded PTX is what the kernels' design says, for every kernel and every architecture. Needs no GPU.
//!
//! These tests read PTX text; what ptxas makes of it (registers, spills) is seen only when it is assembled. Names and
//! section numbers are those of NVIDIA's PTX ISA manual, version 8.
//!
//! | file | what it holds |
//! |---|---|
//! | `module.rs` | modules of PTX, and what tests look for in them |
//! | `modules.rs` | what modules there are, and that each is one entry for its target |
//! | `accesses.rs` | memory: state spaces, widths, and how much is shared |
//! | `barriers.rs` | barriers |
//! | `products.rs` | the main loops |
//! | `halves.rs` | those of products of f32 on tensor cores |
//! | `launches.rs` | the launches before and behind a product |

mod accesses;
mod barriers;
mod halves;
mod launches;
mod module;
mod modules;
mod products;
