//! Memory: state spaces, widths, and how much is shared.

use crate::module::{Module, bytes, modules, modules_that};
use regemm::{Dtype, KernelInfo, Layout, Layouts, Rung};
use regemm_kernels::kernel::Schedule;
use regemm_kernels::maps::BoxShape;
use std::collections::BTreeSet;

/// Catches generic accesses: a pointer that went round `cuda_std`, which the simulator cannot see and for which the GPU
/// has to find out the state space.
#[test]
fn every_access_names_its_state_space() {
    for module in modules() {
        let shared = module.kernel.rung == Rung::Tiled || module.kernel.shared_bytes > 0;
        let mut loads_and_stores = BTreeSet::new();
        for access in module.accesses() {
            let mut parts = access.split('.');
            loads_and_stores.insert((parts.next().unwrap(), parts.next().unwrap()));
        }
        let mut expected = BTreeSet::from([("st", "global")]);
        // Tiles of both factors may come by themselves, and the epilogue may be another kernel's: then nothing is left
        // to load.
        if module.kernel.rung != Rung::SplitK
            || !module.copies_asynchronously()
            || module.finishes_in_bulk()
            || (module.multiplies_doubles() && module.kernel.reducer.is_none())
        {
            expected.insert(("ld", "global"));
        }
        // Warpgroups multiply from shared memory, and pass their sums through it only if they end in the epilogue.
        let in_warpgroups = module.multiplies_in_warpgroups();
        let passes_sums = module.finishes_in_bulk() && !module.stores_directly();
        if shared
            && (!in_warpgroups || passes_sums || module.brings_c() || module.multiplies_doubles())
        {
            expected.insert(("ld", "shared"));
        }
        // Slices that are not copied asynchronously, or the sums on their way to D.
        let by_hand = (module.kernel.producers > 0 && !in_warpgroups)
            || module.kernel.rung == Rung::TensorCore
            || module.multiplies_doubles()
            || module.sends_pairs_of_f32()
            // Sums of groups.
            || module.kernel.rung == Rung::Skinny
            // What of A's slices lies outside of it.
            || (in_warpgroups && module.kernel.rung == Rung::SplitK);
        // A slice of zeros for products without depth.
        let by_hand = by_hand || module.kernel.fits || module.clears_outside();
        if shared && (!module.copies_asynchronously() || by_hand) {
            expected.insert(("st", "shared"));
        }
        // Signals to other blocks.
        let by_rung = matches!(module.kernel.rung, Rung::StreamK | Rung::Warpgroup);
        let leaves_sums = by_rung && !module.kernel.fits && module.kernel.turns == 1;
        if leaves_sums || module.kernel.shares_tiles() {
            expected.extend([("ld", "acquire"), ("st", "release"), ("st", "relaxed")]);
        }
        // Counts of all blocks, which the last one clears.
        if module.kernel.keeps_pace {
            expected.extend([("ld", "relaxed"), ("st", "relaxed")]);
        }
        // Sums of the other block.
        if module.kernel.schedule == Schedule::ClusterK {
            expected.insert(("ld", "shared::cluster"));
        }
        assert_eq!(loads_and_stores, expected, "{}", module.name());
        let copies = module.words().any(|word| word.starts_with("cp.async."));
        assert_eq!(copies, module.copies_asynchronously(), "{}", module.name());
    }
}

