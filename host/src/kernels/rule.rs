//! The choice by rule: from the sizes of a product and of a device alone.

mod reason;
mod repack;
mod sharing;
mod slices;

pub use reason::Rule;
pub(crate) use slices::in_the_faster_way;

use self::repack::repack_pays;
use self::sharing::{
    is_skinny, is_worth_sharing, is_worth_sharing_of_doubles, time_of_slices, time_of_tiles,
};
use self::slices::{SMALLEST_ON_THE_WAY, come_in_bulk};
use super::fetch::slowdown;
use super::launch::{COST_OF_SHARING_DOUBLES, LaunchShape, Sharing};
use super::precise::or_promoted;
use super::{NotTuned, Problem, Selection, Types, Why, kernels, kernels_for, supports, unknown};
use crate::device::info::DeviceInfo;
use crate::error::{Error, Result};
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::{KernelInfo, Needs, Rung, Schedule, Tile};
use std::cmp::Reverse;

/// Depth of a product from which on a tile in shared memory is worth its barriers: each element of a 16 x 16 tile is
/// then used at least half as often as it could be.
const SHALLOW: u32 = 8;

/// Elements of D up to which a shallow product is no work for tiles: from there on what counts is how fast D is stored,
/// and it is by whole vectors.
const FEW: u64 = 512 * 512;

/// Elements of D below which there is one tile of the smallest kernel at most, and nothing to choose by.
const TINY: u64 = 16 * 16;

/// The share of the multiprocessors, as a fraction, that must have a tile for tiles to be as large as can be: more
/// tiles than that keep the few others busy at the price of all the rest. Of several rounds of tiles all count.
const NEARLY_ALL: (u64, u64) = (15, 16);

/// Elements in a tile that counts as small: 32 x 64.
const SMALL_TILE: i64 = 32 * 64;

/// Elements in a tile that counts as large: 128 x 256, of which a multiprocessor holds one.
const LARGE_TILE: i64 = 128 * 256;

/// The depth from which on it pays to split K among two blocks of a cluster; in double precision each k takes longer.
const DEEP_FOR_CLUSTERS: u32 = 1024;
const DEEP_FOR_CLUSTERS_OF_DOUBLES: u32 = 512;

/// Rows and columns of the tiles of warpgroups that take turns, and the depth from which on that pays for results of
/// f32.
const TILE_OF_TURNS: u32 = 128;
const DEEP_FOR_TURNS: u32 = 1024;

/// Multiply-adds that a GPU does in the time in which its memory delivers an element of 4 bytes: an H200 33e12 a
/// second, and 1.05e12.
pub(in crate::kernels) const MULTIPLY_ADDS_A_LOAD: u64 = 32;

/// Multiply-adds of f32 that a device could do while producers and consumers start.
const WORK_OF_A_START: u64 = 1 << 26;

/// Multiply-adds of f64 that a multiprocessor could do on tensor cores while two blocks of a cluster give each other
/// their sums: 1.6 microseconds.
const DOUBLES_OF_AN_EXCHANGE: u64 = 400_000;

/// Multiply-adds of f64 that a multiprocessor could do on tensor cores while the launch that adds slices of K up begins
/// and ends: an estimate, of 2.7 microseconds.
const DOUBLES_OF_A_LAUNCH: u64 = 600_000;

/// Multiply-adds of f64 that a multiprocessor could do on tensor cores while it waits for each element of a tile's
/// slices: fits the times of an H200 at 768 to 2048.
const DOUBLES_A_LOAD: u64 = 10;

/// Rows and columns of D that small tiles of outer products are for.
const SOME_ROWS: u32 = 256;

/// What a ratio is multiplied with so that whole numbers tell enough of it.
const PER_MILLE: f64 = 1e3;

/// The compute capability from which on there are asynchronous copies to shared memory (`cp.async`).
const ASYNC_COPIES: (u32, u32) = (8, 0);

