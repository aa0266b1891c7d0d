//! What the lower rungs of the ladder do to memory, as the simulator saw it: `cargo run --release --example phases`.
//!
//! Without a subcommand it prints, of one block of threads, what each thread of the naive kernel reads from global
//! memory; then the phases of the tiled kernel: what each thread brings to shared memory, and what it multiplies from
//! there; and how often the elements are loaded in all. `--size 5x3x4` shows edges, where tiles are filled up with
//! zeros; `--tile` and `--block` choose other tiles and another block.
//!
//! `stages` prints step by step how slices of K go through the stages of the kernels above, up to the software
//! pipelines; `fragments` what a thread of the micro-kernel multiplies for one value of k.
//!
//! Nothing of this is worked out: the kernels of the library run on the simulator, and it tells what their threads did.
//!
//! | file | what it holds |
//! |---|---|
//! | `accesses` | naive and tiled, access by access: what is printed without a subcommand |
//! | `stages` | micro-kernel, double buffer and software pipelines, step by step |
//! | `fragments` | one thread of the micro-kernel, for one value of k |
//! | `arguments` | what several subcommands take |
//! | `size`, `element` | a product, and its matrices' elements by name |
//! | `run` | a launch that is observed, and whose result is checked |
//! | `steps` | which elements go through shared memory, from barrier to barrier |
//! | `text` | tables and words |

mod accesses;
mod arguments;
mod element;
mod fragments;
mod run;
mod size;
mod stages;
mod steps;
#[cfg(test)]
mod testing;
mod text;

use clap::{Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Shows what the naive and the tiled kernel do to memory, access by access, on the simulator
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    other: Option<Other>,

    #[command(flatten)]
    accesses: accesses::Arguments,
}

/// What else can be shown.
#[derive(Subcommand)]
enum Other {
    Stages(stages::Arguments),
    Fragments(fragments::Arguments),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let shown = match &cli.other {
        None => accesses::show(&cli.accesses),
        Some(Other::Stages(arguments)) => stages::show(arguments),
        Some(Other::Fragments(arguments)) => fragments::show(arguments),
    };
    match shown.and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("phases: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        // The reader has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}
