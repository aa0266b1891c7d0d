//! Runs a test in a child process whose `libcuda.so.1` is chosen by the test.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Set in the child.
const CHILD: &str = "CUDA_DRIVER_TEST_CHILD";

/// Where the child finds its driver.
pub enum Driver {
    /// A file that is no library: the same as none, also on a machine that has a real one.
    None,
    /// The stand-in of `tests/fake/libcuda.rs`.
    Fake,
}

/// Runs `body` in a child process with this driver and these settings. `test` is the name of the calling test, which
/// the child runs again. `body` gets the path of the stand-in's log.
pub fn in_child(test: &str, driver: Driver, settings: &[(&str, &str)], body: impl FnOnce(&Path)) {
    if let Ok(folder) = std::env::var(CHILD) {
        return body(&Path::new(&folder).join("log"));
    }
    let folder = TempDir::new().unwrap();
    let library = folder.path().join("libcuda.so.1");
    match driver {
        Driver::None => std::fs::write(library, "not a library").unwrap(),
        Driver::Fake => compile_fake(&library, settings),
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, folder.path())
        .env("LD_LIBRARY_PATH", folder.path())
        .env("FAKE_CUDA_LOG", folder.path().join("log"))
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

/// Compiles the stand-in, for settings of a driver before CUDA 11.0 without the functions that came with it.
pub fn compile_fake(library: &Path, settings: &[(&str, &str)]) {
    let is_before_11 = settings.iter().any(|(name, value)| {
        *name == "FAKE_CUDA_VERSION" && value.parse::<u32>().is_ok_and(|version| version < 11_000)
    });
    let source = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake/libcuda.rs"));
    let source = if source.exists() { source } else { FROM_WORKSPACE.into() };
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let status = Command::new(rustc)
        .args(is_before_11.then_some("--cfg=before_cuda_11"))
        .args(["--edition=2024", "--crate-type=cdylib", "-Cdebuginfo=0", "-o"])
        .arg(library)
        .arg(source)
        .status()
        .unwrap();
    assert!(status.success(), "the stand-in for libcuda does not compile");
}

/// Tests of the workspace's root package use this file too.
const FROM_WORKSPACE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/crates/cuda_driver/tests/fake/libcuda.rs");
