//! The command `regemm`.
//!
//! | file | what it holds |
//! |---|---|
//! | `mul`, `ladder`, `verify`, `info` | the subcommands |
//! | `sweep`, `pipelining` | the subcommands that measure one kernel in many configurations |
//! | `traffic` | the subcommand that counts what kernels move |
//! | `occupancy`, `occupancy_text` | the subcommand and its answers in words |
//! | `accuracy` | the subcommand that measures errors by precision |
//! | `tune` | the subcommand that measures for the choice of kernels, and explains it |
//! | `report` | the subcommand that makes pages and pictures of what others print |
//! | `numbers` | numbers that options hold |
//! | `options` | option values that several of them take |
//! | `operands` | the operands of `mul`: from files to matrices that fit |
//! | `load`, `save` | NumPy files in; files out, completely or not at all |
//! | `interrupt` | what Ctrl-C removes, and how work is asked to stop |
//! | `case` | one random problem of `regemm verify` |
//! | `verdict` | verifications in words and in JSON |
//! | `output` | everything that is written to standard output |
//! | `progress` | progress bars on standard error |
//! | `exit` | what can go wrong, and the exit codes |

mod accuracy;
mod case;
mod exit;
mod info;
mod interrupt;
mod ladder;
mod left_out;
mod load;
mod mul;
mod numbers;
mod occupancy;
mod occupancy_text;
mod operands;
mod options;
mod output;
mod pipelining;
mod progress;
mod report;
mod save;
mod sweep;
#[cfg(test)]
mod tests;
mod traffic;
mod tune;
mod verdict;
mod verify;

use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use exit::Failure;
use output::Output;
use std::ffi::OsString;
use std::process::ExitCode;

