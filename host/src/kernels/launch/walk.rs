//! Whether blocks that stay go through all products of a batch.

use super::MAX_PRODUCTS;
use crate::kernels::{MAX_BLOCKS, Problem};
use regemm_kernels::kernel::{KernelInfo, Schedule};
use regemm_kernels::schedule::batches;

/// What the blocks of a launch walk over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    /// The problem as they see it: a batch that they go through is one product, whose D are those of all products one
    /// below the other.
    pub problem: Problem,
    /// Products that each of them goes through.
    pub products: u32,
}

impl Walk {
    /// For a problem that the kernel is launched for. Blocks that can go through all products of a batch do so if that
    /// is launched as one, and no number in it is too large.
    pub fn of(kernel: &KernelInfo, problem: &Problem) -> Walk {
        let Problem { m, n, batch, .. } = *problem;
        let each = Walk { problem: *problem, products: 1 };
        let stays = kernel.walks_batches && kernel.schedule == Schedule::Persistent;
        if !stays || !(2..=MAX_PRODUCTS).contains(&batch) {
            return each;
        }
        let (rows, cols) = kernel.walked(m, n);
        let rows = batches::rows_of_product(kernel.rows_together(), rows).checked_mul(batch);
        // To swap them again gives D.
        let of_d = rows.map(|rows| (rows, kernel.walked(rows, cols)));
        let of_d = of_d
            .filter(|&(rows, (m, n))| rows <= i32::MAX as u32 && kernel.blocks(m, n) <= MAX_BLOCKS);
        of_d.map_or(each, |(_, (m, n))| Walk {
            problem: Problem { m, n, batch: 1, ..*problem },
            products: batch,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;
    use regemm_kernels::element::Dtype;

    fn walk(kernel: &str, (m, n): (u32, u32), batch: u32) -> (u32, u32, u32) {
        let problem = Problem { batch, ..Problem::new(Dtype::Bf16, m, n, 64) };
        let Walk { problem, products } = Walk::of(find(kernel).unwrap(), &problem);
        (problem.m, problem.batch, products)
    }

    #[test]
    fn batches_are_one_product_of_whole_tiles() {
        assert_eq!(walk("warpgroup_bf16", (200, 100), 5), (256 * 5, 1, 5));
        assert_eq!(
            walk("warpgroup_pair_bf16", (100, 100), 5),
            (256 * 5, 1, 5),
            "of whole clusters"
        );
        assert_eq!(walk("warpgroup_abreast64_bf16", (100, 100), 5), (128 * 5, 1, 5));
        assert_eq!(walk("warpgroup_bf16", (100, 100), 65_535), (128 * 65_535, 1, 65_535));
        let problem = Problem { batch: 5, ..Problem::new(Dtype::Bf16, 100, 200, 64) };
        let swapped = Walk::of(find("warpgroup_fitted_bf16").unwrap(), &problem);
        let Problem { m, n, .. } = swapped.problem;
        assert_eq!(
            (m, n, swapped.products),
            (100, 256 * 5, 5),
            "beside each other, as rows of D^T"
        );
        let narrow = Problem { n: 100, ..problem };
        let pair = Walk::of(find("warpgroup_fitted_pair_bf16").unwrap(), &narrow);
        assert_eq!(pair.problem.n, 256 * 5, "of whole clusters");
    }

    #[test]
    fn others_are_computed_one_by_one() {
        let one_by_one = |m, batch| (m, batch, 1);
        assert_eq!(walk("warpgroup_bf16", (200, 100), 1), one_by_one(200, 1));
        assert_eq!(
            walk("warpgroup_bf16", (200, 100), 65_536),
            one_by_one(200, 65_536),
            "two launches"
        );
        assert_eq!(walk("warpgroup_bf16", (1 << 20, 1), 1 << 12), one_by_one(1 << 20, 1 << 12));
        assert_eq!(walk("warpgroup_bf16", (1 << 15, 1 << 30), 65_535).2, 1, "too many tiles");
        assert_eq!(walk("split_warpgroup128_bf16", (200, 100), 5), one_by_one(200, 5));
        assert_eq!(walk("warp_tiled_f32", (200, 100), 5), one_by_one(200, 5));
    }
}
