//! Whether the host has room for operands and a reference: to ask is better than to be ended by the system halfway.

use crate::error::{Error, Result};

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
}
