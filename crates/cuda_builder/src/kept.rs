//! What is kept between builds: the inner cargo's files, and PTX for as long as it is what the same compiler would make
//! of the same source.
//!
//! Cargo runs a build script anew for each set of features and each profile of its package, with a folder of its own.
//! The kernels are the same each time, and compiling them takes long, as does `core`, which is the same for all crates.
//! So what is kept lies in the target folder that all those builds share, by architecture.
//!
//! PTX is known by the contents of all files that it was made of, not by their times, and by environment variables that
//! were read: the record beside it lists them. Cargo itself would compile each time, because the library that it waits
//! for is never linked.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::compile::{Compiled, KernelCrate, compile};
use crate::error::Error;
use crate::lock;
use crate::messages::files;
use crate::record::{self, LOCK_FILE, Origin, hash};
use crate::toolchain::Toolchain;

/// What the names of kept files begin with.
const PREFIX: &str = "kernels-";

/// What cargo writes to a target folder that it makes.
const TARGET_DIR_MARK: &str = "CACHEDIR.TAG";

/// How kernels are compiled and joined: PTX that was made otherwise is other PTX.
const HOW: [&str; 6] = [
    include_str!("compile.rs"),
    include_str!("directives.rs"),
    include_str!("environment.rs"),
    include_str!("items.rs"),
    include_str!("messages.rs"),
    include_str!("units.rs"),
];

/// The PTX of one architecture.
#[derive(Debug)]
pub struct Kept {
    /// The PTX text of all kernels.
    pub ptx: String,
    /// What it was made of.
    pub origin: Origin,
}

/// The folder for what is kept: in the target folder that `out_dir` lies in, in `out_dir` itself where there is none.
pub fn folder(out_dir: &Path) -> PathBuf {
    folder_of(out_dir, std::env::var_os("TARGET").as_deref())
}

/// The same of a build for `platform`. With `--target` it has a folder in the target folder, marked like that; PTX is
/// the same for all.
fn folder_of(out_dir: &Path, platform: Option<&OsStr>) -> PathBuf {
    let is_marked = |folder: &&Path| folder.join(TARGET_DIR_MARK).is_file();
    let marked = out_dir.ancestors().find(is_marked);
    let of_platform = marked.filter(|folder| platform.is_some() && folder.file_name() == platform);
    let target = of_platform.and_then(Path::parent).filter(is_marked).or(marked);
    target.unwrap_or(out_dir).join("cuda_builder")
}

/// The PTX for `arch`, compiled if there is none of this source. `target_dir` belongs to this architecture alone;
/// builds that want it at the same time wait for each other.
pub fn ptx(
    toolchain: &Toolchain,
    kernel_crate: &KernelCrate,
    arch: &str,
    target_dir: &Path,
) -> Result<Kept, Error> {
    fs::create_dir_all(target_dir).map_err(Error::io(target_dir))?;
    let _lock = lock::take(&target_dir.join("lock"))?;

    // Each crate has PTX of its own, and each way to compile it.
    let of_crate = format!("{PREFIX}{:016x}-", hash(&(kernel_crate, toolchain)));
    let name = format!("{of_crate}{:016x}", hash(&HOW));
    let ptx_path = target_dir.join(&name).with_extension("ptx");
    let record_path = target_dir.join(&name).with_extension("inputs");
    let read = |path| fs::read(path).map_err(Error::io(path));
    if ptx_path.exists() && record_path.exists() {
        // What is no text was damaged.
        let ptx = String::from_utf8(read(&ptx_path)?).unwrap_or_default();
        let origin = record::true_one(&String::from_utf8_lossy(&read(&record_path)?), &ptx);
        if let Some(origin) = origin.filter(|of| holds_all(&of.files, kernel_crate, toolchain)) {
            return Ok(Kept { ptx, origin });
        }
        // Without it nothing is known of what the compiler is about to write.
        fs::remove_file(&record_path).map_err(Error::io(&record_path))?;
    }

    let begun = std::time::SystemTime::now();
    let Compiled { sources, variables, warnings } =
        compile(toolchain, kernel_crate, arch, target_dir, &ptx_path)?;
    let ptx = fs::read_to_string(&ptx_path).map_err(Error::io(&ptx_path))?;
    let files = inputs(&sources, kernel_crate, toolchain);
    // What was written meanwhile may be another than what was compiled. Cargo itself writes the lock file.
    let written_since = |path: &PathBuf| {
        !path.ends_with(LOCK_FILE) && record::changed(path).is_ok_and(|time| time >= begun)
    };
    let is_unchanged = !files.iter().any(written_since);
    let mut origin = Origin { files, variables: variables.into_iter().collect(), warnings };
    match record::of(&origin, &ptx) {
        Ok(record) if is_unchanged => {
            fs::write(&record_path, record).map_err(Error::io(&record_path))?;
            remove_others(target_dir, &of_crate, &name)?;
        }
        Ok(_) => {}
        Err(problem) => {
            origin.warnings.push(format!("kernels are compiled in each build, for {problem}"));
        }
    }
    Ok(Kept { ptx, origin })
}

