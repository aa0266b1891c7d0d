//! The shapes that are measured unless others are named.

use super::class::Shape;
use crate::device::info::DeviceInfo;
use crate::kernels::Types;
use regemm_kernels::layout::Layouts;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Square products, which are what people try first: all multiples of this up to a size from which on the rounds of
/// tiles are many. How tiles come out even on the multiprocessors decides up to a quarter of the time.
const STEP: u32 = 128;
const IN_STEPS: u32 = 4096;

/// Round numbers to people, whose rows of half precision are no whole lines of the L2 cache, many of them no whole
/// sectors: all multiples of this between two sizes. What is fastest there differs from one to the next by up to a
/// fifth, and is not seen from multiples of [`STEP`].
const ROUND_STEP: u32 = 200;
const IN_ROUND_STEPS: RangeInclusive<u32> = 1000..=4600;

/// And the hundreds between some of these, whose rows of half precision are no whole vectors and so are copied before,
/// of which row-major factors alone say enough.
const HUNDREDS_BETWEEN: RangeInclusive<u32> = 1100..=3500;

/// Others in half octaves, and larger ones.
const SQUARES: [u32; 12] = [184, 360, 728, 1448, 2896, 4608, 5120, 5792, 6000, 6144, 7000, 8192];

/// All other products of large matrices are near one whose sizes are among these: two octaves apart.
const GRID: [u32; 5] = [32, 128, 512, 2048, 8192];

/// Round numbers to people, whose rows of half precision are no whole sectors of the L2 cache.
const DECIMAL: [u32; 2] = [1000, 5000];

/// Few rows, few columns and little depth, with two large sizes.
const FEW: [u32; 2] = [1, 8];
const LARGE: [u32; 3] = [512, 2048, 8192];

/// Wide or high ones, such as weights of large models, with some on the other side: memory bounds these, and the larger
/// its matrix the less a launch and the last round of tiles count.
const WIDE: u32 = 32768;
const BESIDE_WIDE: [u32; 5] = [1, 8, 32, 128, 512];
const DEPTHS_OF_WIDE: [u32; 2] = [2048, 8192];

/// Few rows or columns beside large sizes between those: what is fastest then changes with each octave, and programs
/// that multiply weights with some tokens do little else.
const BESIDE_LARGE: [u32; 4] = [1, 16, 64, 256];
const LARGE_BETWEEN: [u32; 2] = [4096, 16384];

/// Small D and great depth, which blocks share: into how many parts, and of which tiles, is not seen from less depth.
/// More than the last is like that one ([`model`](super::model)).
const DEEP_SIDES: [u32; 4] = [32, 128, 512, 1024];
const DEPTHS: [u32; 2] = [16384, 65536];

/// The same as before, but for depth, for rows that are no whole vectors.
const UNALIGNED_SQUARES: [u32; 7] = [127, 255, 511, 1023, 2047, 4095, 8191];
const UNALIGNED_GRID: [u32; 5] = [33, 129, 513, 2049, 8191];
const UNALIGNED_FEW: [u32; 2] = [1, 7];
const UNALIGNED_LARGE: [u32; 3] = [513, 2049, 8191];

/// Most multiply-adds of a product that is no square.
const MOST_WORK: u64 = 1 << 35;

/// A product's matrices may take this share of a device's memory.
const MEMORY_SHARE: u64 = 4;

/// What is measured of factors that are not both row-major: what such kernels take relative to their twins for those
/// changes slowly from shape to shape. Squares, in the same steps, and some larger ones; sizes two octaves apart; few
/// rows or columns beside large sizes; and great depth.
const SQUARES_OF_LAYOUTS: [u32; 4] = [5000, 5120, 6144, 8192];
const GRID_OF_LAYOUTS: [u32; 3] = [512, 2048, 8192];
const BESIDE_WIDE_OF_LAYOUTS: [u32; 3] = [1, 32, 128];
const DEEP_SIDES_OF_LAYOUTS: [u32; 2] = [128, 512];

/// Columns and depth of the layers of transformers of 0.1 to 70 billion parameters, their projections and both of their
/// feed-forward layers, and of two vocabularies. Weights are stored a row an output, so these are measured of a
/// transposed B.
const LAYERS: [[u32; 2]; 24] = [
    [6144, 4096],
    [4096, 4096],
    [28672, 4096],
    [4096, 14336],
    [4608, 3584],
    [3584, 3584],
    [37888, 3584],
    [3584, 18944],
    [15360, 5120],
    [5120, 5120],
    [27648, 5120],
    [5120, 13824],
    [1280, 8192],
    [8192, 1024],
    [7168, 8192],
    [8192, 3584],
    [2304, 768],
    [768, 768],
    [3072, 768],
    [768, 3072],
    [3072, 1024],
    [1024, 4096],
    [128256, 4096],
    [151936, 3584],
];

