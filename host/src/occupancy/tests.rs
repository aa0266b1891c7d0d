//! Worked examples, refusals and properties.

use super::*;
use proptest::prelude::*;

/// A multiprocessor as textbooks describe one, which gives out single registers and bytes.
fn textbook() -> Limits {
    Limits {
        threads: 1536,
        blocks: 8,
        registers: 16_384,
        shared_bytes: 16 << 10,
        shared_bytes_per_block: 16 << 10,
        ..Limits::of((8, 0)).unwrap().without_granularity()
    }
}

/// 16,384 registers for 1,536 threads are 10 each.
#[test]
fn eleven_registers_lose_a_whole_block_of_512_threads() {
    let demand = Demand { threads: 512, registers: 10, shared_bytes: 0 };
    let full = occupancy(&textbook(), &demand).unwrap();
    assert_eq!((full.blocks, full.warps, full.share()), (3, 48, 1.0));
    assert_eq!(full.limited_by, [Limiter::Threads, Limiter::Registers]);

    let steps = register_steps(&textbook(), &demand);
    let fewer = steps.one_more.unwrap();
    assert_eq!((fewer.blocks, fewer.warps * WARP_THREADS), (2, 1024));
    assert_eq!(fewer.limited_by, [Limiter::Registers]);
    assert_eq!(fewer.share(), 2.0 / 3.0);
    assert_eq!((steps.fewer_blocks_from, steps.more_blocks_up_to), (Some(11), None));

    let at_eleven = register_steps(&textbook(), &Demand { registers: 11, ..demand });
    assert_eq!(at_eleven.one_fewer, Some(Ok(full)));
    assert_eq!(at_eleven.more_blocks_up_to, Some(10));
    assert_eq!(at_eleven.fewer_blocks_from, Some(17));
}

/// Two 16 x 16 tiles of floats are 2 KiB: shared memory and slots have room for 8 blocks, threads for 6.
#[test]
fn threads_limit_blocks_of_two_kilobytes() {
    let demand = Demand { threads: 256, registers: 0, shared_bytes: 2 << 10 };
    let found = occupancy(&textbook(), &demand).unwrap();
    assert_eq!((found.blocks, found.limited_by), (6, vec![Limiter::Threads]));
    assert_eq!(found.shared_bytes_used, 12 << 10);
    let room = Room { threads: 6, registers: None, shared_memory: Some(8), blocks: 8 };
    assert_eq!(found.room, room);
}

#[test]
fn five_kilobytes_leave_three_blocks() {
    let demand = Demand { threads: 256, registers: 0, shared_bytes: 5 << 10 };
    let found = occupancy(&textbook(), &demand).unwrap();
    assert_eq!((found.blocks, found.limited_by), (3, vec![Limiter::SharedMemory]));
}

