//! What the simulator says of a kernel like [`regemm_kernels::warpgroup`] that leaves something out.
//!
//! SAFETY of the kernel's `unsafe` blocks: it runs on the simulator alone, which checks every access.

use cuda_std::bulk_copy::{self, store_3d};
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::sim::{Counters, FaultKind, Launch, SimError, Simulator};
use cuda_std::tensor_map::{ElementType, TiledTensor};
use cuda_std::wgmma::{KMajor, M, MnMajor, THREADS};
use cuda_std::{kernel, shared, thread, warp};
use half::bf16;
use regemm_kernels::epilogue::{Epilogue, Linear};
use regemm_kernels::maps::{
    BoxShape, Factors, Inside, Mapped, Mappings, Maps, Matrices, Results, UNUSED,
};
use regemm_kernels::params::{GemmParams, MatrixRef};
use regemm_kernels::slices::clusters::{Cluster, Portion};
use regemm_kernels::slices::ring::{Ring, WARP};
use regemm_kernels::swapped::Swapped;
use regemm_kernels::tile::Origin;
use regemm_kernels::warpgroup::bulk_panels::BulkPanel;
use regemm_kernels::warpgroup::outbox::{self, Outbox};
use regemm_kernels::warpgroup::part;
use regemm_kernels::warpgroup::tile::WarpgroupTile;
use std::ffi::c_void;

const BM: usize = 2 * M;
const BN: usize = 64;
const BK: usize = 64;
const STAGES: u32 = 3;

/// Stages are used several times.
const SLICES: u32 = 3 * STAGES - 1;
const DEPTH: u32 = SLICES * BK as u32;

/// Both factors row-major.
type PanelA = BulkPanel<bf16, KMajor, BM, BK>;
type PanelB = BulkPanel<bf16, MnMajor, BN, BK>;

const STAGE_BYTES: u32 = PanelA::BYTES + PanelB::BYTES;
const CONSUMERS: u32 = 2 * THREADS;
const OUTBOXES: u32 = STAGES * STAGE_BYTES;
const RING: u32 = OUTBOXES + CONSUMERS / WARP * outbox::BYTES;
const SHARED_BYTES: u32 = RING + Ring::<STAGES>::BYTES;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Mistake {
    /// Nothing.
    Nothing,
    /// Nothing, with an epilogue of a user's.
    OwnEpilogue,
    /// The ring's barriers are not made known to bulk copies.
    RingOfOtherCopies,
    /// The producer does not wait for a stage to be empty.
    FillsFullStages,
    /// It waits for one panel where two come.
    ExpectsOnePanel,
    /// The consumers do not wait for a stage to be full.
    ReadsEmptyStages,
    /// They wait for the phase after the one that they need.
    WaitsForTheNextPhase,
    /// They give a stage back while its products are under way.
    ReturnsEarly,
    /// They store the sums while the last products are under way.
    StoresEarly,
    /// They do not give the last stages back.
    KeepsStages,
    /// A warp sends a part of D that has not been fenced.
    SendsUnfenced,
    /// It writes the next part but one without a wait for this one to be read.
    OverwritesParts,
    /// It ends without a wait for its last parts to be read.
    LeavesEarly,
    /// Nothing, and warps write parts together, as where A and B are swapped.
    SendsTogether,
    /// Of such a part each sends its rows when its own lanes have written theirs of all.
    SendsApart,
    /// They write the next such part but one without a wait for this one to be read.
    OverwritesTogether,
}

/// An epilogue that says what becomes of one element, and no more.
#[derive(Clone, Copy)]
struct HalfPlusRow;

impl Epilogue<bf16> for HalfPlusRow {
    unsafe fn apply(&self, sum: f32, row: u32, col: u32) -> f32 {
        assert!(row < BM as u32 && col < BN as u32);
        sum / 2.0 + row as f32
    }
}

type Params = GemmParams<bf16, Linear<bf16>>;

