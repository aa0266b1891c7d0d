//! How slices of K go through the stages of shared memory: what is loaded, written and multiplied in which step.
//!
//! | file | what it holds |
//! |---|---|
//! | `kernels` | the kernels in small tiles |
//! | `doings` | elements as slices and their places as stages, and what a block does with those |
//! | `charts` | what is printed |

mod charts;
mod doings;
mod kernels;
#[cfg(test)]
mod tests;

use crate::Result;
use crate::arguments::one_of;
use crate::run::Run;
use crate::size::Size;
use clap::Args;
use doings::Step;
use kernels::DEPTHS;

/// Shows step by step which slices of K are loaded and multiplied, and in which stages they lie: a micro-kernel, a
/// double buffer and software pipelines
#[derive(Args)]
pub struct Arguments {
    /// Rows and columns of D, and the depth: `N` or `MxNxK`
    #[arg(long, default_value = "8")]
    size: Size,

    /// Values of k in a slice
    #[arg(long, default_value = "2", value_parser = one_of(DEPTHS))]
    depth: u32,

    /// Which block is shown, from 0: they lie along rows of D
    #[arg(long, default_value_t = 0)]
    block: u32,
}

/// Everything that is printed.
pub fn show(arguments: &Arguments) -> Result<String> {
    let Arguments { size, depth, block } = *arguments;
    let runs: Vec<(Run, Vec<Step>)> = kernels::of_depth(depth)
        .map(|kernel| {
            let run = Run::new(kernel, size)?;
            run.has_block(block)?;
            let steps = doings::of(&run, block)?;
            Ok((run, steps))
        })
        .collect::<Result<_>>()?;

    let (first, _) = &runs[0];
    let mut paragraphs = vec![charts::heading(first, block)];
    for (run, steps) in &runs {
        paragraphs.push(charts::steps(run, steps));
        paragraphs.push(charts::chart(run, steps));
    }
    paragraphs.push(charts::compared(&runs)?);
    Ok(paragraphs.join("\n"))
}
