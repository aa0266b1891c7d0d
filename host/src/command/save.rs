//! Writes files: completely or not at all.
//!
//! What is written goes to a temporary file in the output's own folder, which takes the output's name in one step once
//! all of it is on the disk. Whatever happens before leaves the old file, or none.

use super::exit::Failure;
use super::interrupt::{self, Unfinished};
use super::load::Stored;
use ndarray::ArrayD;
use npyz::WriterBuilder;
use regemm::Element;
use regemm_report::pictures::PictureError;
use serde::Serialize;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Where a result will go: made before the work begins, so that what is wrong with the place shows early.
pub struct Destination {
    /// As it was given.
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    /// A file that gets its name when it is complete.
    File {
        unfinished: NamedTempFile,
        /// Dropped after the file is gone, or has its name.
        remembered: Unfinished,
        /// The path behind symbolic links.
        target: PathBuf,
        overwrite: bool,
    },
    /// Something that is no file and is written to as it is: a device such as /dev/null, or a pipe.
    Special(File),
}

/// Read and write for everybody, of which the process's umask takes away.
#[cfg(unix)]
const MODE: u32 = 0o666;

impl Destination {
    /// Prepares to write to `path`. An existing file is refused unless `overwrite` is set; `inputs` are named in the
    /// refusal if it is one of them.
    pub fn new(path: &Path, overwrite: bool, inputs: &[&Path]) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Err(Failure::Usage(format!(
                "`-` names no file here: {NO_STANDARD_OUTPUT}, or ./- for a file of that name"
            )));
        }
        let failure = |problem: String| Failure::file(path, problem);
        let path = path.to_owned();
        let existing = match fs::metadata(&path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failure(format!("cannot be written: {error}"))),
        };
        if existing.as_ref().is_some_and(Metadata::is_dir) {
            return Err(failure("is a folder; name a file in it".into()));
        }
        if existing.as_ref().is_some_and(is_standard_output) {
            return Err(Failure::Usage(format!("{}: {NO_STANDARD_OUTPUT}", path.display())));
        }
        if existing.as_ref().is_some_and(|metadata| !metadata.is_file()) {
            let special = OpenOptions::new().write(true).open(&path);
            let special = special.map_err(|error| failure(cannot_write(&error)))?;
            return Ok(Destination { path, kind: Kind::Special(special) });
        }
        // A symbolic link stays one: the file behind it is replaced.
        let target = behind_links(&path);
        if existing.is_some() && !overwrite {
            let is_target =
                |input: &&&Path| fs::canonicalize(input).is_ok_and(|input| input == target);
            return Err(failure(match inputs.iter().find(is_target) {
                Some(_) => "is an input; name another output, or replace it with --force".into(),
                None => "exists; name another output, or replace it with --force".into(),
            }));
        }
        let folder = folder_of(&target);
        let (unfinished, remembered) = create_unfinished(folder).map_err(|error| {
            failure(match error.kind() {
                // Some folders refuse new files as if they were not there themselves.
                io::ErrorKind::NotFound if !folder.exists() => {
                    format!("its folder {} does not exist; create it first", folder.display())
                }
                _ => format!("cannot create a file in {}: {error}", folder.display()),
            })
        })?;
        if let Some(existing) = existing {
            // Only convenience: the new file is readable by whom the old one was.
            let _ = unfinished.as_file().set_permissions(existing.permissions());
        }
        Ok(Destination { path, kind: Kind::File { unfinished, remembered, target, overwrite } })
    }

    /// Prepares to write all files of a command that were named, which must be different ones.
    pub fn each<const N: usize>(
        paths: [&Option<PathBuf>; N],
        overwrite: bool,
    ) -> Result<[Option<Self>; N], Failure> {
        check_distinct(paths.into_iter().flatten().map(PathBuf::as_path))?;
        let mut destinations = [const { None }; N];
        for (destination, path) in destinations.iter_mut().zip(paths) {
            *destination =
                path.as_ref().map(|path| Destination::new(path, overwrite, &[])).transpose()?;
        }
        Ok(destinations)
    }

    /// Writes an array in C order, each element converted by `convert`, and finishes the file.
    pub fn save<T: Element, S: Stored>(
        self,
        array: &ArrayD<T>,
        convert: fn(T) -> S,
    ) -> Result<(), Failure> {
        self.fill(|file| write_array(file, array, convert))
    }

    /// Writes text and finishes the file.
    pub fn save_text(self, text: &str) -> Result<(), Failure> {
        self.fill(|file| file.write_all(text.as_bytes()))
    }

    /// Writes bytes and finishes the file.
    pub fn save_bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        self.fill(|file| file.write_all(bytes))
    }

    /// Draws a picture, as text or as bytes, and finishes the file.
    pub fn save_drawn(
        self,
        picture: Result<impl AsRef<[u8]>, PictureError>,
    ) -> Result<(), Failure> {
        let picture = picture.map_err(|error| Failure::file(&self.path, error))?;
        self.save_bytes(picture.as_ref())
    }

    /// Writes a JSON document and finishes the file.
    pub fn save_json(self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(document);
        let text = text.map_err(|error| Failure::file(&self.path, error))?;
        self.save_text(&format!("{text}\n"))
    }

    fn fill(self, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Failure> {
        let Destination { path, kind } = self;
        let failure = |error: io::Error| Failure::file(&path, cannot_write(&error));
        match kind {
            Kind::Special(mut file) => write(&mut file).map_err(failure),
            Kind::File { mut unfinished, remembered: _remembered, target, overwrite } => {
                let file = unfinished.as_file_mut();
                write(file).map_err(failure)?;
                file.sync_all().map_err(failure)?;
                let finished = interrupt::finish(|| {
                    if overwrite {
                        unfinished.persist(&target)
                    } else {
                        unfinished.persist_noclobber(&target)
                    }
                });
                finished.map_err(|error| match error.error.kind() {
                    io::ErrorKind::AlreadyExists => Failure::file(
                        &path,
                        "was created by someone else meanwhile; name another output, or replace \
                         it with --force",
                    ),
                    _ => failure(error.error),
                })?;
                sync_folder(&target);
                Ok(())
            }
        }
    }
}

