//! The inner cargo: compiles the kernel crate and `core` for one architecture, and writes one PTX text.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::toolchain::{Toolchain, hide_other_compilers};

/// rustc's target for NVIDIA GPUs.
pub const TARGET: &str = "nvptx64-nvidia-cuda";

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

/// Compiles for `arch` and writes the PTX text of all kernels to `ptx_path`. Gives the source files of the kernel crate and of its
/// path dependencies. `target_dir` is kept between builds, and belongs to this architecture alone.
pub fn compile(
    toolchain: &Toolchain,
    kernel_crate: &KernelCrate,
    arch: &str,
    target_dir: &Path,
    ptx_path: &Path,
) -> Result<Vec<PathBuf>, Error> {
    // What is there is of another source.
    if ptx_path.exists() {
        std::fs::remove_file(ptx_path).map_err(Error::io(ptx_path))?;
    }
    let artifacts = target_dir.join(TARGET).join("release");
    for file in dependency_files(&artifacts)? {
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
        // A wrapper from the user's configuration (a compiler cache) would not know about the written PTX.
        .env("RUSTC_WRAPPER", "")
        .env("RUSTC_WORKSPACE_WRAPPER", "")
        // The PTX comes from rustc itself; what it then wants to link does not exist and is not needed.
        .env("CARGO_TARGET_NVPTX64_NVIDIA_CUDA_LINKER", "true");
    for (key, value) in [
        ("LTO", "fat"),
        ("CODEGEN_UNITS", "1"),
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
        .arg(target_dir);
    if !kernel_crate.features.is_empty() {
        command.args(["--features", &kernel_crate.features.join(",")]);
    }
    if !kernel_crate.default_features {
        command.arg("--no-default-features");
    }
    let mut emit = OsString::from("--emit=asm=");
    emit.push(ptx_path);
    command.arg("--").arg(emit);
    command.args(kernel_crate.llvm_args.iter().map(|arg| format!("-Cllvm-args={arg}")));

    let output = command.output().map_err(Error::io(&toolchain.cargo))?;
    if !output.status.success() {
        return Err(Error::Compile {
            arch: arch.to_string(),
            output: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
    }
    if !ptx_path.exists() {
        return Err(Error::NoPtx { expected: ptx_path.to_owned() });
    }
    sources(&artifacts)
}

/// Options of rustc for an architecture, separated as cargo wants them.
///
/// For `sm_80` rustc writes PTX ISA 7.0, the first version that knows it. Drivers that read 7.1 (CUDA 11.1) are as old as the
/// GPUs that followed, and it is the first with all that mbarriers need (PTX ISA, "mbarrier.test_wait", PTX ISA Notes).
fn target_flags(arch: &str) -> String {
    const SEPARATOR: char = '\x1f';
    let isa =
        if arch == "sm_80" { format!("{SEPARATOR}-Ctarget-feature=+ptx71") } else { String::new() };
    format!("-Ctarget-cpu={arch}{isa}")
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

/// The dependency files (makefile syntax) that cargo leaves beside its artifacts, one for each crate that it was asked for.
fn dependency_files(artifacts: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    if artifacts.exists() {
        for file in std::fs::read_dir(artifacts).map_err(Error::io(artifacts))? {
            let path = file.map_err(Error::io(artifacts))?.path();
            if path.extension() == Some(OsStr::new("d")) {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// The source files that the dependency files list.
fn sources(artifacts: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut sources = Vec::new();
    for path in dependency_files(artifacts)? {
        let text = std::fs::read_to_string(&path).map_err(Error::io(&path))?;
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
