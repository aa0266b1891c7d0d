//! The record of what PTX was made of, by which it is known later whether it is still what the compiler would make.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The versions of all that a crate depends on.
pub const LOCK_FILE: &str = "Cargo.lock";

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

/// What lines of a record begin with.
const PTX: &str = "ptx";
const FILE: &str = "file";
const VARIABLE: &str = "variable";
const WARNING: &str = "warning";

/// A line for the PTX with the hash of its text and its length, for each file with the hash of its contents, for each
/// variable with that of its value, and for each warning; or why there is none.
pub fn of(origin: &Origin, ptx: &str) -> Result<String, String> {
    let Origin { files, variables, warnings } = origin;
    let mut record = String::new();
    let mut add = |kind: &str, hash: u64, text: &str| {
        if text.contains('\n') {
            return Err(format!("there is a line break in {text:?}"));
        }
        record += &format!("{kind} {hash:016x} {text}\n");
        Ok(())
    };
    // The text may be damaged after this, as by a power failure.
    add(PTX, hash(ptx), &ptx.len().to_string())?;
    for path in files {
        let contents = contents(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let name = path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
        add(FILE, contents, name)?;
    }
    for name in variables {
        add(VARIABLE, hash(&std::env::var_os(name)), name)?;
    }
    for text in warnings {
        add(WARNING, 0, text)?;
    }
    Ok(record)
}

/// What a record of this PTX tells, if it is still true.
pub fn true_one(record: &str, ptx: &str) -> Option<Origin> {
    let mut origin = Origin::default();
    for line in record.lines() {
        let (kind, rest) = line.split_once(' ')?;
        let text = rest.split_once(' ')?.1.to_owned();
        match kind {
            PTX => {}
            FILE => origin.files.push(text.into()),
            VARIABLE => origin.variables.push(text),
            WARNING => origin.warnings.push(text),
            _ => return None,
        }
    }
    (of(&origin, ptx).ok()? == record).then_some(origin)
}

/// The same for the same value in all runs of a program. Where another compiler's differ, everything is compiled once
/// more.
pub fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The hash of a file's bytes; of a folder that of the names and bytes of all files in it.
fn contents(path: &Path) -> io::Result<u64> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(hash(&fs::read(path)?));
    }
    let mut inside = Vec::new();
    for below in entries(path)? {
        inside.push((below.file_name().map(ToOwned::to_owned), contents_below(&below)?));
    }
    Ok(hash(&inside))
}

/// The same for what lies in a folder, where links to folders are not followed: they may lead above it.
fn contents_below(path: &Path) -> io::Result<u64> {
    if is_link_to_folder(path)? { Ok(hash(&fs::read_link(path)?)) } else { contents(path) }
}

/// When a file was last changed, or the newest in a folder.
pub fn changed(path: &Path) -> io::Result<SystemTime> {
    let metadata = fs::metadata(path)?;
    let mut newest = changed_itself(&metadata)?;
    if metadata.is_dir() {
        // The time of a folder tells that something has come or gone. Cargo's lock file has, while it runs.
        if path.join(LOCK_FILE).exists() {
            newest = SystemTime::UNIX_EPOCH;
        }
        for below in entries(path)? {
            if !below.ends_with(LOCK_FILE) && !is_link_to_folder(&below)? {
                newest = newest.max(changed(&below)?);
            }
        }
    }
    Ok(newest)
}

/// The later of the times at which something was written, which anybody may set, and at which it came to be here.
fn changed_itself(metadata: &fs::Metadata) -> io::Result<SystemTime> {
    let written = metadata.modified()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let seconds = u64::try_from(metadata.ctime()).unwrap_or_default();
        let nanoseconds = u32::try_from(metadata.ctime_nsec()).unwrap_or_default();
        let here = std::time::Duration::new(seconds, nanoseconds);
        Ok(written.max(SystemTime::UNIX_EPOCH + here))
    }
    #[cfg(not(unix))]
    Ok(written)
}

/// What lies in a folder, in order.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

fn is_link_to_folder(path: &Path) -> io::Result<bool> {
    Ok(fs::symlink_metadata(path)?.is_symlink() && path.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
        let written = of(&origin, "ptx").unwrap();
        let recorded = |record: &str| true_one(record, "ptx");
        assert_eq!(recorded(&written).unwrap(), origin);
        fs::write(&files[0], "two").unwrap();
        assert_eq!(recorded(&written), None);
        fs::write(&files[0], "one").unwrap();
        assert_eq!(recorded(&written).unwrap(), origin, "the contents count, not the time");
        for (old, new) in [("PATH", "HOME"), ("NOBODY_SETS_THIS", "PATH")] {
            assert_eq!(recorded(&written.replace(old, new)), None, "another value");
        }
        for ptx in ["", "pt", "ptx2", "ptz"] {
            assert_eq!(true_one(&written, ptx), None, "other PTX");
        }
        fs::remove_file(&files[1]).unwrap();
        assert_eq!(recorded(&written), None);
        assert!(of(&origin, "ptx").unwrap_err().contains("c.rs cannot be read"));
        assert_eq!(recorded("no record"), None);
        assert_eq!(recorded(""), None);
    }

    #[test]
    fn of_a_folder_all_files_count() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/a");
        fs::create_dir(folder.path().join("deep")).unwrap();
        fs::write(&file, "one").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(folder.path(), folder.path().join("deep/above")).unwrap();
        let contents = || contents(folder.path()).unwrap();
        let first = contents();
        fs::write(&file, "two").unwrap();
        assert_ne!(contents(), first);
        fs::rename(&file, folder.path().join("deep/b")).unwrap();
        fs::write(folder.path().join("deep/b"), "one").unwrap();
        assert_ne!(contents(), first, "another name");
        fs::rename(folder.path().join("deep/b"), &file).unwrap();
        assert_eq!(contents(), first);
        fs::write(folder.path().join("new"), "").unwrap();
        assert_ne!(contents(), first);
    }

    #[test]
    fn a_lock_file_that_cargo_writes_does_not_change_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        fs::write(folder.path().join(LOCK_FILE), "").unwrap();
        let before = changed(folder.path()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        fs::remove_file(folder.path().join(LOCK_FILE)).unwrap();
        fs::write(folder.path().join(LOCK_FILE), "new").unwrap();
        assert_eq!(changed(folder.path()).unwrap(), before);
        fs::write(folder.path().join("a"), "new").unwrap();
        assert!(changed(folder.path()).unwrap() > before);
    }

    /// As `cp -p` and `mv` leave it.
    #[cfg(unix)]
    #[test]
    fn a_file_that_comes_with_an_old_time_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "").unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(1000);
        fs::File::options().write(true).open(&file).unwrap().set_modified(long_ago).unwrap();
        assert!(changed(&file).unwrap() > long_ago + Duration::from_secs(500));
    }
}
