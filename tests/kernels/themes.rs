//! The tests of one kernel on one machine, by theme.

use crate::case::{TestElement, bits, check, check_in_place, check_with, nan};
use crate::gpu;
use crate::machine::Machine;
use crate::random::random_cases;
use crate::sharing;
use regemm::kernels::{Repack, Types};
use regemm::verify::{Addend, BatchCase, Case, Elements};
use regemm::{
    Activation, BiasAxis, Device, Dtype, KernelInfo, Layouts, Schedule, ShortSide, Summation, Tile,
    Yields,
};
use std::num::NonZeroU32;

pub type Outcome = Result<(), String>;
type Test = fn(&Machine, &'static KernelInfo) -> Outcome;

/// All themes for kernels of one pair of element types.
pub fn of<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    kernel: &KernelInfo,
) -> Vec<(&'static str, Test)> {
    let mut themes: Vec<(&'static str, Test)> = vec![
        ("edges", edges::<T, D>),
        ("empty", empty::<T, D>),
        ("exact_integers", exact_integers::<T, D>),
        ("alignment", alignment::<T, D>),
        ("rectangles", rectangles::<T, D>),
        ("batches", batches::<T, D>),
        ("epilogues", epilogues::<T, D>),
        ("addends", addends::<T, D>),
        ("nothing_read_for_zero_factors", zero_factors::<T, D>),
        ("special_values", special_values::<T, D>),
        ("same_bits_everywhere", same_bits::<T, D>),
        ("slices", slices::<T, D>),
        ("random_cases", random_cases::<T, D>),
    ];
    if kernel.shares_tiles() {
        themes.push(("shared_tiles", sharing::shared_tiles::<T, D>));
    }
    if kernel.schedule == Schedule::StreamK {
        themes.push(("as_many_multiprocessors", sharing::as_many_multiprocessors::<T, D>));
    }
    if kernel.schedule == Schedule::Persistent {
        themes.push(("many_tiles", sharing::many_tiles::<T, D>));
    }
    if kernel.boxes.is_some_and(|boxes| boxes.rests) {
        themes.push(("few_rows", few_rows::<T, D>));
    }
    if kernel.fits && kernel.has_width_along_k() {
        themes.push(("widths", sharing::widths::<T, D>));
    }
    if kernel.walks_batches {
        themes.push(("many_products", sharing::many_products::<T, D>));
    }
    if kernel.boxes.is_some() {
        themes.push(("misaligned_factors", misaligned_factors::<T, D>));
    }
    themes
}

/// The layouts of the kernel that runs what is not about layouts, of those that are else the same code: NN, but NT of
/// tiles that fit, whose kernel of row-major factors [swaps them](regemm_kernels::swapped), and of those for few rows
/// that need a B which [lies along k](regemm_kernels::ladder::skinny::staged).
pub fn runs_all(kernel: &KernelInfo) -> Layouts {
    let lies_along_k = kernel.short_side == Some(ShortSide::Rows) && kernel.tile.stages > 0;
    if lies_along_k || kernel.fits && !kernel.swapped { Layouts::NT } else { Layouts::NN }
}

/// Whether a theme is about values of a type, not about where they lie.
///
/// Kernels of f16 and of bf16 are one code. Only how numbers are converted, multiplied and rounded differs, so that
/// what goes wrong with the addresses, edges and barriers of one goes wrong with those of the other.
pub fn is_about_values(theme: &str) -> bool {
    const ABOUT_VALUES: [&str; 6] = [
        "exact_integers",
        "epilogues",
        "addends",
        "special_values",
        "same_bits_everywhere",
        "random_cases",
    ];
    ABOUT_VALUES.contains(&theme)
}

/// Whether a theme is about what becomes of sums, which is one code for all layouts of the factors.
pub fn is_about_results(theme: &str) -> bool {
    const ABOUT_RESULTS: [&str; 4] =
        ["epilogues", "addends", "nothing_read_for_zero_factors", "as_many_multiprocessors"];
    ABOUT_RESULTS.contains(&theme)
}

/// Whether a theme is about which block sums what, which is one code for all layouts of the factors.
pub fn is_about_schedules(theme: &str) -> bool {
    matches!(theme, "slices" | "many_tiles" | "shared_tiles" | "many_products")
}

/// Whether a theme is about how each factor is read by itself: as in a kernel that takes only that one transposed.
pub fn is_about_one_factor(theme: &str) -> bool {
    const ABOUT_ONE_FACTOR: [&str; 7] =
        ["edges", "alignment", "rectangles", "batches", "misaligned_factors", "widths", "few_rows"];
    ABOUT_ONE_FACTOR.contains(&theme)
}