/// Removes what is kept of the same crate as earlier versions of this one compiled it.
fn remove_others(target_dir: &Path, of_crate: &str, name: &str) -> Result<(), Error> {
    for ending in ["ptx", "inputs"] {
        for path in files(target_dir, ending)? {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            if stem.starts_with(of_crate) && stem != name {
                fs::remove_file(&path).map_err(Error::io(&path))?;
            }
        }
    }
    Ok(())
}

/// Everything that PTX is made of: sources, the manifests above them, and what lies around the crate.
fn inputs(sources: &[PathBuf], kernel_crate: &KernelCrate, toolchain: &Toolchain) -> Vec<PathBuf> {
    let mut inputs = around(kernel_crate, toolchain);
    for source in sources {
        inputs.push(source.clone());
        inputs.extend(above(source, "Cargo.toml"));
    }
    inputs.sort();
    inputs.dedup();
    inputs
}

/// The lock file, cargo's settings and the compiler.
fn around(kernel_crate: &KernelCrate, toolchain: &Toolchain) -> Vec<PathBuf> {
    let mut files = vec![toolchain.rustc.clone()];
    files.extend(above(&kernel_crate.folder, LOCK_FILE).take(1));
    files.extend(above(&kernel_crate.folder, ".cargo/config.toml"));
    files
}

/// The files of a name in all folders above a path, and in itself if it is one, that are there.
fn above<'a>(path: &'a Path, name: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    path.ancestors().map(move |folder| folder.join(name)).filter(|file| file.exists())
}

/// Whether nothing has come to lie around the crate that is not among the inputs.
fn holds_all(inputs: &[PathBuf], kernel_crate: &KernelCrate, toolchain: &Toolchain) -> bool {
    around(kernel_crate, toolchain).iter().all(|file| inputs.contains(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_for_all_platforms_share_what_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let platform = target.join("aarch64-unknown-linux-gnu");
        fs::create_dir_all(&platform).unwrap();
        for marked in [folder.path(), &target, &platform] {
            fs::write(marked.join(TARGET_DIR_MARK), "").unwrap();
        }
        let kept = target.join("cuda_builder");
        let named = Some(OsStr::new("aarch64-unknown-linux-gnu"));
        assert_eq!(folder_of(&platform.join("release/build/x/out"), named), kept);
        assert_eq!(folder_of(&target.join("release/build/x/out"), named), kept);
        assert_eq!(folder_of(&target.join("release/build/x/out"), None), kept);
    }

    #[test]
    fn what_earlier_versions_kept_of_a_crate_goes() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["kernels-1-1.ptx", "kernels-1-2.inputs", "kernels-1-2.ptx", "kernels-2-1.ptx"];
        for name in names {
            fs::write(folder.path().join(name), "").unwrap();
        }
        remove_others(folder.path(), "kernels-1-", "kernels-1-1").unwrap();
        let left = names.map(|name| folder.path().join(name).exists());
        assert_eq!(left, [true, false, false, true]);
    }

    #[test]
    fn what_is_kept_lies_in_the_nearest_target_folder() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("target");
        let out_dir = target.join("release/build/x/out");
        fs::create_dir_all(&out_dir).unwrap();
        assert_eq!(super::folder(&out_dir), out_dir.join("cuda_builder"));
        fs::write(target.join(TARGET_DIR_MARK), "").unwrap();
        assert_eq!(super::folder(&out_dir), target.join("cuda_builder"));
    }
}
