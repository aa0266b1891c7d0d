//! What the benchmarks that write records have in common.

use clap::Args;
use regemm::{Device, Dtype};
use regemm_report::provenance::Provenance;
use std::path::{Path, PathBuf};

/// What a record is made from and where it goes: arguments of every benchmark.
#[derive(Args)]
pub struct Recording {
    /// Seed of the operands
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Commit to name in the record; asked of git unless given
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
    /// This moment, these sources and the device.
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

/// The element type of this name.
///
/// # Errors
/// All names, as text.
pub fn parse_dtype(name: &str) -> Result<Dtype, String> {
    let known = Dtype::ALL.into_iter().find(|dtype| dtype.name() == name);
    known.ok_or_else(|| format!("expected one of {}", Dtype::ALL.map(Dtype::name).join(", ")))
}

/// Writes one file of a record, and says so.
pub fn write(path: &Path, ending: &str, content: impl AsRef<[u8]>) -> std::io::Result<()> {
    let path = path.with_added_extension(ending);
    std::fs::write(&path, content)?;
    println!("wrote {}", path.display());
    Ok(())
}
