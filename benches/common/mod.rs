//! What the benchmarks that write records have in common.

use clap::Args;
use regemm::{Device, Dtype};
use regemm_report::provenance::Provenance;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What a record is made from and where it goes: arguments of every benchmark.
#[derive(Args)]
pub struct Recording {
    /// Seed of the operands
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Commit to name in the record; unless given the one that the sources are at now, as git says
    #[arg(long)]
    commit: Option<String>,

    /// Write the record to this path, with an ending for the numbers, the tables and each format of the picture
    #[arg(long)]
    pub record: Option<PathBuf>,

    /// Read the numbers from a record instead of measuring
    #[arg(long)]
    pub from: Option<PathBuf>,

    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

impl Recording {
    /// Whether the record will have a place, which is better known before than after all the measuring.
    ///
    /// # Errors
    /// The record, and why none can be written there.
    pub fn check_place(&self) -> Result<(), String> {
        let Some(path) = &self.record else { return Ok(()) };
        let failure = |error| format!("{}: cannot be written: {error}", path.display());
        unfinished(path).map(drop).map_err(failure)
    }

    /// This moment, the sources as they are now and the device.
    pub fn provenance(&self, device: &Device) -> Provenance {
        let info = device.info();
        let mut provenance =
            Provenance::gather(&info.name, info.multiprocessors, info.compute_capability);
        if let Some(commit) = &self.commit {
            provenance.commit = Some(commit.clone());
        }
        provenance
    }
}

/// A record that is in a file.
///
/// # Errors
/// The file, and why it cannot be read.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let failure = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failure(&error))?;
    serde_json::from_str(&text).map_err(|error| failure(&error))
}

/// The element type of this name.
///
/// # Errors
/// All names, as text.
pub fn parse_dtype(name: &str) -> Result<Dtype, String> {
    let known = Dtype::ALL.into_iter().find(|dtype| dtype.name() == name);
    known.ok_or_else(|| format!("expected one of {}", Dtype::ALL.map(Dtype::name).join(", ")))
}

/// Writes one file of a record completely or not at all, in place of one that is there, and says so.
///
/// # Errors
/// The file, and why it cannot be written.
pub fn write(path: &Path, ending: &str, content: impl AsRef<[u8]>) -> Result<(), String> {
    let path = path.with_added_extension(ending);
    let written = unfinished(&path).and_then(|mut file| {
        file.write_all(content.as_ref())?;
        file.persist(&path).map_err(|error| error.error)
    });
    written.map_err(|error| format!("{}: cannot be written: {error}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}

/// A file in the folder of another one, whose name it may take, with the permissions of any new file.
fn unfinished(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder.unwrap_or(Path::new(".")))
}
