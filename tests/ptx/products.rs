//! The main loops: multiply-adds, the products of tensor cores, and what hides what.

use crate::module::{Module, bytes, modules, modules_that};
use regemm::{Dtype, Layout, Layouts, Rung};

/// Catches products that are not fused with their sum (two roundings and half the speed), sums in the wrong precision,
/// and thread tiles that are not in registers: then a loop would load more than `TM + TN` operands for `TM * TN`
/// multiply-adds, or multiply-adds would be apart from the loads.
#[test]
fn the_main_loop_is_fused_and_loads_each_operand_once() {
    let mut checked = 0;
    for module in modules() {
        let name = module.name();
        assert!(!module.words().any(|word| word == module.other_fma()), "{name}");
        // Tensor cores multiply otherwise, and the operands of skinny products come from two memories.
        let otherwise = [Rung::TensorCore, Rung::Skinny].contains(&module.kernel.rung)
            || module.multiplies_doubles();
        if otherwise || module.multiplies_in_warpgroups() {
            continue;
        }
        checked += 1;
        let blocks = module.multiplying_blocks();
        assert!(!blocks.is_empty(), "{name}: no block multiplies");
        for block in blocks {
            let unfused = block.iter().find(|word| {
                let (opcode, rest) = word.split_once('.').unwrap_or_default();
                let float = rest.ends_with(".f32") || rest.ends_with(".f64");
                ["mul", "add", "sub", "div"].contains(&opcode) && float
            });
            assert_eq!(unfused, None, "{name}");

            let tile = module.kernel.tile;
            let multiply_adds = block.iter().filter(|&&word| word == module.fma()).count() as u32;
            let steps = multiply_adds / (tile.tm * tile.tn);
            assert_eq!(multiply_adds, steps * tile.tm * tile.tn, "{name}: whole outer products");
            let loads = block.iter().filter(|word| word.starts_with(module.operand_load()));
            let loaded: u32 = loads.map(|load| bytes(load)).sum();
            // Where a slice is one round, the first fragments of the next are loaded behind the wait for that.
            let is_round =
                module.kernel.depth_groups > 1 && tile.bk == module.kernel.depth_groups * steps;
            let loaded_steps = if is_round { steps - 1 } else { steps };
            let operands = loaded_steps * (tile.tm + tile.tn);
            assert_eq!(loaded, operands * module.operand_bytes(), "{name}: {steps} steps");
        }
    }
    assert!(checked > 0);
}

/// Catches instructions of another shape or type than meant, fragments that are read more than once, and products that
/// are apart from the loads that they hide.
#[test]
fn tensor_cores_multiply_while_the_next_fragments_are_read() {
    let of_halves = |module: &Module| {
        module.kernel.rung == Rung::TensorCore && module.kernel.dtype != Dtype::F64
    };
    for module in modules_that(of_halves) {
        let (name, tile) = (module.name(), module.kernel.tile);
        let format = module.kernel.dtype.name();
        let mma = format!("mma.sync.aligned.m16n8k16.row.col.f32.{format}.{format}.f32");
        let products = tile.tm / 2 * (tile.tn / 2);
        let squares = tile.tm / 2 + tile.tn / 4;
        let mut steps = 0;
        for block in module.blocks() {
            let count = |start: &str| block.iter().filter(|word| word.starts_with(start)).count();
            let multiplied = count("mma.") as u32;
            assert_eq!(multiplied, count(&mma) as u32, "{name}");
            if multiplied > 0 {
                assert_eq!(multiplied % products, 0, "{name}: whole steps");
                steps += multiplied / products;
                let read = count("ldmatrix.sync.aligned.m8n8.x4") as u32;
                assert_eq!(read, multiplied / products * squares, "{name}");
            }
        }
        assert_eq!(steps, tile.bk / 16, "{name}: the steps of a slice");
        let transposed = module.words().any(|word| word.contains(".x4.trans."));
        let natural = module.words().any(|word| word.contains(".x4.shared."));
        let Layouts { a, b } = module.kernel.layouts;
        assert_eq!(natural, a == Layout::RowMajor || b == Layout::Transposed, "{name}");
        assert_eq!(transposed, a == Layout::Transposed || b == Layout::RowMajor, "{name}");
    }
}

