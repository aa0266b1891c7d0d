//! Compiles the kernel crate to PTX.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    // PTX for sm_75 runs on that and every newer GPU, that for sm_90a on Hopper alone, and has what other GPUs lack.
    // Where an architecture lacks what a kernel needs the launch of that kernel is refused.
    let modules = cuda_builder::CudaBuilder::new("kernels").archs(["sm_75", "sm_90a"]).build()?;
    Ok(modules.write_index(std::path::Path::new(&std::env::var("OUT_DIR")?).join("ptx.rs"))?)
}