/// Where the rule puts a kernel: the greater, the better. The part of the rule that applies comes first, then what
/// orders kernels within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order(u8, u64, bool, i64, Reverse<u64>);

impl Order {
    /// For a kernel that nothing speaks for.
    const LAST: Order = Order::new(0, 0, false, 0);

    /// Where it does not matter how much of its tiles lies outside of D.
    const fn new(part: u8, first: u64, then: bool, last: i64) -> Self {
        Order(part, first, then, last, Reverse(0))
    }
}

impl Order {
    /// The place of a kernel, and the part of the rule that put it there.
    pub fn of(kernel: &KernelInfo, problem: &Problem, device: &DeviceInfo) -> (Order, Rule) {
        let elements = u64::from(problem.m) * u64::from(problem.n);
        let small = elements <= TINY || (problem.k < SHALLOW && elements <= FEW) || problem.k == 0;
        let all = u64::from(device.multiprocessors);
        let area = i64::from(kernel.tile.bm * kernel.tile.bn);
        let nearly_all = (all * NEARLY_ALL.0).div_ceil(NEARLY_ALL.1);
        // The larger a tile, the longer multiprocessors without one wait for the others.
        let on_tensor_cores = kernel.rung >= Rung::TensorCore && kernel.dtype != Dtype::F64;
        let enough = match area {
            // One of them multiplies faster on tensor cores than half of all do without. In double precision no more
            // than twice as fast, but the smallest tiles without take K nearly as slowly as a thread alone; those that
            // come in bulk are large.
            _ if on_tensor_cores || (is_double_tensor_core(kernel) && kernel.producers == 0) => 1,
            ..=SMALL_TILE => all.div_ceil(5),
            LARGE_TILE.. => nearly_all,
            _ => all.div_ceil(3),
        };
        // The rungs from there on, but for kernels whose loads go to registers.
        let copies = kernel.rung != Rung::Skinny || kernel.tile.stages > 0;
        let is_slow_without_async = kernel.rung >= Rung::Pipelined && copies;
        let copies_asynchronously = device.compute_capability.is_none_or(|cc| cc >= ASYNC_COPIES);
        // Those of all products of a batch are resident together.
        let blocks = kernel.blocks(problem.m, problem.n).saturating_mul(problem.batch.into());
        // Of kernels with equally large tiles the one that has less of them outside of D.
        let covered = Reverse(blocks.saturating_mul(area.unsigned_abs()));
        if is_slow_without_async && !copies_asynchronously {
            (Order::LAST, Rule::NoAsyncCopies)
        } else if is_double_tensor_core(kernel) && !device.is_made_for_doubles() {
            (Order::LAST, Rule::SlowTensorCores)
        } else if starts_slowly(kernel, problem) {
            (Order::new(0, 1, false, 0), Rule::StartsSlowly)
        } else if !repack_pays(kernel, problem) {
            (Order::LAST, Rule::RepackCosts)
        } else if !has_tiles_for(kernel, problem, device) {
            (Order::LAST, Rule::OtherShapes)
        } else if kernel.schedule == Schedule::SplitK && is_double_tensor_core(kernel) {
            if is_worth_sharing_of_doubles(kernel, problem, device) {
                (Order::of_doubles(kernel, problem, device, covered), Rule::SharesTiles)
            } else {
                (Order::LAST, Rule::NothingToShare)
            }
        } else if kernel.schedule == Schedule::SplitK {
            let fits = match kernel.rung {
                Rung::Skinny => is_skinny(kernel, problem, device),
                _ => is_worth_sharing(kernel, problem, device),
            };
            if fits {
                // Of kernels with the same tiles the one with producers, or whose copies are in the background, which
                // a single row does not need.
                let single = problem.m.min(problem.n) == 1;
                let staged = kernel.short_side.is_some() && kernel.tile.stages > 0;
                let ahead = i64::from(kernel.producers > 0 || (staged && !single));
                let time = time_of_slices(kernel, problem, device).saturating_mul(2);
                (Order::new(4, 0, false, ahead - time), Rule::SharesTiles)
            } else {
                (Order::LAST, Rule::NothingToShare)
            }
        } else if kernel.schedule == Schedule::ClusterK {
            let (deep, least) = match kernel.dtype {
                Dtype::F64 => (DEEP_FOR_CLUSTERS_OF_DOUBLES, nearly_all),
                _ => (DEEP_FOR_CLUSTERS, all.div_ceil(2)),
            };
            let deep = problem.k >= deep;
            // One round in which nearly all multiprocessors have a block. Of doubles rows outside of D take as long as
            // others, and smaller tiles have fewer of them.
            let is_flat = is_double_tensor_core(kernel) && problem.m <= kernel.tile.bm / 2;
            if (least..=all).contains(&blocks) && deep && !is_flat {
                (Order::new(4, 1, false, -area), Rule::SharesTiles)
            } else if is_double_tensor_core(kernel) && blocks > all && deep {
                (Order::of_doubles(kernel, problem, device, covered), Rule::SharesTiles)
            } else {
                (Order::LAST, Rule::NothingToShare)
            }
        } else if kernel.producers > 0
            && !small
            && keeps_busy(kernel, problem, device, nearly_all)
            && fills_tiles(kernel, problem)
        {
            // Of kernels with the same tiles the one that need not share them, and whose slices come in bulk, or
            // sooner. Those of the last round need not be shared where nearly all multiprocessors have one in it.
            let fills_last = problem.batch > 1 || of_last_round(blocks, all) >= nearly_all;
            let alone = kernel.schedule == Schedule::Tiles && fills_last;
            let repack = problem.repack;
            let waits = if kernel.is_for_few_rows() {
                // For memory, whatever a tile is.
                1.0
            } else {
                slowdown(
                    kernel,
                    [problem.m, problem.n, problem.k],
                    [repack.a, repack.b].map(|a| a > 0),
                )
            };
            let fetches = i64::from(come_in_bulk(kernel)) - (waits * PER_MILLE) as i64;
            (Order(4, area as u64, alone, fetches, covered), Rule::FillsDevice)
        } else if small && kernel.rung == Rung::Naive {
            (Order::new(3, 0, false, 0), Rule::LittleToReuse)
        } else if is_double_tensor_core(kernel) && blocks >= enough {
            (Order::of_doubles(kernel, problem, device, covered), Rule::FillsDevice)
        } else if kernel.rung != Rung::Naive && blocks >= enough {
            let fills = blocks >= nearly_all;
            let size = if fills { area } else { -area };
            let rule = if on_tensor_cores && (small || !fills) {
                Rule::FasterOnTensorCores
            } else if copies_asynchronously {
                Rule::FillsDevice
            } else {
                Rule::FillsDeviceWithoutAsyncCopies
            };
            // Tensor cores are faster still, however much of their tiles lies outside of D.
            let reuses = kernel.rung >= Rung::Microkernel;
            let first =
                of_rung(kernel.rung, on_tensor_cores || (reuses && fills_tiles(kernel, problem)));
            (Order(2, first, fills, size, covered), rule)
        } else {
            let rule = if blocks >= all { Rule::NoReuse } else { Rule::FewTiles };
            (Order::new(1, blocks, false, kernel.rung as i64), rule)
        }
    }
}

