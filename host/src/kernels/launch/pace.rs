//! Whether the blocks of a launch [keep pace](regemm_kernels::warpgroup::pace).

use crate::device::info::DeviceInfo;
use crate::kernels::Problem;
use regemm_kernels::kernel::{KernelInfo, Schedule};
use regemm_kernels::tile;

/// Slices that a block asks for at a time. More of them let blocks drift apart further: 10.1 GB from memory with 2 at
/// 16384 x 16384 x 16384, 10.2 with 4, 11.6 with 8 and more than twice as much if nobody waits (bf16, H200).
const PACE: u32 = 2;

/// Blocks keep pace where the factors of the tiles under way are more than as many fifths of the L2 cache: at 8192 x
/// 8192 x 8192, with 68 MB and a cache of 63, there is nothing to gain yet; at 12288 x 12288 x 12288 tiles of 128 x
/// 192, with 89 MB, have drifted too far.
const FIFTHS_OF_L2: u64 = 7;

/// Bytes of an element of half precision.
const HALF_BYTES: usize = 2;

/// Slices between two looks at how far the others are, for so many blocks that stay; zero where nobody looks.
pub(super) fn pace_of(
    kernel: &KernelInfo,
    problem: &Problem,
    device: &DeviceInfo,
    blocks: u32,
) -> u32 {
    let Problem { m, n, k, batch, .. } = *problem;
    let (true, 1, Some(l2)) = (kernel.keeps_pace, batch, device.l2_bytes) else { return 0 };
    let tiles = kernel.blocks(m, n);
    // What all clusters count together, and once more at their ends.
    let counted = u64::from(k.div_ceil(kernel.tile.bk)) * tiles * (u64::from(blocks) + 1);
    let drift = drift(kernel, (m, n, k), blocks, l2);
    if drift && counted < 1 << u32::BITS { PACE } else { 0 }
}

/// Whether so many blocks that stay, of a kernel that does not keep pace, drift apart further than a cache of `l2`
/// bytes has room for.
pub(crate) fn drifts(
    kernel: &KernelInfo,
    shape: (u32, u32, u32),
    blocks: u32,
    l2: Option<u64>,
) -> bool {
    let stays = kernel.schedule == Schedule::Persistent && !kernel.keeps_pace;
    // Others take so long for their products that the memory keeps up.
    let hurries = kernel.dtype.bytes() == HALF_BYTES;
    stays && hurries && l2.is_some_and(|l2| drift(kernel, shape, blocks, l2))
}

/// Whether the factors of the tiles under way are more than the L2 cache has room for, and blocks have time to drift
/// apart.
fn drift(kernel: &KernelInfo, (m, n, k): (u32, u32, u32), blocks: u32, l2: u64) -> bool {
    if kernel.blocks(m, n) <= blocks.into() {
        // Who has one tile has no time to drift.
        return false;
    }
    let (bm, bn) = (u64::from(kernel.tile.bm), u64::from(kernel.tile.bn));
    let rows = u64::from(m).min(tile::ROWS_OF_GROUP.into());
    let cols = u64::from(n).min((u64::from(blocks) * bm * bn).div_ceil(rows));
    let bytes = (rows + cols) * u64::from(k) * kernel.dtype.bytes() as u64;
    5 * bytes > FIFTHS_OF_L2 * l2
}

#[cfg(test)]
mod tests {
    use super::PACE;
    use crate::device::Rows;
    use crate::device::info::DeviceInfo;
    use crate::device::info::tests::h200;
    use crate::kernels::launch::LaunchShape;
    use crate::kernels::{Problem, find};
    use crate::{Device, Error, Gemm, KernelChoice};
    use cuda_std::sim::{FaultKind, SimError};
    use half::bf16;
    use ndarray::Array2;
    use regemm_kernels::element::Dtype;

    fn shape(name: &str, (m, n, k): (u32, u32, u32), device: &DeviceInfo) -> LaunchShape {
        let problem = Problem::new(Dtype::Bf16, m, n, k);
        LaunchShape::new(find(name).unwrap(), &problem, device, None)
    }

