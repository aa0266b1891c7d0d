//! Whether the host has room for operands and a reference: to ask is better than to be ended by the system halfway.

use super::check::Method;
use crate::error::{Error, Result};
use regemm_kernels::element::Dtype;

/// Checks that the host has room for so many bytes at once. `None` are more than an address can count.
///
/// # Errors
/// [`Error::OutOfHostMemory`].
pub fn check_room(bytes: Option<usize>) -> Result<()> {
    let requested = bytes.unwrap_or(usize::MAX);
    let mut room = Vec::<u8>::new();
    let reserved = room.try_reserve_exact(requested);
    // What is not used may not even be reserved.
    std::hint::black_box(&mut room);
    reserved.map_err(|_| Error::OutOfHostMemory { requested })
}

/// Checks that the host has room for what verifying a product of these rows, columns and depth takes beside its
/// operands.
///
/// # Errors
/// [`Error::OutOfHostMemory`].
pub fn check_room_to_verify(dtype: Dtype, (m, n, k): (usize, usize, usize)) -> Result<()> {
    check_room(bytes_to_verify(dtype, m, n, k))
}

/// Bytes for an element that has a reference: its sum and that of magnitudes, which become value and bound, and the
/// comparison.
const BYTES_OF_REFERENCE: usize = 32;

/// Both factors widened, and the references unless they are of few rows and columns.
fn bytes_to_verify(dtype: Dtype, m: usize, n: usize, k: usize) -> Option<usize> {
    let factors = m.checked_mul(k)?.checked_add(k.checked_mul(n)?)?;
    let results = match Method::for_work(dtype, m.saturating_mul(n).saturating_mul(k)) {
        Method::Full => m.checked_mul(n)?.checked_mul(BYTES_OF_REFERENCE)?,
        Method::Sampled => 0,
    };
    factors.checked_mul(size_of::<f64>())?.checked_add(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_host_has_room_for_is_an_error_with_its_size() {
        check_room(Some(1 << 20)).unwrap();
        for (bytes, size) in [(Some(usize::MAX / 2), usize::MAX / 2), (None, usize::MAX)] {
            let error = check_room(bytes).unwrap_err();
            assert!(
                matches!(error, Error::OutOfHostMemory { requested } if requested == size),
                "{error}"
            );
        }
    }

    #[test]
    fn references_of_large_products_are_few() {
        assert_eq!(bytes_to_verify(Dtype::F32, 10, 20, 30), Some(900 * 8 + 200 * 32));
        let large = bytes_to_verify(Dtype::F32, 2000, 2000, 2000);
        assert_eq!(large, Some(2 * 2000 * 2000 * 8));
        assert_eq!(bytes_to_verify(Dtype::F32, usize::MAX, 2, 1), None);
        assert!(check_room_to_verify(Dtype::F32, (1 << 60, 1 << 60, 1)).is_err());
    }
}
