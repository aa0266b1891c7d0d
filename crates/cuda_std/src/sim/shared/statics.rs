//! The static arrays of a block, and what lies around an address.

use super::{DYNAMIC_ALIGNMENT, DYNAMIC_BASE, STATIC_BASE, SharedMemory};
use crate::sim::limits::{MAX_BLOCK_THREADS, MAX_SHARED, MAX_STATIC_SHARED, WARP_THREADS};
use std::panic::Location;

/// Static arrays start at a multiple of this many bytes: all 32 banks once.
const STATIC_ALIGNMENT: u32 = 128;

/// Fewest bytes between two static arrays.
const STATIC_GAP: u32 = 128;

/// One static array. There is one for each place in the source that declares one, as in PTX.
pub(super) struct StaticArray {
    /// Offset from `STATIC_BASE`.
    pub(super) offset: u32,
    pub(super) bytes: u32,
    location: &'static Location<'static>,
    /// By warp the lanes that have declared it.
    declared: [u32; (MAX_BLOCK_THREADS / WARP_THREADS) as usize],
}

impl StaticArray {
    /// Notes that a thread declares it, and says whether it had done so before.
    fn declare(&mut self, thread: u32) -> bool {
        let (lanes, lane) =
            (&mut self.declared[(thread / WARP_THREADS) as usize], 1 << (thread % WARP_THREADS));
        let before = *lanes & lane != 0;
        *lanes |= lane;
        before
    }
}

/// Why a declaration of a static array was refused.
pub(in crate::sim) enum DeclarationError {
    Mismatch(String),
    Limit(String),
}

impl SharedMemory {
    /// The address of the static array that a thread declares at a place.
    pub(in crate::sim) fn declare(
        &mut self,
        thread: u32,
        bytes: usize,
        location: &'static Location<'static>,
    ) -> Result<u32, DeclarationError> {
        use DeclarationError::{Limit, Mismatch};
        if let Some(array) = self.statics.iter_mut().find(|array| array.location == location) {
            if array.declare(thread) {
                return Err(Mismatch(
                    "declares the same static shared array twice: move the declaration out of the loop"
                        .into(),
                ));
            }
            if array.bytes as usize != bytes {
                return Err(Mismatch(format!(
                    "declares a static shared array of {bytes} bytes where an earlier thread declared one of {} bytes: \
                     a place in the source declares one array",
                    array.bytes
                )));
            }
            return Ok(STATIC_BASE + array.offset);
        }
        let total = (self.static_bytes as usize).saturating_add(bytes);
        if total > MAX_STATIC_SHARED as usize {
            return Err(Limit(format!(
                "declares {total} bytes of static shared memory where a block may have {MAX_STATIC_SHARED}: use \
                 dynamic shared memory"
            )));
        }
        let dynamic = self.dynamic_bytes;
        // Dynamic memory lies behind.
        let padded = if dynamic > 0 { total.next_multiple_of(DYNAMIC_ALIGNMENT) } else { total };
        if padded + dynamic as usize > MAX_SHARED as usize {
            return Err(Limit(format!(
                "declares {total} bytes of static shared memory before {dynamic} bytes of dynamic shared memory, which \
                 begins at a multiple of {DYNAMIC_ALIGNMENT}, where a block may have {MAX_SHARED} in all"
            )));
        }
        let bytes = bytes as u32;
        let offset = self.statics.last().map_or(0, |last| {
            (last.offset + last.bytes + STATIC_GAP).next_multiple_of(STATIC_ALIGNMENT)
        });
        self.static_bytes = total as u32;
        self.static_region.grow(offset + bytes);
        let mut array = StaticArray { offset, bytes, location, declared: Default::default() };
        array.declare(thread);
        self.statics.push(array);
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