/// One tile of D, for one block.
#[kernel]
unsafe fn product(params: Params, #[grid_constant] matrices: &Matrices, mistake: Mistake) {
    let Matrices { factors, results } = matrices;
    let [a, b] = factors.wholes.each_ref().map(|map| Inside::whole(Mapped { map, index: 0 }));
    let thread = thread::thread_idx_x();
    let panels = |stage: u32| {
        let address = shared::dynamic::<u8>().address() + stage * STAGE_BYTES;
        (PanelA::at(address), PanelB::at(address + PanelA::BYTES))
    };
    unsafe {
        let mut sums = WarpgroupTile::<BN>::declare();
        let mut ring = match mistake {
            Mistake::RingOfOtherCopies => Ring::<STAGES>::new(RING, 1, CONSUMERS / WARP),
            _ => Ring::for_bulk_copies(RING, CONSUMERS / WARP, Cluster::ALONE),
        };
        if thread >= CONSUMERS {
            for slice in 0..if thread == CONSUMERS { SLICES } else { 0 } {
                let (to_a, to_b) = panels(match mistake {
                    Mistake::FillsFullStages => slice % STAGES,
                    _ => ring.wait_empty(),
                });
                let full = ring.expect(match mistake {
                    Mistake::ExpectsOnePanel => PanelA::BYTES,
                    _ => STAGE_BYTES,
                });
                to_a.load_part::<1>(a, 0, slice * BK as u32, full, Portion::WHOLE);
                to_b.load_part::<1>(b, 0, slice * BK as u32, full, Portion::WHOLE);
            }
            return;
        }
        let first = thread / THREADS * M as u32;
        for slice in 0..SLICES {
            let stage = match mistake {
                Mistake::ReadsEmptyStages => slice % STAGES,
                Mistake::WaitsForTheNextPhase if slice == 0 => {
                    (0..STAGES).for_each(|_| _ = ring.wait_full());
                    ring.wait_full()
                }
                _ => ring.wait_full(),
            };
            let (a, b) = panels(stage);
            sums.begin_products((a, first), b, slice == 0);
            if slice > 0 {
                if mistake != Mistake::ReturnsEarly {
                    sums.wait::<1>();
                }
                if mistake != Mistake::KeepsStages || slice < STAGES {
                    ring.emptied();
                }
            }
        }
        if mistake != Mistake::StoresEarly {
            sums.wait::<0>();
        }
        ring.emptied_last();
        let room = shared::dynamic::<u8>().add(OUTBOXES + thread / WARP * outbox::BYTES);
        let (params, origin) = (params.of_block(), Origin { row: first, col: 0 });
        let mut outbox = Outbox::new(room);
        if let Mistake::SendsUnfenced | Mistake::OverwritesParts = mistake {
            let d = Mapped { map: &results.d, index: 0 };
            return send_parts(d, &mut outbox, room, mistake);
        }
        if let Mistake::SendsTogether | Mistake::SendsApart | Mistake::OverwritesTogether = mistake
        {
            return send_together(Mapped { map: &results.d, index: 0 }, room, mistake);
        }
        let maps = Maps::new(matrices, Mappings::NONE.with_d(), &Maps::NONE);
        let params = GemmParams { maps, ..params };
        if mistake == Mistake::OwnEpilogue {
            let params = params.with_epilogue(HalfPlusRow);
            let fetched = WarpgroupTile::<BN>::fetch(&params, origin);
            sums.store(&params, origin, fetched, &mut outbox);
        } else {
            let fetched = WarpgroupTile::<BN>::fetch(&params, origin);
            sums.store(&params, origin, fetched, &mut outbox);
        }
        if mistake != Mistake::LeavesEarly {
            outbox.finish();
        }
    }
}

/// Parts of zeros, sent as an outbox would but for the mistake.
unsafe fn send_parts(d: Mapped<'_>, outbox: &mut Outbox, room: SharedPtr<u8>, mistake: Mistake) {
    unsafe {
        for _ in 0..3 {
            for block in 0..(outbox::cols::<bf16>() / part::BLOCK) as u32 {
                outbox.write_block(block, [0; 4]); // write
            }
            let origin = Origin { row: 0, col: 0 };
            if mistake == Mistake::SendsUnfenced {
                warp::sync_warp(warp::FULL_MASK);
                if warp::elect(warp::FULL_MASK) {
                    store_3d(d.map, [0; 3], room.cast::<u16>());
                }
            } else {
                outbox.send(d, origin);
            }
        }
    }
}