impl Order {
    /// For a kernel on tensor cores in double precision. What is short is tensor cores: what counts is how long the
    /// multiprocessor that has most to do takes, and of those that take as long the one with producers comes first.
    fn of_doubles(
        kernel: &KernelInfo,
        problem: &Problem,
        device: &DeviceInfo,
        covered: Reverse<u64>,
    ) -> Order {
        let all = u64::from(device.multiprocessors);
        let blocks = kernel.blocks(problem.m, problem.n).saturating_mul(problem.batch.into());
        let rounds = |at_once: u64| blocks.div_ceil(all.saturating_mul(at_once).max(1));
        let of_tiles = |tiles: u64| time_of_tiles(kernel, tiles, DOUBLES_A_LOAD);
        // Twice the time: blocks that share a tile take half of it.
        let time = if kernel.schedule == Schedule::SplitK {
            // All tiles over all of K, by as many blocks as one multiprocessor has at most.
            let slices = u64::from(Sharing::of(kernel, problem, device).best(kernel, problem));
            let most = blocks.saturating_mul(slices).div_ceil(all.max(1));
            let shared = of_tiles(most.saturating_mul(2)) / slices.max(1) as i64;
            let elements = u64::from(problem.m) * u64::from(problem.n);
            let elements = elements.saturating_mul(problem.batch.into());
            let sums = elements.saturating_mul(2 * DOUBLES_A_LOAD * slices) / all.max(1);
            let launch = DOUBLES_OF_A_LAUNCH.saturating_add(sums).saturating_mul(2);
            shared.saturating_add_unsigned(launch / u64::from(problem.k.max(1)))
        } else if kernel.schedule == Schedule::ClusterK {
            let exchange = 2 * DOUBLES_OF_AN_EXCHANGE / u64::from(problem.k.max(1));
            let exchanges = rounds(kernel.entry.min_blocks.unwrap_or(1).into());
            of_tiles(rounds(1)).saturating_add_unsigned(exchanges.saturating_mul(exchange))
        } else if LaunchShape::new(kernel, problem, device, None).shared_tiles > 0 {
            let shared =
                of_tiles(blocks.saturating_mul(2)) / i64::from(device.multiprocessors.max(1));
            let slices = 2 * COST_OF_SHARING_DOUBLES * u64::from(kernel.tile.bk);
            shared.saturating_add_unsigned(slices / u64::from(problem.k.max(1)))
        } else {
            of_tiles(rounds(1)).saturating_mul(2)
        };
        let later = time.saturating_mul(2).saturating_add((kernel.producers == 0).into());
        Order(2, of_rung(Rung::TensorCore, true), true, -later, covered)
    }
}

