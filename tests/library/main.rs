//! The library's behaviour apart from the numbers its kernels compute: runs on the simulator, everywhere.
//!
//! | module | theme |
//! |---|---|
//! | `matrices` | matrices, vectors, views, and copies between host and device |
//! | `products` | the parts of a product, each alone: what they mean, and the rules about zeros |
//! | `layouts` | transposed factors: what they mean, and which kernels take them |
//! | `batches` | batches: their memory, and products of them |
//! | `side_by_side` | batches whose matrices lie beside each other in the columns of one matrix |
//! | `results` | results of f32 where factors are of half precision |
//! | `repack` | factors that bulk copies cannot take |
//! | `slices` | how work is dealt out to multiprocessors, and what that does to the bits |
//! | `errors` | every error that can be provoked without a GPU, and what its message says |
//! | `overlaps` | which operands may share memory |
//! | `streams` | streams, events, and matrices that are dropped early |
//! | `custom` | kernels with an epilogue of the user's own |

mod batches;
mod custom;
mod errors;
mod layouts;
mod matrices;
mod overlaps;
mod products;
mod repack;
mod results;
mod side_by_side;
mod slices;
mod streams;

use regemm::ndarray::{Array2, ArrayView2};
use regemm::{Element, Gemm, KernelChoice, Matrix};

/// The kernel that all tests of this suite use: they are not about kernels.
pub fn kernel() -> KernelChoice {
    KernelChoice::Named("naive".into())
}

/// A matrix of small integers, so that products are exact. Different seeds give different ones.
pub fn integers(rows: usize, cols: usize, seed: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, cols), |(i, j)| ((i * 7 + j * 3 + seed * 5) % 11) as f32 - 5.0)
}

/// `a * b` on the matrices' device.
pub fn product<T: Element>(a: &Matrix<T>, b: &Matrix<T>) -> Matrix<T> {
    let mut d = a.device().matrix(a.rows(), b.cols()).unwrap();
    Gemm::new(a, b).kernel(kernel()).run(&mut d).unwrap();
    d
}

/// `a * b` on the host.
pub fn expected(a: &ArrayView2<f32>, b: &ArrayView2<f32>) -> Array2<f32> {
    a.dot(b)
}
