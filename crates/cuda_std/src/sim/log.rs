//! The access log of a warp: how the requests of a warp are found although its lanes run one after another.
//!
//! Each lane writes down its accesses until it stops: at a barrier, at a warp-collective operation, at its end, or
//! because its part of the log is full. When all lanes of the warp have stopped, the log is evaluated. Lanes that run
//! in step (predicated accesses keep them in step) have made the same accesses: the n-th of each is one request. Where
//! that does not hold, lanes have diverged, and the n-th access *from the same place in the source* is one request;
//! this is what a GPU does when the lanes of a branch run together and reconverge after it. Diverged lanes fill their
//! logs at different rates. So while some of them have stopped only because theirs is full, accesses that those have
//! not caught up with stay in the log.

use super::counters::Counters;
use super::fault::{AccessKind, MemoryAccess, Space};
use super::requests::{Banks, Request, sectors};
use std::panic::Location;

const LANES: usize = super::limits::WARP_THREADS as usize;

/// Accesses of one lane until it must stop for the others.
pub(super) const CAPACITY: usize = 256;

/// Entries from one lane to the next. One cache line more than the capacity, so that the lanes' entries of one request
/// do not all fall into the same set of the cache.
const STRIDE: usize = CAPACITY + 4;

/// What kind of instruction made an access, packed into 8 bits, with the place in the source above them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Key(u64);

impl Key {
    const ACTIVE: u64 = 1;
    const STORE: u64 = 1 << 1;
    const SHARED: u64 = 1 << 2;
    const BYTES_SHIFT: u32 = 3;
    const ELEMENT_SHIFT: u32 = 6;
    const LOCATION_SHIFT: u32 = 8;

    /// The key of an access to a `V`, an array of scalars whose alignment is the size of an element. Two places whose
    /// addresses differ in the top 8 bits alone would be confused; all places of a program are closer together.
    #[inline(always)]
    fn new<V>(space: Space, kind: AccessKind, active: bool, location: &'static Location) -> Self {
        let bytes = size_of::<V>().trailing_zeros() as u64;
        let element = align_of::<V>().trailing_zeros() as u64;
        let mut key = (&raw const *location as u64) << Self::LOCATION_SHIFT;
        key |= bytes << Self::BYTES_SHIFT | element << Self::ELEMENT_SHIFT;
        if space == Space::Shared {
            key |= Self::SHARED;
        }
        if kind == AccessKind::Write {
            key |= Self::STORE;
        }
        if active {
            key |= Self::ACTIVE;
        }
        Key(key)
    }

    fn active(self) -> bool {
        self.0 & Self::ACTIVE != 0
    }

    /// The key of the instruction, whether or not this lane's predicate was true.
    fn instruction(self) -> Key {
        Key(self.0 & !Self::ACTIVE)
    }

    fn bytes(self) -> u32 {
        1 << (self.0 >> Self::BYTES_SHIFT & 7)
    }

    fn elements(self) -> u32 {
        self.bytes() >> (self.0 >> Self::ELEMENT_SHIFT & 3)
    }

    fn space(self) -> Space {
        if self.0 & Self::SHARED != 0 { Space::Shared } else { Space::Global }
    }

    fn kind(self) -> AccessKind {
        if self.0 & Self::STORE != 0 { AccessKind::Write } else { AccessKind::Read }
    }

    /// The place in the source.
    fn location(self) -> &'static Location<'static> {
        // The top bits are those of any other place.
        const KEPT: u64 = u64::MAX >> Key::LOCATION_SHIFT;
        let near = &raw const *Location::caller() as u64;
        let address = self.0 >> Self::LOCATION_SHIFT | near & !KEPT;
        // SAFETY: it is the address of the place that `new` was given, which exposed it.
        unsafe { &*std::ptr::with_exposed_provenance(address as usize) }
    }
}

/// Executions of instructions by the lanes of a warp: the n-th of an instruction is the same one for all lanes.
#[derive(Default)]
struct Executions {
    /// In no order: there are few.
    instructions: Vec<Instruction>,
    /// The index of the instruction, and which of its executions it is, from 1.
    all: Vec<(usize, usize)>,
}

