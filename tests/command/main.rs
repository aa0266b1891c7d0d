//! The command `regemm` as scripts and people meet it, on the simulator.
//!
//! Input files are written byte by byte, so that the reader is tested against the format and not against its own
//! writer.
//!
//! | file | theme |
//! |---|---|
//! | `accuracy.rs` | `accuracy` |
//! | `report.rs` | `report` |
//! | `results.rs` | what `mul` computes and says |
//! | `explain.rs` | the table of `--explain` |
//! | `inputs.rs` | what files may look like, and what is wrong with them |
//! | `numbers.rs` | counts, and results that are not finite |
//! | `outputs.rs` | nothing half-written stays behind |
//! | `occupancy.rs` | `occupancy` |
//! | `subcommands.rs` | `ladder`, `verify` and `info` |
//! | `sweep.rs` | `sweep` and `pipelining` |
//! | `traffic.rs` | `traffic` |
//! | `support` | a driver that only tests load |
//! | `scripts.rs` | JSON, exit codes and pipes |
//! | `tune.rs` | `tune`, and `mul --explain` |
//! | `usage.rs` | how options are read, and what is said of wrong ones |
//! | `verify.rs` | `verify`, and what the host has no room for |

mod accuracy;
mod explain;
mod harness;
mod inputs;
mod numbers;
mod occupancy;
mod outputs;
mod report;
mod results;
mod scripts;
mod subcommands;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../crates/cuda_driver/tests/support/mod.rs"]
mod support;
mod sweep;
mod traffic;
mod tune;
mod usage;
mod verify;