/// Whether the blocks of a kernel with producers, which have a multiprocessor each, keep nearly all of them busy to the
/// end. Large tiles must be so many by themselves: where they are not, to have their sums shared costs more than to
/// take smaller ones.
fn keeps_busy(
    kernel: &KernelInfo,
    problem: &Problem,
    device: &DeviceInfo,
    nearly_all: u64,
) -> bool {
    let all = u64::from(device.multiprocessors.max(1));
    let tiles = kernel.blocks(problem.m, problem.n).saturating_mul(problem.batch.into());
    let large = i64::from(kernel.tile.bm * kernel.tile.bn) >= LARGE_TILE;
    if kernel.is_for_few_rows() {
        // Half of the multiprocessors keep memory as busy as all.
        return 2 * tiles >= nearly_all;
    }
    match kernel.schedule {
        Schedule::StreamK if large => tiles >= nearly_all,
        // Sums that many blocks leave are added up faster by many.
        Schedule::StreamK => {
            let shape = LaunchShape::new(kernel, problem, device, None);
            2 * tiles >= nearly_all && shape.blocks(problem) >= nearly_all
        }
        // Those of a batch are mostly many, or its blocks do not share them.
        _ if problem.batch > 1 => tiles >= nearly_all,
        // In double precision what others take in such a round is [counted](Order::of_doubles).
        _ if is_double_tensor_core(kernel) => of_last_round(tiles, all) >= nearly_all,
        // Blocks that stay share the tiles of the last round where that pays.
        Schedule::Persistent
            if LaunchShape::new(kernel, problem, device, None).shared_tiles > 0 =>
        {
            tiles >= nearly_all
        }
        // What is idle in the last round counts the less, the more rounds there are. So are tiles of clusters that lie
        // outside of D.
        _ => {
            let places = tiles.div_ceil(all).saturating_mul(all);
            let [rows, cols] =
                [problem.m.div_ceil(kernel.tile.bm), problem.n.div_ceil(kernel.tile.bn)];
            let busy = u64::from(rows) * u64::from(cols);
            busy > 0 && busy.saturating_mul(NEARLY_ALL.1) >= places.saturating_mul(NEARLY_ALL.0)
        }
    }
}

