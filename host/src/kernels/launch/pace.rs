//! Whether the blocks of a launch [keep pace](regemm_kernels::pace).

use crate::device::info::DeviceInfo;
use crate::kernels::Problem;
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::tile;

/// Slices that a block asks for at a time. More of them let blocks drift apart further: 15.0 GB from memory with 8 at 16384 x 16384 x
/// 16384, 17.7 with 16 and 23.1 with 32, where it is 31.7 if nobody waits (bf16, H200).
const PACE: u32 = 8;

/// Blocks keep pace where the factors of the tiles under way are more than as many halves of the L2 cache: at 8192 x 8192 x 8192, with 68 MB
/// and a cache of 50, there is nothing to gain yet.
const HALVES_OF_L2: u64 = 3;

/// Slices between two looks at how far the others are, for so many blocks that stay; zero where nobody looks.
pub(super) fn pace_of(
    kernel: &KernelInfo,
    problem: &Problem,
    device: &DeviceInfo,
    blocks: u32,
) -> u32 {
    let Problem { m, n, k, batch, .. } = *problem;
    let tiles = kernel.blocks(m, n);
    let (Some(l2), true, 1) = (device.l2_bytes, kernel.keeps_pace, batch) else { return 0 };
    if tiles <= blocks.into() {
        // Who has one tile has no time to drift.
        return 0;
    }
    let (bm, bn) = (u64::from(kernel.tile.bm), u64::from(kernel.tile.bn));
    let rows = u64::from(m).min(tile::ROWS_OF_GROUP.into());
    let cols = u64::from(n).min((u64::from(blocks) * bm * bn).div_ceil(rows));
    let element = if kernel.takes_halves() { Dtype::F16 } else { kernel.dtype }.bytes() as u64;
    let bytes = (rows + cols) * u64::from(k) * element;
    // What all clusters count together, and once more at their ends.
    let counted = u64::from(k.div_ceil(kernel.tile.bk)) * tiles * (u64::from(blocks) + 1);
    if 2 * bytes > HALVES_OF_L2 * l2 && counted < 1 << u32::BITS { PACE } else { 0 }
}

#[cfg(test)]
mod tests {
    use crate::device::info::DeviceInfo;
    use crate::device::info::tests::h200;
    use crate::kernels::launch::LaunchShape;
    use crate::kernels::{Problem, find};
    use regemm_kernels::element::Dtype;

    fn shape(name: &str, (m, n, k): (u32, u32, u32), device: &DeviceInfo) -> LaunchShape {
        let problem = Problem::new(Dtype::Bf16, m, n, k);
        LaunchShape::new(find(name).unwrap(), &problem, device, None)
    }

    #[test]
    fn blocks_keep_pace_where_the_cache_is_too_small_for_what_they_share() {
        let pace = |name, size| shape(name, size, &h200()).pace;
        let pair = "warpgroup_pair_bf16";
        assert_eq!(pace(pair, (16384, 16384, 16384)), 8);
        for size in [(8192, 8192, 8192), (4096, 4096, 4096), (128, 256, 1 << 20)] {
            assert_eq!(pace(pair, size), 0, "{size:?}");
        }
        assert_eq!(pace(pair, (16384, 16384, 1 << 24)), 0, "no count is too large");
        assert_eq!(pace("warpgroup_bf16", (16384, 16384, 16384)), 0, "it cannot");
        let simulator = DeviceInfo { l2_bytes: None, ..h200() };
        assert_eq!(shape(pair, (16384, 16384, 16384), &simulator).pace, 0, "no cache");
    }

    #[test]
    fn words_to_count_in_are_beside_those_for_sharing() {
        let signals = |size| {
            let shape = shape("warpgroup_pair_bf16", size, &h200());
            (shape.sharing_blocks, shape.pace, shape.workspace.signals)
        };
        assert_eq!(signals((16384, 16384, 16384)), (44, 8, 2 * 44 + 2));
        assert_eq!(signals((8192, 8192, 8192)), (66, 0, 2 * 66));
        // 66 pairs of tiles, twice.
        assert_eq!(signals((66 * 256, 512, 1 << 18)), (0, 8, 2));
    }
}
