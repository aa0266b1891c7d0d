//! Matrix multiplication on NVIDIA GPUs, written entirely in Rust, and on a simulator where there is no GPU.
//!
//! `D = activation(alpha * A * B + beta * C + bias)` for f32, f64, f16 and bf16 matrices. The kernels are Rust compiled
//! to PTX and embedded in this library; a GPU needs its driver and nothing else.
//!
//! ```
//! use regemm::ndarray::Array2;
//! use regemm::{Activation, Device, Gemm};
//!
//! fn main() -> regemm::Result<()> {
//!     let device = Device::auto()?; // the first GPU, else the simulator
//!     let a = device.upload(&Array2::from_elem((64, 32), 0.5f32).view())?;
//!     let b = device.upload(&Array2::from_elem((32, 48), 2.0f32).view())?;
//!     let bias = device.vector(&[-33.0f32; 48])?;
//!     let mut d = device.matrix(64, 48)?;
//!
//!     let report =
//!         Gemm::new(&a, &b).bias_per_column(&bias).activation(Activation::Relu).run(&mut d)?;
//!     assert!(d.to_array()?.iter().all(|&x| x == 0.0));
//!     println!("{} on {:?}: {}", report.kernel.name, device, report.why);
//!     Ok(())
//! }
//! ```
//!
//! | to | see |
//! |---|---|
//! | multiply two arrays and get an array | [`matmul`] |
//! | keep matrices on the device, add C, a bias, an activation | [`Gemm`] |
//! | get results of f32 from f16 or bf16 | [`Gemm::widening`] |
//! | multiply transposed or column-major matrices | [`Matrix::t`], [`Device::upload_slice`] |
//! | multiply many matrices in one launch | [`Batch`], [`Device::upload_batch`] |
//! | use a part of a matrix, or memory of another library | [`MatrixView::slice`], [`MatrixView::from_raw`] |
//! | go on without waiting, measure times, capture a CUDA graph | [`Gemm::enqueue`], [`Event`], [`Stream`] |
//! | trade accuracy of f32 for speed | [`Precision`], [`SplitMatrix`] |
//! | choose a kernel, or have it chosen by measured times | [`Gemm::kernel`], [`tuning`] |
//! | know whether a device can run a kernel | [`Device::refusal`] |
//! | write an epilogue of your own | [`CustomKernel`], `examples/custom_epilogue` |
//! | know what went wrong | [`Error`] |
//!
//! | module | what it holds |
//! |---|---|
//! | [`device`] | devices, streams and events |
//! | [`matrix`] | matrices, batches and vectors in device memory, and views of them |
//! | [`precision`] | what products are computed in |
//! | [`gemm`] | the product: a builder, its checks and its execution; kernels with epilogues of your own |
//! | [`kernels`] | the table of kernels: names, limits, and the choice among them |
//! | [`gpus`] | known GPUs by their published numbers |
//! | [`occupancy`] | how many blocks a multiprocessor holds, and what limits them |
//! | [`tuning`] | the choice of a kernel by measured times |
//! | [`traffic`] | what a kernel moves between the memories, counted and worked out, and what a GPU lets it attain |
//! | [`verify`] | is a product right? |
//! | [`accuracy`] | how far off is it, by precision, data and depth? |
//! | [`measure`] | how long does it take? |
//! | `sweep` | the configurations of the parameter sweep and their kernels (feature `sweep`) |
//! | [`error`] | everything that can go wrong |

pub mod accuracy;
pub mod device;
pub mod error;
pub mod gemm;
pub mod gpus;
pub mod kernels;
pub mod matrix;
pub mod measure;
mod near;
pub mod occupancy;
pub mod precision;
#[cfg(feature = "sweep")]
pub mod sweep;
pub mod traffic;
pub mod tuning;
pub mod verify;

pub use device::info::{DeviceInfo, DeviceKind};
pub use device::ptx::{PtxModule, ptx_modules};
pub use device::report::KernelReport;
pub use device::stream::{Event, Stream};
pub use device::workspace::{Workspace, WorkspaceSize};
pub use device::{Device, DeviceSpec};
pub use error::{Error, Operand, Resource, Result, Shape};
pub use gemm::custom::CustomKernel;
pub use gemm::{Factor, Gemm, KernelChoice, Report, SplitMatrix, Target, Term, matmul};
pub use matrix::Matrix;
pub use matrix::batch::Batch;
pub use matrix::batch_view::{BatchView, BatchViewMut};
pub use matrix::vector::Vector;
pub use matrix::view::{MatrixView, MatrixViewMut};
pub use precision::{Computed, Precision, PrecisionRecord};

pub use cuda_std::sim::{Counters, SimError};
pub use cuda_std::tensor_map::TensorMapError;
pub use half::{bf16, f16};
pub use ndarray;
pub use regemm_kernels::element::{Accumulator, Dtype, Element, Yields};
pub use regemm_kernels::epilogue::activation::Activation;
pub use regemm_kernels::epilogue::{BiasAxis, Epilogue, Linear};
pub use regemm_kernels::kernel::{KernelInfo, Needs, Rung, Schedule, ShortSide, Summation, Tile};
pub use regemm_kernels::layout::{Layout, Layouts};

/// The examples of the README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct ReadmeExamples;