/// How many of these tiles are in the last round of as many as there are multiprocessors.
fn of_last_round(tiles: u64, multiprocessors: u64) -> u64 {
    tiles.checked_sub(1).map_or(0, |before| before % multiprocessors.max(1) + 1)
}

/// Whether at least two thirds of what a kernel's tiles cover lie in D. That rows lie outside costs nothing where
/// memory is waited for.
fn fills_tiles(kernel: &KernelInfo, problem: &Problem) -> bool {
    let rows = if kernel.is_for_few_rows() { kernel.tile.bm } else { problem.m };
    let area = u64::from(kernel.tile.bm * kernel.tile.bn);
    let covered = kernel.blocks(problem.m, problem.n).saturating_mul(area);
    3 * u64::from(rows) * u64::from(problem.n) >= covered.saturating_mul(2)
}

/// The place of a rung: that of tiles which lie mostly in D before all others.
fn of_rung(rung: Rung, mostly_in_d: bool) -> u64 {
    rung as u64 + if mostly_in_d { Rung::ALL.len() as u64 } else { 0 }
}

/// Whether a kernel's producers and the ring between them and the others take longer to start than the product takes.
fn starts_slowly(kernel: &KernelInfo, problem: &Problem) -> bool {
    let Problem { m, n, k, batch, .. } = *problem;
    let work = u64::from(m) * u64::from(n);
    let work = work.saturating_mul(k.into()).saturating_mul(batch.into());
    kernel.needs == Needs::RegisterTransfers && work < WORK_OF_A_START
}

/// Whether a kernel is one for tensor cores in double precision.
fn is_double_tensor_core(kernel: &KernelInfo) -> bool {
    matches!(kernel.needs, Needs::DoubleTensorCores | Needs::DoubleTensorCoresInClusters)
}

/// Whether the rule has an opinion of a kernel's tiles for this D. Clusters of tiles beside each other are for a D that
/// is as wide as one of them. Those of few rows are for a D that has no more. What tiles that
/// [fit](regemm_kernels::warpgroup::fit) gain depends on how D divides into them among the multiprocessors, which only
/// measurements tell. Tiles of outer products that are smaller than those for [1024](SMALLEST_ON_THE_WAY) are for D of
/// some rows and columns: where it has few of either, it is known to be fast that blocks share K.
fn has_tiles_for(kernel: &KernelInfo, problem: &Problem, device: &DeviceInfo) -> bool {
    let Tile { bm, bn, .. } = kernel.tile;
    match kernel.rung {
        _ if kernel.fits => false,
        Rung::Warpgroup if kernel.turns > 1 || takes_turns(problem, device) => {
            kernel.turns > 1 && takes_turns(problem, device)
        }
        _ if kernel.is_for_few_rows() => problem.m <= bm && problem.batch == 1,
        Rung::Warpgroup if kernel.cluster_cols > 1 => {
            problem.n > bn && problem.n <= kernel.cluster_cols * bn
        }
        Rung::SlicedK if i64::from(bm * bn) < SMALLEST_ON_THE_WAY => {
            problem.m.min(problem.n) >= SOME_ROWS
        }
        _ => true,
    }
}