/// Catches wide accesses that fell apart into single ones, and ones where they were not meant. Each access of the upper
/// rungs has a narrow twin for matrices whose rows are not whole vectors, so both must be there.
#[test]
fn accesses_are_as_wide_as_meant() {
    const WIDE: &str = "v4.b32";
    for module in modules() {
        let wide = |access: &str| module.accesses().any(|word| word == format!("{access}.{WIDE}"));
        let name = module.name();
        let doubles = module.multiplies_doubles();
        match if doubles { Rung::TensorCore } else { module.kernel.rung } {
            Rung::Naive | Rung::Tiled => {
                let any = module.accesses().find(|access| access.contains(".v"));
                assert_eq!(any, None, "{name}");
            }
            Rung::Microkernel | Rung::DoubleBuffered => {
                // Rows and columns of a thread tile may be shorter than a vector, and so are its accesses.
                let tile = module.kernel.tile;
                let short = tile.tm.min(tile.tn) * module.operand_bytes() < 16;
                let b64 = |start: &str| {
                    module.accesses().any(|word| word.starts_with(start) && bytes(word) == 8)
                };
                let as_wide = |access: &str| if short { b64(access) } else { wide(access) };
                assert!(as_wide("ld.shared"), "{name}: the thread tiles' operands");
                assert!(wide("st.shared"), "{name}: the slice of B");
                // A thread's share of a slice of half-precision elements may be only 8 bytes, and so its vectors.
                let half = matches!(module.kernel.dtype, Dtype::F16 | Dtype::Bf16);
                if half {
                    assert!(b64("ld.global"), "{name}: loads of A and B");
                } else {
                    assert!(wide("ld.global"), "{name}: loads of A and B");
                    assert!(as_wide("st.global"), "{name}: stores of D");
                }
            }
            Rung::TensorCore => {
                assert!(wide("ld.shared"), "{name}: sums on their way to D");
                // 4 results, or a vector of them.
                let stored_bytes = (4 * module.kernel.target.bytes() as u32).min(16);
                let stored =
                    |word: &str| word.starts_with("st.global") && bytes(word) == stored_bytes;
                assert!(module.accesses().any(stored), "{name}: stores of D");
                if module.kernel.boxes.is_some() {
                    module.check_bulk_loads();
                    continue;
                }
                for copy in ["cp.async.cg.shared.global", "cp.async.ca.shared.global"] {
                    assert!(module.words().any(|word| word == copy), "{name}: {copy}");
                }
            }
            Rung::Warpgroup => {
                let count = |word: &str| module.words().filter(|&found| found == word).count();
                // The compiler may write them once for each kind of part that a block sums.
                module.check_bulk_loads();
                // D leaves in boxes as wide, each at a place of its own where all is written out, and else all at one.
                let leaves = usize::from(!module.stores_directly());
                let of_d = module.written_out() + leaves;
                let store = "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group";
                assert_eq!(count(store), of_d, "{name}");
                // Behind rows of zeros, and where tiles fit as well behind a slice of them.
                let zeros = usize::from(module.kernel.fits) + usize::from(module.clears_outside());
                assert_eq!(count("fence.proxy.async.shared::cta"), of_d + zeros, "{name}");
                let pieces = module.left_in_pieces();
                assert_eq!(count("cp.async.bulk.commit_group"), of_d + pieces, "{name}");
                // What is not written out has waited already, and so has each part that leaves at once.
                let rests = if module.leaves_at_once() { 0 } else { pieces.saturating_sub(1) };
                assert_eq!(count("cp.async.bulk.wait_group.read"), of_d + leaves + rests, "{name}");
                let written = count(match module.kernel.swapped {
                    true => "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
                    false => "stmatrix.sync.aligned.m8n8.x4.shared.b16",
                });
                let most = if module.kernel.target == Dtype::F32 {
                    let pairs = |word: &&str| word.starts_with("st.shared") && bytes(word) == 8;
                    assert_eq!(module.accesses().filter(pairs).count(), 8 * of_d, "{name}: pairs");
                    assert_eq!(written, 0, "{name}");
                    8
                } else if module.stores_directly() {
                    assert_eq!(written, 0, "{name}: blocks of D");
                    4
                } else {
                    // The last part of a piece may be half of one.
                    let whole = 4 * (of_d - 1 + rests);
                    let halves = if module.has_half_parts() { of_d - 1 } else { 0 } / 3 * 2;
                    assert_eq!(written, whole - halves + 2, "{name}: blocks of D");
                    4
                };
                // Elements of the epilogue in pairs, and of a D that is not mapped words.
                // But for sums that are handed over, in vectors.
                let sums = ["ld.global.v4.b32", "st.global.v4.b32"];
                let of_lane = module.kernel.tile.tm * module.kernel.tile.tn;
                let hands_over = !module.kernel.fits && module.kernel.turns == 1;
                let handed_over = if hands_over { of_lane as usize / 4 } else { 0 };
                let of_pieces = 4 * pieces;
                let expected = [handed_over, handed_over + of_pieces];
                assert_eq!(sums.map(count), expected, "{name}: handed over, and pieces");
                assert_eq!(count("ld.shared.v4.b32"), of_pieces, "{name}: pieces");
                let of_fitted = ["ld.shared.v4.b32", "st.shared.v4.b32"];
                let is_known = |word: &&str| {
                    let clears = module.kernel.fits || module.clears_outside();
                    sums.contains(word) || clears && of_fitted.contains(word)
                };
                let others = || module.accesses().filter(|word| !is_known(word));
                let wider = others().find(|word| bytes(word) > most);
                assert_eq!(wider, None, "{name}");
                let stored = |word: &&str| {
                    word.starts_with("st.global")
                        && bytes(word) > if module.stores_directly() { 8 } else { 4 }
                };
                assert_eq!(others().find(stored), None, "{name}");
            }
            _ if module.kernel.boxes.is_some() && !module.multiplies_in_warpgroups() => {
                module.check_bulk_loads();
                assert!(wide("ld.shared"), "{name}: the thread tiles' operands");
                assert!(wide("st.global"), "{name}: stores of D");
                let copy = module.words().find(|word| word.starts_with("cp.async.c"));
                assert_eq!(copy, None, "{name}: all comes in bulk");
            }
            _ if module.kernel.boxes.is_some() => {
                // A transposed A is brought by a loop over what there is of it.
                if module.kernel.layouts.a == Layout::RowMajor {
                    // The compiler may write those of several slices after each other.
                    module.check_bulk_loads();
                }
                let of_lane = module.kernel.tile.tm * module.kernel.tile.tn;
                if module.kernel.schedule == Schedule::ClusterK {
                    let count = |word: &str| module.words().filter(|&found| found == word).count();
                    let loads = count("ld.shared::cluster.v4.b32");
                    assert_eq!(loads as u32, of_lane / 4, "{name}: sums of the other block");
                    continue;
                }
                let pairs = module.words().filter(|&word| word == "st.global.b64").count();
                assert_eq!(pairs as u32, of_lane / 2, "{name}: sums of a slice");
            }
            Rung::Skinny if module.kernel.tile.stages == 0 => {
                assert!(wide("ld.global"), "{name}: the large factor");
            }
            Rung::Skinny => {
                assert!(wide("ld.shared"), "{name}: both factors");
                let vector = module.words().any(|word| word == "cp.async.cg.shared.global");
                assert_eq!(vector, module.copies_asynchronously(), "{name}: copies of vectors");
            }
            _ if module.kernel.producers > 0 => {
                assert!(
                    wide("ld.shared"),
                    "{name}: the thread tiles' operands, sums on their way to D"
                );
                assert!(wide("st.global"), "{name}: stores of D");
                // Rows of slices are copied to their places, and columns to places of the producers' own.
                let vector = module.words().any(|word| word == "cp.async.cg.shared.global");
                assert!(vector, "{name}: copies of whole vectors");
            }
            Rung::Pipelined
            | Rung::WarpTiled
            | Rung::Decoupled
            | Rung::WarpSpecialised
            | Rung::SlicedK
            | Rung::SplitK
            | Rung::StreamK => {
                assert!(wide("ld.shared"), "{name}: the thread tiles' operands");
                assert!(wide("st.global"), "{name}: stores of D");
                // A factor whose rows are columns of its slices is transposed on the way, element by element.
                let Layouts { a, b } = module.kernel.layouts;
                let straight = a == Layout::Transposed || b == Layout::RowMajor;
                if module.copies_asynchronously() {
                    // Only copies of 16 bytes go past the L1 cache.
                    let vector = module.words().any(|word| word == "cp.async.cg.shared.global");
                    assert_eq!(vector, straight, "{name}: copies of whole vectors");
                } else if straight {
                    assert!(wide("st.shared") && wide("ld.global"), "{name}: whole vectors");
                }
            }
        }
    }
}