/// Whether a theme is about values of a type at addresses of a layout.
pub fn mixes_values_and_layouts(theme: &str) -> bool {
    matches!(theme, "exact_integers" | "random_cases")
}

/// Whether a kernel runs only some cases of the themes that have many: on the simulator, where a twin that is the same
/// code but for the type or the layouts runs them all.
pub fn leaves_cases(machine: &Machine, kernel: &KernelInfo) -> bool {
    machine.is_simulator() && (kernel.dtype == Dtype::Bf16 || kernel.layouts != runs_all(kernel))
}

/// One less, exactly and one more than the block's tile in every direction, and the same around one.
fn edges<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    let tile = kernel.tile;
    let around = |size: u32| [size as usize - 1, size as usize, size as usize + 1];
    let mut cases = Vec::new();
    for size in around(tile.bm) {
        cases.push((size, 3, 5));
    }
    for size in around(tile.bn) {
        cases.push((2, size, 7));
    }
    // A kernel without slices has a depth of one.
    for size in around(tile.bk.max(2)).into_iter().chain(around(2 * tile.bk.max(2))) {
        cases.push((5, 6, size));
    }
    cases.extend([(1, 1, 1), (1, 1, 300), (1, 200, 1), (200, 1, 1), (1, 65, 66), (67, 1, 68)]);
    let (bm, bn, bk) = (tile.bm as usize, tile.bn as usize, tile.bk as usize);
    cases.extend([(bm + 1, bn + 1, 2 * bk + 1), (2 * bm, bn, bk), (bm - 1, 2 * bn + 3, 3 * bk)]);
    cases
        .into_iter()
        .try_for_each(|(m, n, k)| check::<T, D>(Case::product(m, n, k), machine, kernel).map(drop))
}

/// No rows, no columns, no depth. Without depth D is the epilogue of zero.
fn empty<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    for (m, n, k) in [(0, 5, 7), (5, 0, 7), (0, 0, 0), (0, 0, 9), (5, 7, 0), (33, 41, 0)] {
        let plain = Case::product(m, n, k);
        check::<T, D>(plain, machine, kernel)?;
        let full = Case {
            beta: 0.5,
            addend: Addend::Matrix,
            bias: BiasAxis::Column,
            activation: Activation::LeakyRelu,
            ..plain
        };
        check::<T, D>(full, machine, kernel)?;
    }
    // There is no product that an infinite factor could turn into NaN.
    for alpha in [f64::INFINITY, f64::NAN] {
        let case = Case { alpha, beta: 0.5, addend: Addend::Matrix, ..Case::product(5, 7, 0) };
        check::<T, D>(case, machine, kernel)?;
    }
    Ok(())
}

/// Small integers, whose products and sums are exact: the result must be, too.
fn exact_integers<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    for (m, n, k) in [(33, 35, 37), (64, 130, 20), (129, 66, 9)] {
        let case = Case { elements: Elements::Integers, ..Case::product(m, n, k) };
        check::<T, D>(case, machine, kernel)?;
        let scaled = Case {
            alpha: -2.0,
            beta: 3.0,
            addend: Addend::Same,
            bias: BiasAxis::Row,
            activation: Activation::Relu,
            gaps: [(3, 2); 4],
            ..case
        };
        check::<T, D>(scaled, machine, kernel)?;
    }
    Ok(())
}

/// Rows that start aligned or not, in matrices with and without gaps, and whose lengths are whole vectors or not.
fn alignment<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    for (left, gap) in [(0, 0), (1, 0), (0, 1), (4, 4), (8, 8), (2, 6), (7, 3)] {
        for (m, n, k) in [(40, 64, 32), (41, 63, 31), (40, 48, 33)] {
            let gaps = [(left, gap); 4];
            check_in_place::<T, D>(Case { gaps, ..Case::product(m, n, k) }, machine, kernel)?;
        }
    }
    Ok(())
}

/// Rows, columns and depth all different, each of them the longest and the shortest once, with different gaps around
/// the rows of each matrix: what mixes up rows and columns, or the leading dimensions of two matrices, shows here.
fn rectangles<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    for (m, n, k) in [(9, 34, 71), (9, 71, 34), (34, 9, 71), (34, 71, 9), (71, 9, 34), (71, 34, 9)]
    {
        for gaps in
            [[(0, 0); 4], [(0, 3), (1, 4), (2, 5), (3, 6)], [(5, 0), (0, 7), (4, 4), (8, 1)]]
        {
            check_in_place::<T, D>(Case { gaps, ..Case::product(m, n, k) }, machine, kernel)?;
        }
    }
    Ok(())
}