/// The same in double precision, and branches between the products of a slice, before which tensor cores would run dry.
/// There is a loop for each of the two lengths of copies, and one alone where threads that multiply do not copy: then
/// instructions take two steps.
#[test]
fn tensor_cores_for_f64_multiply_without_branches() {
    for module in modules_that(Module::multiplies_doubles) {
        let (name, tile) = (module.name(), module.kernel.tile);
        let in_bulk = module.kernel.boxes.is_some();
        let (shape, in_product, steps_of_product) = match (in_bulk, module.ptx.arch) {
            (true, _) => ("m16n8k8", 1, 2),
            (false, "sm_80") => ("m8n8k4", 2, 1),
            (false, _) => ("m16n8k4", 1, 1),
        };
        let mma = format!("mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64");
        let steps = tile.bk / 4;
        let of_step = tile.tm + tile.tn / 2;
        let mut copies = Vec::new();
        for block in module.blocks() {
            let count =
                |start: &str| block.iter().filter(|word| word.starts_with(start)).count() as u32;
            let products = count("mma.");
            if products == 0 {
                continue;
            }
            assert_eq!(products, count(&mma), "{name}");
            let of_slice = steps / steps_of_product * (tile.tm / 2) * (tile.tn / 2) * in_product;
            assert_eq!(products, of_slice, "{name}");
            let read = |word: &&&str| word.starts_with("ld.shared") && bytes(word) == 8;
            assert_eq!(block.iter().filter(read).count() as u32, steps * of_step, "{name}");
            copies.push((count("cp.async.cg."), count("cp.async.ca.")));
        }
        copies.sort_unstable();
        let elements = (tile.bm + tile.bn) * tile.bk / tile.threads();
        let expected = [(0, elements), (elements / 2, 0)];
        assert_eq!(copies, if in_bulk { &[(0, 0)][..] } else { &expected }, "{name}");
        let read =
            module.accesses().filter(|word| word.starts_with("ld.shared") && bytes(word) == 8);
        let all = copies.len() as u32 * (steps + steps_of_product) * of_step;
        assert_eq!(read.count() as u32, all, "{name}: and the first step");
    }
}

/// Catches instructions of another shape, type or layout than meant, products of a slice that are apart from one
/// another, and sums that the compiler has got hold of.
#[test]
fn warpgroups_multiply_a_slice_in_one_go() {
    for module in modules_that(Module::multiplies_in_warpgroups) {
        let (name, tile) = (module.name(), module.kernel.tile);
        let products_of_slice = tile.bk / 16 * module.pieces();
        let format = module.kernel.dtype.name();
        let widths: Vec<u32> = match module.kernel.fits {
            true => regemm_kernels::warpgroup::fit::widths(module.kernel.width()).collect(),
            false => vec![module.kernel.width()],
        };
        let product = |cols: &u32| {
            format!("wgmma.mma_async.sync.aligned.m64n{cols}k16.f32.{format}.{format}")
        };
        let (mut multiplied, mut fences_of_slices) = (Vec::new(), Vec::new());
        for block in module.blocks() {
            let count = |start: &str| block.iter().filter(|word| word.starts_with(start)).count();
            let products = count("wgmma.mma_async");
            if products > 0 {
                let width = widths.iter().find(|cols| count(&product(cols)) == products);
                multiplied.push(*width.unwrap_or_else(|| panic!("{name}: of one width")));
                assert_eq!(products as u32, products_of_slice, "{name}: the steps of a slice");
                assert_eq!(count("wgmma.commit_group"), 1, "{name}");
                fences_of_slices.push(count("wgmma.fence"));
            }
        }
        multiplied.sort_unstable_by(|a, b| b.cmp(a));
        // Tiles that fit have the first slices in one loop, and others in one for each width.
        let loops = if module.kernel.fits { 2 } else { 1 };
        let expected: Vec<u32> = widths.iter().flat_map(|&cols| vec![cols; loops]).collect();
        assert_eq!(multiplied, expected, "{name}: main loops");
        let fences = module.words().filter(|word| word.starts_with("wgmma.fence")).count();
        assert_eq!(fences_of_slices, vec![1; multiplied.len()], "{name}");
        assert_eq!(fences, multiplied.len(), "{name}");
        let Layouts { a, b } = module.kernel.layouts;
        let mut across = [a == Layout::Transposed, b == Layout::RowMajor];
        if module.kernel.swapped {
            across.reverse();
        }
        let [left, right] = across.map(u32::from);
        let operands = format!("p, 1, 1, {left}, {right};");
        let lines = module.lines().filter(|line| line.contains(&operands)).count() as u32;
        assert_eq!(lines, products_of_slice * (widths.len() * loops) as u32, "{name}: {operands}");
    }
}
