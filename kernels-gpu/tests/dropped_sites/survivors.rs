//! Sites whose loss shows in no launch, and why.

use cuda_std::sim::SyncOperation;

/// A site that may be left out, in all kernels that execute it.
pub struct Survivor {
    pub operation: SyncOperation,
    /// File in the kernels' sources, and the text of the line.
    pub file: &'static str,
    pub line: &'static str,
    /// Why nobody misses it.
    pub reason: Reason,
}

/// Why the loss of a site does not show.
#[derive(Clone, Copy, Debug)]
pub enum Reason {
    /// The lanes of the warp have met before, and done nothing since: at the end of the products of their warpgroup, or
    /// at a named barrier. The ring's other readers need the barrier.
    LanesHaveMet,
    /// Warpgroups or blocks are told when to go on, so that they do not all want the same at a time. Nothing they
    /// compute depends on it.
    Pace,
    /// Two parts of a block wait for the rest of the cluster, and a block ends when both have.
    OtherPartWaits,
    /// The block has no more parts of D than there is room for, and so never overwrites one.
    PartsHaveRoom,
}

use Reason::*;
use SyncOperation::*;

const fn survivor(
    operation: SyncOperation,
    file: &'static str,
    line: &'static str,
    reason: Reason,
) -> Survivor {
    Survivor { operation, file, line, reason }
}

pub const SURVIVORS: &[Survivor] = &[
    survivor(WarpBarrier, "warpgroup.rs", "Self::consume(", LanesHaveMet),
    survivor(
        WarpBarrier,
        "warpgroup.rs",
        "Self::consume_promoted(&mut sums, recent, &mut ring, (first, slices), fetch)",
        LanesHaveMet,
    ),
    survivor(WarpBarrier, "warpgroup/ping_pong.rs", "ring.emptied();", LanesHaveMet),
    survivor(WarpBarrier, "warpgroup/ping_pong.rs", "ring.emptied_last();", LanesHaveMet),
    survivor(
        WarpBarrier,
        "warpgroup/cluster_split.rs",
        "let fetched = Warpgroup::<T, BM, BN, BK, STAGES, L, 1, D>::consume_one_tile(",
        LanesHaveMet,
    ),
    survivor(
        WarpBarrier,
        "warpgroup/split.rs",
        "Warpgroup::<T, BM, BN, BK, STAGES, L, 1, D>::consume_one_tile(",
        LanesHaveMet,
    ),
    survivor(
        WarpBarrier,
        "warpgroup/halves.rs",
        "Self::consume(&mut sums, &mut products, &mut ring, first, slices, powers);",
        LanesHaveMet,
    ),
    survivor(
        WarpBarrier,
        "warpgroup/split_halves.rs",
        "let powers = Halves::<BM, BN, STAGES, L>::consume(",
        LanesHaveMet,
    ),
    survivor(WarpBarrier, "double/bulk.rs", "Self::announce(&p, &mut ring, role);", LanesHaveMet),
    survivor(
        NamedBarrier,
        "warpgroup/split_halves.rs",
        "let powers = Halves::<BM, BN, STAGES, L>::consume(",
        Pace,
    ),
    survivor(
        CountAddition,
        "warpgroup.rs",
        "Self::produce(p, to, parts, || pace.step::<Self, _>(p));",
        Pace,
    ),
    survivor(CountAddition, "warpgroup.rs", "pace.end::<Self, _>(p);", Pace),
    survivor(ClusterWait, "double/bulk.rs", "ring.leave_cluster();", OtherPartWaits),
    survivor(
        BulkReadWait,
        "warpgroup/cluster_split.rs",
        "sums.store(&p, origin, fetched, &mut outbox);",
        PartsHaveRoom,
    ),
    survivor(
        BulkReadWait,
        "warpgroup/split_halves.rs",
        "sums.store(&p, origin, fetched, &mut outbox);",
        PartsHaveRoom,
    ),
];
