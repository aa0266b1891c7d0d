//! Blocks that share a tile, each of which takes a slice of K: which kernels are made for that, and which of them takes
//! least.

use super::MULTIPLY_ADDS_A_LOAD;
use crate::device::info::DeviceInfo;
use crate::kernels::launch::Sharing;
use crate::kernels::{Problem, is_for_both_sides, is_made_for_sides};
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::{KernelInfo, ShortSide, Tile};
use regemm_kernels::layout::{Layout, Layouts};

/// Blocks that the device must have room for, to a tile of D, and slices of the least depth that K must have, for
/// sharing tiles to save more than a second launch and the way of the sums through memory cost.
const BLOCKS_WORTH_SHARING: u64 = 4;
const SLICES_WORTH_SHARING: u64 = 8;

/// Rows of tiles of tensor cores in double precision that are for few rows of D.
const FEW_ROWS: u32 = 16;

/// Columns to a row of tiles that are for few rows of D.
const FLAT: u32 = 8;

/// Tiles of a skinny kernel in f32 that D may be high or wide in layouts for which there are none of more rows or
/// columns.
const SEVERAL_TILES: u32 = 4;

/// Slices of a skinny kernel's loop below which starting it takes longer than running it.
const DEEP_FOR_SKINNY: u32 = 2;

/// The part of a skinny tile, along its long side, that D must fill where it is small: of 64 columns 8.
const PART_OF_TILE: u32 = 8;

/// The part of a skinny kernel's step that K must fill there: its groups of threads take a value of k each, and with
/// fewer most would have none.
const PART_OF_STEP: u32 = 4;

/// Whether a kernel is made for D as narrow as this, and K deep enough for its steps.
pub(super) fn is_skinny(kernel: &KernelInfo, problem: &Problem, device: &DeviceInfo) -> bool {
    let Tile { bm, bn, bk, stages, .. } = kernel.tile;
    let (rows, cols) = (problem.m, problem.n);
    let Layouts { a, b } = problem.layouts;
    let most = |is_alone: bool| {
        if kernel.dtype == Dtype::F32 && stages == 0 && is_alone { SEVERAL_TILES } else { 1 }
    };
    let is_made = is_made_for_sides(kernel, rows, cols);
    let on_other_side = is_for_both_sides(kernel) && is_made;
    let fits = match kernel.short_side {
        Some(ShortSide::Rows) => {
            rows <= most(b == Layout::RowMajor) * bm || (on_other_side && cols <= bn)
        }
        Some(ShortSide::Cols) => {
            cols <= most(a == Layout::Transposed) * bn || (on_other_side && rows <= bm)
        }
        None => false,
    };
    let fills = |part: u32| match kernel.short_side {
        Some(_) if is_for_both_sides(kernel) => rows.max(cols) >= bm.max(bn) / part,
        Some(ShortSide::Rows) => cols >= bn / part,
        Some(ShortSide::Cols) => rows >= bm / part,
        None => false,
    };
    // However many rows and columns there are, tiles as small as these are the fastest where they are so few.
    let tiles = kernel.blocks(rows, cols).saturating_mul(problem.batch.into());
    let at_once = device.multiprocessors * kernel.entry.min_blocks.unwrap_or(1);
    let is_small = tiles <= u64::from(at_once)
        && (fills(PART_OF_TILE) || rows * cols < bm * bn)
        && is_made
        && problem.k >= bk / PART_OF_STEP;
    is_small || (fits && fills(1) && problem.k >= DEEP_FOR_SKINNY * bk)
}

/// How long blocks take that share K, in multiply-adds of a multiprocessor: those of the one that has most to do, what
/// it could multiply while it waits for their elements, for which the fewer wait the less others do, and what all could
/// while sums of slices are stored and loaded.
pub(super) fn time_of_slices(kernel: &KernelInfo, problem: &Problem, device: &DeviceInfo) -> i64 {
    let all = u64::from(device.multiprocessors.max(1));
    let Problem { m, n, k, batch, .. } = *problem;
    let slices = u64::from(Sharing::of(kernel, problem, device).best(kernel, problem));
    let tiles = kernel.blocks(m, n).saturating_mul(batch.into());
    let blocks = tiles.saturating_mul(slices);
    let busy = blocks.min(all);
    let a_load = MULTIPLY_ADDS_A_LOAD / 4 + MULTIPLY_ADDS_A_LOAD * 3 / 4 * busy / all;
    let depth = u64::from(k).div_ceil(slices).next_multiple_of(kernel.tile.bk.into());
    // The small factor of a skinny product is loaded with the large one where it is not small.
    let Tile { bm, bn, .. } = kernel.tile;
    let also_loaded = match kernel.short_side {
        Some(ShortSide::Rows) if m > bm => bm,
        Some(ShortSide::Cols) if n > bn => bn,
        _ => 0,
    };
    let blocks = blocks.max(all);
    let of_factor = (a_load * u64::from(also_loaded)).saturating_mul(blocks);
    let of_tiles = time_of_tiles(kernel, blocks, a_load).unsigned_abs();
    let of_k = of_tiles / all + of_factor / all;
    let elements = u64::from(m).saturating_mul(n.into()).saturating_mul(batch.into());
    let sums = elements.saturating_mul(2 * MULTIPLY_ADDS_A_LOAD * slices) / all;
    i64::try_from(of_k.saturating_mul(depth).saturating_add(sums)).unwrap_or(i64::MAX / 4)
}

/// Whether the device has room for several blocks to a tile, and K is so deep that they gain more than they cost.
pub(super) fn is_worth_sharing(
    kernel: &KernelInfo,
    problem: &Problem,
    device: &DeviceInfo,
) -> bool {
    let Sharing { blocks, slices, .. } = Sharing::of(kernel, problem, device);
    let Tile { bm, bn, .. } = kernel.tile;
    // Large tiles would lie outside of D, most of them.
    let is_flat = problem.m <= 2 * bm && bn >= FLAT * bm;
    (is_flat || blocks >= BLOCKS_WORTH_SHARING) && slices >= SLICES_WORTH_SHARING
}

/// The same for tensor cores in double precision, whose tiles of all sizes are compared by the time they take: those
/// for few rows need but two blocks to a tile, since others multiply rows that are not there.
pub(super) fn is_worth_sharing_of_doubles(
    kernel: &KernelInfo,
    problem: &Problem,
    device: &DeviceInfo,
) -> bool {
    let sharing = Sharing::of(kernel, problem, device);
    let least = if kernel.tile.bm <= FEW_ROWS { 2 } else { BLOCKS_WORTH_SHARING };
    sharing.blocks >= least && sharing.best(kernel, problem) > 1
}

/// How long a full device takes for a number of tiles, for each value of k, in multiply-adds: those of the tiles, and
/// so many that could be done while each of their elements is loaded. The small factor of a skinny product is in the
/// caches.
pub(super) fn time_of_tiles(kernel: &KernelInfo, tiles: u64, a_load: u64) -> i64 {
    let (bm, bn) = (u64::from(kernel.tile.bm), u64::from(kernel.tile.bn));
    let loads = match kernel.short_side {
        Some(ShortSide::Rows) => bn,
        Some(ShortSide::Cols) => bm,
        None => bm + bn,
    };
    let of_tile = bm * bn + a_load * loads;
    i64::try_from(tiles.saturating_mul(of_tile)).unwrap_or(i64::MAX)
}
