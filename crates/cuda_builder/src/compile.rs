//! The inner cargo: compiles the kernel crate and `core` for one architecture, and writes one PTX text.
//!
//! Kernels are compiled in [units](UNITS), several at a time. Each has all that its kernels call: a call takes more
//! than most of what is called, and what is passed by reference would lie in local memory. So every function may be
//! inlined across units, not only what rustc finds small.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::messages::{self, DEPENDENCIES, files};
use crate::toolchain::{Toolchain, hide_other_compilers};
use crate::units;

/// rustc's target for NVIDIA GPUs.
pub const TARGET: &str = "nvptx64-nvidia-cuda";

/// Codegen units of a kernel crate: as many as rustc divides others into.
const UNITS: &str = "16";

/// What the inner cargo sets for build scripts and crates, besides what [`is_inherited`] knows.
const SET_BY_CARGO: [&str; 7] =
    ["OUT_DIR", "TARGET", "HOST", "NUM_JOBS", "OPT_LEVEL", "PROFILE", "DEBUG"];

/// What the text of a unit ends in.
const ASSEMBLY: &str = "s";

/// What is compiled, the same for all architectures.
#[derive(Clone, Debug, Hash)]
pub struct KernelCrate {
    /// Folder of its `Cargo.toml`.
    pub folder: PathBuf,
    /// Cargo features to enable.
    pub features: Vec<String>,
    /// Whether its default features are enabled.
    pub default_features: bool,
    /// Arguments for LLVM when it makes PTX.
    pub llvm_args: Vec<String>,
}

/// What a compilation has read and told.
#[derive(Debug)]
pub struct Compiled {
    /// The source files of the kernel crate and of its path dependencies.
    pub sources: Vec<PathBuf>,
    /// The environment variables that these and all others read, but for those that cargo sets.
    pub variables: BTreeSet<String>,
    /// The compiler's warnings, a line each.
    pub warnings: Vec<String>,
}

/// Compiles for `arch` and writes the PTX text of all kernels to `ptx_path`. `target_dir` is kept between builds, and
/// belongs to this architecture alone.
pub fn compile(
    toolchain: &Toolchain,
    kernel_crate: &KernelCrate,
    arch: &str,
    target_dir: &Path,
    ptx_path: &Path,
) -> Result<Compiled, Error> {
    // What is there is of another source.
    if ptx_path.exists() {
        std::fs::remove_file(ptx_path).map_err(Error::io(ptx_path))?;
    }
    let artifacts = target_dir.join(TARGET).join("release");
    let units = || files(&artifacts.join("deps"), ASSEMBLY);
    for file in files(&artifacts, DEPENDENCIES)?.into_iter().chain(units()?) {
        std::fs::remove_file(&file).map_err(Error::io(&file))?;
    }
    let mut command = Command::new(&toolchain.cargo);
    clean_environment(&mut command);
    command
        .current_dir(&kernel_crate.folder)
        .env("RUSTC", &toolchain.rustc)
        // Building `core` and the PTX calling convention are unstable: this admits them in a stable compiler.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", target_flags(arch))
        // A folder for intermediate files in the user's configuration would take the units elsewhere, and those of all
        // architectures to one place.
        .env("CARGO_BUILD_BUILD_DIR", target_dir)
        // A wrapper from the user's configuration (a compiler cache) would not know about the written PTX.
        .env("RUSTC_WRAPPER", "")
        .env("RUSTC_WORKSPACE_WRAPPER", "")
        // The PTX comes from rustc itself; what it then wants to link does not exist and is not needed.
        .env("CARGO_TARGET_NVPTX64_NVIDIA_CUDA_LINKER", "true");
    for (key, value) in [
        ("LTO", "thin"),
        ("CODEGEN_UNITS", UNITS),
        ("PANIC", "abort"),
        ("OPT_LEVEL", "3"),
        ("DEBUG", "false"),
        ("DEBUG_ASSERTIONS", "false"),
        ("OVERFLOW_CHECKS", "false"),
        ("INCREMENTAL", "false"),
    ] {
        command.env(format!("CARGO_PROFILE_RELEASE_{key}"), value);
    }
    command
        .args(["rustc", "--quiet", "--release", "--lib", "--crate-type", "cdylib"])
        .args(["-Zbuild-std=core", "--target", TARGET, "--color", "never", "--target-dir"])
        .arg(target_dir)
        .args(["--message-format", "json-render-diagnostics"]);
    if !kernel_crate.features.is_empty() {
        command.args(["--features", &kernel_crate.features.join(",")]);
    }
    if !kernel_crate.default_features {
        command.arg("--no-default-features");
    }
    command.args(["--", "--emit=asm"]);
    command.args(kernel_crate.llvm_args.iter().map(|arg| format!("-Cllvm-args={arg}")));

    let output = command.output().map_err(Error::io(&toolchain.cargo))?;
    if !output.status.success() {
        return Err(Error::Compile {
            arch: arch.to_string(),
            output: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
    }
    let mut texts = Vec::new();
    for path in units()? {
        texts.push(std::fs::read_to_string(&path).map_err(Error::io(&path))?);
        std::fs::remove_file(&path).map_err(Error::io(&path))?;
    }
    if texts.is_empty() {
        return Err(Error::NoPtx { expected: artifacts });
    }
    std::fs::write(ptx_path, units::join(&texts)?).map_err(Error::io(ptx_path))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    // Cargo names no file for the kernel crate itself: there is no library.
    let listed = files(&artifacts, DEPENDENCIES)?;
    let own = listed.iter().filter_map(|path| path.file_name());
    let own = own.map(|name| artifacts.join("deps").join(name)).collect();
    let mut variables = messages::variables(&stdout, own)?;
    variables.retain(|name| !is_inherited(OsStr::new(name)) && !SET_BY_CARGO.contains(&&**name));
    let warnings = messages::warnings(&String::from_utf8_lossy(&output.stderr));
    Ok(Compiled { sources: sources(&listed)?, variables, warnings })
}

/// Options of rustc for an architecture, separated as cargo wants them.
///
/// For `sm_80` rustc writes PTX ISA 7.0, the first version that knows it. Drivers that read 7.1 (CUDA 11.1) are as old
/// as the GPUs that followed, and it is the first with all that mbarriers need (PTX ISA, "mbarrier.test_wait", PTX ISA
/// Notes).
fn target_flags(arch: &str) -> String {
    let mut flags =
        vec![format!("-Ctarget-cpu={arch}"), "-Zcross-crate-inline-threshold=always".to_owned()];
    if arch == "sm_80" {
        flags.push("-Ctarget-feature=+ptx71".to_owned());
    }
    flags.join("\x1f")
}

/// Removes what cargo tells a build script about the package being built, and keeps the user's own settings.
fn clean_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if is_inherited(&name) {
            command.env_remove(&name);
        }
    }
    hide_other_compilers(command);
}

