//! A kernel's time as a simple function of the problem, fitted to measured times.
//!
//! The blocks of a launch go to the multiprocessors in turn, so the one that gets most of them decides:
//! `w = ceil(blocks / multiprocessors)`, of those that blocks of its clusters have a place on. Each of its blocks steps
//! through the depth `k`, padded to whole slices. What can be hidden behind other blocks costs time in proportion to
//! `w * k`, what cannot in proportion to `k`; beginning and ending a block costs `w`, and the launch something fixed.
//! What has to be moved once costs time in proportion to the elements of A, B and D: where D is large and K is not, and
//! where factors are copied into aligned rows first: the three do so at rates of their own, since one is written and
//! blocks that run at the same time read the same parts of A more often than of B. Blocks that stay and share the tiles
//! of the last round among all (`s = 1`, else 0) hand their sums over to each other first. Where slices are
//! [fetched](slowdown) more slowly than multiplied, by a factor `f`, work takes as much longer.
//!
//! `time = launch + latency * k + work * w * k * f + block * w + a * m * k + b * k * n + d * m * n + share * s`
//!
//! A block that takes tile after tile is one that ends and begins again, as far as `w` goes. The eight coefficients are
//! those of the least squares of relative errors, none of them negative. This gives the right steps between measured
//! shapes, where one tile more can cost another round of blocks; what it cannot know, such as caches,
//! [`model`](super::model) adds from the measured shapes nearby.

use super::class::Shape;
use super::equations::solve;
use crate::kernels::{fitted, keeps_k, resident, shares, slowdown};
use regemm_kernels::kernel::{KernelInfo, Schedule};

/// Number of coefficients.
const TERMS: usize = 8;

/// The term that every trend has: `w * k * f`.
const WORK: usize = 2;

/// Measured shapes that a trend needs for each of its terms.
const SHAPES_PER_TERM: usize = 4;

/// Measured shapes from which on a trend has all of its terms, and tells something of shapes that are far from all.
pub(super) const SHAPES_OF_TREND: usize = SHAPES_PER_TERM * TERMS;

/// The terms that a kernel's time is a sum of, for one problem.
pub(super) type Terms = [f64; TERMS];

/// The terms for a problem on a device with this many multiprocessors.
pub(super) fn terms(kernel: &KernelInfo, shape: Shape, multiprocessors: u32) -> Terms {
    let sizes = [shape.m, shape.n, shape.k];
    let widest = kernel.width();
    let of_launch = kernel.fits.then(|| fitted(kernel, sizes, multiprocessors));
    let kernel = of_launch.as_ref().unwrap_or(kernel);
    let blocks = kernel.blocks(shape.m, shape.n).max(1);
    let multiprocessors = u64::from(multiprocessors.max(1));
    let hands_over = kernel.schedule == Schedule::Persistent
        && shares(kernel, sizes, multiprocessors as u32, None).tiles() > 0;
    let rounds = match kernel.schedule {
        _ if hands_over => blocks as f64 / multiprocessors as f64,
        // Of large clusters some multiprocessors have no part.
        Schedule::Persistent => {
            blocks.div_ceil(resident(kernel, multiprocessors as u32).into()) as f64
        }
        Schedule::Tiles | Schedule::ClusterK => blocks.div_ceil(multiprocessors) as f64,
        // Where there are enough tiles each is that of one block, and several are on a multiprocessor together.
        Schedule::SplitK if is_whole(kernel, blocks, multiprocessors) => {
            let together = u64::from(kernel.entry.min_blocks.unwrap_or(1));
            (blocks.div_ceil(multiprocessors * together) * together) as f64
        }
        // All multiprocessors share all tiles.
        Schedule::SplitK | Schedule::StreamK => blocks as f64 / multiprocessors as f64,
    };
    // A slice is the least that a block steps through.
    let depth = match kernel.schedule {
        Schedule::ClusterK => shape.k.div_ceil(kernel.cluster),
        _ => shape.k,
    };
    let depth = f64::from(depth.max(1).next_multiple_of(kernel.tile.bk));
    let [m, n, k] = sizes.map(f64::from);
    let of_widest = f64::from(kernel.width()) / f64::from(widest);
    let work = of_widest * rounds * depth * slowdown(kernel, sizes, copied(kernel, shape));
    [1.0, depth, work, rounds, m * k, k * n, m * n, f64::from(hands_over)]
}

/// Whether blocks of a kernel that may split K do not, and wait for each other's slices.
fn is_whole(kernel: &KernelInfo, blocks: u64, multiprocessors: u64) -> bool {
    kernel.tile.stages > 0 && keeps_k(kernel, blocks, multiprocessors)
}

