//! What the help and the documents say is what the command takes.

use super::{Cli, EXPERIMENTS};
use clap::error::ErrorKind;
use clap::{Command, CommandFactory, Parser};
use regemm::kernels::Types;
use regemm::tuning::{self, Shape};
use regemm::{Layouts, gpus};

const README: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));
const READING: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reading-the-kernels.md"));
const RECORDS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/measurements/README.md"));
const EXAMPLE: &str = "  regemm ";
const WITH_CARGO: &str = "cargo run --release ";

/// The command with all that it takes, and its subcommands but `help`.
fn built() -> (Command, Vec<Command>) {
    let mut command = Cli::command();
    command.build();
    let named = command.get_subcommands().filter(|found| found.get_name() != "help");
    let subcommands = named.cloned().collect();
    (command, subcommands)
}

fn after_help(command: &Command) -> String {
    command.get_after_help().unwrap_or_else(|| panic!("{}", command.get_name())).to_string()
}

/// Panics unless the command takes all that a line of a shell gives it.
#[track_caller]
fn is_taken(line: &str) {
    for line in line.split("&&") {
        let words = line.split_whitespace().take_while(|word| *word != ">");
        match Cli::try_parse_from(words) {
            Err(error) if error.kind() != ErrorKind::DisplayHelp => panic!("{line}\n{error}"),
            _ => {}
        }
    }
}

#[test]
fn all_examples_are_taken() {
    for subcommand in built().1 {
        let help = after_help(&subcommand);
        let examples: Vec<_> = help.lines().filter(|line| line.starts_with(EXAMPLE)).collect();
        assert!(!examples.is_empty(), "{}", subcommand.get_name());
        examples.into_iter().for_each(is_taken);
    }
}

#[test]
fn all_experiments_are_taken() {
    // Others are the heading and what marks mean.
    let experiments = Vec::from_iter(EXPERIMENTS.lines().filter(|line| line.starts_with("  ")));
    assert!(experiments.len() >= 10);
    for experiment in experiments {
        let (_, line) = experiment.rsplit_once("  ").expect(experiment);
        // Behind the command stands in parentheses what to know of it.
        let command = line.split(" (").next().unwrap();
        is_taken(&format!("regemm {command}"));
    }
}

/// In this order: how many there are of row-major factors, their largest side and depth, how many in other layouts, and
/// how many are layers.
#[test]
fn the_help_of_tune_counts_what_is_measured() {
    let tune = built().1.into_iter().find(|found| found.get_name() == "tune").unwrap();
    let sizes = tune.get_arguments().find(|known| known.get_long() == Some("sizes")).unwrap();
    let help = sizes.get_help().unwrap().to_string();
    let numbers =
        help.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
    let Ok([count, side, depth, in_others, layers]) = <[u32; 5]>::try_from(Vec::from_iter(numbers))
    else {
        panic!("{help}");
    };
    let device = gpus::find("h200").unwrap().info();
    let is_near =
        |said: u32, counted: usize| said.abs_diff(counted as u32) as usize * 100 < 3 * counted;
    for types in Types::ALL {
        let shapes = |layouts| tuning::default_shapes(&device, types, layouts);
        let row_major = shapes(Layouts::NN);
        let largest = |of: fn(&Shape) -> u32| row_major.iter().map(of).max().unwrap();
        assert_eq!(
            (side, depth),
            (largest(|shape| shape.m.max(shape.n)), largest(|shape| shape.k))
        );
        let [nt, tn, tt] = [Layouts::NT, Layouts::TN, Layouts::TT].map(|it| shapes(it).len());
        for (said, counted) in
            [(count, row_major.len()), (in_others, tn), (in_others, tt), (layers, nt - tn)]
        {
            assert!(is_near(said, counted), "{types}: {counted} in {help}");
        }
    }
}

/// Help is wrapped for the terminal; where a paragraph has breaks of its own as well its lines are long and short by
/// turns.
#[test]
fn paragraphs_have_no_breaks_of_their_own() {
    let (command, subcommands) = built();
    for command in subcommands.iter().chain([&command]) {
        let help = after_help(command);
        let lines: Vec<_> = help.lines().collect();
        let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
        for pair in lines.windows(2) {
            assert!(!pair.iter().all(|line| is_text(line)), "{}: {pair:?}", command.get_name());
        }
    }
}

/// The commands of the documents, as they run with `cargo run --release`; a comment of the shell may follow.
#[test]
fn command_lines_of_documents_are_taken() {
    let lines = [README, READING].into_iter().flat_map(str::lines);
    let lines = lines.filter_map(|line| line.split_once(WITH_CARGO));
    let lines: Vec<_> = lines.filter_map(|(_, line)| line.split_once("-- ")).collect();
    assert!(lines.len() >= 8, "{lines:?}");
    for (cargo, line) in lines {
        if !cargo.contains("--example") {
            let end = line.find(['`', '#']).unwrap_or(line.len());
            is_taken(&format!("regemm {}", &line[..end]));
        }
    }
}

/// In running text they may be short of what is required.
#[test]
fn subcommands_and_options_that_documents_mention_exist() {
    let (_, subcommands) = built();
    let spans = README.split('`').chain(RECORDS.split('`')).skip(1).step_by(2);
    let lines: Vec<_> = spans.filter_map(|span| span.strip_prefix("regemm ")).collect();
    for line in &lines {
        let mut words = line.split_whitespace();
        let subcommand = words
            .next()
            .and_then(|name| subcommands.iter().find(|found| found.get_name() == name))
            .unwrap_or_else(|| panic!("regemm {line}"));
        for option in words.filter_map(|word| word.strip_prefix("--")) {
            let mut known = subcommand.get_arguments().filter_map(|known| known.get_long());
            assert!(known.any(|known| known == option), "regemm {line}");
        }
    }
    for subcommand in &subcommands {
        let name = subcommand.get_name();
        assert!(lines.contains(&name), "the README's table lacks {name}");
    }
}
