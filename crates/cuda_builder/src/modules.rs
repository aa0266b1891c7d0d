//! The PTX modules that a build leaves behind, and the index by which a crate embeds them.
//!
//! PTX is wordy, and a program that embeds hundreds of modules uses a few of them: what is embedded is packed, to a
//! fifth.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use crate::error::Error;
use crate::parallel;

/// How hard PTX is packed, of 10. More takes twice the time for a hundredth of the bytes.
const EFFORT: u8 = 6;

/// What the names of modules end in.
pub(crate) const PLAIN: &str = ".ptx";

/// What the names of packed modules end in.
const PACKED: &str = ".ptx.zz";

/// One PTX module: a kernel compiled for one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxModule {
    /// Name of its entry.
    pub entry: String,
    /// Architecture it is compiled for, as in `sm_80`.
    pub arch: String,
    /// Version of the PTX ISA that it is written in: major, minor.
    pub isa: (u32, u32),
    /// The PTX file, an absolute path.
    pub path: PathBuf,
    /// Size of the file in bytes.
    pub bytes: usize,
    /// The same file in the zlib format (RFC 1950), an absolute path.
    pub packed: PathBuf,
    /// Size of the packed file in bytes.
    pub packed_bytes: usize,
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

    /// Bytes of the PTX of all modules together.
    pub fn total_bytes(&self) -> usize {
        self.modules.iter().map(|module| module.bytes).sum()
    }

    /// Bytes that all modules together take where they are embedded.
    pub fn packed_bytes(&self) -> usize {
        self.modules.iter().map(|module| module.packed_bytes).sum()
    }

    /// The Rust expression that embeds all modules: a reference to an array of `PtxModule { entry, arch, isa, packed
    /// }`. The first two are string literals, `isa` is a pair of integers, and `packed` is `include_bytes!` of the
    /// packed file: the PTX in the zlib format (RFC 1950).
    ///
    /// The crate that includes it has to have a type of that name in scope.
    pub fn index(&self) -> String {
        self.index_with(PathBuf::clone)
    }

    /// The index, with the packed files named so.
    fn index_with(&self, name: impl Fn(&PathBuf) -> PathBuf) -> String {
        let mut index = String::from("&[\n");
        for PtxModule { entry, arch, isa, packed, .. } in &self.modules {
            let packed = name(packed);
            let packed = packed.to_string_lossy();
            writeln!(
                index,
                "    PtxModule {{ entry: {entry:?}, arch: {arch:?}, isa: {isa:?}, packed: include_bytes!({packed:?}) }},"
            )
            .expect("a string takes any text");
        }
        index.push(']');
        index
    }

    /// Writes [`index`](Self::index) to a file, to be embedded with
    /// `include!(concat!(env!("OUT_DIR"), "/ptx.rs"))`.
    ///
    /// It names modules that lie below its folder, or as itself in `OUT_DIR`, as they lie from there: cargo does not
    /// run a build script again where its target folder was moved.
    ///
    /// # Errors
    /// [`Error::Io`] where the file cannot be written.
    pub fn write_index(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = std::path::absolute(&path).map_err(Error::io(path.as_ref()))?;
        let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
        let folder = path.parent().unwrap_or(&path);
        let index = self.index_with(|packed| named_from(folder, packed, out_dir.as_deref()));
        write_if_changed(&path, &index)
    }

    /// Writes the modules of one architecture to `folder`, packed as well, and adds them. Modules of an earlier build
    /// that are gone now are removed from the folder.
    pub(crate) fn add(
        &mut self,
        arch: &str,
        folder: &Path,
        split: &[(String, String)],
    ) -> Result<(), Error> {
        write_modules(folder, split, &[PLAIN, PACKED])?;
        // Takes seconds where the build script is not optimised.
        let packed_bytes =
            parallel::map(split, |(entry, ptx)| pack(ptx, &file(folder, entry, PACKED)));
        for ((entry, ptx), packed_bytes) in split.iter().zip(packed_bytes) {
            self.modules.push(PtxModule {
                entry: entry.clone(),
                arch: arch.to_string(),
                isa: isa(ptx)?,
                bytes: ptx.len(),
                packed_bytes: packed_bytes?,
                path: file(folder, entry, PLAIN),
                packed: file(folder, entry, PACKED),
            });
        }
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

/// A file as `include_bytes!` in a file of a folder may name it: by the way from there, if it lies below or both lie in
/// `out_dir`.
fn named_from(folder: &Path, file: &Path, out_dir: Option<&Path>) -> PathBuf {
    let way = |base: &Path| {
        let up = folder.strip_prefix(base).ok()?.components().map(|_| "..");
        Some(up.collect::<PathBuf>().join(file.strip_prefix(base).ok()?))
    };
    way(folder).or_else(|| way(out_dir?)).unwrap_or_else(|| file.to_path_buf())
}

/// The file of a kernel whose name ends so.
fn file(folder: &Path, entry: &str, ending: &str) -> PathBuf {
    folder.join(format!("{entry}{ending}"))
}

/// The version of the `.version` directive, which comes before anything but comments.
fn isa(ptx: &str) -> Result<(u32, u32), Error> {
    let version = |line: &str| {
        let (major, minor) = line.trim().strip_prefix(".version")?.trim().split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    let missing = || Error::Ptx { line: 1, problem: "no directive tells its `.version`".into() };
    ptx.lines().find_map(version).ok_or_else(missing)
}

/// Writes a module packed and gives the bytes it takes. A file that already unpacks to it stays: its time is what tells
/// cargo that an embedded module has changed, and packing takes longer than looking.
fn pack(ptx: &str, path: &Path) -> Result<usize, Error> {
    if let Ok(old) = std::fs::read(path)
        && decompress_to_vec_zlib_with_limit(&old, ptx.len())
            .is_ok_and(|text| text == ptx.as_bytes())
    {
        return Ok(old.len());
    }
    let packed = compress_to_vec_zlib(ptx.as_bytes(), EFFORT);
    std::fs::write(path, &packed).map_err(Error::io(path))?;
    Ok(packed.len())
}

/// Makes the PTX files of a folder exactly these modules. Of files with these endings those of others are removed.
pub(crate) fn write_modules(
    folder: &Path,
    split: &[(String, String)],
    endings: &[&str],
) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
    for (entry, ptx) in split {
        write_if_changed(&file(folder, entry, PLAIN), ptx)?;
    }
    for old in std::fs::read_dir(folder).map_err(Error::io(folder))? {
        let old = old.map_err(Error::io(folder))?;
        let name = old.file_name();
        let name = name.to_string_lossy();
        let Some(entry) = endings.iter().find_map(|ending| name.strip_suffix(ending)) else {
            continue;
        };
        if !split.iter().any(|(current, _)| current == entry) {
            std::fs::remove_file(old.path()).map_err(Error::io(&old.path()))?;
        }
    }
    Ok(())
}

/// Writes a file unless it says so already: its time is what tells cargo that it has changed.
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
        let module =
            |name: &&str| format!("//\n.version 7.1\n.target sm_80\n.entry {name}() {{}}\n");
        names.iter().map(|name| (name.to_string(), module(name))).collect()
    }

    /// The modules of these kernels, written to a folder.
    fn written(folder: &Path, names: &[&str]) -> PtxModules {
        let mut modules = PtxModules::default();
        modules.add("sm_80", folder, &split(names)).unwrap();
        modules
    }

    #[test]
    fn the_index_is_the_promised_expression() {
        let folder = tempfile::tempdir().unwrap();
        let modules = written(&folder.path().join("sm_80"), &["a", "b"]);
        let index = folder.path().join("ptx.rs");
        modules.write_index(&index).unwrap();

        let promised = |path: &str| {
            format!(
                "&[\n    PtxModule {{ entry: \"a\", arch: \"sm_80\", isa: (7, 1), packed: include_bytes!(\"{path}sm_80/a.ptx.zz\") }},\n    \
                 PtxModule {{ entry: \"b\", arch: \"sm_80\", isa: (7, 1), packed: include_bytes!(\"{path}sm_80/b.ptx.zz\") }},\n]"
            )
        };
        let expected = promised(&format!("{}/", folder.path().display()));
        assert_eq!(modules.index(), expected);
        // A file of it finds what lies below it, wherever both are taken.
        assert_eq!(std::fs::read_to_string(index).unwrap(), promised(""));
        let elsewhere = folder.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        modules.write_index(elsewhere.join("ptx.rs")).unwrap();
        assert_eq!(std::fs::read_to_string(elsewhere.join("ptx.rs")).unwrap(), expected);
    }

    #[test]
    fn files_are_named_from_a_folder_if_both_are_taken_together() {
        let out_dir = Some(Path::new("/target/out"));
        let named = |file: &str, folder: &str| {
            let name = named_from(Path::new(folder), Path::new(file), out_dir);
            name.to_string_lossy().into_owned()
        };
        assert_eq!(named("/target/out/ptx/a", "/target/out"), "ptx/a");
        assert_eq!(named("/target/out/ptx/a", "/target/out/x/y"), "../../ptx/a");
        assert_eq!(named("/else/ptx/a", "/else"), "ptx/a");
        assert_eq!(named("/else/ptx/a", "/target/out"), "/else/ptx/a");
        assert_eq!(named("/target/out/ptx/a", "/else"), "/target/out/ptx/a");
    }

    #[test]
    fn packed_files_hold_the_modules_and_are_as_large_as_said() {
        let folder = tempfile::tempdir().unwrap();
        let modules = written(folder.path(), &["a", "b"]);
        let mut bytes = (0, 0);
        for (module, (_, ptx)) in modules.iter().zip(split(&["a", "b"])) {
            let packed = std::fs::read(&module.packed).unwrap();
            bytes = (bytes.0 + ptx.len(), bytes.1 + packed.len());
            let text = decompress_to_vec_zlib_with_limit(&packed, ptx.len()).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), ptx);
            assert_eq!(std::fs::read_to_string(&module.path).unwrap(), ptx);
        }
        assert_eq!((modules.total_bytes(), modules.packed_bytes()), bytes);
    }

    #[test]
    fn a_packed_file_is_written_anew_only_where_it_holds_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let packed = written(folder.path(), &["a"]).modules.remove(0).packed;
        let good = std::fs::read(&packed).unwrap();
        let time = || std::fs::metadata(&packed).unwrap().modified().unwrap();
        let before = time();
        written(folder.path(), &["a"]);
        assert_eq!(time(), before);
        // Cut off, as a build that was ended leaves it, and of another text.
        for other in [good[..good.len() / 2].to_vec(), compress_to_vec_zlib(b"other", EFFORT)] {
            std::fs::write(&packed, other).unwrap();
            written(folder.path(), &["a"]);
            assert_eq!(std::fs::read(&packed).unwrap(), good);
        }
    }

    #[test]
    fn a_module_without_a_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let unversioned = [("a".to_owned(), ".target sm_80\n.entry a() {}\n".to_owned())];
        let error = PtxModules::default().add("sm_80", folder.path(), &unversioned).unwrap_err();
        assert!(error.to_string().contains("`.version`"), "{error}");
    }

    #[test]
    fn modules_that_are_gone_are_removed_and_unchanged_ones_not_written() {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), &["a", "b"]);
        let kept = folder.path().join("a.ptx");
        let time = || std::fs::metadata(&kept).unwrap().modified().unwrap();
        let before = time();
        for other in ["notes.txt", "mine.zz"] {
            std::fs::write(folder.path().join(other), "not ours").unwrap();
        }
        written(folder.path(), &["a"]);
        let names = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["a.ptx", "a.ptx.zz", "mine.zz", "notes.txt"]);
        assert_eq!(time(), before);
    }

    /// A folder of the user may hold packed files of his own.
    #[test]
    fn of_copies_only_ptx_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        for old in ["old.ptx", "old.ptx.zz"] {
            std::fs::write(folder.path().join(old), "").unwrap();
        }
        write_modules(folder.path(), &split(&["a"]), &[PLAIN]).unwrap();
        let left = ["a.ptx", "old.ptx", "old.ptx.zz"].map(|name| folder.path().join(name).exists());
        assert_eq!(left, [true, false, true]);
    }
}