/// Matrix multiplication on NVIDIA GPUs with kernels written in Rust, and on a simulator where there is none.
#[derive(Parser)]
#[command(name = "regemm", version, after_help = format!("{EXPERIMENTS}\n\n{STEP_BY_STEP}\n\n{}", exit::HELP), arg_required_else_help = true)]
struct Cli {
    /// Print one JSON document on standard output instead of text, also for errors
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

/// Where someone who has read about matrix products on GPUs finds the experiments.
const EXPERIMENTS: &str = "\
Experiments, and the commands that make them:
  what a GPU has                  info
  one thread an element           ladder --kernels naive
  how much faster than a CPU      ladder --cpu --kernels naive --sizes 256,512,1024 (+)
  shared-memory tiles             ladder --kernels naive,tiled --sizes 4096 (+)
  their traffic, 16 times less    traffic --kernels naive,tiled16
  the micro-kernel, the stages    ladder --kernels microkernel,double_buffered,pipelined
  tiles of warps, tiles shared    ladder --kernels warp_tiled,decoupled,warp_specialised,stream_k
  tensor cores                    ladder --dtype f16 --kernels tensor_core,warpgroup
  tile sizes and loop orders      sweep (+) (*)
  the same without shared memory  sweep --staging direct (+) (*)
  blocks of one row of D          sweep --staging direct --tile 1x1024x32 (+) (*)
  software pipelining             pipelining (+) (*)
  resident blocks and limits      occupancy
  occupancy as textbooks reckon   occupancy --help (two problems)
  errors by precision             accuracy
  your shape, every kernel        tune --check 1000x2000x3000 --dtype bf16 (+)
  which kernel is chosen, why     tune --explain 100x200x300
  a fused epilogue                mul A.npy B.npy -o D.npy --bias BIAS.npy --activation gelu-erf
  all of it on one page           report ladder.json traffic.json -o report.html
(+) on a GPU: times are what it is about. The simulator counts instead, and takes minutes for a size of 4096

(*) in a build that has the kernels of the sweep: cargo run --release --features sweep -- sweep";

/// Those that the command does not make.
const STEP_BY_STEP: &str = "\
In the source code of regemm, what threads do, step by step:
  who loads what, and in phases   cargo run --release --example phases
  pipelines, slices and stages    cargo run --release --example phases -- stages
  a thread of the micro-kernel    cargo run --release --example phases -- fragments";

#[derive(Subcommand)]
enum Command {
    Mul(mul::Arguments),
    Ladder(ladder::Arguments),
    Sweep(sweep::Arguments),
    Pipelining(pipelining::Arguments),
    Traffic(traffic::Arguments),
    Accuracy(accuracy::Arguments),
    Tune(tune::Arguments),
    Report(report::Arguments),
    Verify(verify::Arguments),
    Occupancy(occupancy::Arguments),
    Info(info::Arguments),
}

/// The command line of this process. What begins with a minus and is a number is a value, so that the option it is
/// given to says what it takes.
fn parsed() -> Result<Cli, clap::Error> {
    let negative = |argument: Arg| {
        let has_value = argument.get_action().takes_values();
        if has_value { argument.allow_negative_numbers(true) } else { argument }
    };
    let mut command = Cli::command().mut_subcommands(|command| command.mut_args(negative));
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    interrupt::ignore_file_size_signal();
    interrupt::install();
    log_warnings();
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output, usage errors to standard error. Neither can be reported further.
            let _ = error.print();
            if !error.use_stderr() {
                return ExitCode::SUCCESS;
            }
            if asks_for_json(std::env::args_os().skip(1)) {
                let _ = Output::new(true).document(&error_json(&usage(&error)));
            }
            return exit::USAGE.into();
        }
    };
    let mut output = Output::new(cli.json);
    if cli.json {
        interrupt::owe_document();
    }
    let outcome = match cli.command {
        Command::Mul(arguments) => mul::run(&arguments, &mut output),
        Command::Ladder(arguments) => ladder::run(&arguments, &mut output),
        Command::Sweep(arguments) => sweep::run(&arguments, &mut output),
        Command::Pipelining(arguments) => pipelining::run(&arguments, &mut output),
        Command::Traffic(arguments) => traffic::run(&arguments, &mut output),
        Command::Occupancy(arguments) => occupancy::run(&arguments, &mut output),
        Command::Accuracy(arguments) => accuracy::run(&arguments, &mut output),
        Command::Tune(arguments) => tune::run(&arguments, &mut output),
        Command::Report(arguments) => report::run(&arguments, &mut output),
        Command::Verify(arguments) => verify::run(&arguments, &mut output),
        Command::Info(arguments) => info::run(&arguments, &mut output),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure, &mut output),
    }
}

fn report(failure: &Failure, output: &mut Output) -> ExitCode {
    eprintln_quietly(format_args!("regemm: {failure}"));
    // Where the subcommand has printed its own document, the failure is in it, or is that of a file beside it.
    if !output.has_document() {
        // Standard output may be what failed.
        let _ = output.document(&error_json(failure));
    }
    failure.code().into()
}

/// A failure as the one JSON document.
fn error_json(failure: &Failure) -> serde_json::Value {
    serde_json::json!({
        "error": {
            "kind": failure.kind(),
            "message": failure.to_string(),
            "exit_code": failure.code(),
        }
    })
}

/// Whether JSON is asked for in a command line that cannot be read otherwise.
fn asks_for_json(arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

/// What is wrong with a command line, without the help that goes with it.
fn usage(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    Failure::Usage(first.strip_prefix("error: ").unwrap_or(first).trim().to_owned())
}

/// Sends the library's warnings to standard error; more or less of its log if the environment says so.
fn log_warnings() {
    use std::io::Write;
    env_logger::Builder::new()
        .filter_level(log::LevelFilter::Warn)
        .parse_default_env()
        .format(|line, record| {
            writeln!(line, "regemm: {}: {}", level_name(record.level()), record.args())
        })
        .init();
}

/// A level in the words of the command's other messages.
fn level_name(level: log::Level) -> &'static str {
    match level {
        log::Level::Error => "error",
        log::Level::Warn => "warning",
        log::Level::Info => "info",
        log::Level::Debug => "debug",
        log::Level::Trace => "trace",
    }
}

/// A line on standard error, where a closed one is nobody's problem.
fn eprintln_quietly(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}