/// Batches whose matrices have gaps between them, with every combination of operands that all products share, and C
/// apart from D or in it.
fn batches<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    let full = Case {
        alpha: 1.5,
        beta: -0.5,
        bias: BiasAxis::Column,
        activation: Activation::LeakyRelu,
        ..Case::product(19, 35, 21)
    };
    // The five in which any two operands are shared and not in all four ways: each operand has a stride of its own.
    let pairs = [0b0000, 0b0111, 0b1011, 0b1101, 0b1110];
    let combinations =
        if leaves_cases(machine, kernel) { pairs.to_vec() } else { (0..16).collect() };
    for shared in combinations {
        let shared = std::array::from_fn(|operand| shared >> operand & 1 == 1);
        let batch = Some(BatchCase { count: 3, shared });
        let addend = if shared[0] == shared[1] { Addend::Matrix } else { Addend::Same };
        check_in_place::<T, D>(Case { batch, addend, ..full }, machine, kernel)?;
    }
    for (count, (m, n, k)) in [(0, (5, 6, 7)), (1, (33, 17, 9)), (7, (1, 40, 3)), (4, (5, 6, 0))] {
        let batch = Some(BatchCase { count, shared: [false; 4] });
        let gaps = [(1, 0), (0, 4), (4, 4), (3, 2)];
        let case = Case { batch, gaps, bias: BiasAxis::Row, ..Case::product(m, n, k) };
        check_in_place::<T, D>(case, machine, kernel)?;
    }
    let nothing_read = Case { alpha: 0.0, beta: 0.0, addend: Addend::Matrix, ..full };
    let batch = Some(BatchCase { count: 2, shared: [false, true, false, true] });
    check_in_place::<T, D>(Case { batch, ..nothing_read }, machine, kernel).map(drop)
}

/// An A of so few rows that the rest of its slices is not copied but cleared, while the first come: of so few slices
/// that C, which bulk copies could take, comes at once, and of more than there are stages; with products behind each
/// other, too.
fn few_rows<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    let Tile { bn, bk, stages, .. } = kernel.tile;
    let [n, bk] = [bn as usize + 8, bk as usize];
    for (m, k) in [(1, bk), (16, 2 * bk), (17, bk - 8), (3, (stages as usize + 1) * bk)] {
        // Rows of whole lines.
        let gaps = [(64, 64); 4];
        let plain = Case { alpha: -0.75, gaps, ..Case::product(m, n, k) };
        let case = Case { beta: 0.5, addend: Addend::Matrix, ..plain };
        check::<T, D>(case, machine, kernel)?;
    }
    let batch = Some(BatchCase { count: 3, shared: [false, true, false, false] });
    let plain = Case { alpha: 1.5, batch, ..Case::product(5, n, 2 * bk) };
    let case = Case { addend: Addend::Matrix, beta: -1.0, ..plain };
    check_in_place::<T, D>(case, machine, kernel).map(drop)
}

/// Whether there is another way to D, by bulk stores, where its rows are whole ones.
fn may_store_in_bulk(kernel: &KernelInfo) -> bool {
    kernel.boxes.is_some_and(|boxes| boxes.d.is_some())
}

/// Every activation with every bias, and a factor of the product: where bulk copies cannot take D, and where they can.
fn epilogues<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    for activation in Activation::ALL {
        for bias in [BiasAxis::None, BiasAxis::Column, BiasAxis::Row] {
            let case = Case {
                alpha: 0.75,
                activation,
                bias,
                slope: 0.125,
                gaps: [(activation as usize % 3, 0); 4],
                ..Case::product(35, 37, 19)
            };
            check::<T, D>(case, machine, kernel)?;
            if may_store_in_bulk(kernel) {
                let gaps = case.gaps.map(|(left, right)| (8 * left, 8 * right));
                check::<T, D>(Case { n: 40, gaps, ..case }, machine, kernel)?;
            }
        }
    }
    Ok(())
}