/// Whether A and B are copied into aligned rows before: those whose rows are no whole vectors as they are stored. Where
/// neither is for its sizes but the shape is unaligned, either may have gaps between its rows.
fn copied(kernel: &KernelInfo, shape: Shape) -> [bool; 2] {
    let Shape { m, n, k, aligned } = shape;
    let has_gaps = !aligned && Shape::packed_in(kernel.layouts, kernel.dtype, m, n, k).aligned;
    shape.odd_factors(kernel.dtype, kernel.layouts).map(|is_odd| is_odd || has_gaps)
}

/// A fitted function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trend {
    coefficients: [f64; TERMS],
}

impl Trend {
    /// The time in seconds. Positive where the terms are.
    pub fn seconds(&self, terms: &Terms) -> f64 {
        self.coefficients.iter().zip(terms).map(|(coefficient, term)| coefficient * term).sum()
    }

    /// The best function for measured times; none where there are none.
    pub fn fit(samples: &[(Terms, f64)]) -> Option<Trend> {
        let most_terms = (samples.len() / SHAPES_PER_TERM).max(1);
        let normal = Normal::of(samples);
        // There are few enough subsets of the terms to try them all, and one of them is the non-negative optimum.
        (0..1 << TERMS)
            .filter(|subset: &u32| subset & (1 << WORK) != 0)
            .filter(|subset| subset.count_ones() as usize <= most_terms)
            .filter_map(|subset| normal.solve(subset))
            .filter(|(_, trend)| trend.coefficients.iter().all(|coefficient| *coefficient >= 0.0))
            .min_by(|(a, _), (b, _)| a.total_cmp(b))
            .map(|(_, trend)| trend)
    }
}

/// What least squares need to know of all samples: each equation is divided by its time, so that all right sides are 1
/// and errors are relative.
struct Normal {
    /// Products of columns that are scaled to length 1, which keeps the equations well conditioned.
    products: [[f64; TERMS]; TERMS],
    /// Of each with the right side.
    right: [f64; TERMS],
    /// What columns were divided by; 0 of a term that no sample has.
    lengths: [f64; TERMS],
}

impl Normal {
    fn of(samples: &[(Terms, f64)]) -> Normal {
        let mut products = [[0.0; TERMS]; TERMS];
        let mut right = [0.0; TERMS];
        for (terms, seconds) in samples {
            let row = terms.map(|term| term / seconds);
            for (a, products) in products.iter_mut().enumerate() {
                products.iter_mut().zip(row).for_each(|(sum, b)| *sum += row[a] * b);
                right[a] += row[a];
            }
        }
        let lengths: [f64; TERMS] = std::array::from_fn(|term| products[term][term].sqrt());
        for (a, products) in products.iter_mut().enumerate() {
            products.iter_mut().zip(lengths).for_each(|(sum, b)| *sum /= lengths[a] * b);
            right[a] /= lengths[a];
        }
        Normal { products, right, lengths }
    }