/// Blocks and limiting resources that NVIDIA's occupancy calculator (`cuda_occupancy.h` of CUDA 13.0) gives.
#[test]
fn real_multiprocessors_give_out_whole_units() {
    use Limiter::*;
    /// Compute capability; threads, registers and shared bytes; blocks; what limits them.
    type Case = ((u32, u32), [u32; 3], u32, &'static [Limiter]);
    let cases: [Case; 11] = [
        ((9, 0), [256, 32, 0], 8, &[Threads, Registers]),
        // The 33rd register costs a warp eight more.
        ((9, 0), [256, 33, 0], 6, &[Registers]),
        ((9, 0), [256, 40, 0], 6, &[Registers]),
        ((9, 0), [256, 128, 16 << 10], 2, &[Registers]),
        // A quarter of the registers has room for 5 warps of 96 registers, the whole for 20 and not 21.
        ((9, 0), [224, 96, 0], 2, &[Registers]),
        // 1 KiB is reserved, so three blocks of 76 KiB do not fit into 228 KiB.
        ((9, 0), [128, 32, 76 << 10], 2, &[SharedMemory]),
        ((9, 0), [128, 32, 75 << 10], 3, &[SharedMemory]),
        ((9, 0), [32, 32, 0], 32, &[Blocks]),
        ((7, 5), [256, 64, 16 << 10], 4, &[Threads, Registers, SharedMemory]),
        ((8, 6), [128, 32, 0], 12, &[Threads]),
        ((8, 9), [64, 32, 1000], 24, &[Threads, Blocks]),
    ];
    for (capability, [threads, registers, shared_bytes], blocks, limited_by) in cases {
        let demand = Demand { threads, registers, shared_bytes };
        let found = occupancy(&Limits::of(capability).unwrap(), &demand).unwrap();
        assert_eq!(found.blocks, blocks, "{capability:?} {demand:?}: {found:?}");
        assert_eq!(found.limited_by, limited_by, "{capability:?} {demand:?}: {found:?}");
    }
}

#[test]
fn what_cannot_be_launched_is_refused_with_the_reason() {
    let h100 = Limits::of((9, 0)).unwrap();
    let cases = [
        ([0, 32, 0], CannotLaunch::NoThreads),
        ([1025, 32, 0], CannotLaunch::Threads { threads: 1025, most: 1024 }),
        ([32, 256, 0], CannotLaunch::RegistersOfThread { registers: 256, most: 255 }),
        // 72 registers of 32 threads of 32 warps.
        ([1024, 65, 0], CannotLaunch::RegistersOfBlock { needed: 73_728, most: 65_536 }),
        // 7 warps count as 8 when the launch is judged.
        ([992, 65, 0], CannotLaunch::RegistersOfBlock { needed: 73_728, most: 65_536 }),
        ([32, 32, 232_449], CannotLaunch::SharedMemory { bytes: 232_449, most: 232_448 }),
    ];
    for ([threads, registers, shared_bytes], expected) in cases {
        let demand = Demand { threads, registers, shared_bytes };
        assert_eq!(occupancy(&h100, &demand), Err(expected), "{demand:?}");
    }
    let largest = Demand { threads: 1024, registers: 64, shared_bytes: 232_448 };
    assert_eq!(occupancy(&h100, &largest).unwrap().blocks, 1);
    let no_slots = Limits { blocks: 0, ..h100 };
    assert_eq!(occupancy(&no_slots, &largest), Err(CannotLaunch::NoSlots));
}

#[test]
fn register_steps_end_where_launches_fail() {
    let h100 = Limits::of((9, 0)).unwrap();
    let steps =
        |threads, registers| register_steps(&h100, &Demand { threads, registers, shared_bytes: 0 });
    let most = steps(32, 255);
    let refusal = CannotLaunch::RegistersOfThread { registers: 256, most: 255 };
    assert_eq!(most.one_more, Err(refusal));
    assert_eq!(most.fewer_blocks_from, Some(256));
    // A scheduler's 16,384 registers are enough for two warps of 255 registers and for three of 168.
    assert_eq!(most.more_blocks_up_to, Some(168));
    let least = steps(1024, 1);
    assert_eq!((least.one_fewer, least.more_blocks_up_to), (None, None));
    assert_eq!(least.fewer_blocks_from, Some(33));
    // From a launch that fails, the way back.
    assert_eq!(steps(1024, 200).more_blocks_up_to, Some(64));
    assert_eq!(steps(1024, 200).fewer_blocks_from, None);
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let listed = proptest::sample::select(&Limits::CAPABILITIES[..])
        .prop_map(|capability| Limits::of(capability).unwrap());
    prop_oneof![listed.clone(), listed.prop_map(Limits::without_granularity), Just(textbook())]
}

fn any_demand() -> impl Strategy<Value = Demand> {
    (1..=1024_u32, 0..=255_u32, 0..=(230 << 10) as u32)
        .prop_map(|(threads, registers, shared_bytes)| Demand { threads, registers, shared_bytes })
}

/// Any values at all, small ones and zeros often.
fn wild() -> impl Strategy<Value = u32> {
    prop_oneof![0..4_u32, 0..5000_u32, any::<u32>()]
}

fn blocks(limits: &Limits, demand: &Demand) -> u32 {
    occupancy(limits, demand).map_or(0, |found| found.blocks)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_larger_demand_never_has_more_blocks(
        limits in any_limits(), demand in any_demand(), more in any_demand(),
    ) {
        let now = blocks(&limits, &demand);
        for larger in [
            Demand { threads: demand.threads.max(more.threads), ..demand },
            Demand { registers: demand.registers.max(more.registers), ..demand },
            Demand { shared_bytes: demand.shared_bytes.max(more.shared_bytes), ..demand },
        ] {
            prop_assert!(blocks(&limits, &larger) <= now, "{larger:?}");
        }
    }

    #[test]
    fn larger_limits_never_have_fewer_blocks(
        limits in any_limits(), demand in any_demand(), extra in 0..1_000_000_u32,
    ) {
        let now = blocks(&limits, &demand);
        for larger in [
            Limits { threads: limits.threads + extra, ..limits },
            Limits { blocks: limits.blocks + extra, ..limits },
            Limits { registers: limits.registers + extra, ..limits },
            Limits { shared_bytes: limits.shared_bytes + extra, ..limits },
        ] {
            prop_assert!(blocks(&larger, &demand) >= now, "{larger:?}");
        }
    }

    /// What is given out is at least what is asked for and at most what there is, and one block more would not fit.
    #[test]
    fn no_limit_is_exceeded_and_none_is_left_unused(limits in any_limits(), demand in any_demand()) {
        if let Ok(found) = occupancy(&limits, &demand) {
            prop_assert!(found.blocks >= 1 && found.blocks <= limits.blocks);
            prop_assert!(found.warps <= limits.warps());
            prop_assert!(found.warps * WARP_THREADS >= found.blocks * demand.threads);
            prop_assert!(found.registers_used <= limits.registers);
            prop_assert!(found.registers_used >= found.blocks * demand.threads * demand.registers);
            prop_assert!(found.shared_bytes_used <= limits.shared_bytes);
            prop_assert!(found.shared_bytes_used >= found.blocks * demand.shared_bytes);
            prop_assert!(found.share() > 0.0 && found.share() <= 1.0);

            prop_assert!(!found.limited_by.is_empty());
            let next = u64::from(found.blocks) + 1;
            let warps = u64::from(demand.threads.div_ceil(WARP_THREADS));
            for limiter in found.limited_by {
                let (needed, there) = match limiter {
                    Limiter::Threads => (next * warps, limits.warps()),
                    // Each scheduler's part can leave less than a warp's registers over.
                    Limiter::Registers => (
                        u64::from(found.registers_used) / (next - 1) * next
                            + u64::from(limits.schedulers) * u64::from(demand.registers + 8) * 32,
                        limits.registers,
                    ),
                    Limiter::SharedMemory => {
                        (u64::from(found.shared_bytes_used) / (next - 1) * next, limits.shared_bytes)
                    }
                    Limiter::Blocks => (next, limits.blocks),
                };
                prop_assert!(needed > u64::from(there), "{limiter}");
            }
        }
    }

    /// The steps are where the blocks change: one register nearer, they are as now.
    #[test]
    fn register_steps_are_where_blocks_change(limits in any_limits(), demand in any_demand()) {
        let steps = register_steps(&limits, &demand);
        let with = |registers| blocks(&limits, &Demand { registers, ..demand });
        let now = with(demand.registers);
        match steps.fewer_blocks_from {
            Some(first) => prop_assert!(with(first) < now && with(first - 1) == now),
            None => prop_assert_eq!(now, 0),
        }
        match steps.more_blocks_up_to {
            Some(last) => prop_assert!(with(last) > now && with(last + 1) == now),
            None => prop_assert!(demand.registers < 2 || with(1) == now),
        }
    }

    /// Limits are public, so anything may stand in them.
    #[test]
    fn no_limits_make_it_fail(
        first in proptest::array::uniform6(wild()),
        second in proptest::array::uniform6(wild()),
        demand in proptest::array::uniform3(wild()),
    ) {
        let limits = Limits {
            threads_per_block: first[0],
            threads: first[1],
            blocks: first[2],
            registers: first[3],
            registers_per_block: first[4],
            registers_per_thread: first[5],
            register_unit: second[0],
            schedulers: second[1],
            shared_bytes: second[2],
            shared_bytes_per_block: second[3],
            shared_unit: second[4],
            shared_reserved: second[5],
        };
        let [threads, registers, shared_bytes] = demand;
        let demand = Demand { threads, registers, shared_bytes };
        if let Ok(found) = occupancy(&limits, &demand) {
            prop_assert!(found.blocks >= 1 && found.blocks <= limits.blocks);
        }
        register_steps(&limits, &demand);
    }
}
