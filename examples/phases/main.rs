//! What the first two rungs of the ladder do to memory, access by access: `cargo run --release --example phases`.
//!
//! Prints, of one block of threads, what each thread of the naive kernel reads from global memory; then the phases of
//! the tiled kernel: what each thread brings to shared memory, and what it multiplies from there; and how often the
//! elements are loaded in all. `--size 5x3x4` shows edges, where tiles are filled up with zeros; `--tile` and `--block`
//! choose other tiles and another block.
//!
//! Nothing of this is worked out: the kernels of the library run on the simulator, and it tells what their threads did.
//!
//! | file | what it holds |
//! |---|---|
//! | `kernels.rs` | the kernels in small tiles, and the products that they compute |
//! | `run.rs` | a launch that is observed, and whose result is checked |
//! | `deeds.rs` | events of threads as elements of matrices and places in tiles, and phases of those |
//! | `tables.rs` | what is printed |

mod deeds;
mod kernels;
mod run;
mod tables;
#[cfg(test)]
mod tests;

use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use kernels::{Size, TILES};
use run::Run;
use std::io::{self, Write};
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Shows what the naive and the tiled kernel do to memory, access by access, on the simulator
#[derive(Parser)]
struct Arguments {
    /// Rows and columns of D, and the depth: `N` or `MxNxK`
    #[arg(long, default_value = "4")]
    size: Size,

    /// Rows and columns of a tile, and so of a block of threads
    #[arg(long, default_value = "2", value_parser = tile())]
    tile: u32,

    /// Which block is shown, from 0: they lie along rows of D
    #[arg(long, default_value_t = 0)]
    block: u32,
}

/// Reads one of the tiles that there are kernels of.
fn tile() -> impl TypedValueParser<Value = u32> {
    PossibleValuesParser::new(TILES).map(|text| text.parse().expect("all of them are numbers"))
}

fn main() -> ExitCode {
    let shown = show(&Arguments::parse()).and_then(|text| {
        match io::stdout().write_all(text.as_bytes()) {
            // The reader has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => Ok(other?),
        }
    });
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("phases: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Everything that is printed.
fn show(arguments: &Arguments) -> Result<String> {
    let Arguments { size, tile, block } = *arguments;
    let naive = Run::new(kernels::naive(tile), size)?;
    let blocks = naive.blocks();
    if block >= blocks {
        return Err(format!("there is no block {block}: they are 0 to {}", blocks - 1).into());
    }
    // Larger tiles than the matrices would be filled with zeros alone.
    let longest = size.m.max(size.n).max(size.k);
    let shown = |other: u32| other == tile || other <= longest;
    let tiled: Vec<(u32, Run)> = kernels::tiles()
        .filter(|&other| shown(other))
        .map(|other| Ok((other, Run::new(kernels::tiled(other), size)?)))
        .collect::<Result<_>>()?;
    let (_, chosen) = tiled.iter().find(|(other, _)| *other == tile).expect("it is shown");

    let paragraphs = [
        tables::heading(&naive, block),
        tables::naive(&naive, block)?,
        tables::readers(&naive, block)?,
        tables::phases(chosen, block)?,
        tables::counts(&naive, &tiled)?,
    ];
    Ok(paragraphs.join("\n"))
}
