//! Into how many slices K is split among the blocks that share a tile.

use crate::device::info::DeviceInfo;
use crate::kernels::Problem;
use crate::kernels::rule::MULTIPLY_ADDS_A_LOAD;
use regemm_kernels::kernel::{KernelInfo, Needs};

/// Elements of the factors that a slice loads for each element of D, at least, unless a number of slices is asked for:
/// each costs a store and a load of its sums, which pays only where it is little beside the rest.
const LOADS_OF_SLICE: u64 = 6;

/// Most slices that more than one round of blocks is divided into.
const MOST_OF_ROUNDS: u64 = 16;

/// The share of the time, in per cent, that several rounds may take to be worth the memory for their sums.
const WORTH_ROUNDS: u64 = 97;

/// How many blocks could share a tile, and of how many tiles.
pub(in crate::kernels) struct Sharing {
    /// Blocks to a tile that the device has room for: the tiles of all products of a batch are resident together.
    pub blocks: u64,
    /// Slices of K that load [`LOADS_OF_SLICE`].
    pub slices: u64,
    /// Blocks that the device has room for.
    resident: u64,
    /// Tiles of all products.
    tiles: u64,
}

impl Sharing {
    pub fn of(kernel: &KernelInfo, problem: &Problem, device: &DeviceInfo) -> Sharing {
        let tiles = kernel.blocks(problem.m, problem.n).saturating_mul(problem.batch.into());
        let resident =
            u64::from(device.multiprocessors) * u64::from(kernel.entry.min_blocks.unwrap_or(1));
        let (bm, bn) = (u64::from(kernel.tile.bm), u64::from(kernel.tile.bn));
        let least_depth = (LOADS_OF_SLICE * bm * bn).div_ceil(bm + bn);
        let whole = keeps_k(kernel, tiles, device.multiprocessors.into());
        let blocks = if whole { 1 } else { resident / tiles.max(1) };
        Sharing { blocks, slices: u64::from(problem.k) / least_depth, resident, tiles }
    }

    /// As many slices as take the least time. Where a tile has room for many blocks that is as many as fill the device
    /// once, but none that loads too little.
    ///
    /// Where it has room for few of them, as many would leave the rest of the device idle: of 264 blocks that there is
    /// room for 96 tiles in two slices take 192. In eleven they fill it four times. Blocks of tensor cores multiply so
    /// fast that the sums of more slices cost more than they gain, and those for few rows or columns wait for memory.
    pub fn best(&self, kernel: &KernelInfo, problem: &Problem) -> u32 {
        let once = self.blocks.min(self.slices);
        let in_rounds = is_of_outer_products(kernel) && self.blocks < MOST_OF_ROUNDS;
        let time = |slices: u64| self.time(slices, kernel, problem);
        let all = 1..=self.slices.min(MOST_OF_ROUNDS);
        let best = all.filter(|_| in_rounds).min_by_key(|&slices| time(slices));
        let is_worth = |&best: &u64| {
            time(best).saturating_mul(100) <= time(once.max(1)).saturating_mul(WORTH_ROUNDS)
        };
        let slices = best.filter(is_worth).unwrap_or(once);
        u32::try_from(slices).unwrap_or(u32::MAX).max(1)
    }

    /// How long the device takes with so many slices, in multiply-adds: those of whole rounds of blocks, and what could
    /// be multiplied while the sums of all slices are stored and loaded.
    fn time(&self, slices: u64, kernel: &KernelInfo, problem: &Problem) -> u64 {
        let Problem { m, n, k, batch, .. } = *problem;
        let rounds = self.tiles.saturating_mul(slices).div_ceil(self.resident.max(1));
        let depth = u64::from(k).div_ceil(slices).next_multiple_of(kernel.tile.bk.into());
        let of_slice = u64::from(kernel.tile.bm * kernel.tile.bn) * depth;
        let products = rounds.saturating_mul(self.resident).saturating_mul(of_slice);
        let elements = u64::from(m).saturating_mul(n.into()).saturating_mul(batch.into());
        let sums = elements.saturating_mul(2 * MULTIPLY_ADDS_A_LOAD * slices);
        products.saturating_add(sums)
    }
}

/// Whether it is threads that multiply, tiles that are large in both directions.
fn is_of_outer_products(kernel: &KernelInfo) -> bool {
    let by_threads = matches!(kernel.needs, Needs::Nothing | Needs::RegisterTransfers);
    by_threads && kernel.short_side.is_none()
}

/// Whether blocks of a kernel that may split K and need not do not: a second launch costs more than the speed of memory
/// gains from the other half of the multiprocessors.
pub(crate) fn keeps_k(kernel: &KernelInfo, tiles: u64, multiprocessors: u64) -> bool {
    kernel.finishes && 2 * tiles >= multiprocessors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::info::tests::h200;
    use crate::kernels::{Types, find};

    fn slices(name: &str, (m, n, k): (u32, u32, u32)) -> [u32; 2] {
        let kernel = find(name).unwrap();
        let problem = Problem::packed(Types::of(kernel), (m, n, k), kernel.layouts);
        let sharing = Sharing::of(kernel, &problem, &h200());
        let once = sharing.blocks.min(sharing.slices).max(1) as u32;
        [once, sharing.best(kernel, &problem)]
    }

    #[test]
    fn blocks_fill_whole_rounds() {
        // 48 tiles of 132, 192 of 528 and of 132, 64 of 132.
        assert_eq!(slices("split_specialised_nt_f32", (333, 4096, 14336)), [2, 11]);
        assert_eq!(slices("split_k_f32", (333, 4096, 14336)), [2, 11]);
        assert_eq!(slices("split_sliced_k_nt_f32", (333, 4096, 14336)), [1, 2]);
        assert_eq!(slices("split_specialised_f32", (512, 4096, 14336)), [2, 2]);
        // Slices that are shallow cost more than they gain.
        assert_eq!(slices("split_k_f32", (333, 4096, 1024)), [2, 2]);
        assert_eq!(slices("split_sliced_k_f32", (1024, 1024, 256)), [1, 1]);
    }

    #[test]
    fn who_fills_the_device_once_or_waits_for_memory_goes_on_to() {
        for (name, shape) in [
            ("split_k_f32", (256, 256, 1 << 20)),
            ("split_warpgroup64_bf16", (333, 2048, 14336)),
            ("skinny16_rows_nt_f32", (16, 4000, 14336)),
            ("skinny_cols_f64", (10_000, 1, 4096)),
        ] {
            let [once, best] = slices(name, shape);
            assert_eq!(once, best, "{name}");
        }
    }

    #[test]
    fn no_number_of_slices_takes_longer_than_one_round() {
        let kernel = find("split_k_f32").unwrap();
        for size in (64..6000).step_by(97) {
            for k in [1, 100, 1024, 4096, 50_000] {
                let problem = Problem::new(kernel.dtype, size, 2 * size, k);
                let sharing = Sharing::of(kernel, &problem, &h200());
                let time = |slices: u64| sharing.time(slices.max(1), kernel, &problem);
                let best = u64::from(sharing.best(kernel, &problem));
                assert!(time(best) <= time(sharing.blocks.min(sharing.slices)), "{problem}");
            }
        }
    }
}
