//! The file in the user's cache folder.
//!
//! One file a GPU, which holds tables of several drivers and versions of the kernels. Writers take turns by an advisory
//! lock on a file beside it, read what is there, add to it, and put a complete new file in its place in one step:
//! readers need no lock and always see a complete file.

use super::document::{Damage, Document, FORMAT, Stored};
use super::key::Key;
use super::table::Table;
use crate::device::info::DeviceInfo;
use crate::kernels::Types;
use regemm_kernels::layout::Layouts;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::NamedTempFile;

/// The environment variable that names the cache folder.
pub const FOLDER_VARIABLE: &str = "REGEMM_CACHE_DIR";

/// Tables of one GPU, element types and layouts that are kept: those of the drivers and kernels that were tuned last.
const KEPT: usize = 4;

/// What is appended to the name of a file that is damaged.
const DAMAGED: &str = "damaged";

/// Read and write for everybody, of which the process's umask takes away.
#[cfg(unix)]
const MODE: u32 = 0o666;

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// There is no place for it.
    #[error("there is no cache folder: set {FOLDER_VARIABLE} to one")]
    NoFolder,
    /// Its file cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// Its file can be read but holds something else.
    #[error("{} is ignored: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
    /// Its file cannot be written.
    #[error("{} cannot be written: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
}

/// A table in the cache.
#[derive(Clone, Debug)]
pub struct Cached {
    /// What its times depend on.
    pub key: Key,
    /// When it was changed last, in seconds since the beginning of 1970.
    pub changed: u64,
    /// The times.
    pub table: Table,
}

/// A file of the cache.
#[derive(Debug)]
pub struct CachedFile {
    /// Its path.
    pub path: PathBuf,
    /// The tables in it, or why it cannot be used.
    pub tables: Result<Vec<Cached>, CacheError>,
}

