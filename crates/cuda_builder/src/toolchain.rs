//! Finding a compiler that can compile `core` for the GPU: one whose sysroot holds the library's source.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compile::TARGET;
use crate::error::Error;

/// Environment variable that names the toolchain to use: the folder that holds its `bin/rustc`, `bin/cargo` and
/// `lib/rustlib` (what `rustc --print sysroot` prints).
pub const TOOLCHAIN_VARIABLE: &str = "CUDA_BUILDER_TOOLCHAIN";

/// Oldest release of rustc, major and minor, whose PTX backend and `core` do what [`crate`] relies on.
pub const MINIMUM_RELEASE: (u32, u32) = (1, 95);

/// Where a sysroot keeps the source of the standard library.
pub(crate) const LIBRARY_SOURCE: &str = "lib/rustlib/src/rust/library";

/// A compiler and its cargo that can compile kernels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toolchain {
    /// The compiler.
    pub rustc: PathBuf,
    /// Its cargo.
    pub cargo: PathBuf,
    /// The compiler's release, such as `1.96.0`.
    pub release: String,
}

impl Toolchain {
    /// The folder that its cargo lies in `bin` of.
    pub(crate) fn sysroot(&self) -> &Path {
        self.cargo.parent().and_then(Path::parent).unwrap_or(&self.cargo)
    }

    /// The names of the architectures that the compiler knows; none where it does not tell.
    pub(crate) fn archs(&self) -> Vec<String> {
        let list = ask(&self.rustc, &["--print", "target-cpus", "--target", TARGET]);
        // A name in each line that is indented, and maybe words about it.
        let name =
            |line: &str| line.strip_prefix(' ')?.split_whitespace().next().map(str::to_owned);
        list.unwrap_or_default().lines().filter_map(name).collect()
    }
}

/// A toolchain that was looked at, and why it was not taken.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// Its compiler or sysroot.
    pub path: PathBuf,
    /// How it was found.
    pub origin: &'static str,
    /// What it lacks.
    pub reason: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.path.display(), self.origin, self.reason)
    }
}

/// Where to look, in order.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// A sysroot that must be used: then nothing else is looked at.
    pub explicit: Option<PathBuf>,
    /// The compiler that is building the build script.
    pub building: Option<PathBuf>,
    /// Folders that may hold a system's own `rustc`, best first.
    pub system: Vec<PathBuf>,
}

impl Search {
    /// The search that a build script makes: the variable [`TOOLCHAIN_VARIABLE`], the compiler that cargo runs the
    /// script for (`RUSTC`, or for tests and programs the one beside `CARGO`), then `/usr/bin` and the folders of
    /// `PATH`.
    pub fn from_environment() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let path: OsString = set("PATH").unwrap_or_default();
        let mut system = vec![PathBuf::from("/usr/bin")];
        for folder in std::env::split_paths(&path) {
            if folder.is_absolute() && !system.contains(&folder) {
                system.push(folder);
            }
        }
        Search {
            explicit: set(TOOLCHAIN_VARIABLE).map(PathBuf::from),
            building: building_compiler(set("RUSTC"), set("CARGO")),
            system,
        }
    }

    /// The first toolchain that can compile kernels.
    ///
    /// # Errors
    /// [`Error::ExplicitToolchain`] where the explicit one cannot, [`Error::NoToolchain`] where none can.
    pub fn find(&self) -> Result<Toolchain, Error> {
        if let Some(sysroot) = &self.explicit {
            let rustc = program(&sysroot.join("bin"), "rustc");
            return examine(&rustc).map_err(|reason| {
                Error::ExplicitToolchain(Rejected {
                    path: sysroot.clone(),
                    origin: TOOLCHAIN_VARIABLE,
                    reason,
                })
            });
        }

        let building =
            self.building.iter().map(|rustc| (rustc.clone(), "builds this crate", false));
        // A folder with a `rustup` holds its proxies. They stand for the toolchain that is building, or where nothing
        // is for an unknown one.
        let has_proxies = |folder: &Path| program(folder, "rustup").exists();
        let system = self
            .system
            .iter()
            .map(|folder| (program(folder, "rustc"), "of the system", has_proxies(folder)))
            .filter(|(_, _, is_proxy)| !is_proxy || self.building.is_none())
            .filter(|(rustc, ..)| rustc.exists());
        let mut rejected = Vec::new();
        for (path, origin, is_proxy) in building.chain(system) {
            let examined = if is_proxy { Err(of_proxy()) } else { examine(&path) };
            match examined {
                Ok(toolchain) => return Ok(toolchain),
                Err(reason) => rejected.push(Rejected { path, origin, reason }),
            }
        }
        Err(Error::NoToolchain(rejected))
    }
}

