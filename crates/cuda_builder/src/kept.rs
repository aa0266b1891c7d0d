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

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use crate::compile::{Compiled, KernelCrate, compile};
use crate::error::Error;
use crate::toolchain::Toolchain;

/// What cargo writes to a target folder that it makes.
const TARGET_DIR_MARK: &str = "CACHEDIR.TAG";

/// How kernels are compiled and joined: PTX that was made otherwise is other PTX.
const HOW: [&str; 5] = [
    include_str!("compile.rs"),
    include_str!("directives.rs"),
    include_str!("items.rs"),
    include_str!("messages.rs"),
    include_str!("units.rs"),
];

/// The versions of all that a crate depends on.
const LOCK_FILE: &str = "Cargo.lock";

/// The PTX of one architecture.
#[derive(Debug)]
pub struct Kept {
    /// The PTX text of all kernels.
    pub ptx: String,
    /// What it was made of.
    pub origin: Origin,
}

/// What PTX was made of, and what the compiler said of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Every file whose change makes it stale.
    pub files: Vec<PathBuf>,
    /// Every environment variable whose change does.
    pub variables: Vec<String>,
    /// The compiler's warnings.
    pub warnings: Vec<String>,
}

/// The folder for what is kept: in the target folder that `out_dir` lies in, in `out_dir` itself where there is none.
pub fn folder(out_dir: &Path) -> PathBuf {
    let target = out_dir.ancestors().find(|folder| folder.join(TARGET_DIR_MARK).is_file());
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
    let lock_path = target_dir.join("lock");
    let lock = File::create(&lock_path).map_err(Error::io(&lock_path))?;
    unless_unsupported(lock.lock()).map_err(Error::io(&lock_path))?;

    // Each crate has PTX of its own, and each way to compile it.
    let name = format!("kernels-{:016x}", hash(&(kernel_crate, toolchain, HOW)));
    let ptx_path = target_dir.join(&name).with_extension("ptx");
    let record_path = target_dir.join(&name).with_extension("inputs");
    let read = |path| fs::read_to_string(path).map_err(Error::io(path));
    if ptx_path.exists() && record_path.exists() {
        let origin = recorded(&read(&record_path)?);
        if let Some(origin) = origin.filter(|of| holds_all(&of.files, kernel_crate, toolchain)) {
            return Ok(Kept { ptx: read(&ptx_path)?, origin });
        }
        // Without it nothing is known of what the compiler is about to write.
        fs::remove_file(&record_path).map_err(Error::io(&record_path))?;
    }

    let begun = std::time::SystemTime::now();
    let Compiled { sources, variables, warnings } =
        compile(toolchain, kernel_crate, arch, target_dir, &ptx_path)?;
    let files = inputs(&sources, kernel_crate, toolchain);
    // What was written meanwhile may be another than what was compiled. Cargo itself writes the lock file.
    let unchanged = |path: &PathBuf| {
        let written = fs::metadata(path).and_then(|file| file.modified());
        path.ends_with(LOCK_FILE) || written.is_ok_and(|time| time < begun)
    };
    let is_unchanged = files.iter().all(unchanged);
    let origin = Origin { files, variables: variables.into_iter().collect(), warnings };
    if let Some(record) = is_unchanged.then(|| record(&origin)).flatten() {
        fs::write(&record_path, record).map_err(Error::io(&record_path))?;
    }
    Ok(Kept { ptx: read(&ptx_path)?, origin })
}

/// Whether a file is locked. Some file systems have no locks (a few of networks): there builds go on without, as those
/// of cargo do.
fn unless_unsupported(locked: io::Result<()>) -> io::Result<()> {
    match locked {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        other => other,
    }
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

/// What lines of a record begin with.
const FILE: &str = "file";
const VARIABLE: &str = "variable";
const WARNING: &str = "warning";

/// A line for each file with the hash of its contents, for each variable with that of its value, and for each warning;
/// none where one cannot be read or written down.
fn record(origin: &Origin) -> Option<String> {
    let Origin { files, variables, warnings } = origin;
    let file =
        |path: &PathBuf| Some((FILE, hash(&fs::read(path).ok()?), path.to_str()?.to_owned()));
    let variable = |name: &String| (VARIABLE, hash(&std::env::var_os(name)), name.clone());
    let warning = |text: &String| (WARNING, 0, text.clone());
    let of_files = files.iter().map(file).collect::<Option<Vec<_>>>()?;
    let others = variables.iter().map(variable).chain(warnings.iter().map(warning));
    let line = |(kind, hash, text): (&str, u64, String)| {
        (!text.contains('\n')).then(|| format!("{kind} {hash:016x} {text}\n"))
    };
    of_files.into_iter().chain(others).map(line).collect()
}

/// What a record tells, if it is still true.
fn recorded(record: &str) -> Option<Origin> {
    let mut origin = Origin::default();
    for line in record.lines() {
        let (kind, rest) = line.split_once(' ')?;
        let text = rest.split_once(' ')?.1.to_owned();
        match kind {
            FILE => origin.files.push(text.into()),
            VARIABLE => origin.variables.push(text),
            WARNING => origin.warnings.push(text),
            _ => return None,
        }
    }
    (self::record(&origin)? == record).then_some(origin)
}

/// The same for the same value in all runs of a program. Where another compiler's differ, everything is compiled once
/// more.
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
        let origin = Origin {
            files: files.to_vec(),
            variables: vec!["PATH".into(), "NOBODY_SETS_THIS".into()],
            warnings: vec!["src/lib.rs:1:1: a warning".into()],
        };
        let written = record(&origin).unwrap();
        assert_eq!(recorded(&written).unwrap(), origin);
        fs::write(&files[0], "two").unwrap();
        assert_eq!(recorded(&written), None);
        fs::write(&files[0], "one").unwrap();
        assert_eq!(recorded(&written).unwrap(), origin, "the contents count, not the time");
        for (old, new) in [("PATH", "HOME"), ("NOBODY_SETS_THIS", "PATH")] {
            assert_eq!(recorded(&written.replace(old, new)), None, "another value");
        }
        fs::remove_file(&files[1]).unwrap();
        assert_eq!(recorded(&written), None);
        assert_eq!(record(&origin), None);
        assert_eq!(recorded("no record"), None);
    }

    #[test]
    fn a_file_system_without_locks_stops_nobody() {
        assert!(unless_unsupported(Ok(())).is_ok());
        assert!(unless_unsupported(Err(io::ErrorKind::Unsupported.into())).is_ok());
        assert!(unless_unsupported(Err(io::ErrorKind::PermissionDenied.into())).is_err());
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