struct Instruction {
    key: Key,
    /// How often each lane has executed it.
    times: [usize; LANES],
    /// Where its executions are among all.
    executions: Vec<usize>,
}

impl Executions {
    /// A lane executes an instruction once more. Gives the index of the execution.
    fn add(&mut self, lane: usize, key: Key) -> usize {
        let known = self.instructions.iter().position(|instruction| instruction.key == key);
        let index = known.unwrap_or_else(|| {
            self.instructions.push(Instruction { key, times: [0; LANES], executions: Vec::new() });
            self.instructions.len() - 1
        });
        let instruction = &mut self.instructions[index];
        let before = instruction.times[lane];
        instruction.times[lane] += 1;
        if before == instruction.executions.len() {
            instruction.executions.push(self.all.len());
            self.all.push((index, before + 1));
        }
        instruction.executions[before]
    }

    /// How often a lane has executed an instruction.
    fn times(&self, lane: usize, instruction: usize) -> usize {
        self.instructions[instruction].times[lane]
    }
}

/// One access of one lane.
#[derive(Clone, Copy, Default)]
pub(super) struct Entry {
    key: Key,
    address: u64,
}

impl Entry {
    #[inline(always)]
    pub(super) fn new<V>(
        space: Space,
        kind: AccessKind,
        address: u64,
        active: bool,
        location: &'static Location,
    ) -> Self {
        Entry { key: Key::new::<V>(space, kind, active, location), address }
    }

    /// What was done, by an instruction at which place, and whether the lane took part.
    pub(super) fn access(&self) -> (MemoryAccess, &'static Location<'static>, bool) {
        let Entry { key, address } = *self;
        let (space, kind, bytes) = (key.space(), key.kind(), key.bytes());
        (MemoryAccess { space, kind, address, bytes }, key.location(), key.active())
    }
}

/// The log of the warp that runs now.
pub(super) struct Log {
    entries: Box<[Entry]>,
    lengths: [usize; LANES],
    banks: Banks,
}

impl Log {
    pub(super) fn new() -> Self {
        Log {
            entries: vec![Entry::default(); LANES * STRIDE].into_boxed_slice(),
            lengths: [0; LANES],
            banks: Banks::new(),
        }
    }

    /// Where the first of `CAPACITY` entries of a lane goes.
    pub(super) fn lane(&mut self, lane: usize) -> *mut Entry {
        self.entries[lane * STRIDE..][..CAPACITY].as_mut_ptr()
    }

    /// Entries of a lane.
    pub(super) fn length(&self, lane: usize) -> usize {
        self.lengths[lane]
    }

    /// Entries of a lane from the `start`-th on.
    pub(super) fn entries_from(&self, lane: usize, start: usize) -> &[Entry] {
        &self.entries[lane * STRIDE..][start..self.lengths[lane]]
    }

    /// Says how many entries a lane has now.
    pub(super) fn set_length(&mut self, lane: usize, length: usize) {
        self.lengths[lane] = length;
    }

    /// Forgets all entries.
    pub(super) fn clear(&mut self) {
        self.lengths = [0; LANES];
    }

    /// Counts the requests of all lanes and empties the log, but for accesses that the lanes of `full`, which have
    /// stopped because their log is full, may still take part in.
    pub(super) fn flush(&mut self, full: u32, counters: &mut Counters) {
        let longest = self.lengths.into_iter().max().unwrap_or(0);
        for n in 0..longest {
            let mut request = Request::default();
            let mut instruction = None;
            let mut difference = 0;
            for lane in 0..LANES {
                if n < self.lengths[lane] {
                    let Entry { key, address } = self.entries[lane * STRIDE + n];
                    let first = *instruction.get_or_insert(key.instruction());
                    difference |= key.instruction().0 ^ first.0;
                    request.set(lane, address, key.active());
                }
            }
            if difference != 0 {
                return self.flush_diverged(n, full, counters);
            }
            count(instruction.unwrap_or_default(), &request, &mut self.banks, counters);
        }
        self.clear();
    }

