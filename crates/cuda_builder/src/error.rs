//! Everything that can stop a build, worded for the person who has to fix it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::toolchain::{LIBRARY_SOURCE, MINIMUM_RELEASE, Rejected, TOOLCHAIN_VARIABLE, Toolchain};

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
    /// Cargo does not get a crate that the kernel crate needs, or the standard library.
    Fetch {
        /// Architecture that was being compiled.
        arch: String,
        /// Everything cargo printed.
        output: String,
        /// The manifest of the standard library.
        library: PathBuf,
    },
    /// Another build holds the lock of what is kept for an architecture, and does not end.
    Locked {
        /// The file that is locked.
        path: PathBuf,
        /// How long it was waited for.
        waited: std::time::Duration,
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

/// What cargo says where it does not get a crate: without a network, told to keep off it, or of a mirror that lacks it.
const NOT_FETCHED: [&str; 5] = [
    "error: failed to download",
    "error: failed to get `",
    "error: no matching package",
    "error: failed to load source for dependency",
    "error: failed to query replaced source",
];

impl Error {
    /// What a run of cargo that has failed printed.
    pub(crate) fn of_cargo(arch: &str, output: String, toolchain: &Toolchain) -> Self {
        let arch = arch.to_string();
        let is_of_cargo = |line: &str| NOT_FETCHED.iter().any(|text| line.starts_with(text));
        if output.lines().any(is_of_cargo) {
            let library = toolchain.sysroot().join(LIBRARY_SOURCE).join("Cargo.toml");
            return Error::Fetch { arch, output, library };
        }
        Error::Compile { arch, output }
    }

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
            Error::Fetch { arch, output, library } => write!(
                f,
                "cargo does not get all crates that compiling for {arch} needs:\n\n{}\n\n\
                 Compiling `core` takes those that the standard library's own lock file names, besides those of the \
                 kernel crate. Where there is a network, fetch them once for builds without one:\n  \
                 RUSTC_BOOTSTRAP=1 cargo fetch --locked --manifest-path {}\n\
                 To vendor them, name this manifest with `cargo vendor --sync`, likewise with RUSTC_BOOTSTRAP=1.",
                output.trim_end(),
                library.display()
            ),
            Error::Locked { path, waited } => write!(
                f,
                "{} has been locked by another build for {} minutes: wait for that one or end it, and build again; \
                 or give this one another target folder",
                path.display(),
                waited.as_secs() / 60
            ),
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

/// What to install, for the ways in which a machine may have got its Rust.
fn write_remedies(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (major, minor) = MINIMUM_RELEASE;
    write!(
        f,
        "Install one of these (Rust {major}.{minor} or newer) and build again:\n  \
         with rustup:  rustup component add rust-src   (in the folder of the package that is built)\n  \
         on Debian:    apt-get install rustc-web cargo-web rust-web-src\n  \
         elsewhere:    your system's package of the library source, often named rust-src, beside its rustc and cargo\n\
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_fetched_is_told_from_what_does_not_compile() {
        let toolchain = Toolchain {
            rustc: "/sys/bin/rustc".into(),
            cargo: "/sys/bin/cargo".into(),
            release: "1.96.0".into(),
        };
        let of = |output: &str| Error::of_cargo("sm_80", output.to_owned(), &toolchain);
        for output in [
            "    Updating crates.io index\nerror: failed to get `libc` as a dependency of package `std v0.0.0 (/x)`\n",
            "error: failed to download `cfg-if v1.0.4`\n\nCaused by:\n  attempting to make an HTTP request\n",
            "error: no matching package named `cfg-if` found\nlocation searched: crates.io index\n",
        ] {
            let error = of(output);
            assert!(matches!(error, Error::Fetch { .. }), "{error}");
            let message = error.to_string();
            assert!(message.contains(output.trim_end()), "{message}");
            let command = "RUSTC_BOOTSTRAP=1 cargo fetch --locked --manifest-path \
                           /sys/lib/rustlib/src/rust/library/Cargo.toml";
            assert!(message.contains(command), "{message}");
        }
        let error = of("error: `failed to download` is no type\n");
        assert!(matches!(error, Error::Compile { .. }), "{error}");
    }
}
