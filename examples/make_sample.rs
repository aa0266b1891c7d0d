//! Makes the sample matrices in `examples/data`: `cargo run --example make_sample`.
//!
//! A is 200 x 300, B 300 x 250, both normal; the bias has one element for each of the 250 columns. The seed is fixed,
//! so the files are always the same.

use npyz::WriterBuilder;
use regemm::verify::{Distribution, random_matrix, rng};
use std::io;
use std::path::PathBuf;

const SEED: u64 = 1;

fn main() -> io::Result<()> {
    samples()?.into_iter().try_for_each(|(path, bytes)| std::fs::write(path, bytes))
}

/// Each file and what is in it.
fn samples() -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/data");
    let mut rng = rng(SEED, 0);
    let mut files = Vec::new();
    for (name, rows, cols) in [("a", 200, 300), ("b", 300, 250), ("bias", 1, 250)] {
        let matrix = random_matrix::<f32>(&mut rng, rows, cols, Distribution::Normal);
        // The bias is a vector.
        let shape: &[u64] = if rows == 1 { &[cols as u64] } else { &[rows as u64, cols as u64] };
        let mut file = io::Cursor::new(Vec::new());
        let options = npyz::WriteOptions::new().default_dtype().shape(shape);
        let mut writer = options.writer(&mut file).begin_nd()?;
        writer.extend(matrix)?;
        writer.finish()?;
        files.push((folder.join(name).with_extension("npy"), file.into_inner()));
    }
    Ok(files)
}

#[test]
fn the_files_are_these() {
    for (path, bytes) in samples().unwrap() {
        assert!(std::fs::read(&path).unwrap() == bytes, "{} is another", path.display());
    }
}
