//! Makes the sample matrices in `examples/data`: `cargo run --example make_sample`.
//!
//! A is 200 x 300, B 300 x 250, both normal; the bias has one element for each of the 250 columns. The seed is fixed, so
//! the files are always the same.

use npyz::WriterBuilder;
use regemm::verify::{Distribution, random_matrix, rng};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const SEED: u64 = 1;

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data");
    let mut rng = rng(SEED, 0);
    for (name, rows, cols) in [("a", 200, 300), ("b", 300, 250), ("bias", 1, 250)] {
        let matrix = random_matrix::<f32>(&mut rng, rows, cols, Distribution::Normal);
        // The bias is a vector.
        let shape: &[u64] = if rows == 1 { &[cols as u64] } else { &[rows as u64, cols as u64] };
        let mut file = BufWriter::new(File::create(folder.join(name).with_extension("npy"))?);
        let options = npyz::WriteOptions::new().default_dtype().shape(shape);
        let mut writer = options.writer(&mut file).begin_nd()?;
        writer.extend(matrix)?;
        writer.finish()?;
        file.flush()?;
    }
    Ok(())
}