/// C apart from D and C that is D, with different factors: where bulk copies cannot take them, and where they can.
fn addends<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    for addend in [Addend::Matrix, Addend::Same] {
        for beta in [0.0, 1.0, -0.5, 1.75] {
            for gap in [0, 5] {
                let gaps = [(0, gap); 4];
                let case = Case { addend, beta, gaps, ..Case::product(66, 39, 23) };
                check::<T, D>(case, machine, kernel)?;
                if may_store_in_bulk(kernel) {
                    let gaps = gaps.map(|(left, right): (usize, _)| (left, 8 * right));
                    let case = Case { alpha: -0.75, n: 40, gaps, ..case };
                    check::<T, D>(case, machine, kernel)?;
                }
            }
        }
    }
    Ok(())
}

/// Operands whose factor is zero hold nothing but NaN, which must not be read.
fn zero_factors<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    for addend in [Addend::Matrix, Addend::Same] {
        let unread_c = Case { addend, beta: 0.0, ..Case::product(34, 36, 18) };
        check::<T, D>(unread_c, machine, kernel)?;
    }
    let unread_product = Case {
        alpha: 0.0,
        beta: 0.5,
        addend: Addend::Matrix,
        bias: BiasAxis::Column,
        ..Case::product(34, 36, 18)
    };
    check::<T, D>(unread_product, machine, kernel).map(drop)
}

/// NaN and infinities among the operands and factors do what IEEE 754 says, and only where they belong.
fn special_values<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    let infinity = T::narrow(regemm::Accumulator::constant(f64::INFINITY));
    for activation in [Activation::None, Activation::Relu, Activation::Silu, Activation::GeluErf] {
        let case = Case { activation, ..Case::product(37, 35, 21) };
        check_with::<T, D>(case, machine, kernel, |operands| {
            operands.a[(0, 3, 4)] = nan();
            operands.b[(0, 7, 8)] = infinity;
            operands.a[(0, 20, 0)] = infinity;
        })?;
    }
    for alpha in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        check::<T, D>(Case { alpha, ..Case::product(5, 6, 7) }, machine, kernel)?;
    }
    Ok(())
}

/// Kernels that sum in the same order, and a simulator that computes as the GPU does: the same case gives the same bits
/// with every such kernel, in all layouts, on every machine and every time. No bound is needed, also not for the
/// activations: they are made of the same operations on both. Tensor cores sum otherwise, and not the same on all
/// machines: there the machine is its own measure.
fn same_bits<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    // Groups sum otherwise if there are more of them, or if their parts are shorter.
    let order = |kernel: &KernelInfo| match kernel.summation {
        Summation::InGroups => (kernel.summation, kernel.depth_groups, kernel.tile.bk),
        // A launch that adds slices up has the activations of all other kernels, and warpgroups have shorter ones.
        Summation::Warpgroups | Summation::Promoted | Summation::Halves | Summation::Rounded => {
            (kernel.summation, u32::from(kernel.reducer.is_some()), 0)
        }
        // Two blocks may sum over half of K each, and in bulk an instruction takes more values of k.
        Summation::TensorCores => (
            kernel.summation,
            u32::from(kernel.schedule == Schedule::ClusterK),
            u32::from(kernel.boxes.is_some()),
        ),
        order => (order, 1, 0),
    };
    let kind = |kernel: &KernelInfo| (Types::of(kernel), order(kernel));
    let reference = reference_of(machine, kernel);
    let can_run = |other| gpu::refusal(&reference.device, other).is_none();
    let alike = |other: &&KernelInfo| kind(other) == kind(kernel);
    let mut alike = regemm::kernels::kernels().iter().filter(alike);
    let first = alike.find(|&other| can_run(other)).ok_or("no kernel of its kind")?;
    // What activations make of the same sums does not depend on layouts.
    let activations = match leaves_cases(machine, kernel) && kernel.layouts != runs_all(kernel) {
        true => &[Activation::None, Activation::GeluErf][..],
        false => &Activation::ALL,
    };
    let cases = activations.iter().flat_map(|&activation| {
        let any = Case {
            alpha: 1.25,
            beta: -0.75,
            addend: Addend::Matrix,
            bias: BiasAxis::Column,
            activation,
            // One slice is summed as if K were not split.
            slices: Some(NonZeroU32::MIN),
            ..Case::product(39, 70, 45)
        };
        // What bulk stores can take has code of its own, with C and, for some activations, without.
        let in_bulk = Case { n: 72, ..any };
        let without_c = Case { beta: 0.0, addend: Addend::None, ..in_bulk };
        let with_c = (activation == Activation::None).then_some(in_bulk);
        let of_bulk = may_store_in_bulk(kernel).then(|| with_c.into_iter().chain([without_c]));
        std::iter::once(any).chain(of_bulk.into_iter().flatten())
    });
    for case in cases {
        let expected = bits::<T, D>(case, &reference, first)?;
        // The simulator does the same every time.
        for repetition in 0..if machine.is_simulator() { 1 } else { 2 } {
            if bits::<T, D>(case, machine, kernel)? != expected {
                return Err(format!(
                    "{case}, run {repetition}: other bits than {} on {}",
                    first.name, reference.name
                ));
            }
        }
    }
    Ok(())
}

