//! The PTX modules that a build leaves behind, and the index by which a crate embeds them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// One PTX module: a kernel compiled for one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxModule {
    /// Name of its entry.
    pub entry: String,
    /// Architecture it is compiled for, as in `sm_80`.
    pub arch: String,
    /// The PTX file, an absolute path.
    pub path: PathBuf,
    /// Size of the file in bytes.
    pub bytes: usize,
}

/// All modules of a build: each kernel for each architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PtxModules {
    modules: Vec<PtxModule>,
    release: String,
}

impl PtxModules {
    /// No modules yet, to be made by this release of the compiler.
    pub(crate) fn made_by(release: &str) -> Self {
        PtxModules { modules: Vec::new(), release: release.to_owned() }
    }

    /// The release of rustc that made the modules, such as `1.96.0`. Another may make other PTX.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The modules, by architecture in the order asked for, then by kernel.
    pub fn iter(&self) -> std::slice::Iter<'_, PtxModule> {
        self.modules.iter()
    }

    /// Bytes of all modules together.
    pub fn total_bytes(&self) -> usize {
        self.modules.iter().map(|module| module.bytes).sum()
    }

    /// The Rust expression that embeds all modules: a reference to an array of
    /// `PtxModule { entry, arch, source }`, three string literals each, where `source` is `include_str!` of the file.
    ///
    /// The crate that includes it has to have a type of that name in scope.
    pub fn index(&self) -> String {
        let mut index = String::from("&[\n");
        for PtxModule { entry, arch, path, .. } in &self.modules {
            let path = path.to_string_lossy();
            writeln!(
                index,
                "    PtxModule {{ entry: {entry:?}, arch: {arch:?}, source: include_str!({path:?}) }},"
            )
            .expect("a string takes any text");
        }
        index.push(']');
        index
    }

    /// Writes [`index`](Self::index) to a file, to be embedded with
    /// `include!(concat!(env!("OUT_DIR"), "/ptx.rs"))`.
    ///
    /// # Errors
    /// [`Error::Io`] where the file cannot be written.
    pub fn write_index(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        write_if_changed(path.as_ref(), &self.index())
    }

    /// Writes the modules of one architecture to `folder` and adds them. Modules of an earlier build that are gone now
    /// are removed from the folder.
    pub(crate) fn add(
        &mut self,
        arch: &str,
        folder: &Path,
        split: &[(String, String)],
    ) -> Result<(), Error> {
        write_modules(folder, split)?;
        self.modules.extend(split.iter().map(|(entry, ptx)| PtxModule {
            entry: entry.clone(),
            arch: arch.to_string(),
            path: file(folder, entry),
            bytes: ptx.len(),
        }));
        Ok(())
    }
}

impl<'a> IntoIterator for &'a PtxModules {
    type Item = &'a PtxModule;
    type IntoIter = std::slice::Iter<'a, PtxModule>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

fn file(folder: &Path, entry: &str) -> PathBuf {
    folder.join(entry).with_extension("ptx")
}

/// Makes the PTX files of a folder exactly these modules.
pub(crate) fn write_modules(folder: &Path, split: &[(String, String)]) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
    for (entry, ptx) in split {
        write_if_changed(&file(folder, entry), ptx)?;
    }
    for old in std::fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = old.map_err(Error::io(folder))?.path();
        let stale = path.extension().is_some_and(|extension| extension == "ptx")
            && !split.iter().any(|(entry, _)| file(folder, entry) == path);
        if stale {
            std::fs::remove_file(&path).map_err(Error::io(&path))?;
        }
    }
    Ok(())
}

/// Writes a file unless it says so already: its time is what tells cargo that an embedded module has changed.
fn write_if_changed(path: &Path, text: &str) -> Result<(), Error> {
    match std::fs::read(path) {
        Ok(old) if old == text.as_bytes() => Ok(()),
        _ => std::fs::write(path, text).map_err(Error::io(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(names: &[&str]) -> Vec<(String, String)> {
        names.iter().map(|name| (name.to_string(), format!(".entry {name}() {{}}\n"))).collect()
    }

    #[test]
    fn the_index_is_the_promised_expression() {
        let folder = tempfile::tempdir().unwrap();
        let mut modules = PtxModules::default();
        modules.add("sm_80", &folder.path().join("sm_80"), &split(&["a", "b"])).unwrap();
        let index = folder.path().join("ptx.rs");
        modules.write_index(&index).unwrap();

        let path = folder.path().display();
        let expected = format!(
            "&[\n    PtxModule {{ entry: \"a\", arch: \"sm_80\", source: include_str!(\"{path}/sm_80/a.ptx\") }},\n    \
             PtxModule {{ entry: \"b\", arch: \"sm_80\", source: include_str!(\"{path}/sm_80/b.ptx\") }},\n]"
        );
        assert_eq!(std::fs::read_to_string(index).unwrap(), expected);
        assert_eq!(modules.total_bytes(), 2 * ".entry a() {}\n".len());
    }

    #[test]
    fn modules_that_are_gone_are_removed_and_unchanged_ones_not_written() {
        let folder = tempfile::tempdir().unwrap();
        write_modules(folder.path(), &split(&["a", "b"])).unwrap();
        let kept = folder.path().join("a.ptx");
        let written = std::fs::metadata(&kept).unwrap().modified().unwrap();
        std::fs::write(folder.path().join("notes.txt"), "not ours").unwrap();

        write_modules(folder.path(), &split(&["a"])).unwrap();
        assert!(!folder.path().join("b.ptx").exists());
        assert!(folder.path().join("notes.txt").exists());
        assert_eq!(std::fs::metadata(&kept).unwrap().modified().unwrap(), written);
    }
}
