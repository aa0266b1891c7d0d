//! What is kept between builds: the inner cargo's files, and PTX for as long as it is what the same compiler would make of the
//! same source.
//!
//! Cargo runs a build script anew for each set of features and each profile of its package, with a folder of its own. The kernels
//! are the same each time, and compiling them takes long, as does `core`, which is the same for all crates. So what is kept lies in
//! the target folder that all those builds share, by architecture.
//!
//! PTX is known by the contents of all files that it was made of, not by their times: the record beside it lists them. Cargo
//! itself would compile each time, because the library that it waits for is never linked.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::compile::{KernelCrate, compile};
use crate::error::Error;
use crate::toolchain::Toolchain;

/// What cargo writes to a target folder that it makes.
const TARGET_DIR_MARK: &str = "CACHEDIR.TAG";

/// How kernels are compiled: PTX that was made with other options is other PTX.
const HOW: [&str; 2] = [include_str!("compile.rs"), include_str!("units.rs")];

/// The versions of all that a crate depends on.
const LOCK_FILE: &str = "Cargo.lock";

/// The PTX of one architecture.
#[derive(Debug)]
pub struct Kept {
    /// The PTX text of all kernels.
    pub ptx: String,
    /// Every file whose change makes it stale.
    pub inputs: Vec<PathBuf>,
}

/// The folder for what is kept: in the target folder that `out_dir` lies in, in `out_dir` itself where there is none.
pub fn folder(out_dir: &Path) -> PathBuf {
    let target = out_dir.ancestors().find(|folder| folder.join(TARGET_DIR_MARK).is_file());
    target.unwrap_or(out_dir).join("cuda_builder")
}

/// The PTX for `arch`, compiled if there is none of this source. `target_dir` belongs to this architecture alone; builds that want
/// it at the same time wait for each other.
pub fn ptx(
    toolchain: &Toolchain,
    kernel_crate: &KernelCrate,
    arch: &str,
    target_dir: &Path,
) -> Result<Kept, Error> {
    fs::create_dir_all(target_dir).map_err(Error::io(target_dir))?;
    let lock_path = target_dir.join("lock");
    let lock = File::create(&lock_path).map_err(Error::io(&lock_path))?;
    lock.lock().map_err(Error::io(&lock_path))?;

    // Each crate has PTX of its own, and each way to compile it.
    let name = format!("kernels-{:016x}", hash(&(kernel_crate, toolchain, HOW)));
    let ptx_path = target_dir.join(&name).with_extension("ptx");
    let record_path = target_dir.join(&name).with_extension("inputs");
    let read = |path| fs::read_to_string(path).map_err(Error::io(path));
    if ptx_path.exists() && record_path.exists() {
        let inputs = recorded(&read(&record_path)?);
        if let Some(inputs) = inputs.filter(|inputs| holds_all(inputs, kernel_crate, toolchain)) {
            return Ok(Kept { ptx: read(&ptx_path)?, inputs });
        }
        // Without it nothing is known of what the compiler is about to write.
        fs::remove_file(&record_path).map_err(Error::io(&record_path))?;
    }

    let begun = std::time::SystemTime::now();
    let sources = compile(toolchain, kernel_crate, arch, target_dir, &ptx_path)?;
    let inputs = inputs(&sources, kernel_crate, toolchain);
    // What was written meanwhile may be another than what was compiled. Cargo itself writes the lock file.
    let unchanged = |path: &PathBuf| {
        let written = fs::metadata(path).and_then(|file| file.modified());
        path.ends_with(LOCK_FILE) || written.is_ok_and(|time| time < begun)
    };
    if let Some(record) = inputs.iter().all(unchanged).then(|| record(&inputs)).flatten() {
        fs::write(&record_path, record).map_err(Error::io(&record_path))?;
    }
    Ok(Kept { ptx: read(&ptx_path)?, inputs })
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

/// A line for each file with the hash of its contents; none where one cannot be read or written down.
fn record(inputs: &[PathBuf]) -> Option<String> {
    let line = |path: &PathBuf| {
        let name = path.to_str().filter(|name| !name.contains('\n'))?;
        Some(format!("{:016x} {name}\n", hash(&fs::read(path).ok()?)))
    };
    inputs.iter().map(line).collect()
}

/// The files of a record, if it is still true.
fn recorded(record: &str) -> Option<Vec<PathBuf>> {
    let path = |line: &str| Some(PathBuf::from(line.split_once(' ')?.1));
    let inputs: Vec<_> = record.lines().map(path).collect::<Option<_>>()?;
    (self::record(&inputs)? == record).then_some(inputs)
}

/// The same for the same value in all runs of a program. Where another compiler's differ, everything is compiled once more.
pub fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_true_until_a_file_changes_or_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let files = [folder.path().join("a b.rs"), folder.path().join("c.rs")];
        for file in &files {
            fs::write(file, "one").unwrap();
        }
        let written = record(&files).unwrap();
        assert_eq!(recorded(&written).unwrap(), files);
        fs::write(&files[0], "two").unwrap();
        assert_eq!(recorded(&written), None);
        fs::write(&files[0], "one").unwrap();
        assert_eq!(recorded(&written).unwrap(), files, "the contents count, not the time");
        fs::remove_file(&files[1]).unwrap();
        assert_eq!(recorded(&written), None);
        assert_eq!(record(&files), None);
        assert_eq!(recorded("no record"), None);
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