    #[test]
    fn blocks_keep_pace_where_the_cache_is_too_small_for_what_they_share() {
        let pace = |name, size| shape(name, size, &h200()).pace;
        let pair = "warpgroup_pair_bf16";
        assert_eq!(pace(pair, (16384, 16384, 16384)), PACE);
        assert_eq!(pace("warpgroup_fitted_pair_bf16", (16384, 16384, 16384)), PACE);
        for size in [(8192, 8192, 8192), (4096, 4096, 4096), (128, 256, 1 << 20)] {
            assert_eq!(pace(pair, size), 0, "{size:?}");
        }
        assert_eq!(pace(pair, (16384, 16384, 1 << 24)), 0, "no count is too large");
        assert_eq!(pace("warpgroup_bf16", (16384, 16384, 16384)), 0, "it cannot");
        let simulator = DeviceInfo { l2_bytes: None, ..h200() };
        assert_eq!(shape(pair, (16384, 16384, 16384), &simulator).pace, 0, "no cache");
    }

    #[test]
    fn blocks_drift_that_hurry_and_do_not_keep_pace() {
        let drifts = |name, shape| super::drifts(find(name).unwrap(), shape, 132, h200().l2_bytes);
        let (large, flat) = ((16384, 16384, 16384), (4096, 65536, 16384));
        for name in ["warpgroup_bf16", "warpgroup_fitted_f16", "warpgroup128_bf16"] {
            assert!(drifts(name, large) && drifts(name, flat), "{name}");
        }
        // Few rows or columns, little depth, or one tile for each block: the factors of what is under way find room.
        for shape in
            [(8192, 8192, 8192), (256, 65536, 2048), (65536, 65536, 4096), (1024, 4096, 1 << 18)]
        {
            assert!(!drifts("warpgroup_bf16", shape), "{shape:?}");
        }
        assert!(!drifts("warpgroup_pair_bf16", large), "it keeps pace");
        assert!(!drifts("split_warpgroup128_bf16", large), "its blocks do not stay");
        assert!(!drifts("tensor_core_bulk_f64", large), "it does not hurry");
        assert!(!super::drifts(find("warpgroup_bf16").unwrap(), large, 132, None), "no cache");
    }

    /// Pairs of tiles for one cluster, three above each other, or of those that fit six: the product is right, and what
    /// it counts in are the words of the workspace.
    #[test]
    fn blocks_keep_pace_in_the_words_of_the_workspace() {
        keeps_pace("warpgroup_pair128_bf16", (3 * 256, 128));
        keeps_pace("warpgroup_fitted_pair_bf16", (432, 3 * 256));
    }

    fn keeps_pace(name: &str, (m, n): (usize, usize)) {
        let k = 10 * 64;
        let ones = |rows, cols| Array2::from_elem((rows, cols), bf16::ONE);
        let product = |l2: u64, first_word: u32| {
            let device = Device::sim_with_l2(l2);
            let (a, b) = (device.upload(&ones(m, k).view())?, device.upload(&ones(k, n).view())?);
            let mut d = device.matrix(m, n)?;
            let kernel = KernelChoice::Info(find(name).unwrap());
            let gemm = Gemm::new(&a, &b).kernel(kernel);
            let size = gemm.workspace_size(&mut d)?;
            let workspace = device.workspace(size)?;
            if size.signals > 0 {
                let address = workspace.hold(size, None)?.signals();
                let to = Rows { address, row_bytes: 4, pitch: 4, rows: 1 };
                device.write_rows(&first_word.to_ne_bytes(), to)?;
            }
            gemm.workspace(&workspace).run(&mut d)?;
            Ok::<_, Error>((size.signals, d.to_array()?))
        };
        let expected = Array2::from_elem((m, n), bf16::from_f32(k as f32));
        assert_eq!(product(1 << 30, 0).unwrap(), (0, expected.clone()));
        assert_eq!(product(1 << 10, 0).unwrap(), (2, expected));
        let Err(Error::Simulator(SimError::Fault(fault))) = product(1 << 10, 1) else {
            panic!("nobody has looked at the words")
        };
        assert_eq!(fault.kind, FaultKind::SignalNotZero { value: 1 });
    }

    #[test]
    fn words_to_count_in_are_beside_those_for_sharing() {
        let signals = |size| {
            let shape = shape("warpgroup_pair_bf16", size, &h200());
            (shape.sharing_blocks, shape.pace, shape.workspace.signals)
        };
        assert_eq!(signals((16384, 16384, 16384)), (44, PACE, 2 * 44 + 2));
        assert_eq!(signals((8192, 8192, 8192)), (66, 0, 2 * 66));
        // 66 pairs of tiles, twice.
        assert_eq!(signals((66 * 256, 512, 1 << 18)), (0, PACE, 2));
    }
}
