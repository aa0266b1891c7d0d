//! What the benchmarks that write records have in common.

use regemm::Dtype;
use std::path::Path;

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