/// Catches static tiles of the wrong size, which would limit the resident blocks or overlap, and a kernel whose shared
/// memory is neither declared nor asked for in the launch.
#[test]
fn shared_memory_is_as_large_as_the_tiles() {
    for module in modules() {
        let name = module.name();
        let mut arrays = Vec::new();
        let mut dynamic = 0;
        for line in module.lines().filter(|line| line.contains(".shared .align")) {
            let (_, size) = line.split_once('[').unwrap();
            match size.split_once(']').unwrap().0 {
                "" => dynamic += 1,
                size => arrays.push(size.parse::<u32>().unwrap()),
            }
        }
        let tile = module.kernel.tile;
        let expected = match module.kernel.rung {
            Rung::Tiled => {
                let bytes = |elements: u32| elements * module.operand_bytes();
                // Rows of a tile that is turned on the way are padded by the columns that a warp stores in one pass.
                let pass = 128 / module.operand_bytes();
                let padding = match module.kernel.layouts.b {
                    Layout::RowMajor => 0,
                    Layout::Transposed => (pass / tile.bn).max(1),
                };
                vec![bytes(tile.bm * tile.bk), bytes(tile.bk * (tile.bn + padding))]
            }
            _ => Vec::new(),
        };
        assert_eq!(arrays, expected, "{name}");
        assert_eq!(dynamic, u32::from(module.kernel.shared_bytes > 0), "{name}");
    }
}

