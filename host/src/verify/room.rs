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

/// Factors widened, for each pass over them that runs at the same time, and with halves of B where sums of f64 are
/// [compensated](super::sums); then the references, or where they are of few rows and columns D widened.
fn bytes_to_verify(dtype: Dtype, m: usize, n: usize, k: usize) -> Option<usize> {
    const WIDENED: usize = size_of::<f64>();
    let (of_a, of_b, of_d) = (m.checked_mul(k)?, k.checked_mul(n)?, m.checked_mul(n)?);
    let factors = of_a.checked_add(of_b)?.checked_mul(WIDENED)?;
    let halves = if dtype == Dtype::F64 { of_b.checked_mul(2 * WIDENED)? } else { 0 };
    match Method::for_work(dtype, m.saturating_mul(n).saturating_mul(k)) {
        Method::Full => {
            factors.checked_add(halves)?.checked_add(of_d.checked_mul(BYTES_OF_REFERENCE)?)
        }
        // Rows, columns and random vectors, of which the first take B, the second A, and the last both.
        Method::Sampled => {
            let passes = factors.checked_mul(2)?.checked_add(halves)?;
            Some(passes.max(of_d.checked_mul(WIDENED)?))
        }
    }
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
        assert_eq!(large, Some(2 * (2 * 2000 * 2000 * 8)));
        let doubles = bytes_to_verify(Dtype::F64, 2000, 3000, 2000);
        assert_eq!(doubles, Some(2 * (2000 * 5000 * 8) + 3000 * 2000 * 16));
        let outer = bytes_to_verify(Dtype::F32, 40_000, 50_000, 10);
        assert_eq!(outer, Some(40_000 * 50_000 * 8), "D widened is more than its factors");
        assert_eq!(bytes_to_verify(Dtype::F32, usize::MAX, 2, 1), None);
        assert!(check_room_to_verify(Dtype::F32, (1 << 60, 1 << 60, 1)).is_err());
    }
}
