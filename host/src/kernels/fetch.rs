//! What warpgroups wait for slices where these are fetched more slowly than multiplied.
//!
//! Bulk copies bring rows of boxes, 128 bytes each. Where rows of A and B are whole lines of the L2 cache these come at
//! 64 bytes a cycle. Else they are parts of two lines, and take a quarter longer; and where rows are no whole sectors
//! of 32 bytes either, such as those of 1000 or 3000 elements of half precision, they are also parts of five sectors
//! instead of four, and take 1.75 times as long. Tiles whose slices have few rows for their products, large ones or
//! those of clusters, still have them in time; others wait. At 5000 x 5000 x 5000 in bf16 that leaves of the speed that
//! tiles have elsewhere 0.55 for 128 x 128, 0.67 for 128 x 192, 0.75 for 128 x 256, and nearly all for two blocks with
//! 128 x 256 each that share B (H200).

use regemm_kernels::kernel::{KernelInfo, Needs, Schedule};

/// Cycles in which a multiprocessor gets a row of a box that is a line, whole sectors, or neither.
const CYCLES_OF_LINE: f64 = 2.0;
const CYCLES_OF_SECTORS: f64 = 2.5;
const CYCLES_OF_ODD_ROW: f64 = 3.5;

/// The same, at least, of a box that begins in the middle of a line, where tiles are no multiple of lines wide: by the
/// speeds of tiles of 160, 208 and 224 columns at 2560 x 2560 x 2560 in bf16 (H200).
const CYCLES_OF_SHIFTED_ROW: f64 = 3.0;

/// Bytes of a row of a box, and of a line of the L2 cache.
const LINE_BYTES: u64 = 128;

/// Bytes of a sector of the L2 cache.
const SECTOR_BYTES: u64 = 32;

/// What rows of a factor without gaps between them are in the L2 cache, those that are fetched the fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rows {
    /// Whole lines.
    Lines,
    /// Whole sectors of lines.
    Sectors,
    /// Neither.
    Cut,
}

impl Rows {
    /// Of so many bytes each.
    pub(crate) const fn of(bytes: u64) -> Rows {
        if bytes.is_multiple_of(LINE_BYTES) {
            Rows::Lines
        } else if bytes.is_multiple_of(SECTOR_BYTES) {
            Rows::Sectors
        } else {
            Rows::Cut
        }
    }

    /// Cycles in which a multiprocessor gets a row of a box of it.
    const fn cycles(self) -> f64 {
        match self {
            Rows::Lines => CYCLES_OF_LINE,
            Rows::Sectors => CYCLES_OF_SECTORS,
            Rows::Cut => CYCLES_OF_ODD_ROW,
        }
    }
}

/// Multiply-adds of half precision that a multiprocessor's tensor cores do in a cycle.
const MULTIPLY_ADDS: f64 = 2048.0;

