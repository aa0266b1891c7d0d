//! The tests of kernels whose blocks share tiles or take several of them, one after another.

use crate::case::{TestElement, bits, check, run_fitted};
use crate::machine::Machine;
use crate::themes::{Outcome, leaves_cases, reference_of};
use regemm::kernels::{LaunchShape, Problem};
use regemm::verify::{Addend, BatchCase, Case};
use regemm::{Activation, BiasAxis, Device, KernelInfo, Yields};
use std::num::NonZeroU32;

/// Tiles that more blocks share than there are tiles: blocks with parts of two of them, and tiles with parts of three
/// blocks. The bits are those of the simulator with as many blocks, or of tensor cores another time, and within the
/// bound.
pub fn shared_tiles<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    let reference = reference_of(machine, kernel);
    // Two rows of tiles, or of those of whole clusters.
    let [bm, bn, bk] = together(kernel);
    let rows = bm + 3;
    for (blocks, k) in [(3, 5 * bk), (5, 3 * bk + 4), (7, 4 * bk - 1)] {
        let case = Case {
            slices: NonZeroU32::new(blocks),
            beta: 0.5,
            addend: Addend::Same,
            bias: BiasAxis::Column,
            ..Case::product(rows, 2 * bn - 8, k)
        };
        let found = shared::<T, D>(case, 4 % blocks, blocks, machine, kernel)?;
        if !machine.is_simulator() && found != bits::<T, D>(case, &reference, kernel)? {
            return Err(format!("{case}: other bits than on {}", reference.name));
        }
    }
    Ok(())
}

/// Multiprocessors of a simulator that has more than the products here have tiles.
const MANY: u32 = 8;

/// Where nobody asks for a number of blocks it follows from the multiprocessors. A simulator that has as many gives the
/// same bits, and any other where as many blocks are asked for.
pub fn as_many_multiprocessors<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    let multiprocessors = match machine.is_simulator() {
        true => MANY,
        false => machine.device.info().multiprocessors,
    };
    let simulator = Device::sim_with_multiprocessors(NonZeroU32::new(multiprocessors).unwrap());
    let simulator = Machine::new(simulator);
    let [bm, bn, bk] = sizes(kernel);
    let case = Case::product(2 * bm - 3, 2 * bn - 8, 5 * bk);
    // No block has fewer than four slices of these twenty.
    let expected = shared::<T, D>(case, 4, 5, &simulator, kernel)?;
    if !machine.is_simulator() && bits::<T, D>(case, machine, kernel)? != expected {
        return Err(format!("{case}: other bits than on a simulator of {multiprocessors}"));
    }
    let asked = Case { slices: NonZeroU32::new(5), ..case };
    if shared::<T, D>(asked, 4, 5, machine, kernel)? != expected {
        return Err(format!("{asked}: other bits than where that is chosen"));
    }
    Ok(())
}

/// More tiles than multiprocessors, so that blocks have several: of one slice, of many, and of none. And some are
/// shared first, by few blocks and by many.
pub fn many_tiles<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    // Two rows of tiles, or of those of whole clusters.
    let [bm, bn, bk] = together(kernel);
    let deep = kernel.tile.stages as usize * bk + 9;
    let rows = 2 * bm - 5;
    let resident = machine.device.info().multiprocessors / kernel.cluster;
    let more = resident as usize + 1;
    let of_any = |k, tiles| Case {
        beta: 0.5,
        addend: Addend::Same,
        bias: BiasAxis::Row,
        ..Case::product(rows, tiles * bn - 9, k)
    };
    // What warpgroups have code of its own for, where bulk copies can take D.
    let of_short = |activation, k, tiles| Case {
        alpha: -0.75,
        bias: BiasAxis::Column,
        activation,
        ..Case::product(rows, tiles * bn - 16, k)
    };
    let cases = [
        of_any(0, more),
        of_any(7, more),
        // The last parts of a tile leave when the next one's products are under way, be they few or none.
        of_short(Activation::GeluTanh, 0, more),
        of_short(Activation::None, 7, more),
        of_short(Activation::GeluTanh, deep, more),
    ];
    // Without depth no factor is read, of whatever layout.
    let is_left = |case: &Case| case.k == 0 && leaves_cases(machine, kernel);
    for case in cases.into_iter().filter(|case| !is_left(case)) {
        check::<T, D>(case, machine, kernel)?;
    }
    if !kernel.shares_tiles() {
        return Ok(());
    }
    // Three blocks share one or two of at least eight tiles, and have two more each.
    let uneven = |asked, least| (more.max(least)..).find(|cols| cols % asked != 0).unwrap();
    for (case, asked) in
        [(of_any(deep, uneven(3, 4)), 3), (of_short(Activation::GeluErf, deep, uneven(11, 2)), 11)]
    {
        let case = Case { slices: NonZeroU32::new(asked), ..case };
        let tiles = kernel.blocks(case.m as u32, case.n as u32) as u32 / kernel.cluster % asked;
        // No more blocks than there are slices.
        let blocks = asked.min(tiles * deep.div_ceil(bk) as u32);
        shared::<T, D>(case, tiles, blocks, machine, kernel)?;
    }
    Ok(())
}

