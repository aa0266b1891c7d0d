//! Compiles the kernels to PTX for every architecture and writes the index that the library embeds.

/// What the kernels are compiled for: Turing and later, Ampere and later, Hopper alone.
const ARCHS: [&str; 3] = ["sm_75", "sm_80", "sm_90a"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out_dir = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=build.rs");
    let modules = cuda_builder::CudaBuilder::new("kernels-gpu").archs(ARCHS).build()?;
    modules.write_index(out_dir.join("ptx.rs"))?;
    Ok(())
}