/// How many times as long as its products a slice of a kernel takes to fetch, for factors of `m x k` and `k x n`
/// without gaps between their rows as they are stored: at least 1, and that for kernels that do not [multiply in
/// warpgroups](Needs::WarpgroupProducts). Factors that are `copied` before, A and B, are copied into rows of whole
/// lines.
pub(crate) fn slowdown(kernel: &KernelInfo, [m, n, k]: [u32; 3], copied: [bool; 2]) -> f64 {
    if kernel.needs != Needs::WarpgroupProducts || kernel.takes_halves() {
        return 1.0;
    }
    let bytes = kernel.dtype.bytes() as u64;
    let beside = kernel.cluster_cols;
    let above = match kernel.schedule {
        Schedule::ClusterK => 1,
        _ => kernel.cluster / beside,
    };
    let [bm, bn, bk] = [kernel.tile.bm, kernel.tile.bn, kernel.tile.bk];
    let layouts = kernel.layouts;
    let of_a = (layouts.a.stored(bm, bk), layouts.a.stored(m, k).1, beside, copied[0]);
    let of_b = (layouts.b.stored(bk, bn), layouts.b.stored(k, n).1, above, copied[1]);
    let cycles = |((rows, length), cols, blocks, is_copied): ((u32, u32), u32, u32, bool)| {
        let in_l2 = if is_copied { Rows::Lines } else { Rows::of(u64::from(cols) * bytes) };
        let of_row = in_l2.cycles();
        let is_shifted = !(u64::from(length) * bytes).is_multiple_of(LINE_BYTES);
        let of_row = if is_shifted { of_row.max(CYCLES_OF_SHIFTED_ROW) } else { of_row };
        let boxes = (u64::from(length) * bytes).div_ceil(LINE_BYTES);
        (u64::from(rows) * boxes) as f64 * of_row / f64::from(blocks)
    };
    let products = f64::from(bm * bn) * f64::from(bk) / MULTIPLY_ADDS;
    ((cycles(of_a) + cycles(of_b)) / products).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;

    fn slowdown_of(name: &str, m: u32, n: u32, k: u32) -> f64 {
        slowdown(find(name).unwrap(), [m, n, k], [false; 2])
    }

    #[test]
    fn odd_rows_take_as_long_as_measured() {
        for (name, bn, expected) in [
            ("warpgroup128_bf16", 128, 0.55),
            ("warpgroup_fitted_bf16", 192, 0.67),
            ("warpgroup_bf16", 256, 0.75),
            ("warpgroup_pair_bf16", 256, 0.97),
        ] {
            let even = slowdown_of_width(name, bn, 4096);
            assert!((1.0..1.01).contains(&even), "{name}: {even}");
            let odd = slowdown_of_width(name, bn, 5000);
            assert!((even / odd - expected).abs() < 0.04, "{name}: {odd}");
        }
    }

    /// A tile of 160 columns, of which every other begins in the middle of a line: of B three rows of boxes in the time
    /// of four and a half.
    #[test]
    fn rows_that_begin_in_the_middle_of_a_line_take_longer() {
        let across = slowdown_of_width("warpgroup_fitted_tn_bf16", 160, 4096);
        assert!((across - (2.0 * 128.0 + 3.0 * 192.0) / 640.0).abs() < 1e-9, "{across}");
        // Along k all begin at lines.
        for along in ["warpgroup_fitted_nt_bf16", "warpgroup_fitted_bf16"] {
            assert_eq!(slowdown_of_width(along, 160, 4096), 1.0, "{along}");
        }
    }

    fn slowdown_of_width(name: &str, width: u32, size: u32) -> f64 {
        let kernel = find(name).unwrap();
        slowdown(&kernel.with_width(width), [size; 3], [false; 2])
    }

    #[test]
    fn each_factor_counts_by_its_rows() {
        let of = |n, k| slowdown_of("warpgroup_bf16", 4096, n, k);
        let [none, a, b, both] = [of(4096, 4096), of(4096, 4104), of(4104, 4096), of(4104, 4104)];
        assert!(none == 1.0 && a < b && b < both, "{none} {a} {b} {both}");
        assert_eq!(of(4112, 4112), 1.0, "whole sectors, though not whole lines, are there in time");
        let small = [4096, 4112, 4104].map(|n| slowdown_of("warpgroup128_bf16", 4096, n, n));
        assert!(small.is_sorted() && small[0] < small[1] && small[1] < small[2], "{small:?}");
        let kernel = find("warpgroup_bf16").unwrap();
        let copied = [[false; 2], [false, true], [true; 2]];
        let copied = copied.map(|copied| slowdown(kernel, [4096, 4104, 4104], copied));
        assert_eq!(copied, [both, a, none], "what is copied before has whole lines");
        for other in ["tensor_core_bf16", "naive_bf16", "pipelined_f32"] {
            assert_eq!(slowdown_of(other, 5000, 5000, 5000), 1.0, "{other}");
        }
        assert_eq!(slowdown_of("warpgroup_bf16", 0, 0, 0), 1.0);
    }

    /// Rows of stored factors: of A^T as long as m, of B^T as long as k.
    #[test]
    fn rows_are_those_of_what_is_stored() {
        let odd = |name, sizes| slowdown(find(name).unwrap(), sizes, [false; 2]) > 1.0;
        let of = |name| {
            [[4104, 4096, 4096], [4096, 4104, 4096], [4096, 4096, 4104]]
                .map(|sizes| odd(name, sizes))
        };
        assert_eq!(of("warpgroup128_bf16"), [false, true, true]);
        assert_eq!(of("warpgroup128_tn_bf16"), [true, true, false]);
        assert_eq!(of("warpgroup128_nt_bf16"), [false, false, true]);
        assert_eq!(of("warpgroup128_tt_bf16"), [true, false, true]);
    }
}