    /// [`flush`](Self::flush) from the `start`-th entry on: a request is the n-th execution of an instruction by each
    /// lane.
    #[cold]
    fn flush_diverged(&mut self, start: usize, full: u32, counters: &mut Counters) {
        let is_full = |lane: usize| full >> lane & 1 == 1;
        let mut executions = Executions::default();
        let executed: [Vec<usize>; LANES] = std::array::from_fn(|lane| {
            let entries = &self.entries[lane * STRIDE..][..self.lengths[lane]];
            let entries = entries.iter().skip(start);
            entries.map(|entry| executions.add(lane, entry.key.instruction())).collect()
        });

        // An execution waits for the full lanes that have not come as far. A lane that is not full has time and waits
        // for all of them; a full one only for those that have executed the instruction at all.
        let waits = |lane: usize, execution: usize| {
            let (instruction, n) = executions.all[execution];
            let behind = |other: usize| match executions.times(other, instruction) {
                0 => !is_full(lane),
                times => n > times,
            };
            (0..LANES).any(|other| is_full(other) && behind(other))
        };
        let mut kept = vec![false; executions.all.len()];
        for (lane, executed) in executed.iter().enumerate() {
            for &execution in executed {
                kept[execution] |= waits(lane, execution);
            }
        }
        // Nothing overtakes what waits.
        loop {
            let mut more = false;
            for executed in &executed {
                let first = executed.iter().position(|&execution| kept[execution]);
                for &execution in &executed[first.unwrap_or(executed.len())..] {
                    more |= !std::mem::replace(&mut kept[execution], true);
                }
            }
            if !more {
                break;
            }
        }

        let mut requests: Vec<Request> = Vec::new();
        requests.resize_with(executions.all.len(), Request::default);
        for (lane, executed) in executed.iter().enumerate() {
            let entries = &mut self.entries[lane * STRIDE..][..CAPACITY];
            let mut length = 0;
            for (n, &execution) in executed.iter().enumerate() {
                let entry = entries[start + n];
                if kept[execution] {
                    entries[length] = entry;
                    length += 1;
                } else {
                    requests[execution].set(lane, entry.address, entry.key.active());
                }
            }
            self.lengths[lane] = length;
        }
        for (request, (instruction, _)) in requests.iter().zip(&executions.all) {
            count(executions.instructions[*instruction].key, request, &mut self.banks, counters);
        }
        let mut full_lanes = (0..LANES).filter(|&lane| is_full(lane));
        if full != 0 && full_lanes.all(|lane| self.lengths[lane] == CAPACITY) {
            // All wait for each other, so nobody does.
            self.flush_diverged(0, 0, counters);
        }
    }
}

/// Adds one request to the counters.
fn count(instruction: Key, request: &Request, banks: &mut Banks, counters: &mut Counters) {
    let lanes = request.lanes() as u64;
    if lanes == 0 {
        return;
    }
    let bytes = instruction.bytes();
    let c = counters;
    let store = instruction.0 & Key::STORE != 0;
    let (requests, elements, moved) = match (instruction.0 & Key::SHARED != 0, store) {
        (false, store) => {
            let (requests, elements, moved, touched) = if store {
                (
                    &mut c.global_store_requests,
                    &mut c.global_store_elements,
                    &mut c.global_store_bytes,
                    &mut c.global_store_sectors,
                )
            } else {
                (
                    &mut c.global_load_requests,
                    &mut c.global_load_elements,
                    &mut c.global_load_bytes,
                    &mut c.global_load_sectors,
                )
            };
            *touched += sectors(request) as u64;
            (requests, elements, moved)
        }
        (true, store) => {
            let (requests, elements, moved, wavefronts, conflicts) = if store {
                (
                    &mut c.shared_store_requests,
                    &mut c.shared_store_elements,
                    &mut c.shared_store_bytes,
                    &mut c.shared_store_wavefronts,
                    &mut c.shared_store_conflicts,
                )
            } else {
                (
                    &mut c.shared_load_requests,
                    &mut c.shared_load_elements,
                    &mut c.shared_load_bytes,
                    &mut c.shared_load_wavefronts,
                    &mut c.shared_load_conflicts,
                )
            };
            let passes = banks.wavefronts(request, bytes);
            *wavefronts += passes.wavefronts as u64;
            *conflicts += passes.conflicts() as u64;
            (requests, elements, moved)
        }
    };
    *requests += 1;
    *elements += lanes * instruction.elements() as u64;
    *moved += lanes * bytes as u64;
}