/// Tokens that are multiplied with them: each layer with one of every row, in turn. How many rows of tiles that makes,
/// and how full the last one is, decides more than what lies beside it.
const TOKENS: [&[u32]; 4] = [&[1, 4, 24], &[48, 100, 200], &[333, 777], &[1500, 3000, 6000]];

/// Most multiply-adds of a layer.
const MOST_WORK_OF_LAYER: u64 = 1 << 40;

/// Shapes whose times of row-major factors say enough about all others, and of factors in other layouts enough about
/// what these change.
pub fn default_shapes(
    device: &DeviceInfo,
    types: impl Into<Types>,
    layouts: Layouts,
) -> Vec<Shape> {
    let mut sizes = if layouts == Layouts::NN { row_major_sizes() } else { sizes_of_layouts() };
    sizes.retain(|size| is_square(size) || work(size) <= MOST_WORK);
    let layers = layers().filter(|_| layouts == Layouts::NT);
    shapes_of(sizes, layers, device, types.into(), layouts)
}

/// In any order: squares; all combinations of
/// sizes two octaves apart, so that everything between lies in a cell of measured shapes; few rows, columns or little
/// depth; small D and great depth; and most of them, fewer, for rows that are no whole vectors.
fn row_major_sizes() -> Vec<[u32; 3]> {
    let hundreds = HUNDREDS_BETWEEN.step_by(ROUND_STEP as usize);
    let squares = squares_in_steps().chain(SQUARES).chain(hundreds);
    let mut sizes: Vec<[u32; 3]> = squares.map(|n| [n; 3]).collect();
    sizes.extend(UNALIGNED_SQUARES.into_iter().map(|n| [n; 3]));
    for (grid, few, large) in
        [(&GRID, &FEW, &LARGE), (&UNALIGNED_GRID, &UNALIGNED_FEW, &UNALIGNED_LARGE)]
    {
        sizes.extend(products(grid, grid, grid));
        sizes.extend(products(few, large, large));
        sizes.extend(products(large, few, large));
        sizes.extend(products(large, large, few));
    }
    sizes.extend(products(&DECIMAL, &DECIMAL, &DECIMAL));
    sizes.extend(products(&BESIDE_WIDE, &[WIDE], &DEPTHS_OF_WIDE));
    sizes.extend(products(&[WIDE], &BESIDE_WIDE, &DEPTHS_OF_WIDE));
    sizes.extend(products(&BESIDE_LARGE, &LARGE_BETWEEN, &LARGE_BETWEEN));
    sizes.extend(products(&LARGE_BETWEEN, &BESIDE_LARGE, &LARGE_BETWEEN));
    sizes.extend(products(&DEEP_SIDES, &DEEP_SIDES, &DEPTHS));
    sizes
}

fn squares_in_steps() -> impl Iterator<Item = u32> {
    let round = IN_ROUND_STEPS.step_by(ROUND_STEP as usize);
    (STEP..=IN_STEPS).step_by(STEP as usize).chain(round)
}

fn sizes_of_layouts() -> Vec<[u32; 3]> {
    let squares = squares_in_steps().chain(SQUARES_OF_LAYOUTS);
    let mut sizes = Vec::from_iter(squares.map(|n| [n; 3]));
    sizes.extend(products(&GRID_OF_LAYOUTS, &GRID_OF_LAYOUTS, &GRID_OF_LAYOUTS));
    sizes.extend(products(&BESIDE_LARGE, &LARGE_BETWEEN, &LARGE_BETWEEN));
    sizes.extend(products(&LARGE_BETWEEN, &BESIDE_LARGE, &LARGE_BETWEEN));
    sizes.extend(products(&BESIDE_WIDE_OF_LAYOUTS, &[WIDE], &DEPTHS_OF_WIDE));
    sizes.extend(products(&[WIDE], &BESIDE_WIDE_OF_LAYOUTS, &DEPTHS_OF_WIDE));
    sizes.extend(products(&DEEP_SIDES_OF_LAYOUTS, &DEEP_SIDES_OF_LAYOUTS, &DEPTHS[..1]));
    sizes
}

fn layers() -> impl Iterator<Item = [u32; 3]> {
    let of_layer = |(layer, [n, k]): (usize, [u32; 2])| {
        // Other combinations from one layer to the next.
        let turns = [layer, layer / 2, layer, layer / 3];
        TOKENS.iter().zip(turns).map(move |(tokens, turn)| [tokens[turn % tokens.len()], n, k])
    };
    let all = LAYERS.into_iter().enumerate().flat_map(of_layer);
    all.filter(|size| work(size) <= MOST_WORK_OF_LAYER)
}

fn is_square(size: &[u32; 3]) -> bool {
    size[0] == size[1] && size[1] == size[2]
}

/// Multiply-adds of a product.
fn work(size: &[u32; 3]) -> u64 {
    size.iter().map(|&side| u64::from(side)).product()
}

