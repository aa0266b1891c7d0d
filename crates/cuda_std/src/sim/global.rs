//! The global memory of one simulated GPU: its address space and what is allocated in it.

use super::backing::Backing;
use super::fault::SimError;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Allocations start at a multiple of this many bytes, as those of `cuMemAlloc` do.
const ALIGNMENT: u64 = 256;

/// Smallest distance between two allocations, in bytes. Larger allocations are kept as far apart as they are long, so
/// that running a whole matrix too far still hits nothing.
const MIN_GUARD: u64 = 1 << 20;

/// Addresses are taken from windows of this many bytes. No two simulators share one, so that the address of another
/// simulator's memory is never valid.
const WINDOW: u64 = 1 << 40;

/// The first window that nobody has taken. Window 0 stays free: small integers are not addresses.
static NEXT_WINDOW: AtomicU64 = AtomicU64::new(1);

/// Freed allocations that are remembered to explain a use after free.
const REMEMBERED: usize = 64;

/// A range of addresses and the memory behind it.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) base: u64,
    pub(super) bytes: u64,
    pub(super) backing: Backing,
}

/// All live allocations by ascending address. A launch keeps the table that it started with.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    live: Vec<Arc<Allocation>>,
    freed: VecDeque<(u64, u64)>,
}

impl Table {
    /// The allocation in which an address lies, and its offset there. The end of an allocation lies in it.
    pub(super) fn find(&self, address: u64) -> Option<(&Allocation, u64)> {
        let after = self.live.partition_point(|allocation| allocation.base <= address);
        let allocation = self.live[..after].last()?;
        let offset = address - allocation.base;
        (offset <= allocation.bytes).then_some((allocation, offset))
    }

    /// The allocation in which a whole range lies, and its offset there.
    fn find_range(&self, address: u64, bytes: u64) -> Result<(&Allocation, usize), SimError> {
        self.find(address)
            .filter(|(allocation, offset)| bytes <= allocation.bytes - offset)
            .map(|(allocation, offset)| (allocation, offset as usize))
            .ok_or(SimError::InvalidAddress { address, bytes })
    }

    /// Says what lies around an address range that is not in one allocation.
    pub(super) fn explain(&self, address: u64, bytes: u64) -> String {
        if address < WINDOW {
            return "no memory has such an address: it is null or a small offset from null".into();
        }
        if let Some((base, size)) =
            self.freed.iter().find(|(base, size)| address >= *base && address - base < *size)
        {
            return format!("the {size}-byte allocation at {base:#x} has been freed");
        }
        let after = self.live.partition_point(|allocation| allocation.base <= address);
        let below = self.live[..after].last();
        let above = self.live.get(after);
        // The range may reach beyond the end of the address space.
        let end = address.saturating_add(bytes);
        let past = |a: &Arc<Allocation>| end.saturating_sub(a.base + a.bytes);
        let before = |a: &Arc<Allocation>| a.base - address;
        match (below, above) {
            (Some(a), b) if past(a) < WINDOW && b.is_none_or(|b| past(a) <= before(b)) => {
                let (end, size, base) = (a.base + a.bytes, a.bytes, a.base);
                if address < end {
                    let over = past(a);
                    format!(
                        "its last {over} bytes lie past the end of the {size}-byte allocation at {base:#x}"
                    )
                } else {
                    let gap = address - end;
                    format!("{gap} bytes past the end of the {size}-byte allocation at {base:#x}")
                }
            }
            (_, Some(b)) if before(b) < WINDOW => {
                let (gap, size, base) = (before(b), b.bytes, b.base);
                format!("{gap} bytes before the start of the {size}-byte allocation at {base:#x}")
            }
            _ => "no allocation of this simulator is near it".into(),
        }
    }
}

/// The global memory of one simulated GPU.
#[derive(Debug)]
pub(super) struct GlobalMemory {
    limit: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    table: Arc<Table>,
    used: u64,
    /// First address that has not been given out.
    next: u64,
    /// End of the window that `next` lies in.
    end: u64,
}

impl GlobalMemory {
    /// An empty memory of `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        let state = State { table: Arc::default(), used: 0, next: 0, end: 0 };
        GlobalMemory { limit, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change below is made at once, so the state is consistent even after a panic elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Size in bytes, and how many of them are allocated.
    pub(super) fn usage(&self) -> (u64, u64) {
        (self.limit, self.state().used)
    }

    /// The allocations of this moment.
    pub(super) fn snapshot(&self) -> Arc<Table> {
        self.state().table.clone()
    }

    pub(super) fn alloc(&self, bytes: u64) -> Result<u64, SimError> {
        let state = &mut *self.state();
        let available = self.limit - state.used;
        let error = SimError::OutOfMemory { requested: bytes, available };
        if bytes > available {
            return Err(error);
        }
        let Some((base, next, end)) = state.place(bytes) else { return Err(error) };
        let Some(backing) = Backing::new(bytes) else { return Err(error) };
        (state.next, state.end) = (next, end);
        state.used += bytes;
        // Addresses only ever grow, so the table stays sorted.
        Arc::make_mut(&mut state.table).live.push(Arc::new(Allocation { base, bytes, backing }));
        Ok(base)
    }

    pub(super) fn free(&self, address: u64) -> Result<(), SimError> {
        let state = &mut *self.state();
        let index = state
            .table
            .live
            .binary_search_by_key(&address, |allocation| allocation.base)
            .map_err(|_| SimError::InvalidAddress { address, bytes: 0 })?;
        let table = Arc::make_mut(&mut state.table);
        let bytes = table.live.remove(index).bytes;
        if table.freed.len() == REMEMBERED {
            table.freed.pop_front();
        }
        table.freed.push_back((address, bytes));
        state.used -= bytes;
        Ok(())
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), SimError> {
        let table = self.snapshot();
        let (allocation, offset) = table.find_range(address, bytes.len() as u64)?;
        // SAFETY: the range lies in the allocation.
        unsafe { allocation.backing.write(offset, bytes) };
        Ok(())
    }

    pub(super) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), SimError> {
        let table = self.snapshot();
        let (allocation, offset) = table.find_range(address, bytes.len() as u64)?;
        // SAFETY: the range lies in the allocation.
        unsafe { allocation.backing.read(offset, bytes) };
        Ok(())
    }

    pub(super) fn fill(&self, address: u64, bytes: u64, value: u8) -> Result<(), SimError> {
        /// Bytes written at once.
        const CHUNK: usize = 4096;
        let table = self.snapshot();
        let (allocation, mut offset) = table.find_range(address, bytes)?;
        let end = offset + bytes as usize;
        while offset < end {
            let chunk = CHUNK.min(end - offset);
            // SAFETY: the range lies in the allocation.
            unsafe { allocation.backing.write(offset, &[value; CHUNK][..chunk]) };
            offset += chunk;
        }
        Ok(())
    }
}

impl State {
    /// Where an allocation of `bytes` bytes may start, and the free addresses after it.
    fn place(&self, bytes: u64) -> Option<(u64, u64, u64)> {
        let room = bytes.max(MIN_GUARD).checked_add(bytes)?.checked_next_multiple_of(ALIGNMENT)?;
        if room <= self.end - self.next {
            return Some((self.next, self.next + room, self.end));
        }
        let windows = room.div_ceil(WINDOW);
        let last = u64::MAX / WINDOW;
        let first = NEXT_WINDOW
            .fetch_update(Relaxed, Relaxed, |first| {
                first.checked_add(windows).filter(|&after| after <= last)
            })
            .ok()?;
        let base = first * WINDOW;
        Some((base, base + room, base + windows * WINDOW))
    }
}