/// Catches a thread that brings slices without being elected: to the compiler it may be any of its warp, and around
/// each copy is a loop over these. It takes longer for a slice then than a small tile's products.
#[test]
fn who_brings_slices_is_elected() {
    for module in modules_that(|module: &Module| module.kernel.boxes.is_some()) {
        // Where one warpgroup multiplies nobody hands over registers.
        let parts = module.text.split_once("setmaxnreg.dec");
        let of_producers = parts.map_or(module.text, |(_, behind)| behind);
        let first = |word| of_producers.find(word).unwrap_or(usize::MAX);
        let [elected, copied] = ["elect.sync", "cp.async.bulk.tensor.3d.shared"].map(first);
        assert!(elected < copied && copied < usize::MAX, "{}", module.kernel.name);
    }
}

/// Catches slices inside of A and B of which it is asked what of them does: all of such a one's boxes are asked for
/// without a branch between them.
#[test]
fn all_boxes_of_a_slice_come_together() {
    let in_order = |module: &Module| {
        let kernel = module.kernel;
        kernel.boxes.is_some_and(|boxes| boxes.rests) && !kernel.swapped && !kernel.fits
    };
    for module in modules_that(in_order) {
        let KernelInfo { tile, cluster, cluster_cols, schedule, .. } = *module.kernel;
        let boxes = module.kernel.boxes.unwrap();
        let of = |width: u32, shape: BoxShape| width * tile.bk / (shape.rows * shape.cols);
        // Blocks that share a tile's depth share no boxes.
        let (above, beside) = match schedule {
            Schedule::ClusterK => (1, 1),
            _ => (cluster / cluster_cols, cluster_cols),
        };
        let boxes = of(tile.bm, boxes.a) / beside + of(tile.bn, boxes.b) / above;
        let branches = |line: &str| line.contains("bra") || line.starts_with('$');
        let copies = module.text.lines().map(str::trim).collect::<Vec<_>>();
        let mut copies = copies.split(|line| branches(line)).map(|lines| {
            lines.iter().filter(|line| line.starts_with("cp.async.bulk.tensor.3d.shared")).count()
        });
        assert!(copies.any(|copies| copies == boxes as usize), "{}: {boxes}", module.kernel.name);
    }
}
