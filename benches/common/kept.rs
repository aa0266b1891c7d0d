//! Records of benchmarks in files.

use super::{Failure, Outcome};
use regemm_report::document::Document;
use regemm_report::pictures::{self, Drawing};
use regemm_report::{accuracy, ladder, versus};
use serde::Serialize;
use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What a benchmark leaves behind.
pub trait Record: Serialize + Sized {
    /// The benchmark that makes it and reads it again.
    const BENCHMARK: &'static str;
    /// Whether its picture is kept as a bitmap, too.
    const HAS_BITMAP: bool = true;

    /// The record that a document is, if it is one of this benchmark.
    fn of(document: Document) -> Option<Self>;

    /// The record as Markdown.
    fn page(&self) -> String;

    /// The record as a picture.
    fn picture(&self) -> Drawing<'_>;
}

macro_rules! record {
    ($record:ty, $benchmark:literal, $variant:ident, $picture:path $(, $bitmap:ident = $value:literal)?) => {
        impl Record for $record {
            const BENCHMARK: &'static str = $benchmark;
            $(const $bitmap: bool = $value;)?

            fn of(document: Document) -> Option<Self> {
                match document {
                    Document::$variant(record) => Some(record),
                    _ => None,
                }
            }

            fn page(&self) -> String {
                self.markdown()
            }

            fn picture(&self) -> Drawing<'_> {
                $picture(self)
            }
        }
    };
}

record!(ladder::Record, "ladder", Ladder, pictures::ladder, HAS_BITMAP = false);
record!(versus::Record, "gemm", Versus, pictures::versus);
record!(accuracy::Record, "accuracy", Accuracy, pictures::accuracy);

/// A record that is in a file.
///
/// # Errors
/// The file, and why it cannot be read, or what it is instead.
pub fn read<R: Record>(path: &Path) -> Result<R, String> {
    let failure = |why: &dyn Display| format!("{}: {why}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failure(&error))?;
    let document = Document::parse(&text).map_err(|error| failure(&error))?;
    let what = document.description();
    R::of(document)
        .ok_or_else(|| failure(&format!("is {what}, and none of the benchmark {}", R::BENCHMARK)))
}

/// Writes the numbers of a record.
///
/// # Errors
/// The file, and why it cannot be written.
pub fn write_numbers<R: Record>(path: &Path, record: &R) -> Outcome<PathBuf> {
    write(path, "json", serde_json::to_string_pretty(record)?)
}

/// Writes a record, its page and its picture, the numbers first, from which the rest can be made again. The files that
/// are there now, and what has failed.
pub fn write_all<R: Record>(path: &Path, record: &R, page: &str) -> (Vec<PathBuf>, Vec<Failure>) {
    let picture = record.picture();
    let mut outcomes = vec![write_numbers(path, record), write(path, "md", page)];
    outcomes.push(picture.svg().map_err(Into::into).and_then(|svg| write(path, "svg", svg)));
    if R::HAS_BITMAP {
        outcomes.push(picture.png().map_err(Into::into).and_then(|png| write(path, "png", png)));
    }
    let (mut written, mut failures) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Ok(path) => written.push(path),
            Err(error) => failures.push(error),
        }
    }
    (written, failures)
}

/// Writes one file of a record completely or not at all, in place of one that is there. The file's path.
///
/// # Errors
/// The file, and why it cannot be written.
pub fn write(path: &Path, ending: &str, content: impl AsRef<[u8]>) -> Outcome<PathBuf> {
    let path = path.with_added_extension(ending);
    let written = unfinished(&path).and_then(|mut file| {
        file.write_all(content.as_ref())?;
        file.persist(&path).map_err(|error| error.error)
    });
    match written {
        Ok(_) => Ok(path),
        Err(error) => Err(format!("{}: cannot be written: {error}", path.display()).into()),
    }
}

/// A file in the folder of another one, whose name it may take, with the permissions of any new file.
pub fn unfinished(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder.unwrap_or(Path::new(".")))
}
