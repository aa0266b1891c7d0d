//! Compiles the kernels to PTX for every architecture and writes the index that the library embeds; with the feature
//! `sweep` the kernels of the parameter sweep as well.

use cuda_builder::CudaBuilder;
use std::path::PathBuf;

type Result = std::result::Result<(), Box<dyn std::error::Error>>;

/// What the kernels are compiled for: Turing and later, Ampere and later, Hopper alone.
const ARCHS: [&str; 3] = ["sm_75", "sm_80", "sm_90a"];

/// What the kernels of the parameter sweep are compiled for: nothing in them is for Hopper alone.
const SWEEP_ARCHS: [&str; 2] = ["sm_75", "sm_80"];

/// LLVM's limit for unrolling a loop completely. Thread tiles of 8 x 16 exceed its default, and what is not unrolled
/// indexes the sums, which then lie in local memory.
const SWEEP_UNROLLING: &str = "-unroll-threshold=700";

fn main() -> Result {
    let out_dir = PathBuf::from(std::env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=build.rs");
    let mut crates = vec![(CudaBuilder::new("kernels-gpu").archs(ARCHS), out_dir.clone())];
    if std::env::var_os("CARGO_FEATURE_SWEEP").is_some() {
        // In a folder of its own, for each of the two has an index of the same name.
        let folder = out_dir.join("sweep");
        let kernels = CudaBuilder::new("kernels-sweep").archs(SWEEP_ARCHS).out_dir(&folder);
        crates.push((kernels.llvm_args([SWEEP_UNROLLING]), folder));
    }
    let (builders, folders): (Vec<_>, Vec<_>) = crates.into_iter().unzip();
    for (modules, folder) in cuda_builder::build_all(builders)?.iter().zip(folders) {
        modules.write_index(folder.join("ptx.rs"))?;
        println!("cargo:rustc-env=REGEMM_PTX_COMPILER=rustc {}", modules.release());
    }
    Ok(())
}