/// Whether a batch is one for warpgroups that [take turns](regemm_kernels::warpgroup::ping_pong): each of those that
/// the device has gets a tile, and none a second one, or results are long, and K is deep enough for the way of one to D
/// to end before the other's products. On an H100 64 products of 256 take 8 % less so in bf16 and 12 % less with
/// results of f32, 16 of 1024 with these 4 % less; without them 6 % more, and 128 of 512 more either way.
fn takes_turns(problem: &Problem, device: &DeviceInfo) -> bool {
    let tiles = |size: u32| u64::from(size.div_ceil(TILE_OF_TURNS));
    let all =
        tiles(problem.m).saturating_mul(tiles(problem.n)).saturating_mul(problem.batch.into());
    let blocks = u64::from(device.multiprocessors);
    let one_each = (blocks + 1..=2 * blocks).contains(&all);
    let is_long = problem.target != problem.dtype && problem.k >= DEEP_FOR_TURNS && all > blocks;
    // They have no registers to promote with.
    problem.batch > 1 && (one_each || is_long) && !problem.is_deep_to_promote()
}

/// All kernels of the problem's element types and layouts, the one that should be fastest first. Whether the device can
/// run them is not asked.
///
/// The rule, in this order:
/// 1. the kernel with producers and the largest tiles whose blocks keep nearly all multiprocessors busy to the end,
///    those that share the last tiles among them ([`Schedule::StreamK`]), if its tiles lie mostly in D;
/// 2. else, where K is deep, the kernel with the smallest tiles of which two blocks that share K
///    ([`Schedule::ClusterK`]) give half of the multiprocessors a block, nearly all in double precision, and none a
///    second one; and where D has fewer tiles still, or few rows or columns, the kernel among whose blocks K is split
///    ([`Schedule::SplitK`]), but for those of tensor cores in double precision, and that takes least: multiply-adds,
///    those outside of D among them, loads and the way of the slices' sums through memory. Those for few rows or
///    columns are for all D of no more of their tiles than there are multiprocessors;
/// 3. else where D is tiny, or small and the product shallow, `naive` first: there is too little to reuse for shared
///    memory to pay;
/// 4. else the highest rung with a tile of D for at least a third of the multiprocessors, a fifth if its tiles are
///    small, nearly all if they are large, and any with tensor cores, but in double precision for tiles that come in
///    bulk: those whose tiles lie mostly in D before others;
///    within it the largest tiles of which nearly every multiprocessor gets one, because they reuse most, else the
///    smallest;
/// 5. else the kernel with the most tiles, because the smallest tiles leave the fewest multiprocessors idle.
///
/// Kernels of f32 with producers take longer to start than a product of up to 64 million multiply-adds takes, and come
/// last there.
///
/// Of a batch the tiles of all products count.
///
/// Of kernels with equally large tiles the one comes first whose tiles lie less outside of D. Tiles of warpgroups that
/// [fit](regemm_kernels::warpgroup::fit), for which there is no rule, come last. Clusters whose blocks lie beside each
/// other are for D that is as wide as one of them. Warpgroups that [take turns](regemm_kernels::warpgroup::ping_pong)
/// are for batches that are as many tiles as the device has warpgroups, or whose results are long. The smallest tiles
/// of outer products are for D of some hundred rows and columns. Of warpgroups with the same tiles those come first
/// whose slices take less time to fetch, if that takes longer than to multiply them: clusters, where rows of the
/// factors are no whole sectors of the L2 cache.
///
/// A D of at most 64 rows takes tiles of as many or, of at most 32, where there are such, of these, if there are enough
/// for half of the multiprocessors, which keep memory as busy as all.
///
/// Kernels for which factors must be [repacked](super::Repack) come last where that takes longer than they gain: where
/// the product is small or shallow, or elements are used only a few times.
///
/// Tensor cores for f64 count where they [are fast](DeviceInfo::is_made_for_doubles), and nowhere else. Of their tiles
/// those come first with which the multiprocessor that has most to do takes the least time, for its multiply-adds and
/// loads; two blocks that share a tile take half of its time each, and a while to give each other their sums; of slices
/// of K there may be any number, whose sums another launch adds up.
///
/// [`Rung::Pipelined`] and the rungs above it, but for kernels of [`Rung::Skinny`] that copy nothing, count from
/// compute capability 8.0 on: before that copies are not asynchronous.
///
/// The shares are where the kernels' speeds cross on an H200 (`docs/measurements`).
pub fn rank(problem: &Problem, device: &DeviceInfo) -> Vec<Selection> {
    let mut ranked: Vec<_> = kernels_for(problem.types(), problem.layouts)
        .map(|kernel| (kernel, Order::of(kernel, problem, device)))
        .collect();
    ranked.sort_by_key(|(_, (order, _))| Reverse(*order));
    let by_rule =
        |(kernel, (_, rule))| Selection { kernel, why: Why::by_rule(rule, problem.promoted) };
    ranked.into_iter().map(by_rule).collect()
}

