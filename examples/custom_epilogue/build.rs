//! Compiles the kernel crate to PTX.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    // PTX for sm_75 runs on that and every newer GPU; `archs` compiles for more than one.
    let modules = cuda_builder::CudaBuilder::new("kernels").arch("sm_75").build()?;
    Ok(modules.write_index(std::path::Path::new(&std::env::var("OUT_DIR")?).join("ptx.rs"))?)
}