/// Parts of ones that the warps of a warpgroup write together, 64 rows of D each, sent as an outbox would but for the
/// mistake.
unsafe fn send_together(d: Mapped<'_>, room: SharedPtr<u8>, mistake: Mistake) {
    let thread = thread::thread_idx_x();
    let (warpgroup, warp) = (thread / THREADS, thread % THREADS / WARP);
    let (of_warp, of_warpgroup) = (warp * outbox::ROWS as u32, warpgroup * M as u32);
    let mut outbox = Outbox::<Swapped>::new(room);
    unsafe {
        for _ in 0..=outbox::ROOMS {
            if mistake != Mistake::OverwritesTogether {
                outbox.wait();
            }
            for block in 0..(M / part::BLOCK) as u32 {
                outbox.write_block(
                    block,
                    [bf16::ONE.to_bits().into(); 4].map(|one: u32| one | one << 16),
                );
            }
            if mistake == Mistake::SendsApart {
                bulk_copy::fence_shared();
                warp::sync_warp(warp::FULL_MASK);
                if warp::elect(warp::FULL_MASK) {
                    let rows =
                        room.address() - warp * (outbox::BYTES - outbox::BYTES / outbox::ROOMS);
                    let at = [0, (of_warpgroup + of_warp) as i32, 0];
                    store_3d(d.map, at, SharedPtr::<u16>::from_address(rows));
                    bulk_copy::commit_group();
                }
                return;
            }
            outbox.send(d, Origin { row: of_warp, col: of_warpgroup });
        }
        outbox.finish();
    }
}

/// A matrix of small integers in the simulator's memory.
fn upload(
    simulator: &Simulator,
    (rows, cols): (u32, u32),
    value: impl Fn(u32) -> f32,
) -> MatrixRef<bf16> {
    let bytes: Vec<u8> =
        (0..rows * cols).flat_map(|i| bf16::from_f32(value(i)).to_ne_bytes()).collect();
    let address = simulator.alloc(bytes.len() as u64).unwrap();
    simulator.write(address, &bytes).unwrap();
    MatrixRef { data: GlobalPtr::from_address(address), ld: cols.into() }
}

fn value_of_a(i: u32) -> f32 {
    (i * 7 % 5) as f32 - 2.0
}

fn value_of_b(i: u32) -> f32 {
    (i * 11 % 7) as f32 - 3.0
}

/// The result of a launch, and D.
fn run(mistake: Mistake) -> (Result<Counters, SimError>, Vec<bf16>) {
    let simulator = Simulator::new();
    let (m, n, k) = (BM as u32, BN as u32, DEPTH);
    let (a, b) = (upload(&simulator, (m, k), value_of_a), upload(&simulator, (k, n), value_of_b));
    let d = upload(&simulator, (m, n), |_| f32::NAN);
    let map = |matrix: MatrixRef<bf16>, (rows, cols): (u32, u32), boxes: BoxShape| {
        let shape = (1, rows.into(), cols.into());
        let strides = (0, 2 * matrix.ld);
        let box_shape = (boxes.rows, boxes.cols);
        let (element, address) = (ElementType::Bf16, matrix.data.address());
        let tensor =
            TiledTensor::matrices(element, address, shape, strides, box_shape, boxes.swizzle);
        simulator.tensor_map(&tensor).unwrap()
    };
    let wholes = [map(a, (m, k), PanelA::BOX), map(b, (k, n), PanelB::BOX)];
    let factors = Factors { wholes, rests: [UNUSED; 2] };
    let results = Results { d: map(d, (m, n), outbox::box_of::<bf16>()), ..Results::NONE };
    let params = Params::single([a, b], d, (m, n, k), Linear::identity());
    let launch =
        Launch { grid: [1; 3], block: [CONSUMERS + THREADS, 1, 1], dynamic_shared: SHARED_BYTES };
    let matrices = Matrices { factors, results };
    let arguments: [*const c_void; 3] =
        [(&raw const params).cast(), (&raw const matrices).cast(), (&raw const mistake).cast()];
    // SAFETY: the arguments are of the types of the kernel's parameters.
    let result = unsafe { simulator.launch(&product::ENTRY, launch, &arguments) };
    let mut bytes = vec![0; (m * n) as usize * size_of::<bf16>()];
    simulator.read(d.data.address(), &mut bytes).unwrap();
    let (elements, _) = bytes.as_chunks::<2>();
    (result, elements.iter().map(|&bytes| bf16::from_ne_bytes(bytes)).collect())
}

