//! The naive and the tiled kernel, access by access.
//!
//! | file | what it holds |
//! |---|---|
//! | `kernels` | the kernels in small tiles |
//! | `deeds` | events of threads as elements of matrices and places in tiles, and phases of those |
//! | `tables` | what is printed |

mod deeds;
mod kernels;
mod tables;
#[cfg(test)]
mod tests;

use crate::Result;
use crate::arguments::one_of;
use crate::run::Run;
use crate::size::Size;
use clap::Args;
use kernels::TILES;

#[derive(Args)]
pub struct Arguments {
    /// Rows and columns of D, and the depth: `N` or `MxNxK`
    #[arg(long, default_value = "4")]
    size: Size,

    /// Rows and columns of a tile, and so of a block of threads
    #[arg(long, default_value = "2", value_parser = one_of(TILES))]
    tile: u32,

    /// Which block is shown, from 0: they lie along rows of D
    #[arg(long, default_value_t = 0)]
    block: u32,
}

/// Everything that is printed.
pub fn show(arguments: &Arguments) -> Result<String> {
    let Arguments { size, tile, block } = *arguments;
    let naive = Run::new(kernels::naive(tile), size)?;
    naive.has_block(block)?;
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
