//! The inner cargo: compiles the kernel crate and `core` for one architecture, and writes one PTX text.
//!
//! Kernels are compiled in [units](UNITS), several at a time. Each has all that its kernels call: a call takes more
//! than most of what is called, and what is passed by reference would lie in local memory. So every function may be
//! inlined across units, not only what rustc finds small.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment;
use crate::error::Error;
use crate::messages::{self, DEPENDENCIES, Told, files};
use crate::toolchain::Toolchain;
use crate::units;

/// rustc's target for NVIDIA GPUs.
pub const TARGET: &str = "nvptx64-nvidia-cuda";

/// Codegen units of a kernel crate: as many as rustc divides others into.
const UNITS: &str = "16";

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
    /// The source files of the kernel crate and of its path dependencies, and files and folders that their build
    /// scripts read.
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
    environment::clean(&mut command);
    command
        .current_dir(&kernel_crate.folder)
        .env("RUSTC", &toolchain.rustc)
        // Building `core` and the PTX calling convention are unstable: this admits them in a stable compiler.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", target_flags(arch))
        // A folder for intermediate files in the user's configuration would take the units elsewhere, and those of all
        // architectures to one place.
        .env("CARGO_BUILD_BUILD_DIR", target_dir)
        // Paths in dependency files would be relative to a folder from there: none is below this one.
        .env("CARGO_BUILD_DEP_INFO_BASEDIR", target_dir.join("no-base"))
        // A wrapper from the user's configuration (a compiler cache) would not know about the written PTX.
        .env("RUSTC_WRAPPER", "")
        .env("RUSTC_WORKSPACE_WRAPPER", "")
        // The PTX comes from rustc itself; what it then wants to link does not exist and is not needed.
        .env("CARGO_TARGET_NVPTX64_NVIDIA_CUDA_LINKER", idle_program(target_dir)?);
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
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::of_cargo(arch, output, toolchain));
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
    let Told { mut variables, packages } = messages::read(&stdout, own)?;
    variables.retain(|name| !environment::is_of_cargo(name));
    let mut sources = sources(&listed)?;
    for manifest in packages {
        sources.extend(package_files(&manifest, target_dir)?);
    }
    // What build scripts write follows from what they read.
    sources.retain(|path| !path.starts_with(target_dir));
    sources.sort();
    sources.dedup();
    let warnings = messages::warnings(&String::from_utf8_lossy(&output.stderr));
    Ok(Compiled { sources, variables, warnings })
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

/// A program that does nothing whatever it is told.
fn idle_program(target_dir: &Path) -> Result<PathBuf, Error> {
    if !cfg!(windows) {
        return Ok("true".into());
    }
    let path = target_dir.join("nothing.bat");
    std::fs::write(&path, "@exit /b 0\r\n").map_err(Error::io(&path))?;
    Ok(path)
}

/// The paths that the dependency files list.
fn sources(listed: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut sources = Vec::new();
    for path in listed {
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        sources.extend(dependencies(&text));
    }
    Ok(sources)
}

/// The prerequisites of all rules of a makefile. Cargo puts a backslash before spaces in a path, and before nothing
/// else.
fn dependencies(makefile: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for rule in makefile.lines() {
        let Some((_, prerequisites)) = rule.split_once(": ") else { continue };
        let mut path = String::new();
        let mut characters = prerequisites.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' if characters.next_if_eq(&' ').is_some() => path.push(' '),
                ' ' => paths.push(PathBuf::from(std::mem::take(&mut path))),
                other => path.push(other),
            }
        }
        paths.push(PathBuf::from(path));
    }
    paths.retain(|path| !path.as_os_str().is_empty());
    paths
}

/// What a package consists of, of which this is the manifest: its folder, or all in it but what cargo does not count
/// either, which are hidden files, build output and other packages.
fn package_files(manifest: &Path, target_dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let folder = manifest.parent().unwrap_or(manifest);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io(folder))? {
        entries.push(entry.map_err(Error::io(folder))?.path());
    }
    let is_left_out = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with('.')
            || target_dir.starts_with(path)
            || path.join("CACHEDIR.TAG").exists()
            || path.join("Cargo.toml").exists()
    };
    if !entries.iter().any(is_left_out) {
        return Ok(vec![folder.to_path_buf()]);
    }
    entries.retain(|path| !is_left_out(path));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependency_files_are_read_with_escaped_spaces() {
        let paths = dependencies("/out/lib.d: /a/b.rs /with\\ space/c.rs\n\n/a/b.rs:\n");
        assert_eq!(paths, [PathBuf::from("/a/b.rs"), PathBuf::from("/with space/c.rs")]);
        let paths = dependencies("C:\\out\\lib.d: C:\\a\\b.rs C:\\with\\ space\\c.rs\n");
        assert_eq!(paths, [PathBuf::from("C:\\a\\b.rs"), PathBuf::from("C:\\with space\\c.rs")]);
    }

    #[test]
    fn a_package_is_its_folder_or_what_counts_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join("Cargo.toml");
        std::fs::create_dir(folder.path().join("src")).unwrap();
        std::fs::write(&manifest, "").unwrap();
        let files = || {
            let mut files = package_files(&manifest, Path::new("/elsewhere")).unwrap();
            files.sort();
            files
        };
        assert_eq!(files(), [folder.path()]);
        for (inside, file) in [("target", "CACHEDIR.TAG"), ("part", "Cargo.toml"), (".git", "a")] {
            std::fs::create_dir(folder.path().join(inside)).unwrap();
            std::fs::write(folder.path().join(inside).join(file), "").unwrap();
            assert_eq!(files(), [manifest.clone(), folder.path().join("src")]);
            std::fs::remove_dir_all(folder.path().join(inside)).unwrap();
        }
    }
}