    /// The trend of the terms of a subset that comes closest to all samples, and the sum of squares that it leaves, but
    /// for a constant; none where there is no single best.
    fn solve(&self, subset: u32) -> Option<(f64, Trend)> {
        let mut used = [0; TERMS];
        let mut count = 0;
        for term in (0..TERMS).filter(|term| subset & (1 << term) != 0) {
            used[count] = term;
            count += 1;
        }
        let used = &used[..count];
        if used.iter().any(|&term| self.lengths[term] == 0.0) {
            return None;
        }
        let (mut products, mut right) = ([[0.0; TERMS]; TERMS], [0.0; TERMS]);
        for (i, &a) in used.iter().enumerate() {
            right[i] = self.right[a];
            used.iter().enumerate().for_each(|(j, &b)| products[i][j] = self.products[a][b]);
        }
        let solution = solve(products, right, count)?;
        let mut coefficients = [0.0; TERMS];
        for (&term, scaled) in used.iter().zip(solution) {
            coefficients[term] = scaled / self.lengths[term];
        }
        let explained: f64 = solution[..count].iter().zip(right).map(|(a, b)| a * b).sum();
        Some((-explained, Trend { coefficients }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;
    use regemm_kernels::element::Dtype;

    fn shape(m: u32, n: u32, k: u32) -> Shape {
        Shape::packed(Dtype::F32, m, n, k)
    }

    #[test]
    fn the_busiest_multiprocessor_and_whole_slices_count() {
        let kernel = find("pipelined_f32").unwrap();
        assert_eq!((kernel.tile.bm, kernel.tile.bn, kernel.tile.bk), (64, 128, 16));
        // 16 x 8 tiles on 132 multiprocessors: one each. One row more: 17 x 8 = 136, so some get two.
        let of = |m, n, k| terms(kernel, shape(m, n, k), 132);
        let moved = |a: u32, b: u32, d: u32| [a, b, d].map(f64::from);
        let [a, b, d] = moved(1024 * 1024, 1024 * 1024, 1024 * 1024);
        assert_eq!(of(1024, 1024, 1024), [1.0, 1024.0, 1024.0, 1.0, a, b, d, 0.0]);
        let [a, b, d] = moved(1025 * 1009, 1009 * 1024, 1025 * 1024);
        assert_eq!(of(1025, 1024, 1009), [1.0, 1024.0, 2048.0, 2.0, a, b, d, 0.0]);
        assert_eq!(of(1, 1, 0), [1.0, 16.0, 16.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
    }

    /// A block of a persistent launch takes one tile after another, which is as many rounds as that many blocks would
    /// take.
    #[test]
    fn rounds_are_those_of_tiles_whether_or_not_blocks_stay() {
        // 12 x 12 tiles of 128 x 128 are 12 more than there are multiprocessors, 12 x 6 of 128 x 256 are fewer.
        let half = Shape::packed(Dtype::Bf16, 1448, 1448, 1448);
        let rounds = |name: &str| terms(find(name).unwrap(), half, 132)[3];
        assert_eq!(["warpgroup128_bf16", "warpgroup_bf16"].map(rounds), [2.0, 1.0]);
        // 128 x 128 are as many blocks as 132 have room for, and more than have a place in clusters of four: 120.
        let shape = Shape::packed(Dtype::Bf16, 2048, 1024, 1000);
        let rounds = |name: &str| terms(&find(name).unwrap().with_width(128), shape, 132)[3];
        assert_eq!(["warpgroup128_bf16", "warpgroup_pair128_bf16"].map(rounds), [1.0, 1.0]);
        let wide = Shape::packed(Dtype::Bf16, 120 * 128, 16 * 128, 1000);
        let squares = terms(find("warpgroup_fitted_quad128_bf16").unwrap(), wide, 132)[3];
        assert!(squares >= 16.0, "{squares}: 1,920 tiles of 128 x 128 for 120 blocks");
    }

    /// The second round of 64 tiles of 128 x 256 is shared where K is deep enough that this pays.
    #[test]
    fn what_handing_over_costs_is_a_term_of_its_own() {
        let kernel = find("warpgroup_bf16").unwrap();
        let of = |k| {
            let [_, _, _, rounds, .., hands_over] =
                terms(kernel, Shape::packed(Dtype::Bf16, 3584, 1792, k), 132);
            (rounds, hands_over)
        };
        assert_eq!(of(128), (2.0, 0.0));
        assert_eq!(of(8192), (196.0 / 132.0, 1.0));
    }

    #[test]
    fn a_trend_is_found_again() {
        let truth =
            Trend { coefficients: [4e-6, 15e-9, 44e-9, 0.5e-6, 1e-12, 2e-12, 3e-12, 10e-6] };
        let kernel = find("warpgroup_bf16").unwrap();
        let shape = |m, n, k| Shape::packed(Dtype::Bf16, m, n, k);
        let samples: Vec<(Terms, f64)> = [128, 1024, 2048, 2560, 3072, 4096]
            .into_iter()
            .flat_map(|n| [64, 256, 1024, 4096].map(|k| (n, k)))
            .flat_map(|(n, k)| [n / 4, n, 2 * n].map(|m| terms(kernel, shape(m, n, k), 132)))
            .map(|terms| (terms, truth.seconds(&terms)))
            .collect();
        for hands_over in [0.0, 1.0] {
            assert!(samples.iter().any(|(terms, _)| terms[TERMS - 1] == hands_over));
        }
        let trend = Trend::fit(&samples).unwrap();
        for (found, expected) in trend.coefficients.into_iter().zip(truth.coefficients) {
            assert!((found / expected - 1.0).abs() < 1e-6, "{trend:?}");
        }
    }

    #[test]
    fn few_shapes_give_the_work_alone() {
        let kernel = find("naive_f32").unwrap();
        let one = terms(kernel, shape(512, 512, 512), 132);
        let trend = Trend::fit(&[(one, 1e-3)]).unwrap();
        assert!((trend.seconds(&one) - 1e-3).abs() < 1e-9);
        let deeper = trend.seconds(&terms(kernel, shape(512, 512, 1024), 132));
        assert!((deeper - 2e-3).abs() < 1e-9, "twice the depth takes twice the time");
        assert_eq!(Trend::fit(&[]), None);
    }

    #[test]
    fn no_coefficient_is_negative() {
        let kernel = find("naive_f32").unwrap();
        // Times that fall with the depth, which no sum of the terms does.
        let samples: Vec<(Terms, f64)> = (1..30)
            .map(|i| (terms(kernel, shape(512, 512, 100 * i), 132), 1e-3 / f64::from(i)))
            .collect();
        let trend = Trend::fit(&samples).unwrap();
        assert!(trend.coefficients.iter().all(|c| *c >= 0.0), "{trend:?}");
        assert!(trend.coefficients[WORK] > 0.0, "{trend:?}");
    }
}
