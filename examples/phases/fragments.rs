//! What a thread of the micro-kernel loads and multiplies for one value of k.
//!
//! | file | what it holds |
//! |---|---|
//! | `kernels` | the kernel in small tiles, which differ in what a thread owns |
//! | `products` | what a thread loads from shared memory, k by k |
//! | `tables` | what is printed |

mod kernels;
mod products;
mod tables;
#[cfg(test)]
mod tests;

use crate::Result;
use crate::run::Run;
use crate::size::Size;
use clap::Args;
use clap::builder::PossibleValuesParser;
use kernels::THREAD_TILES;
use products::fragments;

/// Shows which elements a thread of the micro-kernel loads from shared memory for one value of k, and how many
/// multiply-adds come of them
#[derive(Args)]
pub struct Arguments {
    /// Rows and columns of D, and the depth: `N` or `MxNxK`
    #[arg(long, default_value = "16x16x4")]
    size: Size,

    /// Rows and columns of D that a thread computes
    #[arg(long, default_value = "2x2", value_parser = PossibleValuesParser::new(THREAD_TILES))]
    thread_tile: String,

    /// Which block is shown, from 0: they lie along rows of D
    #[arg(long, default_value_t = 0)]
    block: u32,

    /// Which of its threads, from 0: they lie along its rows
    #[arg(long, default_value_t = 0)]
    thread: u32,

    /// For which value of k, from 0
    #[arg(long, default_value_t = 0)]
    k: u32,
}

/// Everything that is printed.
pub fn show(arguments: &Arguments) -> Result<String> {
    let Arguments { size, ref thread_tile, block, thread, k } = *arguments;
    let chosen = Run::new(kernels::of_thread_tile(thread_tile), size)?;
    chosen.has_block(block)?;
    let threads = chosen.kernel.threads();
    if thread >= threads {
        return Err(format!("there is no thread {thread}: they are 0 to {}", threads - 1).into());
    }
    if k >= size.k {
        return Err(format!("there is no k {k}: they are 0 to {}", size.k - 1).into());
    }
    let all: Vec<Run> =
        kernels::all().iter().map(|kernel| Run::new(kernel, size)).collect::<Result<_>>()?;

    let thread = thread as usize;
    let own = fragments(&chosen, block, thread)?;
    let paragraphs = [
        tables::heading(&chosen, block),
        tables::products(&chosen, (block, thread), k, &own[k as usize])?,
        tables::compared(&all)?,
    ];
    Ok(paragraphs.join("\n"))
}
