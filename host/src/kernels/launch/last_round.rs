//! Which tiles several blocks share where the last round has too few for all multiprocessors, and how many blocks that
//! are.

use crate::device::info::DeviceInfo;
use crate::kernels::{MAX_BLOCKS, Problem, resident};
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::{KernelInfo, Schedule};
use regemm_kernels::schedule::shares::Shares;

/// Slices of k, at least, of each block that shares tiles with others.
const LEAST_SLICES: u32 = 4;

/// Blocks, at most, that share one tile of f32: their sums are added up by one of them.
const MOST_HELPERS: u32 = 8;

/// The share of the multiprocessors, in per cent, that may have work without others being worth the cost of sharing.
const IDLE_WORTH_SHARING: u64 = 95;

/// What it costs warpgroups to share tiles, in slices of 64 values of k by one element of D: about as long as 14 slices
/// of 128 x 256 take (10 microseconds, H200), however large the tile is.
const COST_OF_SHARING: u64 = 14 * 128 * 256;

/// The same in double precision, in slices of 16 values of k: about as long as 12 slices of 128 x 128 take.
pub(in crate::kernels) const COST_OF_SHARING_DOUBLES: u64 = 12 * 128 * 128;

/// [`shares`] of a problem: nothing in a batch of which each block computes one product, since others fill the device.
pub(super) fn shares_of(
    kernel: &KernelInfo,
    problem: &Problem,
    device: &DeviceInfo,
    asked: Option<u32>,
) -> Shares {
    let Problem { m, n, k, batch, .. } = *problem;
    if batch > 1 {
        return Shares::new(0, 0, 1);
    }
    shares(kernel, [m, n, k], device.multiprocessors, asked)
}

/// How blocks, or clusters of them, share the tiles of the last round, those that are too few for all: as many blocks
/// as multiprocessors, or as a number that is asked for. Nothing is shared
/// - where there is no such round, or sharing it does not pay: nearly all multiprocessors have a tile in it
///   ([`IDLE_WORTH_SHARING`]), or where blocks stay it is too short for what that costs ([`COST_OF_SHARING`],
///   [`COST_OF_SHARING_DOUBLES`]), or they wait for memory, which half of the multiprocessors keep as busy as all
///   ([`KernelInfo::is_for_few_rows`]),
/// - where there is nothing to sum, or more slices than a kernel can count, or tiles fill the largest grid, or it
///   cannot share.
///
/// A round has a tile for each multiprocessor; where a number of blocks is asked for, for each of these: which tiles
/// are shared decides the bits as well as how many blocks do, and what is asked for shall give the same on every
/// device.
///
/// Where tiles can be cut into equal parts for nearly all multiprocessors they are: then no block has parts of two.
/// Where blocks stay, and sums are dear to hand over, it is enough that they can be cut at all; and as each block that
/// helps with a tile costs as much again, they are as many as make the tile's time shortest: about the root of half its
/// slices.
pub(crate) fn shares(
    kernel: &KernelInfo,
    [m, n, k]: [u32; 3],
    multiprocessors: u32,
    asked: Option<u32>,
) -> Shares {
    // `supports` has compared them with the largest grid.
    let tiles = kernel.blocks(m, n) as u32 / kernel.cluster;
    let slices = k.div_ceil(kernel.tile.bk).max(1);
    let nothing = Shares::new(0, 0, slices);
    let all = asked.unwrap_or(resident(kernel, multiprocessors) / kernel.cluster).max(1);
    let last = tiles % all;
    let slices_of_last = u64::from(last) * u64::from(slices);
    if !kernel.shares_tiles() || last == 0 || k == 0 || slices_of_last >= 1 << u32::BITS {
        return nothing;
    }
    let most = slices_of_last as u32;
    if asked.is_some() {
        // Beside blocks for all other tiles, in a grid.
        let room = MAX_BLOCKS / u64::from(kernel.cluster) - u64::from(tiles);
        let blocks = all.min(most).min(room as u32);
        return if blocks < last { nothing } else { Shares::new(last, blocks, slices) };
    }
    // Neither blocks with hardly anything to sum nor many that pass their sums to one.
    let deep_enough = most / LEAST_SLICES;
    let persistent = kernel.schedule == Schedule::Persistent;
    let helpers = if persistent { (slices / 2).isqrt() } else { MOST_HELPERS };
    let blocks = all.min(deep_enough).min(last.saturating_mul(helpers)).max(last);
    let equal = blocks / last * last;
    let idle = |blocks: u32| u64::from(blocks) * 100 < u64::from(all) * IDLE_WORTH_SHARING;
    let blocks = match persistent {
        true if equal > last => equal,
        false if !idle(equal) => equal,
        _ => blocks,
    };
    let spared = u64::from(slices) - slices_of_last.div_ceil(blocks.into());
    let of_slice = u64::from(kernel.tile.bm) * u64::from(kernel.tile.bn);
    let cost = match kernel.dtype {
        Dtype::F64 => COST_OF_SHARING_DOUBLES,
        Dtype::F32 | Dtype::F16 | Dtype::Bf16 => COST_OF_SHARING,
    };
    let memory_is_busy = kernel.is_for_few_rows() && 2 * tiles >= all;
    let pays = !persistent || !memory_is_busy && spared * of_slice >= cost;
    if blocks == last || !pays { nothing } else { Shares::new(last, blocks, slices) }
}

