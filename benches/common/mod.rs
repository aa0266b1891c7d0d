//! What the benchmarks that write records have in common.
//!
//! | file | what it holds |
//! |---|---|
//! | `kept.rs` | how records are written and read |
//! | `sampling.rs` | how samples are chosen, of those that take times |

pub mod kept;

use clap::Args;
use kept::Record;
use regemm::{Device, Dtype, Error};
use regemm_report::provenance::Provenance;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;

pub type Failure = Box<dyn std::error::Error>;
pub type Outcome<T> = Result<T, Failure>;

/// What a record is made from and where it goes: arguments of every benchmark.
#[derive(Args)]
pub struct Recording {
    /// Seed of the operands
    #[arg(long, default_value_t = 1, conflicts_with = "from")]
    pub seed: u64,

    /// Commit to name in the record; unless given the one that the sources are at now, as git says
    #[arg(long, conflicts_with = "from")]
    commit: Option<String>,

    /// Write the record to this path, with an ending for the numbers, the tables and each format of the picture
    #[arg(long)]
    pub record: Option<PathBuf>,

    /// Read the numbers from a record instead of measuring
    #[arg(long)]
    pub from: Option<PathBuf>,

    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

impl Recording {
    /// Whether the record will have a place, which is better known before than after all the measuring.
    ///
    /// # Errors
    /// The record, and why none can be written there.
    pub fn check_place(&self) -> Result<(), String> {
        let Some(path) = &self.record else { return Ok(()) };
        let failure = |error| format!("{}: cannot be written: {error}", path.display());
        kept::unfinished(path).map(drop).map_err(failure)
    }

    /// This moment, the sources as they are now and the device.
    pub fn provenance(&self, device: &Device) -> Provenance {
        let info = device.info();
        let mut provenance =
            Provenance::gather(&info.name, info.multiprocessors, info.compute_capability);
        if let Some(commit) = &self.commit {
            provenance.commit = Some(commit.clone());
        }
        provenance
    }

    /// Measures one thing after the other until one fails. The numbers are kept after each, so that a run that is ended
    /// from outside loses no more than what it was at.
    pub fn measure_each<R: Record, I>(
        &self,
        record: &mut R,
        things: impl IntoIterator<Item = I>,
        mut measure: impl FnMut(&mut R, I) -> Outcome<()>,
    ) -> Option<Failure> {
        for thing in things {
            if let Err(error) = measure(record, thing) {
                return Some(error);
            }
            let kept = self.record.as_ref().map(|path| kept::write_numbers(path, record));
            // There may be room again at the end, where it is a failure if there is not.
            if let Some(Err(error)) = kept {
                tell(error);
            }
        }
        None
    }

    /// Keeps a record, if it is to be kept, and then shows it: who reads that may be gone before all is said.
    ///
    /// # Errors
    /// What has failed before, and what cannot be written, in words.
    pub fn finish<R: Record>(&self, record: &R, mut failures: Vec<Failure>) -> Outcome<()> {
        let page = record.page();
        let mut text = format!("{page}\n");
        if let Some(path) = &self.record {
            let (written, not_written) = kept::write_all(path, record, &page);
            text.extend(written.iter().map(|path| format!("wrote {}\n", path.display())));
            failures.extend(not_written);
        }
        failures.extend(say(&text).err());
        let words: Vec<String> = failures.iter().map(ToString::to_string).collect();
        if words.is_empty() { Ok(()) } else { Err(words.join("; ").into()) }
    }
}

/// The first GPU. If there is none this is said, and there is nothing to measure.
///
/// # Errors
/// Why a GPU that is there cannot be used, or what cannot be said.
pub fn first_gpu() -> Outcome<Option<Device>> {
    match Device::cuda(0) {
        Ok(device) => Ok(Some(device)),
        Err(error @ (Error::NoDriver { .. } | Error::NoSuchDevice { .. })) => {
            say(&format!("There is nothing to measure: {error}\n"))?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The arguments of this program, as far as they say what is measured.
pub fn arguments() -> String {
    said_to_measure(std::env::args().skip(1))
}

/// Without what cargo adds, and without where the record goes and what it says of the commit.
pub fn said_to_measure(arguments: impl IntoIterator<Item = String>) -> String {
    const OTHERS: [&str; 2] = ["--record", "--commit"];
    let mut kept = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let (name, value) = argument.split_once('=').unzip();
        if OTHERS.contains(&name.unwrap_or(&argument)) {
            if value.is_none() {
                arguments.next();
            }
        } else if argument != "--bench" {
            kept.push(argument);
        }
    }
    kept.join(" ")
}

/// Writes to standard output. That its reader has gone, as after `| head`, is no failure: there is nobody left to tell.
///
/// # Errors
/// Why it cannot be written.
pub fn say(text: &str) -> Outcome<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}").into())
        }
        _ => Ok(()),
    }
}

/// Writes a line for who watches. Nobody need, so that this is no reason to stop measuring.
pub fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The element type of this name.
///
/// # Errors
/// All names, as text.
pub fn parse_dtype(name: &str) -> Result<Dtype, String> {
    let known = Dtype::ALL.into_iter().find(|dtype| dtype.name() == name);
    known.ok_or_else(|| format!("expected one of {}", Dtype::ALL.map(Dtype::name).join(", ")))
}
