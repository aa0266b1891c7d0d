//! Compiles the kernels to PTX for every architecture and writes the index that the library embeds; with the feature
//! `sweep` the kernels of the parameter sweep as well.

use cuda_builder::CudaBuilder;
use std::path::{Path, PathBuf};

type Result = std::result::Result<(), Box<dyn std::error::Error>>;

/// What the kernels are compiled for: Turing and later, Ampere and later, Hopper alone.
const ARCHS: [&str; 3] = ["sm_75", "sm_80", "sm_90a"];

/// What the kernels of the parameter sweep are compiled for: nothing in them is for Hopper alone.
const SWEEP_ARCHS: [&str; 2] = ["sm_75", "sm_80"];

/// LLVM's limit for unrolling a loop completely. Thread tiles of 8 x 16 exceed its default, and what is not unrolled indexes
/// the sums, which then lie in local memory.
const SWEEP_UNROLLING: &str = "-unroll-threshold=700";

fn main() -> Result {
    let out_dir = PathBuf::from(std::env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=build.rs");
    let modules = CudaBuilder::new("kernels-gpu").archs(ARCHS).build()?;
    modules.write_index(out_dir.join("ptx.rs"))?;
    println!("cargo:rustc-env=REGEMM_PTX_COMPILER=rustc {}", modules.release());
    if std::env::var_os("CARGO_FEATURE_SWEEP").is_some() {
        build_sweep(&out_dir.join("sweep"))?;
    }
    Ok(())
}

/// In a folder of its own: the modules of two kernel crates must not meet.
fn build_sweep(folder: &Path) -> Result {
    let kernels = CudaBuilder::new("kernels-sweep").archs(SWEEP_ARCHS).out_dir(folder);
    Ok(kernels.llvm_args([SWEEP_UNROLLING]).build()?.write_index(folder.join("ptx.rs"))?)
}