/// Tiles of every width that they may have, of which the launch chooses any where the factor across them is stored by
/// rows along k: two for each block, of which the last ends outside of D: with what warpgroups have code of its own
/// for, with any epilogue, and where bulk copies cannot take D.
pub fn widths<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    let bk = kernel.tile.bk as usize;
    // Where A and B are swapped the tiles of a row are of D below each other.
    let height = kernel.rows_together() as usize;
    let (machine, rows, clusters) = match machine.is_simulator() {
        true => {
            // Of large clusters there are fewer at a time than all multiprocessors have room for.
            let room = if kernel.cluster > 2 { 4 } else { 3 };
            let blocks = NonZeroU32::new(room * kernel.cluster).unwrap();
            (Machine::new(Device::sim_with_multiprocessors(blocks)), 1, 3)
        }
        false => (machine.clone(), 33, machine.device.info().multiprocessors / kernel.cluster),
    };
    let columns = clusters as usize * 2 / rows;
    let deep = kernel.tile.stages as usize * bk + 9;
    for width in regemm_kernels::warpgroup::fit::widths(kernel.width()) {
        let (along, across) = (rows * height, columns * width as usize);
        // Bulk stores take rows of multiples of 8 elements.
        let plain = |is_mapped: bool, k| {
            let (m, n) = match (kernel.swapped, is_mapped) {
                (false, true) => (along - 3, across - 8),
                (false, false) => (along - 3, across - 9),
                (true, true) => (across - 3, along - 8),
                (true, false) => (across - 9, along - 3),
            };
            Case { alpha: -0.75, ..Case::product(m, n, k) }
        };
        let cases = [
            plain(true, deep),
            Case { bias: BiasAxis::Column, activation: Activation::GeluTanh, ..plain(true, bk) },
            Case { bias: BiasAxis::Row, activation: Activation::Relu, ..plain(true, 7) },
            Case { bias: BiasAxis::Column, ..plain(false, bk + 1) },
        ];
        for case in cases {
            let problem = Problem::packed(kernel.dtype, shape(case), kernel.layouts);
            let found = LaunchShape::new(kernel, &problem, machine.device.info(), None);
            if found.tile_width != width {
                return Err(format!("{case}: tiles of {} columns", found.tile_width));
            }
            check::<T, D>(case, &machine, kernel)?;
        }
    }
    Ok(())
}

/// Rows, columns and depth of a case.
fn shape(case: Case) -> (u32, u32, u32) {
    (case.m as u32, case.n as u32, case.k as u32)
}

/// Products of several tiles each whose blocks go through all of them: whole ones alone, and with some that are shared
/// first, of whichever product. Every operand is one for each product, or all of them are one for all.
pub fn many_products<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    let [bm, bn, bk] = together(kernel);
    let of = |count, of_all: bool, bias, k| Case {
        alpha: -0.75,
        beta: 0.5,
        addend: Addend::Matrix,
        bias,
        batch: Some(BatchCase { count, shared: [of_all; 4] }),
        ..Case::product(bm + 3, bn + 8, k)
    };
    let resident = machine.device.info().multiprocessors / kernel.cluster;
    // Four tiles each.
    let count = resident as usize / 4 + 2;
    let plain = Case { beta: 0.0, ..of(count, false, BiasAxis::None, 7) };
    let gelu = Case { activation: Activation::GeluTanh, bias: BiasAxis::Column, ..plain };
    for case in [of(count, true, BiasAxis::Row, 7), plain, gelu] {
        check::<T, D>(case, machine, kernel)?;
    }
    if !kernel.shares_tiles() {
        return Ok(());
    }
    let deep = kernel.tile.stages as usize * bk + 9;
    for (count, bias, asked) in [(2, BiasAxis::Row, 5), (3, BiasAxis::Column, 7)] {
        let slices = NonZeroU32::new(asked);
        let case = Case { slices, ..of(count, false, bias, deep) };
        shared::<T, D>(case, 4 * count as u32 % asked, asked, machine, kernel)?;
    }
    Ok(())
}

/// The sizes of the tiles of a cluster as one, or of a tile.
fn together(kernel: &KernelInfo) -> [usize; 3] {
    let [bm, bn, bk] = sizes(kernel);
    let (blocks, beside) = (kernel.cluster as usize, kernel.cluster_cols as usize);
    [blocks / beside * bm, beside * bn, bk]
}

fn sizes(kernel: &KernelInfo) -> [usize; 3] {
    [kernel.tile.bm, kernel.tile.bn, kernel.tile.bk].map(|size| size as usize)
}

/// The bits of a checked result that so many blocks, or clusters of them, made which share so many tiles, or those of
/// clusters.
fn shared<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    case: Case,
    tiles: u32,
    blocks: u32,
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Result<Vec<u64>, String> {
    let [m, n, k] = [case.m, case.n, case.k].map(|size| size as u32);
    let problem = Problem::packed(kernel.dtype, (m, n, k), kernel.layouts);
    let batch = case.batch.map_or(1, |batch| batch.count as u32);
    let problem = Problem { batch, target: kernel.target, ..problem };
    let slices = case.slices.map(NonZeroU32::get);
    let shape = LaunchShape::new(kernel, &problem, machine.device.info(), slices);
    if shape.products != batch {
        return Err(format!("{case}: blocks go through {} products", shape.products));
    }
    if (shape.shared_tiles, shape.sharing_blocks) != (tiles, blocks) || tiles >= blocks {
        return Err(format!("{case}: {shape:?} instead of {blocks} blocks that share {tiles}"));
    }
    let outcome = run_fitted::<T, D>(case, machine, kernel)?;
    if outcome.report.counters.is_some_and(|counters| counters.signal_posts == 0) {
        return Err(format!("{case}: no block has left its sums to another"));
    }
    Ok(outcome.d.iter().map(|x| x.bits()).collect())
}
