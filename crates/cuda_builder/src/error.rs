//! Everything that can stop a build, worded for the person who has to fix it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::toolchain::{MINIMUM_RELEASE, Rejected, TOOLCHAIN_VARIABLE};

/// Why a kernel crate was not compiled.
///
/// `Debug` prints the same text as `Display`, so that a build script may simply return the error from `main`.
#[non_exhaustive]
pub enum Error {
    /// No toolchain has the source of the standard library. Holds every toolchain that was looked at.
    NoToolchain(Vec<Rejected>),
    /// The toolchain named by the environment variable cannot be used.
    ExplicitToolchain(Rejected),
    /// The builder was not told something it needs.
    Configuration(String),
    /// The kernel crate does not compile. Holds what cargo printed.
    Compile {
        /// Architecture that was being compiled.
        arch: String,
        /// Everything cargo and rustc printed.
        output: String,
    },
    /// The compiler finished without writing PTX.
    NoPtx {
        /// The folder where it was expected.
        expected: PathBuf,
    },
    /// The PTX contains no entry: the crate has no function marked `#[kernel]`.
    NoEntries {
        /// Folder of the kernel crate.
        kernel_crate: PathBuf,
    },
    /// The PTX is not what this crate can split.
    Ptx {
        /// Line of the module, from 1.
        line: usize,
        /// What was found.
        problem: String,
    },
    /// A file could not be read or written, or a program not be started.
    Io {
        /// The file or program.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    /// An input/output error at a path.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Error::Io { path, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoToolchain(rejected) => {
                writeln!(
                    f,
                    "compiling for the GPU needs a Rust toolchain with the source of its standard library, \
                     and none was found:"
                )?;
                for candidate in rejected {
                    writeln!(f, "  - {candidate}")?;
                }
                write_remedies(f)
            }
            Error::ExplicitToolchain(candidate) => {
                writeln!(
                    f,
                    "{TOOLCHAIN_VARIABLE} names a toolchain that cannot compile for the GPU:"
                )?;
                writeln!(f, "  - {candidate}")?;
                writeln!(f, "Unset the variable, or name the sysroot of another toolchain.")?;
                write_remedies(f)
            }
            Error::Configuration(problem) => f.write_str(problem),
            Error::Compile { arch, output } => {
                write!(f, "the kernel crate does not compile for {arch}:\n\n{}", output.trim_end())
            }
            Error::NoPtx { expected } => write!(
                f,
                "the compiler wrote no PTX to {} and what is in it; run `cargo clean` and build again",
                expected.display()
            ),
            Error::NoEntries { kernel_crate } => write!(
                f,
                "{} has no kernel: mark a function with `#[kernel]`",
                kernel_crate.display()
            ),
            Error::Ptx { line, problem } => write!(f, "line {line} of the PTX: {problem}"),
            Error::Io { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

/// What to install, for the two ways in which a machine may have got its Rust.
fn write_remedies(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (major, minor) = MINIMUM_RELEASE;
    write!(
        f,
        "Install one of these (Rust {major}.{minor} or newer) and build again:\n  \
         with rustup:  rustup component add rust-src   (in the folder of the package that is built)\n  \
         on Debian:    apt-get install rustc-web cargo-web rust-web-src\n\
         In a checkout of regemm ./setup.sh does whichever of them works. A toolchain elsewhere: set \
         {TOOLCHAIN_VARIABLE} to its sysroot."
    )
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
