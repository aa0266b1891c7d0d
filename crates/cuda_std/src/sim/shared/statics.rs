//! The static arrays of a block, and what lies around an address.

use super::{DYNAMIC_BASE, STATIC_BASE, SharedMemory};
use crate::sim::limits::{MAX_SHARED, MAX_STATIC_SHARED};
use std::panic::Location;

/// Static arrays start at a multiple of this many bytes: all 32 banks once.
const STATIC_ALIGNMENT: u32 = 128;

/// Fewest bytes between two static arrays.
const STATIC_GAP: u32 = 128;

/// One static array.
pub(super) struct StaticArray {
    /// Offset from `STATIC_BASE`.
    pub(super) offset: u32,
    pub(super) bytes: u32,
    location: &'static Location<'static>,
}

/// Why a declaration of a static array was refused.
pub(in crate::sim) enum DeclarationError {
    Mismatch(String),
    Limit(String),
}

impl SharedMemory {
    /// The address of the `n`-th static array that a thread declares.
    pub(in crate::sim) fn declare(
        &mut self,
        n: usize,
        bytes: usize,
        location: &'static Location<'static>,
    ) -> Result<u32, DeclarationError> {
        use DeclarationError::{Limit, Mismatch};
        if let Some(array) = self.statics.get(n) {
            if array.bytes as usize == bytes && array.location == location {
                return Ok(STATIC_BASE + array.offset);
            }
            return Err(Mismatch(format!(
                "declares {bytes} bytes as its static shared array number {n} where an earlier thread declared {} \
                 bytes at {}: all threads must declare the same arrays in the same order",
                array.bytes, array.location
            )));
        }
        if self.statics.iter().any(|array| array.location == location) {
            return Err(Mismatch(
                "declares the same static shared array twice: move the declaration out of the loop"
                    .into(),
            ));
        }
        let total = (self.static_bytes as usize).saturating_add(bytes);
        if total > MAX_STATIC_SHARED as usize {
            return Err(Limit(format!(
                "declares {total} bytes of static shared memory where a block may have {MAX_STATIC_SHARED}: use \
                 dynamic shared memory"
            )));
        }
        if total + self.dynamic_bytes as usize > MAX_SHARED as usize {
            return Err(Limit(format!(
                "declares {total} bytes of static shared memory beside {} bytes of dynamic shared memory where a \
                 block may have {MAX_SHARED} in all",
                self.dynamic_bytes
            )));
        }
        let bytes = bytes as u32;
        let offset = self.statics.last().map_or(0, |last| {
            (last.offset + last.bytes + STATIC_GAP).next_multiple_of(STATIC_ALIGNMENT)
        });
        self.static_bytes = total as u32;
        self.static_region.grow(offset + bytes);
        self.statics.push(StaticArray { offset, bytes, location });
        Ok(STATIC_BASE + offset)
    }

    /// Says what lies around an address range that is not in one array.
    pub(in crate::sim) fn explain(&self, address: u32, bytes: u32) -> String {
        let end = address as u64 + bytes as u64;
        if address >= DYNAMIC_BASE {
            let size = self.dynamic_bytes;
            let over = end - DYNAMIC_BASE as u64 - size as u64;
            return format!("{over} bytes too far for the {size} bytes of dynamic shared memory");
        }
        let below = self.statics.iter().rev().find(|array| STATIC_BASE + array.offset <= address);
        match below {
            Some(array) => {
                let base = STATIC_BASE + array.offset;
                let over = end - (base + array.bytes) as u64;
                let StaticArray { bytes, location, .. } = array;
                format!("{over} bytes too far for the {bytes}-byte array at {base:#x} ({location})")
            }
            None if self.statics.is_empty() => "the block has no static shared array".into(),
            None => "it lies before the first shared array".into(),
        }
    }
}