/// The first kernel of [`rank`] that the device can run, among those of a rung if one is given, and among those that
/// [promote](Problem::promoted) where results are of f32, factors must be repacked for it, and K is deep.
///
/// # Errors
/// The reason why the best of them cannot run.
pub fn choose(problem: &Problem, device: &DeviceInfo, rung: Option<Rung>) -> Result<Selection> {
    choose_untuned(problem, device, rung, NotTuned::NotAsked)
}

/// The choice by rule, and why it is not one by measurement.
pub(crate) fn choose_untuned(
    problem: &Problem,
    device: &DeviceInfo,
    rung: Option<Rung>,
    not_tuned: NotTuned,
) -> Result<Selection> {
    or_promoted(problem, rung, |problem| first(problem, device, rung, not_tuned))
}

/// The first kernel that the device can run, among those of a rung if one is given.
fn first(
    problem: &Problem,
    device: &DeviceInfo,
    rung: Option<Rung>,
    not_tuned: NotTuned,
) -> Result<Selection> {
    // As `rank`, without its memory: this is part of every product's cost on the host.
    let mut best: Option<(Order, Selection)> = None;
    let mut refused: Option<(Order, &'static KernelInfo)> = None;
    let of_rung = |kernel: &&KernelInfo| rung.is_none_or(|rung| rung == kernel.rung);
    for kernel in kernels_for(problem.types(), problem.layouts).filter(of_rung) {
        let (order, rule) = Order::of(kernel, problem, device);
        if supports(kernel, problem, device).is_err() {
            if refused.is_none_or(|(known, _)| order > known) {
                refused = Some((order, kernel));
            }
        } else if best.is_none_or(|(known, _)| order > known) {
            let why = Why::Rule { rule, not_tuned, promoted: problem.promoted };
            best = Some((order, Selection { kernel, why }));
        }
    }
    match (best, refused) {
        (Some((_, selection)), _) => Ok(selection),
        (None, Some((_, kernel))) => {
            // It was refused just now, so there is an error.
            supports(kernel, problem, device)?;
            Err(unknown(kernel.name))
        }
        (None, None) => {
            // If the rung has kernels they are for other layouts, and the refusal of one says which there are for
            // these.
            let mut others = kernels().iter().filter(|kernel| Types::of(kernel) == problem.types());
            others.find(of_rung).map_or(Ok(()), |kernel| supports(kernel, problem, device))?;
            Err(rung.map_or_else(|| unknown(problem.dtype.name()), |rung| without(rung, problem)))
        }
    }
}

/// The error of a rung that has no kernels for the types of a problem.
fn without(rung: Rung, problem: &Problem) -> Error {
    let expected = problem.types();
    let has_some =
        |rung: &Rung| kernels().iter().any(|k| k.rung == *rung && Types::of(k) == expected);
    Error::RungWithoutDtype {
        rung,
        expected,
        found: Rung::ALL.into_iter().filter(has_some).collect(),
    }
}

#[cfg(test)]
mod tests;
