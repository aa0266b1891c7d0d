//! What one request of a warp costs: sectors of global memory, passes over the banks of shared memory.

use std::ops::Range;

const LANES: usize = super::limits::WARP_THREADS as usize;

/// log2 of the bytes of a sector, the unit in which global memory is read and written.
const SECTOR_SHIFT: u32 = 5;

/// Bytes of a sector.
pub(super) const SECTOR_BYTES: u64 = 1 << SECTOR_SHIFT;

/// Banks of shared memory; consecutive 4-byte words lie in consecutive banks.
const BANKS: usize = 32;

/// Bytes of a bank's word.
const BANK_BYTES: u32 = 4;

/// The addresses of the lanes that take part in a request.
#[derive(Default)]
pub(super) struct Request {
    addresses: [u64; LANES],
    active: u32,
}

impl Request {
    /// Adds a lane, which touches something only if it is active.
    #[inline(always)]
    pub(super) fn set(&mut self, lane: usize, address: u64, active: bool) {
        self.addresses[lane] = address;
        self.active |= (active as u32) << lane;
    }

    /// Lanes that touch something.
    pub(super) fn lanes(&self) -> u32 {
        self.active.count_ones()
    }

    /// The active lanes of a range with their addresses.
    #[inline(always)]
    fn active(&self, lanes: Range<usize>) -> impl Iterator<Item = u64> {
        let active = self.active;
        lanes.filter(move |lane| active >> lane & 1 == 1).map(|lane| self.addresses[lane])
    }
}

/// Distinct 32-byte sectors that a request touches. An access is aligned, so each lane touches one.
pub(super) fn sectors(request: &Request) -> u32 {
    let Some(first) = request.active(0..LANES).next() else { return 0 };
    // Nearly always all sectors lie within 2 KiB: one bit each.
    let origin = (first >> SECTOR_SHIFT).wrapping_sub(u64::BITS as u64 / 2);
    let (mut seen, mut farthest) = (0_u64, 0);
    for address in request.active(0..LANES) {
        let sector = (address >> SECTOR_SHIFT).wrapping_sub(origin);
        farthest = sector.max(farthest);
        seen |= 1 << (sector % u64::BITS as u64);
    }
    if farthest < u64::BITS as u64 {
        return seen.count_ones();
    }
    let mut sectors = [0; LANES];
    let mut count = 0;
    for address in request.active(0..LANES) {
        sectors[count] = address >> SECTOR_SHIFT;
        count += 1;
    }
    let sectors = &mut sectors[..count];
    sectors.sort_unstable();
    1 + sectors.windows(2).filter(|pair| pair[0] != pair[1]).count() as u32
}

/// Passes over the banks that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passes {
    /// All of them.
    pub(super) wavefronts: u32,
    /// As many as there would be without conflicts.
    pub(super) fewest: u32,
}

impl Passes {
    /// Passes that conflicts add.
    pub(super) fn conflicts(self) -> u32 {
        self.wavefronts - self.fewest
    }
}

/// Counts passes over the banks; holds the working memory for it.
///
/// The model is that of the CUDA C++ Programming Guide (compute capability 5.x and later, "Shared Memory": 32 banks of
/// 4 bytes, lanes that touch the same word are served together) and of the *wavefronts* of Nsight Compute: an access of
/// up to 4 bytes a lane serves all 32 lanes at once, one of 8 bytes two groups of 16 lanes after each other, one of 16
/// bytes four groups of 8. A group takes as many passes as the bank with the most distinct words has of them.
pub(super) struct Banks {
    counts: [u8; BANKS],
    words: [[u32; LANES]; BANKS],
}

impl Banks {
    pub(super) fn new() -> Self {
        Banks { counts: [0; BANKS], words: [[0; LANES]; BANKS] }
    }

    /// The passes of a request that moves `bytes` bytes a lane.
    pub(super) fn wavefronts(&mut self, request: &Request, bytes: u32) -> Passes {
        let words = bytes.div_ceil(BANK_BYTES);
        let group_lanes = LANES / words as usize;
        let mut passes = Passes { wavefronts: 0, fewest: 0 };
        for start in (0..LANES).step_by(group_lanes) {
            let group = self.group(request, start..start + group_lanes, words);
            passes.wavefronts += group;
            passes.fewest += group.min(1);
        }
        passes
    }

    /// The passes of one group of lanes that touch `words` words each.
    fn group(&mut self, request: &Request, lanes: Range<usize>, words: u32) -> u32 {
        let Some(first) = request.active(lanes.clone()).next() else { return 0 };
        let different =
            request.active(lanes.clone()).fold(0, |bits, address| bits | address ^ first);
        if different < BANKS as u64 * BANK_BYTES as u64 {
            // All within one aligned row across the banks: no two words of a bank.
            return 1;
        }
        self.counts = [0; BANKS];
        let mut most = 0;
        for address in request.active(lanes) {
            let first = address as u32 / BANK_BYTES;
            for word in first..first + words {
                let bank = word as usize % BANKS;
                let count = &mut self.counts[bank];
                let known = &mut self.words[bank];
                if !known[..*count as usize].contains(&word) {
                    known[*count as usize] = word;
                    *count += 1;
                    most = most.max(*count);
                }
            }
        }
        most as u32
    }
}
