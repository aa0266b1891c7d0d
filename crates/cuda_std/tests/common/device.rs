//! Kernels compiled for the device.

use cuda_builder::{CudaBuilder, PtxModules};
use std::fs;
use std::path::Path;

/// A kernel crate of its own.
const MANIFEST: &str = r#"
[package]
name = "NAME"
version = "0.0.0"
edition = "2024"

[lib]
crate-type = ["cdylib"]

[dependencies]
cuda_std = { path = "CUDA_STD" }

[workspace]
"#;

/// The PTX of a kernel crate of these source files.
pub fn compile<const N: usize>(name: &str, files: &[(&str, &str)], archs: [&str; N]) -> PtxModules {
    // In the target folder of this workspace, whose `core` is compiled already.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let package = folder.join("kernels");
    let cuda_std = env!("CARGO_MANIFEST_DIR");
    fs::create_dir_all(package.join("src")).unwrap();
    let manifest = MANIFEST.replace("NAME", name).replace("CUDA_STD", cuda_std);
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    fs::copy(format!("{cuda_std}/../../Cargo.lock"), package.join("Cargo.lock")).unwrap();
    for (file, text) in files {
        fs::write(package.join("src").join(file), text).unwrap();
    }
    CudaBuilder::new(&package).out_dir(folder.join("out")).archs(archs).build().unwrap()
}

/// The PTX of one of its kernels.
pub fn text(modules: &PtxModules, arch: &str, entry: &str) -> String {
    let module = modules.iter().find(|m| (&*m.arch, &*m.entry) == (arch, entry));
    fs::read_to_string(&module.unwrap().path).unwrap()
}