/// In ascending order of work, all squares and layers, and one a class of the others. Products that are too large for
/// the device are left out.
fn shapes_of(
    sizes: Vec<[u32; 3]>,
    layers: impl Iterator<Item = [u32; 3]>,
    device: &DeviceInfo,
    Types { factors, results }: Types,
    layouts: Layouts,
) -> Vec<Shape> {
    let bytes = |&[m, n, k]: &[u32; 3]| {
        let [m, n, k] = [m, n, k].map(u64::from);
        (m * k + k * n) * factors.bytes() as u64 + m * n * results.bytes() as u64
    };
    let is_small = |size: &[u32; 3]| bytes(size) <= device.memory_bytes / MEMORY_SHARE;
    let of = |[m, n, k]: [u32; 3]| Shape::packed_in(layouts, factors, m, n, k);
    let mut classes = BTreeSet::new();
    let sizes = sizes.into_iter().filter(is_small);
    let sizes = sizes.filter(|&size| classes.insert(of(size).class()) || is_square(&size));
    let sizes: BTreeSet<_> =
        sizes.chain(layers.filter(is_small)).map(|size| (work(&size), size)).collect();
    sizes.into_iter().map(|(_, size)| of(size)).collect()
}

fn products(m: &[u32], n: &[u32], k: &[u32]) -> Vec<[u32; 3]> {
    let mut all = Vec::new();
    for &m in m {
        for &n in n {
            all.extend(k.iter().map(|&k| [m, n, k]));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::info::tests::h200;
    use regemm_kernels::element::Dtype;
    use std::collections::HashSet;

    #[test]
    fn every_class_once_and_squares_in_steps_from_small_to_large() {
        for types in Types::ALL {
            let shapes = default_shapes(&h200(), types, Layouts::NN);
            assert_eq!(shapes.iter().collect::<HashSet<_>>().len(), shapes.len());
            let square = |shape: &&Shape| shape.m == shape.n && shape.n == shape.k;
            let squares: HashSet<_> = shapes.iter().filter(square).map(|shape| shape.m).collect();
            assert!([1920, 2176, 2400, 3328, 4096, 4600].iter().all(|size| squares.contains(size)));
            let others = || shapes.iter().filter(|shape| !square(shape));
            let classes: HashSet<_> = others().map(|shape| shape.class()).collect();
            assert_eq!(classes.len(), others().count());
            let work = |shape: &Shape| u64::from(shape.m) * u64::from(shape.n) * u64::from(shape.k);
            assert!(shapes.is_sorted_by_key(work));
            assert!((100..500).contains(&shapes.len()), "{}", shapes.len());
            for depth in DEPTHS {
                let deep = (128, 128, depth, true);
                assert!(shapes.iter().any(|s| (s.m, s.n, s.k, s.aligned) == deep), "{depth}");
            }
            for aligned in [true, false] {
                assert!(shapes.iter().filter(|shape| shape.aligned == aligned).count() > 50);
            }
        }
    }

    /// Relative to times of row-major factors, which must be known there.
    #[test]
    fn other_layouts_are_measured_on_fewer_shapes_near_those() {
        let row_major = default_shapes(&h200(), Dtype::Bf16, Layouts::NN);
        for layouts in [Layouts::NT, Layouts::TN, Layouts::TT] {
            let shapes = default_shapes(&h200(), Dtype::Bf16, layouts);
            let most = if layouts == Layouts::NT { 250 } else { 150 };
            assert!((80..most).contains(&shapes.len()), "{}", shapes.len());
            let is_known =
                |shape: &&Shape| row_major.iter().any(|known| known.class() == shape.class());
            // Layers are between those.
            let is_layer =
                |shape: &&Shape| layers().any(|layer| [shape.m, shape.n, shape.k] == layer);
            let others = || shapes.iter().filter(|shape| !is_layer(shape));
            let known = others().filter(is_known).count();
            assert!(
                known * 10 > others().count() * 8,
                "{layouts}: {known} of {}",
                others().count()
            );
        }
    }

    #[test]
    fn layers_have_few_and_many_tokens() {
        let layers = Vec::from_iter(layers());
        for tokens in TOKENS.into_iter().flatten() {
            assert!(layers.iter().filter(|[m, ..]| m == tokens).count() > 5, "{tokens}");
        }
        let shapes = default_shapes(&h200(), Dtype::Bf16, Layouts::NT);
        let is_measured =
            |&[m, n, k]: &[u32; 3]| shapes.iter().any(|s| [s.m, s.n, s.k] == [m, n, k]);
        assert!(layers.iter().all(is_measured));
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let small = DeviceInfo { memory_bytes: 64 << 20, ..h200() };
        let shapes = default_shapes(&small, Dtype::F32, Layouts::NN);
        assert!(!shapes.is_empty());
        assert!(shapes.iter().all(|shape| u64::from(shape.m) * u64::from(shape.n) * 4 <= 16 << 20));
    }
}