#[cfg(test)]
mod tests {
    use super::{MAX_BLOCKS, shares};
    use crate::device::info::tests::h200;
    use crate::device::workspace::WorkspaceSize;
    use crate::kernels::launch::LaunchShape;
    use crate::kernels::{Problem, find};
    use regemm_kernels::element::Dtype;

    #[test]
    fn persistent_blocks_share_the_last_round_where_that_pays() {
        let kernel = find("warpgroup_pair_bf16").unwrap();
        let of = |size, batch, slices| {
            let problem = Problem { batch, ..Problem::new(Dtype::Bf16, size, size, size) };
            let shape = LaunchShape::new(kernel, &problem, &h200(), slices);
            (shape.main, shape.shared_tiles, shape.sharing_blocks, shape.workspace)
        };
        let nothing = WorkspaceSize::default();
        assert_eq!(of(4096, 1, None), (Some([132, 1]), 0, 0, nothing), "58 of 66 have work");
        let (main, tiles, blocks, workspace) = of(8192, 1, None);
        assert_eq!((main, tiles, blocks), (Some([132, 1]), 34, 66));
        assert_eq!((workspace.partial_bytes, workspace.signals), (132 * 128 * 256 * 4, 132));
        let (main, tiles, blocks, _) = of(16384, 1, None);
        assert_eq!((main, tiles, blocks), (Some([132, 1]), 4, 44), "not too many help");
        // 1024 pairs of tiles of two products, of which 34 would have been the last round of each.
        let (main, tiles, blocks, _) = of(8192, 2, None);
        assert_eq!((main, tiles, blocks), (Some([132, 1]), 2, 16), "of both products");
        let (main, tiles, blocks, _) = of(512, 1, Some(7));
        assert_eq!((main, tiles, blocks), (Some([14, 1]), 4, 7), "as asked");
    }

    /// 96 tiles of 64 slices for 132 multiprocessors, which of two warpgroups with 128 rows would be shared.
    #[test]
    fn what_waits_for_memory_is_not_shared() {
        let shared = |name, [m, n, k]: [u32; 3]| {
            let problem = Problem::new(Dtype::Bf16, m, n, k);
            let shape = LaunchShape::new(find(name).unwrap(), &problem, &h200(), None);
            (shape.main.unwrap()[0], shape.shared_tiles)
        };
        assert_eq!(shared("warpgroup64x64_bf16", [16, 6144, 16384]), (96, 0));
        assert_eq!(shared("warpgroup64_bf16", [16, 6144, 16384]).1, 96);
        assert_eq!(shared("warpgroup64x64_bf16", [16, 2048, 32768]).1, 32, "too few for memory");
    }

