//! What can go wrong in the command, and the exit codes that scripts see.

use super::eprintln_quietly;
use regemm::Error;
use regemm::tuning::cache::CacheError;
use std::fmt;
use std::path::{Path, PathBuf};

/// A result failed its verification.
pub const VERIFICATION: u8 = 1;
/// The command line is wrong; clap uses the same code.
pub const USAGE: u8 = 2;
/// A file cannot be read or written, or its contents do not fit.
pub const FILE: u8 = 3;
/// The device cannot do what was asked.
pub const DEVICE: u8 = 4;
/// Ctrl-C or a request to terminate: what shells use for SIGINT.
pub const INTERRUPTED: u8 = 130;

/// The exit codes in the words of `--help`.
pub const HELP: &str = "\
Exit codes:
  0    success
  1    a result failed its verification
  2    wrong usage: options that are unknown, do not fit together or name no kernel
  3    a file cannot be read or written, or its contents do not fit
  4    the device: none, too little memory there or on the host, a kernel failed
  130  interrupted

Environment:
  CUDA_VISIBLE_DEVICES  the GPUs that may be used, as for every CUDA program
  REGEMM_TUNING         how kernels are chosen: rule, table or first-use (see regemm tune --help)
  REGEMM_CACHE_DIR      where measured times are kept, instead of the user's cache folder
  RUST_LOG              what is logged to standard error: warn unless set";

/// Why the command stops.
#[derive(Debug)]
pub enum Failure {
    /// A result is wrong.
    Verification(String),
    /// Options that clap cannot judge.
    Usage(String),
    /// A file, with what is wrong and what to do.
    File {
        /// Its path as it was given.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The cache of measured times cannot be used, where that is what was asked for.
    Cache(CacheError),
    /// Standard output cannot be written.
    StandardOutput(std::io::Error),
    /// The library says no.
    Library(Error),
    /// The user has asked to stop, with what became of the work.
    Interrupted(String),
}

impl Failure {
    /// A problem with a file.
    pub fn file(path: &Path, problem: impl fmt::Display) -> Self {
        Failure::File { path: path.to_owned(), problem: problem.to_string() }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Verification(_) => VERIFICATION,
            Failure::Usage(_) => USAGE,
            Failure::File { .. } | Failure::Cache(_) | Failure::StandardOutput(_) => FILE,
            Failure::Interrupted(_) => INTERRUPTED,
            Failure::Library(error) => match error {
                Error::UnknownKernel { .. }
                | Error::KernelWithoutDtype { .. }
                | Error::RungWithoutDtype { .. }
                | Error::KernelOfPrecision { .. }
                | Error::KernelOfAuto { .. }
                | Error::Precision { .. }
                | Error::UnknownGpu { .. }
                | Error::KernelLayouts { .. }
                | Error::KernelDtype { .. }
                | Error::InvalidDeviceSpec { .. } => USAGE,
                _ => DEVICE,
            },
        }
    }

    /// The kind of failure in JSON.
    pub fn kind(&self) -> &'static str {
        match self.code() {
            VERIFICATION => "verification",
            USAGE => "usage",
            FILE => "file",
            INTERRUPTED => "interrupted",
            _ => "device",
        }
    }
}

/// What the work came to, and what became of its files. Of two failures that of the work counts: the other may follow
/// from it, and is a warning.
pub fn with_files(found: Result<(), Failure>, kept: Result<(), Failure>) -> Result<(), Failure> {
    if let (Err(_), Err(not_kept)) = (&found, &kept) {
        eprintln_quietly(format_args!("regemm: warning: {not_kept}"));
    }
    found.and(kept)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Verification(message)
            | Failure::Usage(message)
            | Failure::Interrupted(message) => f.write_str(message),
            Failure::File { path, problem } => write!(f, "{}: {problem}", path.display()),
            Failure::Cache(error) => error.fmt(f),
            Failure::StandardOutput(error) => write!(f, "cannot write to standard output: {error}"),
            Failure::Library(error) => error.fmt(f),
        }
    }
}

impl From<CacheError> for Failure {
    fn from(error: CacheError) -> Self {
        Failure::Cache(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Library(error)
    }
}
