//! How wide the tiles of a launch are whose kernel [lets them fit](regemm_kernels::warpgroup::fit).

use super::resident;
use crate::kernels::{MAX_BLOCKS, slowdown};
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::warpgroup::fit;

/// What it costs to begin and end a tile, in slices by one element of D: about two slices of 128 x 256.
const COST_OF_TILE: u64 = 2 * 128 * 256;

/// A kernel with the tiles that it has in a launch for a problem of these sizes: itself, but where its tiles [fit].
///
/// Of all widths that is chosen with which the multiprocessor that has most tiles takes the shortest time, by the
/// slices that it sums, what it waits for them, and what it costs to end tiles; of equal ones the widest, which fetches
/// least. No sum depends on it.
pub(crate) fn fitted(kernel: &KernelInfo, sizes: [u32; 3], multiprocessors: u32) -> KernelInfo {
    if !kernel.fits {
        return *kernel;
    }
    // `supports` has compared the widest with the largest grid.
    let [m, n, _] = sizes;
    let widths = fit::widths(kernel.width()).map(|width| kernel.with_width(width));
    let possible = widths.filter(|fitted| fitted.blocks(m, n) <= MAX_BLOCKS);
    possible.min_by_key(|fitted| cost(fitted, sizes, multiprocessors)).unwrap_or(*kernel)
}

