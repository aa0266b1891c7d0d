//! Barriers, as many as the design has.

use crate::module::modules;
use regemm::{Dtype, Rung};
use regemm_kernels::kernel::{Schedule, Summation, Tile};
use std::collections::BTreeSet;

/// Catches a barrier that was lost, or one too many: the design has two around the use of the slices, with two stages
/// one for the first slices and one for each after them, and in a pipeline one for each.
#[test]
fn barriers_are_as_designed() {
    const SLICED: &[&str] = &["bar.sync", "bar.warp.sync", "bar.warp.sync", "bar.sync", "bar.sync"];
    const SPECIALISED: &[&str] =
        &["bar.sync", "bar.warp.sync", "bar.warp.sync", "bar.sync", "bar.warp.sync"];
    for module in modules() {
        let barrier = |word: &&str| word.starts_with("bar.") || word.starts_with("barrier.");
        let mut found: Vec<_> = module.words().filter(barrier).collect();
        if module.multiplies_doubles() {
            // Before the first slice, in the loop and after it, of which there is one for each length of copies, and
            // among the lanes that have written sums; then those of a cluster, of which the compiler may write some
            // once for either half of the warps. Where slices are brought in bulk, named ones: before the first slice
            // and in the loop, where the warps that announce them wait for the start, at the first slice with those who
            // multiply, and for what has been read, and what does not wait at either end; and among lanes that have
            // read, or written sums, or read those back.
            let count = |word: &str| found.iter().filter(|&&found| found == word).count();
            let found_ones = ["bar.sync", "bar.warp.sync", "bar.arrive"].map(count);
            let in_bulk = module.kernel.boxes.is_some();
            assert_eq!(
                found_ones,
                if in_bulk { [7, 3, 3] } else { [6, 1, 0] },
                "{}",
                module.name()
            );
            let of_cluster = found.iter().filter(|word| word.starts_with("barrier.cluster."));
            assert_eq!(of_cluster.count() > 0, module.kernel.cluster > 1, "{}", module.name());
            continue;
        }
        let expected: &[&str] = match module.kernel.rung {
            Rung::Naive => &[],
            Rung::Tiled | Rung::Microkernel | Rung::DoubleBuffered => &["bar.sync"; 2],
            Rung::Pipelined => &["bar.sync"],
            // As with warp specialisation, but that the sums are added up on their way, for which all consumers have to
            // be there.
            Rung::SlicedK => SLICED,
            // As below, among those that have cleared what lies outside of A, where nobody reads the stages any more,
            // between the writes and the reads of sums, and after these; what comes then the compiler writes once for
            // either warpgroup.
            Rung::SplitK if module.kernel.schedule == Schedule::ClusterK => {
                const FIRST: [&str; 8] = [
                    "bar.sync",
                    "bar.sync",
                    "bar.warp.sync",
                    "bar.warp.sync",
                    "bar.sync",
                    "barrier.cluster.arrive",
                    "barrier.cluster.wait",
                    "barrier.cluster.arrive",
                ];
                let mut first = FIRST.to_vec();
                if module.kernel.summation == Summation::Promoted {
                    // Before threads take over sums.
                    first.insert(4, "bar.warp.sync");
                }
                assert_eq!(found[..first.len()], first, "{}", module.name());
                assert_eq!(found.last(), Some(&"barrier.cluster.wait"), "{}", module.name());
                let syncs = found.iter().filter(|&&word| word == "bar.sync").count();
                assert_eq!(syncs, 3, "{}", module.name());
                continue;
            }
            // Where the memory barriers are made, among those that have cleared what lies outside of A, and among the
            // lanes that have read a stage, before the last and the last itself.
            Rung::SplitK if module.kernel.boxes.is_some() => {
                &["bar.sync", "bar.sync", "bar.warp.sync", "bar.warp.sync"]
            }
            Rung::SplitK if module.kernel.depth_groups > 1 => SLICED,
            // Where the memory barriers are made, among the lanes that have read a stage, before the last and the last
            // itself, and around the way of the sums through shared memory.
            Rung::WarpSpecialised => SPECIALISED,
            Rung::SplitK if module.kernel.producers > 0 => SPECIALISED,
            // Before the first slice, and before the last k of each.
            Rung::WarpTiled | Rung::SplitK => &["bar.sync"; 2],
            // Before the sums of groups are added up; and where slices come through shared memory, before each of them
            // and before the sums take their place.
            Rung::Skinny if module.kernel.tile.stages == 0 => &["bar.sync"],
            Rung::Skinny => &["bar.sync"; 3],
            // As one of these for what is left to others, whose consumers meet, and for what is stored, for which they
            // meet twice.
            Rung::StreamK => &[
                "bar.sync",
                "bar.warp.sync",
                "bar.warp.sync",
                "bar.sync",
                "bar.warp.sync",
                "bar.warp.sync",
                "bar.sync",
                "bar.sync",
                if module.kernel.depth_groups > 1 { "bar.sync" } else { "bar.warp.sync" },
            ],
            // Where the memory barriers are made, and among the lanes that have read a stage.
            Rung::Decoupled if module.ptx.arch != "sm_75" => &["bar.sync", "bar.warp.sync"],
            Rung::Decoupled => &["bar.sync"; 2],
            // Where the memory barriers are made, among the lanes that have read a stage, before the last and the last
            // itself, where sums are left to others and where they are collected, among those that have read a stage of
            // C, where that is written out and where it is not, around the writes of each part of D where they are
            // written out, of a part of any other, and before one that is not mapped is read back: in vectors or
            // in elements, of which halves have ways of their own.
            Rung::Warpgroup => {
                const ALL: [&str; 96] = {
                    let mut barriers = ["bar.warp.sync"; 96];
                    barriers[0] = "bar.sync";
                    (barriers[3], barriers[4]) = ("bar.sync", "bar.sync");
                    barriers
                };
                // Where tiles fit no sums are left or collected, but a slice of zeros is written; and there is one more
                // wherever pieces leave, and one before those of a part that is written out and leaves later.
                let pieces = match module.left_in_pieces() {
                    all if module.leaves_at_once() => all,
                    some => (2 * some).saturating_sub(1),
                };
                let of_c = if module.brings_c() { module.stages_of_c() + 1 } else { 0 };
                let of_any = match module.kernel.target {
                    _ if module.stores_directly() => 0,
                    Dtype::F32 => 3,
                    _ => 4,
                };
                &ALL[..5 + of_c + of_any + 2 * module.written_out() + pieces]
            }
            // As with warp tiles, and around the way of the sums through shared memory.
            Rung::TensorCore => &["bar.sync", "bar.sync", "bar.sync", "bar.warp.sync"],
        };
        let mut expected = expected.to_vec();
        if module.kernel.swapped {
            // Warps write parts of D together.
            let of_c = if module.brings_c() { module.stages_of_c() + 1 } else { 0 };
            expected[5 + of_c..].fill("bar.sync");
        }
        if module.kernel.fits {
            let of_sums =
                1 + expected[1..].iter().position(|barrier| *barrier == "bar.sync").unwrap();
            expected.remove(of_sums);
            // Among the lanes that have read a stage, in the loop of each width.
            let widths = regemm_kernels::warpgroup::fit::widths(module.kernel.width()).count();
            expected.extend(vec!["bar.warp.sync"; widths]);
        }
        if module.kernel.cluster > 1 {
            // Where the memory barriers are made the cluster waits, and in the end, unless who fills stages waits for
            // all others then. A barrier that the compiler copies to where only some threads come would be another one.
            const OF_CLUSTER: [&str; 2] = ["barrier.cluster.arrive", "barrier.cluster.wait"];
            expected.splice(..1, OF_CLUSTER);
            if module.kernel.rung != Rung::Warpgroup {
                expected.extend(OF_CLUSTER);
            }
        }
        let Tile { bm, bn, .. } = module.kernel.tile;
        let promotes = module.kernel.summation == Summation::Promoted;
        if promotes {
            // Among the lanes that have read the last stage before threads take over sums.
            expected.push("bar.warp.sync");
        }
        if module.kernel.turns > 1 {
            // Where they wait for their turn, instead of where sums are left and collected, and where they say that it
            // is the other's, with and without depth.
            let of_sums =
                1 + expected[1..].iter().position(|barrier| *barrier == "bar.sync").unwrap();
            expected.splice(of_sums..of_sums + 2, ["bar.sync", "bar.arrive", "bar.arrive"]);
        }
        let is_warpgroup = module.kernel.rung == Rung::Warpgroup;
        if is_warpgroup && !module.kernel.fits && !promotes && bm * bn > 128 * 128 {
            // Where one warpgroup holds, and the other says that it need not any more.
            expected.insert(1, "bar.sync");
            expected.insert(1, "bar.arrive");
        }
        if module.clears_outside() {
            // Among those that have cleared what lies outside of A and B.
            expected.push("bar.sync");
        }
        if module.kernel.rung == Rung::Warpgroup {
            // Which of the ways that sums take comes first in the text is the compiler's choice.
            assert_eq!(found.first(), expected.first(), "{}", module.name());
            found.sort_unstable();
            expected.sort_unstable();
        }
        assert_eq!(found, expected, "{}", module.name());
    }
}

/// What `.ci/sanitize` lets racecheck report of are the kernels whose copies arrive at an mbarrier by themselves, which
/// racecheck does not follow: with one more it would hide what is wrong there, with one less it fails for nothing.
#[test]
fn sanitize_knows_the_kernels_that_racecheck_does_not_follow() {
    let mut lines = include_str!("../../.ci/sanitize").lines();
    let known = lines.find_map(|line| line.strip_prefix("copied_by_hand='")?.strip_suffix('\''));
    let known: BTreeSet<_> =
        known.unwrap().split('|').map(|family| format!("{family}_f32")).collect();
    let arriving: BTreeSet<_> = modules()
        .iter()
        .filter(|module| module.words().any(|word| word.starts_with("cp.async.mbarrier.arrive")))
        .map(|module| {
            let layouts = format!("_{}_", module.kernel.layouts.name());
            module.kernel.name.replacen(&layouts, "_", 1)
        })
        .collect();
    assert_eq!(known, arriving);
}