/// The cache of measured times.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The cache of the user who runs this process: in the folder that [`FOLDER_VARIABLE`] names, else in the folder
    /// `regemm` of the user's cache folder (`$XDG_CACHE_HOME`, else `~/.cache`, on Linux).
    ///
    /// # Errors
    /// [`CacheError::NoFolder`].
    pub fn of_user() -> Result<Cache, CacheError> {
        let named = std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
        let folder = match named {
            Some(folder) => PathBuf::from(folder),
            None => dirs::cache_dir().ok_or(CacheError::NoFolder)?.join("regemm"),
        };
        Ok(Cache::at(folder))
    }

    /// The cache in this folder, which need not exist.
    pub fn at(folder: impl Into<PathBuf>) -> Cache {
        Cache { folder: folder.into() }
    }

    /// The file that holds the tables of a GPU.
    pub fn file(&self, gpu: &str) -> PathBuf {
        self.folder.join(format!("{}{}", plain(gpu), suffix()))
    }

    /// The table for a key; none where there is none.
    ///
    /// # Errors
    /// [`CacheError::Read`], [`CacheError::Damaged`].
    pub fn load(&self, key: &Key) -> Result<Option<Table>, CacheError> {
        let document = read(&self.file(&key.gpu))?;
        let found = document.tables.into_iter().find(|stored| stored.key == *key);
        Ok(found.map(|stored| stored.table))
    }

    /// The tables of a device's own kernels for some element types, one for layouts.
    ///
    /// # Errors
    /// As for [`Cache::load`].
    pub fn load_all(&self, device: &DeviceInfo, types: Types) -> Result<Vec<Table>, CacheError> {
        let document = read(&self.file(&device.name))?;
        let of_types = document.tables.into_iter().filter(|stored| stored.key.types == types);
        let of_types = Vec::from_iter(of_types);
        let own = |layouts: Layouts| {
            let mut of_layouts = of_types.iter().filter(|it| it.key.layouts == layouts).peekable();
            // A key takes the PTX of all kernels, for which nobody waits without need.
            of_layouts.peek()?;
            let key = Key::of(device, types, layouts);
            of_layouts.find(|stored| stored.key == key).map(|stored| stored.table.clone())
        };
        Ok(Layouts::ALL.into_iter().filter_map(own).collect())
    }

    /// Everything in the folder, file by file, ordered by name.
    ///
    /// # Errors
    /// [`CacheError::Read`] where the folder is there but cannot be read.
    pub fn contents(&self) -> Result<Vec<CachedFile>, CacheError> {
        let cached = |Stored { key, changed, table, .. }| Cached { key, changed, table };
        let contents = |path: PathBuf| {
            let document = read(&path);
            let tables = document.map(|it| it.tables.into_iter().map(cached).collect());
            CachedFile { path, tables }
        };
        Ok(self.files()?.into_iter().map(contents).collect())
    }

    /// The files of all GPUs.
    fn files(&self) -> Result<Vec<PathBuf>, CacheError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(CacheError::Read { path: self.folder.clone(), error }),
        };
        let ours = |path: &PathBuf| {
            path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.ends_with(&suffix()))
        };
        let mut files: Vec<_> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).filter(ours).collect();
        files.sort();
        Ok(files)
    }

    /// Makes the folder if there is none, and sees whether a table of a GPU could be added now: whoever is about to
    /// measure one should know before.
    ///
    /// # Errors
    /// As for [`Cache::merge`].
    pub fn prepare(&self, gpu: &str) -> Result<(), CacheError> {
        let path = self.file(gpu);
        let failure = |error| CacheError::Write { path: path.clone(), error };
        fs::create_dir_all(&self.folder).map_err(failure)?;
        let _lock = self.lock(gpu).map_err(failure)?;
        unfinished(&self.folder).map_err(failure)?;
        match read(&path) {
            // It is put aside once there is something for its place.
            Ok(_) | Err(CacheError::Damaged { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds a table to what is there, and gives the file. Tables of other keys stay as they are, with all that another
    /// version of this library has noted in them. A file that is damaged is put aside under another name, which a
    /// warning in the log gives.
    ///
    /// # Errors
    /// [`CacheError::Write`], and [`CacheError::Read`] where there is a file that cannot be read: it may be a good one.
    pub fn merge(&self, key: &Key, table: &Table) -> Result<PathBuf, CacheError> {
        let path = self.file(&key.gpu);
        let failure = |error| CacheError::Write { path: path.clone(), error };
        fs::create_dir_all(&self.folder).map_err(failure)?;
        let _lock = self.lock(&key.gpu).map_err(failure)?;
        let mut document = match read(&path) {
            Err(error @ CacheError::Damaged { .. }) => {
                let aside = path.with_added_extension(DAMAGED);
                fs::rename(&path, &aside).map_err(failure)?;
                log::warn!("tuning cache: {error}; it is {} now", aside.display());
                Document::default()
            }
            document => document?,
        };
        let changed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        match document.tables.iter_mut().find(|stored| stored.key == *key) {
            Some(stored) => stored.merge(table, changed),
            None => document.tables.push(Stored::new(key.clone(), changed, table.clone())),
        }
        forget_oldest(&mut document, key);
        write(&path, &document).map_err(failure)?;
        Ok(path)
    }

    /// Removes the tables of a GPU, or of all GPUs, and gives the files that were removed.
    ///
    /// # Errors
    /// [`CacheError::Write`], [`CacheError::Read`].
    pub fn clear(&self, gpu: Option<&str>) -> Result<Vec<PathBuf>, CacheError> {
        let candidates = match gpu {
            Some(gpu) => vec![self.file(gpu)],
            None => self.files()?,
        };
        let mut removed = Vec::new();
        for path in candidates.into_iter().filter(|path| path.exists()) {
            let failure = |error| CacheError::Write { path: path.clone(), error };
            // Who is about to add to the file has read it, and would put it back.
            let gpu =
                path.file_name().and_then(OsStr::to_str).and_then(|it| it.strip_suffix(&suffix()));
            let _lock = gpu.map(|gpu| self.lock(gpu)).transpose().map_err(failure)?;
            match fs::remove_file(&path) {
                Ok(()) => removed.push(path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failure(error)),
            }
        }
        Ok(removed)
    }

    /// Waits until no other process writes. The lock ends when the file is closed.
    fn lock(&self, gpu: &str) -> io::Result<File> {
        let path = self.folder.join(format!("{}{LOCK}", plain(gpu)));
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        if let Err(error) = uninterrupted(|| file.lock()) {
            // Some network file systems have no locks, or nobody who keeps them. A writer may then undo what another
            // adds in the same moment, but the file is complete even so.
            log::debug!("tuning cache: written without a lock: {error}");
        }
        Ok(file)
    }
}

/// Ending of the names of the files that writers lock.
const LOCK: &str = ".lock";

/// The outcome of a wait that no signal has cut short.
fn uninterrupted(mut wait: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match wait() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Ending of the files' names. The form's number is in it, so that versions of this library with different forms do not
/// take each other's files for damaged.
fn suffix() -> String {
    format!(".v{FORMAT}.json")
}

/// A GPU's name as part of a file's name: `nvidia-h200`.
fn plain(gpu: &str) -> String {
    let lower = gpu.to_lowercase();
    let words: Vec<_> =
        lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// The document in a file; an empty one where there is no file.
fn read(path: &Path) -> Result<Document, CacheError> {
    match fs::read(path) {
        Ok(bytes) => Document::decode(&String::from_utf8_lossy(&bytes))
            .map_err(|damage| CacheError::Damaged { path: path.to_owned(), damage }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Document::default()),
        Err(error) => Err(CacheError::Read { path: path.to_owned(), error }),
    }
}

/// Puts a complete new file in the place of the old one.
fn write(path: &Path, document: &Document) -> io::Result<()> {
    let mut unfinished = unfinished(path.parent().unwrap_or(Path::new(".")))?;
    unfinished.write_all(document.encode()?.as_bytes())?;
    unfinished.as_file().sync_all()?;
    unfinished.persist(path)?;
    Ok(())
}

/// A new file in the folder, which is removed unless it takes another's place.
fn unfinished(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".regemm-").suffix(".unfinished");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(MODE));
    builder.tempfile_in(folder)
}

/// Drops the tables of the key's GPU, element types and layouts that were changed longest ago.
fn forget_oldest(document: &mut Document, key: &Key) {
    let of = |key: &Key| (key.types, key.layouts);
    let alike = |stored: &Stored| stored.key.gpu == key.gpu && of(&stored.key) == of(key);
    let others = document.tables.iter().enumerate();
    let others = others.filter(|(_, stored)| alike(stored) && stored.key != *key);
    // Of those of the same second the ones that are listed last.
    let mut newest_first: Vec<(u64, usize)> =
        others.map(|(place, stored)| (stored.changed, place)).collect();
    newest_first.sort_unstable_by(|a, b| b.cmp(a));
    let forgotten = newest_first.get(KEPT - 1..).unwrap_or_default();
    let mut place = 0;
    document.tables.retain(|_| {
        place += 1;
        !forgotten.iter().any(|&(_, other)| other == place - 1)
    });
}

#[cfg(test)]
mod tests;