    #[test]
    fn doubles_share_the_last_round_where_that_pays() {
        let kernel = find("tensor_core_bulk_f64").unwrap();
        let of = |size| {
            let problem = Problem::new(Dtype::F64, size, size, size);
            let shape = LaunchShape::new(kernel, &problem, &h200(), None);
            (shape.main, shape.shared_tiles, shape.sharing_blocks, shape.workspace)
        };
        let nothing = WorkspaceSize::default();
        assert_eq!(of(2048), (Some([132, 1]), 0, 0, nothing), "62 of 66 have work");
        let (main, tiles, blocks, workspace) = of(4096);
        assert_eq!((main, tiles, blocks), (Some([132, 1]), 50, 66));
        assert_eq!((workspace.partial_bytes, workspace.signals), (132 * 128 * 128 * 8, 132));
        let (_, tiles, blocks, _) = of(8192);
        assert_eq!((tiles, blocks), (2, 32), "not too many help");
    }

    /// Which tiles are shared, and by how many blocks, depends on what is asked for and on nothing of the device.
    #[test]
    fn what_is_asked_for_is_the_same_on_every_device() {
        let names = [
            "stream_k_f32",
            "warpgroup_f16",
            "warpgroup_pair_bf16",
            "warpgroup_abreast64_bf16",
            "tensor_core_bulk_f64",
        ];
        for kernel in names.map(|name| find(name).unwrap()) {
            let tile = kernel.tile;
            for (m, n) in [(kernel.cluster * tile.bm, 3 * tile.bn), (4 * tile.bm, 5 * tile.bn)] {
                let tiles = kernel.blocks(m, n) as u32 / kernel.cluster;
                for asked in [1, 2, 3, 4, 7, 11, 20, 1000, u32::MAX] {
                    let of = |multiprocessors| {
                        shares(kernel, [m, n, 6 * tile.bk], multiprocessors, Some(asked))
                    };
                    let found = of(132);
                    assert_eq!(found.tiles(), tiles % asked, "{} {asked}", kernel.name);
                    let most = 6 * found.tiles();
                    assert_eq!(found.blocks(), asked.min(most), "{} {asked}", kernel.name);
                    for multiprocessors in [0, 1, 2, 3, 8, 13, 144] {
                        assert_eq!(of(multiprocessors), found, "{} {asked}", kernel.name);
                    }
                }
            }
        }
    }

    #[test]
    fn no_count_of_slices_is_too_large() {
        let problem = Problem::new(Dtype::Bf16, 2048, 768, u32::MAX);
        let kernel = find("warpgroup_bf16").unwrap();
        assert_eq!(LaunchShape::new(kernel, &problem, &h200(), None).shared_tiles, 48);
    }

    #[test]
    fn as_many_blocks_as_a_grid_has_are_the_most() {
        for name in ["warpgroup_abreast64_bf16", "warpgroup_bf16", "stream_k_f32"] {
            let kernel = find(name).unwrap();
            // The first has 2^31 slices.
            for (m, n, k) in
                [(1 << 17, 1 << 17, 1 << 17), (1 << 16, 1 << 18, 1 << 20), (1000, 3000, 1 << 30)]
            {
                let problem = Problem::new(kernel.dtype, m, n, k);
                let shape = LaunchShape::new(kernel, &problem, &h200(), Some(u32::MAX));
                let [blocks, _] = shape.main.unwrap();
                assert!(u64::from(blocks) <= MAX_BLOCKS, "{name} at {m} x {n} x {k}: {blocks}");
                assert!(
                    blocks.is_multiple_of(kernel.cluster),
                    "{name} at {m} x {n} x {k}: {blocks}"
                );
                assert_eq!(
                    shape.sharing_blocks == 0,
                    shape.shared_tiles == 0,
                    "{name} at {m} x {n} x {k}"
                );
            }
        }
    }
}