fn create_unfinished(folder: &Path) -> io::Result<(NamedTempFile, Unfinished)> {
    let mut remembered = None;
    let mut builder = tempfile::Builder::new();
    let file = builder.prefix(".regemm-").suffix(".unfinished").make_in(folder, |path| {
        // Of several attempts the last one counts: before that the names were those of others' files.
        remembered = Some(Unfinished::new(path));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, MODE);
        options.open(path)
    })?;
    let path = file.path();
    let remembered = remembered.unwrap_or_else(|| Unfinished::new(path));
    Ok((file, remembered))
}

fn write_array<T: Element, S: Stored>(
    file: impl Write,
    array: &ArrayD<T>,
    convert: fn(T) -> S,
) -> io::Result<()> {
    let mut buffered = BufWriter::new(file);
    let shape: Vec<u64> = array.shape().iter().map(|&len| len as u64).collect();
    let options = npyz::WriteOptions::<S>::new().default_dtype().shape(&shape);
    let mut writer = options.writer(&mut buffered).begin_nd()?;
    writer.extend(array.iter().map(|&element| convert(element)))?;
    writer.finish()?;
    buffered.flush()
}

/// Refuses two names of one file among what a command is about to write: the later would replace the earlier. What is
/// no file, such as /dev/null, may be written twice.
pub fn check_distinct<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Result<(), Failure> {
    let mut known: Vec<(&Path, PathBuf)> = Vec::new();
    for path in paths {
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            continue;
        }
        let target = behind_links(path);
        if let Some((other, _)) = known.iter().find(|(_, known)| *known == target) {
            let (other, path) = (other.display(), path.display());
            return Err(Failure::Usage(format!(
                "{other} and {path} are one file for two outputs: name another one"
            )));
        }
        known.push((path, target));
    }
    Ok(())
}

/// Why no output goes to standard output, and what does the same.
const NO_STANDARD_OUTPUT: &str =
    "standard output takes what the command says; name a file, or a pipe that mkfifo makes";

/// Whether it is what standard output leads to, so that the two would be mixed or one replace the other. Devices that
/// keep nothing, such as /dev/null, may be both.
#[cfg(unix)]
fn is_standard_output(found: &Metadata) -> bool {
    use std::io::IsTerminal;
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let stdout = io::stdout();
    let opened = stdout.as_fd().try_clone_to_owned().and_then(|own| File::from(own).metadata());
    let is_same = |of: &Metadata| (of.dev(), of.ino()) == (found.dev(), found.ino());
    let keeps = !found.file_type().is_char_device() || stdout.is_terminal();
    keeps && opened.as_ref().is_ok_and(is_same)
}

#[cfg(not(unix))]
fn is_standard_output(_: &Metadata) -> bool {
    false
}

/// The one path of a file, whatever it is called by, and though it is not there yet; as it was given where it is in no
/// folder.
fn behind_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // A link may lead to another one. So many and it is a circle.
    for _ in 0..MOST_LINKS {
        if let Ok(existing) = fs::canonicalize(&path) {
            return existing;
        }
        let Ok(behind) = fs::read_link(&path) else { break };
        path = folder_of(&path).join(behind);
    }
    let in_folder = || Some(fs::canonicalize(folder_of(&path)).ok()?.join(path.file_name()?));
    in_folder().unwrap_or(path)
}

/// As many links as Linux follows.
const MOST_LINKS: usize = 40;

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Makes the new name as durable as the data. Not every file system can, and the file is complete without it.
fn sync_folder(target: &Path) {
    if let Ok(folder) = File::open(folder_of(target)) {
        let _ = folder.sync_all();
    }
}

fn cannot_write(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("cannot be written: {error}; free some space, nothing was kept of it")
        }
        io::ErrorKind::FileTooLarge => {
            format!("cannot be written: {error}; raise the limit (ulimit -f), nothing was kept")
        }
        _ => format!("cannot be written: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The options were right.
    #[test]
    fn a_picture_that_cannot_be_drawn_is_a_failure_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svg");
        let destination = Destination::new(&path, false, &[]).unwrap();
        let undrawn = Err::<String, _>(PictureError::Draw("a number is not finite".into()));
        let failure = destination.save_drawn(undrawn).unwrap_err();
        assert!(
            matches!(&failure, Failure::File { path: named, .. } if *named == path),
            "{failure}"
        );
        assert!(!path.exists());
    }
}
