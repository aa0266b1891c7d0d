//! Kernels for a D of few rows or columns: for which sides of D those are made whose tiles are filled from shared
//! memory, of which there are several sizes.

use super::{Types, kernels, kernels_for};
use regemm_kernels::kernel::{KernelInfo, ShortSide, Tile};
use std::sync::LazyLock;

/// Rows or columns of the smallest tiles that are filled from shared memory.
const SMALLEST_STAGED: u32 = 4;

/// Whether what is expected of a kernel counts for D of these sides. Of those for few rows or columns whose tiles are
/// filled from shared memory one [is made](is_made_for_sides) for them, and the others' times are not measured there.
/// Where there is none alike for the other side all have times of all shapes, and those count whose tiles D fills at
/// least by half, along the other side by a quarter.
pub(crate) fn is_told_for_sides(kernel: &KernelInfo, m: u32, n: u32) -> bool {
    let Tile { bm, bn, .. } = kernel.tile;
    let (short, along, is_own) = match kernel.short_side.filter(|_| is_for_both_sides(kernel)) {
        Some(own) if m <= n => (m, bm, own == ShortSide::Rows),
        Some(own) => (n, bn, own == ShortSide::Cols),
        None => return is_made_for_sides(kernel, m, n),
    };
    let part = if is_own { 2 } else { 4 };
    bm.min(bn) <= SMALLEST_STAGED || short > along / part
}

/// Whether a kernel is made for D of these sides. Of those for few rows or columns whose tiles are filled from shared
/// memory there is one of half the size, which is faster where one of its tiles covers the short side; and from three
/// tiles on others are. The smallest has none that is smaller, and two of its tiles take longer than one of the next.
pub(crate) fn is_made_for_sides(kernel: &KernelInfo, m: u32, n: u32) -> bool {
    /// Tiles of as many rows and columns, by which a small D is faster whatever its sides are.
    const SQUARE: (u32, u32) = (16, 16);
    /// Up to so many.
    const SOME: u32 = 256;
    let Tile { bm, bn, stages, .. } = kernel.tile;
    let (covered, short, long) = match kernel.short_side.filter(|_| stages > 0) {
        Some(_) if is_for_both_sides(kernel) => (bm.min(bn), m.min(n), m.max(n)),
        Some(ShortSide::Rows) => (bm, m, n),
        Some(ShortSide::Cols) => (bn, n, m),
        None => return true,
    };
    let most = if is_for_both_sides(kernel) && (bm, bn) == SQUARE { SOME } else { 2 * covered };
    let sides = if covered <= SMALLEST_STAGED { 1..=covered } else { covered / 2 + 1..=most };
    short <= long && sides.contains(&short)
}

/// Whether a kernel for few rows or columns whose tiles are filled from shared memory is for both, since there is none
/// alike for the other side, as where both factors are row-major.
pub(crate) fn is_for_both_sides(kernel: &KernelInfo) -> bool {
    // A choice asks this of all kernels.
    static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let is_alone = |kernel: &&KernelInfo| {
            let Tile { bm, bn, bk, stages, .. } = kernel.tile;
            let is_alike = |other: &KernelInfo| {
                let tile = other.tile;
                other.short_side.is_some()
                    && other.short_side != kernel.short_side
                    && (tile.bm, tile.bn, tile.bk, tile.stages) == (bn, bm, bk, stages)
            };
            kernel.short_side.is_some()
                && stages > 0
                && !kernels_for(Types::of(kernel), kernel.layouts).any(is_alike)
        };
        kernels().iter().filter(is_alone).map(|kernel| kernel.name).collect()
    });
    kernel.short_side.is_some() && kernel.tile.stages > 0 && NAMES.contains(&kernel.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use regemm_kernels::layout::Layouts;

    /// Elements of the large factor must lie together along k: where both do there are kernels for rows and for
    /// columns.
    #[test]
    fn kernels_without_one_alike_are_for_both_sides() {
        let staged = |kernel: &&KernelInfo| kernel.short_side.is_some() && kernel.tile.stages > 0;
        let mut found = 0;
        for kernel in kernels().iter().filter(staged) {
            found += 1;
            assert_eq!(is_for_both_sides(kernel), kernel.layouts != Layouts::NT, "{}", kernel.name);
        }
        assert!(found > 0, "there are none");
    }
}
