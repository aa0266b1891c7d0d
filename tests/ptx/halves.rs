//! The main loops of products of f32 on tensor cores: by halves, rounded, in TF32.

use crate::module::{ARCHS, Module, module_of, words};
use regemm::{Layout, Layouts};
use regemm_kernels::maps::BoxShape;
use regemm_kernels::table::{HALVES, ROUNDED, TF32};

/// Catches products of halves that wait for one another: in each half of a slice those of low halves are under way when
/// the sums of high ones are taken over.
#[test]
fn products_of_halves_take_sums_over_while_others_are_under_way() {
    for kernel in HALVES.iter().filter(|kernel| kernel.boxes.is_some()) {
        let (_, text) = module_of(kernel.name, "sm_90a");
        let code: Vec<_> = text.lines().flat_map(words).collect();
        let wgmma = |word: &&&str| word.starts_with("wgmma.") && !word.starts_with("wgmma.fence");
        // Where one warpgroup holds it waits for its products before.
        let of_warpgroups = code.iter().filter(wgmma).copied();
        let waits = |word: &&str| word.starts_with("wgmma.wait_group");
        let of_warpgroups: Vec<_> = of_warpgroups.skip_while(waits).collect();
        let commit = "wgmma.commit_group.sync.aligned";
        let is_product = |word: &&str| word.starts_with("wgmma.mma_async");
        // Two products of high halves, four of low ones, and a wait for the first group, twice.
        let half_of_slice: Vec<_> = of_warpgroups[..9].to_vec();
        assert!(half_of_slice[..2].iter().all(is_product), "{}", kernel.name);
        assert_eq!(half_of_slice[2], commit, "{}", kernel.name);
        assert!(half_of_slice[3..7].iter().all(is_product), "{}", kernel.name);
        assert!(half_of_slice[8].starts_with("wgmma.wait_group"), "{}", kernel.name);
        assert_eq!(of_warpgroups[9..18], half_of_slice, "{}", kernel.name);
        let loads = code.iter().filter(|word| word.starts_with("cp.async.bulk.tensor.3d.shared"));
        // All boxes of both halves of both factors, once for each way to come by a tile.
        let (tile, boxes) = (kernel.tile, kernel.boxes.unwrap());
        let of = |width: u32, shape: BoxShape| width * tile.bk / (shape.rows * shape.cols);
        let boxes = 2 * (of(tile.bm, boxes.a) + of(tile.bn, boxes.b));
        let loads = loads.count() as u32;
        assert!(loads > 0 && loads.is_multiple_of(boxes), "{}: {loads}", kernel.name);
        assert!(!text.contains(".local"), "{}", kernel.name);
    }
}

/// The products of rounded factors are those of [`warpgroups_multiply_a_slice_in_one_go`], and sums stay where they
/// are.
#[test]
fn products_of_rounded_factors_are_one_for_each_step() {
    for kernel in ROUNDED {
        let (_, text) = module_of(kernel.name, "sm_90a");
        let code: Vec<_> = text.lines().flat_map(words).collect();
        let product = format!("wgmma.mma_async.sync.aligned.m64n{}k16.f32.f16.f16", kernel.tile.bn);
        let count = |start: &str| code.iter().filter(|word| word.starts_with(start)).count();
        assert_eq!(count("wgmma.mma_async") as u32, kernel.tile.bk / 16, "{}", kernel.name);
        assert_eq!(count(&product) as u32, kernel.tile.bk / 16, "{}", kernel.name);
        assert_eq!(count("wgmma.commit_group"), 1, "{}", kernel.name);
        assert!(!text.contains(".local"), "{}", kernel.name);
    }
}

/// Catches factors that are not rounded, or more than once for each fragment, instructions of another shape or type,
/// and fragments that are read otherwise than they lie.
#[test]
fn factors_of_tf32_are_rounded_once() {
    for kernel in TF32 {
        for arch in ["sm_80", "sm_90a"] {
            let (_, text) = module_of(kernel.name, arch);
            let name = format!("{} for {arch}", kernel.name);
            let code: Vec<_> = text.lines().flat_map(words).collect();
            let count =
                |start: &str| code.iter().filter(|word| word.starts_with(start)).count() as u32;
            let tile = kernel.tile;
            let steps = tile.bk / 8;
            let products = count("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32");
            assert_eq!(products, count("mma."), "{name}");
            assert_eq!(products, steps * (tile.tm / 2) * (tile.tn / 2), "{name}");
            // Two registers for each 8 rows of A and for each 8 columns of B.
            let fragments = 2 * tile.tm + tile.tn;
            assert_eq!(count("cvt.rna.tf32.f32"), steps * fragments, "{name}");
            // Of each step, and before the first: four registers at a time where k runs along rows.
            let Layouts { a, b } = kernel.layouts;
            let along =
                [(a == Layout::RowMajor, tile.tm / 2), (b == Layout::Transposed, tile.tn / 4)];
            let squares: u32 = along.into_iter().filter(|(along, _)| *along).map(|(_, n)| n).sum();
            let read = count("ldmatrix.sync.aligned.m8n8.x4.shared");
            assert_eq!(read, (steps + 1) * squares, "{name}");
            assert_eq!(count("ldmatrix"), read, "{name}: nothing is transposed");
            let by_elements = 4 * (steps + 1) * (tile.tm / 2 + tile.tn / 4 - squares);
            assert_eq!(count("ld.shared.b32"), by_elements, "{name}");
            assert!(!text.contains(".local"), "{name}");
        }
    }
}

/// Catches fragments that are read more than once, and a barrier of a slice behind its last products instead of before
/// them, which hide it.
#[test]
fn products_of_halves_by_warps_hide_the_barrier() {
    for kernel in HALVES.iter().filter(|kernel| kernel.boxes.is_none()) {
        for target in ARCHS.into_iter().filter(|(arch, _)| *arch != "sm_75") {
            let module = Module::of(kernel, target);
            let (name, tile) = (module.name(), kernel.tile);
            let is_product = |word: &str| word.starts_with("mma.sync.aligned.m16n8k16.row.col.f32");
            let is_read = |word: &str| word.starts_with("ldmatrix.sync.aligned.m8n8.x4");
            let code: Vec<_> = module.words().collect();
            let (rows, cols, steps) = (tile.tm / 2, tile.tn / 2, tile.bk / 16);
            // Of 16 rows, and of a slice.
            let of_rows = (3 * cols * steps) as usize;
            let products = code.iter().filter(|word| is_product(word)).count();
            assert_eq!(products, rows as usize * of_rows, "{name}");
            // Those of B and the first 16 rows of A before the loop as well.
            let of_b = 2 * tile.tn / 4 * steps;
            let reads = code.iter().filter(|word| is_read(word)).count() as u32;
            assert_eq!(reads, 2 * of_b + (rows + 1) * 2 * steps, "{name}");
            let first = code.iter().position(|word| is_product(word)).unwrap();
            let barrier = code[first..].iter().position(|word| word.starts_with("bar")).unwrap();
            let before =
                code[first..first + barrier].iter().filter(|word| is_product(word)).count();
            assert_eq!(before, products - of_rows, "{name}");
            assert!(!module.text.contains(".local"), "{name}");
        }
    }
}
