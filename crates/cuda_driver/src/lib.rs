//! The CUDA driver API without a CUDA installation.
//!
//! `cust` calls the driver through symbols such as `cuMemAlloc_v2`, which normally come from linking `libcuda`. A
//! program linked that way does not even start where there is no NVIDIA driver, and does not link where there is no
//! CUDA toolkit. This crate defines those symbols itself. Each definition forwards to the function of the same name in
//! the driver's library (`libcuda.so.1`, on Windows `nvcuda.dll`), which is opened at the first call. Without a driver
//! every function returns [`NO_DEVICE`](result::NO_DEVICE), so one binary starts anywhere and uses the GPU where there
//! is one.
//!
//! | module | what it holds |
//! |---|---|
//! | [`library`] | opening the driver's library; [`load`] says why there is none |
//! | `symbols` | the one list of functions and the definitions made from it |
//! | [`result`] | the driver's result codes and their texts |
//! | [`newer`] | functions of newer drivers that `cust` does not know |
//!
//! # Building
//!
//! The build script of `cust` insists on a folder with a `lib64` in it. The environment variable `CUDA_LIBRARY_PATH`
//! must name this crate's folder `link`, whose `lib64/libcuda.a` is an archive without members; a
//! `.cargo/config.toml` with an `[env]` section is the place for it. On Windows it looks at `CUDA_PATH` instead, for
//! `include/cuda.h` and `lib/x64`, which are in the same folder: there `cuda.lib` has one member with nothing in it. A
//! program must also refer to this crate, which calling [`load`] does.

pub mod library;
pub mod newer;
pub mod result;
mod symbols;

pub use library::{LoadError, load};