/// Where a kernel's bits are to be looked up: tensor cores are not the same on all machines.
pub fn reference_of(machine: &Machine, kernel: &KernelInfo) -> Machine {
    match kernel.summation {
        Summation::Ascending | Summation::InGroups => Machine::new(Device::sim()),
        Summation::TensorCores
        | Summation::Warpgroups
        | Summation::Promoted
        | Summation::Halves
        | Summation::Rounded => machine.clone(),
    }
}

/// Any number of slices: fewer and more than there are steps of k, alone and in batches. The bits are those of the
/// simulator with as many slices, and where K is not split slices change nothing.
fn slices<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    let reference = reference_of(machine, kernel);
    let bk = kernel.tile.bk as usize;
    let never_splits = matches!(kernel.schedule, Schedule::Tiles | Schedule::ClusterK);
    let all = [
        (3, 3 * bk - 1),
        (7, 5 * bk + 2),
        (1, 3 * bk),
        (2, 3 * bk + 1),
        (64, 2 * bk),
        (9, 1),
        (4, 0),
    ];
    // How K is divided is left to a twin, but not where slices are found in factors of another layout. And kernels of
    // whole tiles ignore slices, whatever their number is.
    let some = if machine.is_simulator() && kernel.schedule == Schedule::Tiles {
        &all[..1]
    } else if leaves_cases(machine, kernel) {
        &all[..2]
    } else {
        &all[..]
    };
    for &(count, k) in some {
        for batch in [None, Some(BatchCase { count: 3, shared: [false, true, false, false] })] {
            let case = Case {
                slices: NonZeroU32::new(count),
                batch,
                alpha: 0.5,
                beta: 1.5,
                addend: Addend::Matrix,
                bias: BiasAxis::Row,
                activation: Activation::Relu,
                ..Case::product(35, 41, k)
            };
            let expected = bits::<T, D>(case, &reference, kernel)?;
            if !machine.is_simulator() && bits::<T, D>(case, machine, kernel)? != expected {
                return Err(format!("{case}: other bits than on {}", reference.name));
            }
            let whole = Case { slices: None, ..case };
            if never_splits && bits::<T, D>(whole, machine, kernel)? != expected {
                return Err(format!("{case}: other bits than without slices"));
            }
        }
    }
    Ok(())
}

/// Factors that bulk copies cannot take: one or the other or both, by their address, their leading dimension or the
/// distance to the next of a batch. Those are repacked, and no others but what a kernel takes transposed.
fn misaligned_factors<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    let aligned = (8, 8);
    // A little more than a tile, unless that is a large one.
    let Tile { bm, bn, bk, .. } = kernel.tile;
    let [m, n, k] = [bm.min(128), bn.min(256), bk.min(64)].map(|size| size as usize + 8);
    for (gaps, repack) in [
        ([(0, 1), aligned], Repack::new(1, 0)),
        ([aligned, (1, 7)], Repack::new(0, 1)),
        ([(3, 5), (0, 7)], Repack::new(1, 1)),
        ([aligned, aligned], Repack::default()),
    ] {
        let case = Case {
            beta: 0.5,
            addend: Addend::Matrix,
            bias: BiasAxis::Column,
            gaps: [gaps[0], gaps[1], (0, 0), (1, 2)],
            layouts: kernel.layouts,
            ..Case::product(m, n, k)
        };
        let repacked = check_in_place::<T, D>(case, machine, kernel)?.report.repacked;
        let transposed = kernel.transposes();
        let expected = Repack {
            a: repack.a.max(transposed[0].into()),
            b: repack.b.max(transposed[1].into()),
            transposed,
        };
        if repacked != expected {
            return Err(format!("{case}: {repacked:?} instead of {expected:?}"));
        }
    }
    // More products than share a factor, and matrices of odd sizes behind each other.
    for shared in [[false; 4], [true, false, true, false], [false, true, false, true]] {
        let batch = Some(BatchCase { count: 5, shared });
        let case = Case { batch, addend: Addend::Same, beta: -1.5, ..Case::product(37, 21, 29) };
        check_in_place::<T, D>(case, machine, kernel)?;
    }
    Ok(())
}