fn kind(mistake: Mistake) -> FaultKind {
    match run(mistake).0 {
        Err(SimError::Fault(fault)) => fault.kind,
        other => panic!("{mistake:?}: {other:?}"),
    }
}

#[test]
fn without_a_mistake_the_product_is_right() {
    for mistake in [Mistake::Nothing, Mistake::OwnEpilogue] {
        let finish = |sum: f32, row: u32| match mistake {
            Mistake::OwnEpilogue => sum / 2.0 + row as f32,
            _ => sum,
        };
        let (result, d) = run(mistake);
        result.unwrap();
        for (at, found) in d.into_iter().enumerate() {
            let (row, col) = (at as u32 / BN as u32, at as u32 % BN as u32);
            let products =
                (0..DEPTH).map(|p| value_of_a(row * DEPTH + p) * value_of_b(p * BN as u32 + col));
            let expected = bf16::from_f32(finish(products.sum(), row));
            assert_eq!(found, expected, "{mistake:?}: ({row}, {col})");
        }
    }
}

#[test]
fn what_bulk_copies_have_not_been_shown() {
    let writer = [0; 3];
    assert_eq!(kind(Mistake::RingOfOtherCopies), FaultKind::MissingProxyFence { writer });
}

#[test]
fn missing_waits() {
    let issuer = [CONSUMERS, 0, 0];
    assert_eq!(kind(Mistake::ReadsEmptyStages), FaultKind::AsyncNotWaited { issuer });
    // The producer comes round to a phase that nobody has seen end.
    assert_eq!(kind(Mistake::FillsFullStages), FaultKind::MbarrierOverrun);
    assert_eq!(kind(Mistake::ReturnsEarly), FaultKind::OperandInFlight { issuer: [0; 3] });
    assert_eq!(kind(Mistake::StoresEarly), FaultKind::AccumulatorsInFlight);
}

#[test]
fn parts_of_d_on_their_way() {
    let writer = [0; 3];
    assert_eq!(kind(Mistake::SendsUnfenced), FaultKind::MissingProxyFence { writer });
    let issuer = [0; 3];
    for mistake in [Mistake::OverwritesParts, Mistake::LeavesEarly] {
        assert_eq!(kind(mistake), FaultKind::BulkStoreNotWaited { issuer }, "{mistake:?}");
    }
}

#[test]
fn parts_of_several_warps() {
    let (result, d) = run(Mistake::SendsTogether);
    result.unwrap();
    assert!(d.into_iter().all(|element| element == bf16::ONE), "all of D");
    // The first warp sends rows of which the others have not written their columns.
    assert_eq!(kind(Mistake::SendsApart), FaultKind::UninitialisedShared);
    let issuer = [0; 3];
    assert_eq!(kind(Mistake::OverwritesTogether), FaultKind::BulkStoreNotWaited { issuer });
}

#[test]
fn phases_that_are_not_those_that_come() {
    let bytes = FaultKind::MbarrierBytes { expected: PanelA::BYTES, copied: STAGE_BYTES };
    assert_eq!(kind(Mistake::ExpectsOnePanel), bytes);
    for mistake in [Mistake::WaitsForTheNextPhase, Mistake::KeepsStages] {
        assert_eq!(kind(mistake), FaultKind::MbarrierDeadlock { missing: 1 }, "{mistake:?}");
    }
}
