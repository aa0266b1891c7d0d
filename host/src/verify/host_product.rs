//! Products on the host's processor.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, Axis, LinalgScalar};
use std::num::NonZeroUsize;
use std::thread;

/// Multiply-adds from which on the rows of a product are shared among the cores: hundredths of a second on one.
const SHARED: usize = 1 << 27;

/// `A * B` by the processor, in the precision of `T`: each core that this process may use multiplies a part of the rows
/// with ndarray's [`general_mat_mul`], which for f32 and f64 is that of the crate matrixmultiply. Small products are
/// one core's.
///
/// # Panics
/// Where A has not as many columns as B has rows.
pub fn host_product<T: LinalgScalar + Send + Sync>(
    a: &ArrayView2<'_, T>,
    b: &ArrayView2<'_, T>,
) -> Array2<T> {
    let cores = host_cores();
    if a.nrows().saturating_mul(b.len()) < SHARED || cores == 1 {
        return a.dot(b);
    }
    let rows = a.nrows().div_ceil(cores);
    let mut product = Array2::zeros((a.nrows(), b.ncols()));
    let parts = product.axis_chunks_iter_mut(Axis(0), rows);
    thread::scope(|scope| {
        for (a, mut part) in a.axis_chunks_iter(Axis(0), rows).zip(parts) {
            scope.spawn(move || general_mat_mul(T::one(), &a, b, T::zero(), &mut part));
        }
    });
    product
}

/// How many cores [`host_product`] shares large products among.
pub fn host_cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of rows is no multiple of any number of cores.
    #[test]
    fn what_cores_share_is_what_one_computes() {
        let (m, k, n) = (67, 1 << 12, 1 << 9);
        assert!(m * k * n >= SHARED);
        let a = Array2::from_shape_fn((m, k), |(i, j)| ((i * 7 + j * 3) % 17) as f64 - 8.0);
        let b = Array2::from_shape_fn((k, n), |(i, j)| ((i * 5 + j * 11) % 13) as f64 - 6.0);
        let product = host_product(&a.view(), &b.view());
        assert_eq!(product, a.dot(&b), "integers, so that sums are exact in any order");
    }
}