/// The compiler that is building, from the variables that cargo sets: it names the compiler to build scripts only, but
/// itself to everything that it starts.
fn building_compiler(rustc: Option<OsString>, cargo: Option<OsString>) -> Option<PathBuf> {
    let beside_cargo = || {
        let rustc = program(Path::new(&cargo?).parent()?, "rustc");
        rustc.exists().then_some(rustc)
    };
    rustc.map(PathBuf::from).or_else(beside_cargo)
}

/// A program in a folder, as this system names it.
fn program(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// Why a proxy of rustup is not taken.
fn of_proxy() -> String {
    format!(
        "stands for a toolchain of rustup, and which one is unknown: start this with cargo, or set {TOOLCHAIN_VARIABLE}"
    )
}

/// The toolchain that a compiler belongs to, or what it lacks.
fn examine(rustc: &Path) -> Result<Toolchain, String> {
    let sysroot = PathBuf::from(ask(rustc, &["--print", "sysroot"])?.trim_end());
    let version = ask(rustc, &["--version", "--verbose"])?;
    let release = version
        .lines()
        .find_map(|line| line.strip_prefix("release: "))
        .ok_or("`rustc --version --verbose` prints no release")?;
    let number = parse_release(release).ok_or_else(|| format!("unknown release {release}"))?;
    if number < MINIMUM_RELEASE {
        let (major, minor) = MINIMUM_RELEASE;
        return Err(format!("its release is {release}, older than {major}.{minor}"));
    }
    if !sysroot.join(LIBRARY_SOURCE).join("core/src/lib.rs").exists() {
        return Err(format!("{} is not installed", sysroot.join(LIBRARY_SOURCE).display()));
    }

    // `rustc` itself may be rustup's proxy; the sysroot's own programs are not.
    let bin = sysroot.join("bin");
    let (own_rustc, own_cargo) = (program(&bin, "rustc"), program(&bin, "cargo"));
    if !own_cargo.exists() {
        return Err(format!("{} is not installed", own_cargo.display()));
    }
    let rustc = if own_rustc.exists() { own_rustc } else { rustc.to_path_buf() };
    Ok(Toolchain { rustc, cargo: own_cargo, release: release.to_owned() })
}

/// What a compiler prints.
fn ask(rustc: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(rustc);
    hide_other_compilers(&mut command);
    let output =
        command.args(arguments).output().map_err(|error| format!("cannot be started: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`rustc {}` fails: {}", arguments.join(" "), stderr.trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| "prints something that is not text".to_string())
}

/// Takes the libraries of other compilers off the library path of a command.
///
/// Cargo puts the building toolchain's libraries there. Another compiler of the same release would load them instead of
/// its own, and take the building toolchain's sysroot for its own.
pub(crate) fn hide_other_compilers(command: &mut Command) {
    for variable in ["LD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"] {
        let Some(path) = std::env::var_os(variable) else { continue };
        let kept = std::env::split_paths(&path).filter(|folder| !holds_compiler(folder));
        match std::env::join_paths(kept) {
            Ok(path) if !path.is_empty() => command.env(variable, path),
            _ => command.env_remove(variable),
        };
    }
}

/// Whether a folder holds the library that is rustc.
fn holds_compiler(folder: &Path) -> bool {
    let Ok(files) = std::fs::read_dir(folder) else { return false };
    files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("librustc_driver"))
}

/// Major and minor number of `1.96.0`, `1.97.0-nightly` and the like.
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_that_builds_is_named_or_lies_beside_cargo() {
        let folder = tempfile::tempdir().unwrap();
        let (cargo, rustc) = (folder.path().join("cargo"), folder.path().join("rustc"));
        let beside = || building_compiler(None, Some(cargo.clone().into()));
        assert_eq!(building_compiler(None, None), None);
        assert_eq!(beside(), None, "there is no compiler yet");
        std::fs::write(&rustc, "").unwrap();
        assert_eq!(beside(), Some(rustc));
        let named = building_compiler(Some("/elsewhere/rustc".into()), Some(cargo.into()));
        assert_eq!(named, Some("/elsewhere/rustc".into()));
    }
}