/// What the multiprocessor that has most tiles takes, in slices by one element of D.
fn cost(kernel: &KernelInfo, sizes: [u32; 3], multiprocessors: u32) -> u64 {
    let [m, n, k] = sizes;
    let rounds = kernel.blocks(m, n).div_ceil(resident(kernel, multiprocessors).into());
    let slices = u64::from(k.div_ceil(kernel.tile.bk).max(1));
    let of_slice = f64::from(kernel.tile.bm * kernel.tile.bn) * slowdown(kernel, sizes, [false; 2]);
    let of_tile = slices.saturating_mul(of_slice as u64).saturating_add(COST_OF_TILE);
    of_tile.saturating_mul(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;

    fn width(name: &str, sizes: [u32; 3], multiprocessors: u32) -> u32 {
        fitted(find(name).unwrap(), sizes, multiprocessors).width()
    }

    #[test]
    fn rounds_are_full() {
        for name in
            ["warpgroup_fitted_bf16", "warpgroup_fitted_nt_bf16", "warpgroup_fitted_tt_bf16"]
        {
            let of = |size| width(name, [size; 3], 132);
            // 12 rows of 11 tiles, 20 of 13, 16 of 8; or as many columns, where A and B are swapped.
            assert_eq!([1536, 2560, 2048, 4096].map(of), [144, 208, 256, 256], "{name}");
        }
        // Another device has other rounds.
        assert_eq!(width("warpgroup_fitted_nt_bf16", [1536; 3], 72), 256);
    }

    #[test]
    fn rounds_of_pairs_are_full() {
        let of = |size| width("warpgroup_fitted_pair_bf16", [size; 3], 132);
        // 8 pairs beside each other by 8 below, of the 66 that there are at a time; 9 by 14 in two rounds, 11 by 12.
        assert_eq!([1800, 2200, 2600].map(of), [240, 160, 224]);
        // Two of 131 multiprocessors have a pair, and the last has none.
        for n in (300..6000).step_by(60) {
            let of = |device| width("warpgroup_fitted_pair_nt_bf16", [2048, n, 512], device);
            assert_eq!(of(131), of(130), "{n}");
        }
    }

    #[test]
    fn rounds_of_squares_are_full() {
        let at_a_time = |name, multiprocessors| resident(find(name).unwrap(), multiprocessors);
        assert_eq!(at_a_time("warpgroup_fitted_quad_bf16", 132), 30 * 4);
        assert_eq!(at_a_time("warpgroup_fitted_pair_bf16", 131), 65 * 2);
        assert_eq!(at_a_time("warpgroup_fitted_quad_bf16", 3), 4, "a cluster at least");
        // 6 beside each other by 5, and 4 by 7.
        assert_eq!(width("warpgroup_fitted_quad_bf16", [1400; 3], 132), 144);
        assert_eq!(width("warpgroup_fitted_quad128_bf16", [1000; 3], 132), 80);
        // A cluster needs four of a part of the GPU, so of some there are fewer than have room.
        for size in (300..6000).step_by(60) {
            let of = |device| width("warpgroup_fitted_quad_bf16", [size; 3], device);
            assert_eq!(of(135), of(132), "{size}");
        }
    }

    #[test]
    fn tall_tiles_are_narrow() {
        let of = |size| width("warpgroup_fitted_tall_bf16", [size; 3], 132);
        // 9 by 14 in clusters beside each other, 12 by 22 in two rounds.
        assert_eq!([2200, 3000].map(of), [160, 144]);
        for size in (64..6000).step_by(61) {
            assert!([128, 144, 160].contains(&of(size)), "{size}");
        }
    }

    #[test]
    fn tiles_fit_any_number_of_tokens() {
        let of = |name, tokens, cols| {
            let fitted = fitted(find(name).unwrap(), [tokens, cols, 4096], 132);
            (fitted.tile.bm, fitted.tile.bn, fitted.blocks(tokens, cols))
        };
        assert_eq!(of("warpgroup_fitted_rows_nt_bf16", 777, 4096), (208, 128, 128));
        assert_eq!(of("warpgroup_fitted_pair128_nt_bf16", 333, 4096), (96, 128, 128));
        assert_eq!(of("warpgroup_fitted128_bf16", 1200, 1200), (96, 128, 130));
        assert_eq!(of("warpgroup_fitted_cols128_nt_bf16", 256, 6144), (128, 96, 128));
        assert_eq!(of("warpgroup_fitted64_nt_bf16", 100, 6144), (112, 64, 96));
        for tokens in (1..1000).step_by(7) {
            let (rows, ..) = of("warpgroup_fitted128_nt_f16", tokens, 3072);
            assert!([80, 96, 112, 128].contains(&rows), "{tokens}: {rows}");
        }
    }

    #[test]
    fn tiles_begin_at_lines_unless_that_takes_a_round_more() {
        let of = |size| width("warpgroup_fitted_tn_bf16", [size; 3], 132);
        assert_eq!([1536, 2560, 2048, 3072].map(of), [192, 256, 256, 192]);
    }

    #[test]
    fn every_width_is_one_that_the_kernel_has() {
        for size in (64..6000).step_by(61) {
            for multiprocessors in [1, 16, 60, 114, 132, 144] {
                let width =
                    width("warpgroup_fitted_nt_f16", [size, size + 32, 500], multiprocessors);
                assert!(
                    (144..=256).contains(&width) && width.is_multiple_of(16),
                    "{size}: {width}"
                );
            }
        }
    }

    #[test]
    fn tiles_are_as_high_where_factors_are_swapped() {
        let fitted = |name| fitted(find(name).unwrap(), [1536, 3072, 500], 132).tile;
        let [swapped, in_order] = ["warpgroup_fitted_bf16", "warpgroup_fitted_nt_bf16"].map(fitted);
        // 11 rows of 24 tiles, and 12 of 22, are two whole rounds.
        assert_eq!((swapped.bm, swapped.bn), (144, 128));
        assert_eq!((in_order.bm, in_order.bn), (128, 144));
    }

    #[test]
    fn other_kernels_are_as_they_are() {
        for name in ["warpgroup128_bf16", "warpgroup_bf16", "naive_f32"] {
            let kernel = find(name).unwrap();
            assert_eq!(fitted(kernel, [1536; 3], 132).tile, kernel.tile);
        }
    }

    #[test]
    fn tiles_are_no_more_than_a_grid_has() {
        // In tiles of 256 columns they are just as many.
        let sizes = [(1 << 20) * 128, 2047 * 256, 64];
        let kernel = find("warpgroup_fitted_bf16").unwrap();
        assert!(fitted(kernel, sizes, 132).blocks(sizes[0], sizes[1]) <= MAX_BLOCKS);
    }
}
