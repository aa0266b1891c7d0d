//! A kernel crate to compile, and what becomes of it.

use std::fs;
use std::path::{Path, PathBuf};

use cuda_builder::{CudaBuilder, PtxModules};

/// Two kernels: one with launch bounds, a device function of its own and a constant table; one without any.
pub const KERNELS: &str = r#"
#![no_std]
#![feature(abi_ptx, asm_experimental_arch)]

static TABLE: [f32; 4] = [1.0, 2.5, 4.0, 8.5];

core::arch::global_asm!("// cuda_builder: lookup .maxntid {n}", n = const 32 * 4);
core::arch::global_asm!("// cuda_builder: lookup .minnctapersm 2");

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn lookup(out: *mut f32, index: usize) {
    unsafe { *out = only_here(index) }
}

#[inline(never)]
fn only_here(index: usize) -> f32 {
    TABLE[index & 3]
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn count(out: *mut u32) {
    unsafe { *out = if cfg!(feature = "twice") { 222_222 } else { 111_111 } }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
"#;

const MANIFEST: &str = r#"
[package]
name = "tiny-kernels"
version = "0.0.0"
edition = "2024"

[lib]
crate-type = ["cdylib"]

[features]
twice = []

[workspace]
"#;

/// Writes a kernel crate to `folder` and gives a builder for it.
pub fn kernel_crate(folder: &Path, source: &str) -> CudaBuilder {
    fs::create_dir_all(folder.join("kernels/src")).unwrap();
    fs::write(folder.join("kernels/Cargo.toml"), MANIFEST).unwrap();
    fs::write(folder.join("kernels/src/lib.rs"), source).unwrap();
    CudaBuilder::new(folder.join("kernels")).out_dir(folder.join("out"))
}

/// An empty folder in the target folder of this workspace, whose `core` is compiled already. It is the same in each
/// run, so that nothing piles up there.
pub fn folder_in_target(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda_builder").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The PTX of a kernel for an architecture.
pub fn text(modules: &PtxModules, arch: &str, entry: &str) -> String {
    let module = modules.iter().find(|module| (&*module.arch, &*module.entry) == (arch, entry));
    fs::read_to_string(&module.unwrap().path).unwrap()
}
