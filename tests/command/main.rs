//! The command `regemm` as scripts and people meet it, on the simulator.
//!
//! Input files are written byte by byte, so that the reader is tested against the format and not against its own writer.
//!
//! | file | theme |
//! |---|---|
//! | `results.rs` | what `mul` computes and says |
//! | `inputs.rs` | what files may look like, and what is wrong with them |
//! | `outputs.rs` | nothing half-written stays behind |
//! | `subcommands.rs` | `ladder`, `verify` and `info` |
//! | `scripts.rs` | JSON, exit codes and pipes |

mod harness;
mod inputs;
mod outputs;
mod results;
mod scripts;
mod subcommands;