/// Whether a variable describes the outer build and would mislead the inner one.
fn is_inherited(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    // CARGO_MAKEFLAGS hands on the outer cargo's job tokens, so that both together keep to its `--jobs`.
    let settings = ["CARGO_HOME", "CARGO_MAKEFLAGS"];
    let families = ["CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_"];
    let outer = ["CARGO", "__CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS", "RUSTUP_TOOLCHAIN"];
    outer.iter().any(|prefix| name.starts_with(prefix))
        && !settings.contains(&&*name)
        && !families.iter().any(|family| name.starts_with(family))
}

/// The source files that the dependency files list.
fn sources(listed: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut sources = Vec::new();
    for path in listed {
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        sources.extend(dependencies(&text));
    }
    sources.sort();
    sources.dedup();
    Ok(sources)
}

/// The prerequisites of all rules of a makefile; spaces in a path are escaped with a backslash.
fn dependencies(makefile: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for rule in makefile.lines() {
        let Some((_, prerequisites)) = rule.split_once(": ") else { continue };
        let mut path = String::new();
        let mut characters = prerequisites.chars();
        while let Some(character) = characters.next() {
            match character {
                '\\' => path.extend(characters.next()),
                ' ' => paths.push(PathBuf::from(std::mem::take(&mut path))),
                other => path.push(other),
            }
        }
        paths.push(PathBuf::from(path));
    }
    paths.retain(|path| !path.as_os_str().is_empty());
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_describes_the_outer_build_is_removed() {
        for name in [
            "CARGO",
            "CARGO_PKG_NAME",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "CARGO_FEATURE_X",
            "RUSTC",
            "RUSTC_WRAPPER",
            "RUSTFLAGS",
            "RUSTUP_TOOLCHAIN",
        ] {
            assert!(is_inherited(OsStr::new(name)), "{name}");
        }
        for name in
            ["CARGO_HOME", "CARGO_NET_OFFLINE", "CARGO_MAKEFLAGS", "RUSTUP_HOME", "PATH", "HOME"]
        {
            assert!(!is_inherited(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn dependency_files_are_read_with_escaped_spaces() {
        let paths = dependencies("/out/lib.d: /a/b.rs /with\\ space/c.rs\n\n/a/b.rs:\n");
        assert_eq!(paths, [PathBuf::from("/a/b.rs"), PathBuf::from("/with space/c.rs")]);
    }
}
