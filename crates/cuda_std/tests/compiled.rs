//! What kernels become on the device. Nothing of this runs.

#[path = "common/device.rs"]
mod device;

const HEAD: &str = "
#![no_std]
#![feature(abi_ptx, asm_experimental_arch)]
";

/// A function that is the same, at the same place, in two modules.
const ROOM: &str = "
use cuda_std::memory::SharedPtr;

#[inline(always)]
pub fn room() -> SharedPtr<f32> {
    cuda_std::shared_array!(f32; 32)
}
";

/// A kernel that uses both.
const BOTH: &str = "
use cuda_std::memory::GlobalPtr;

mod one;
mod other;

#[cuda_std::kernel]
pub unsafe fn both(x: GlobalPtr<f32>) {
    let (one, other) = (one::room(), other::room());
    unsafe {
        one.store(1.0);
        other.store(2.0);
        x.store(one.load());
    }
}
";

#[test]
fn shared_arrays_at_the_same_place_of_two_files_are_two() {
    let source = format!("{HEAD}{BOTH}");
    let files = [("lib.rs", &*source), ("one.rs", ROOM), ("other.rs", ROOM)];
    let ptx = device::text(&device::compile("two_rooms", &files, ["sm_80"]), "sm_80", "both");
    let names: Vec<_> = ptx
        .lines()
        .filter_map(|line| line.trim().strip_prefix(".shared .align 16 .b8 "))
        .map(|declaration| declaration.strip_suffix("[128];").unwrap())
        .collect();
    let [one, other] = names[..] else { panic!("{names:?} in {ptx}") };
    assert_ne!(one, other, "{ptx}");
}

/// More blocks than any multiprocessor holds, for their threads and for their number.
const BOUNDS: &str = "
#[cuda_std::kernel(max_threads = 256, min_blocks = 50)]
pub unsafe fn large() {}

#[cuda_std::kernel(max_threads = 32, min_blocks = 50)]
pub unsafe fn small() {}
";

#[test]
fn as_many_blocks_are_asked_for_as_there_can_be() {
    let source = format!("{HEAD}{BOUNDS}");
    let archs = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a"];
    let modules = device::compile("bounds", &[("lib.rs", &*source)], archs);
    let asked = |entry: &str| {
        archs.map(|arch| {
            let ptx = device::text(&modules, arch, entry);
            let (_, after) = ptx.split_once(".minnctapersm ").unwrap();
            after.split_whitespace().next().unwrap().parse::<u32>().unwrap()
        })
    };
    // CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": threads and blocks of a
    // multiprocessor.
    assert_eq!(asked("large"), [1024, 2048, 1536, 1536, 2048].map(|threads| threads / 256));
    assert_eq!(asked("small"), [16, 32, 16, 24, 32]);
}

/// Kernels in which threads divide in the same way before and behind `MEETING`: by a value that is kept, and by one
/// that is found twice.
const DIVIDED: &str = "
use cuda_std::memory::GlobalPtr;
use cuda_std::{cluster, hint, named_barrier, registers, thread, warp, wgmma};

#[cuda_std::kernel]
pub unsafe fn kept(x: GlobalPtr<u32>) {
    let first = thread::thread_idx_x() == 0;
    unsafe {
        if first {
            x.store(1);
        }
        MEETING;
        if first { x.add(1).store(2) } else { x.add(2).store(3) }
    }
}

#[cuda_std::kernel]
pub unsafe fn found(x: GlobalPtr<u32>) {
    unsafe {
        if thread::thread_idx_x() == 0 {
            x.store(1);
        }
        MEETING;
        if thread::thread_idx_x() == 0 { x.add(1).store(2) } else { x.add(2).store(3) }
    }
}
";

/// PTX leaves undefined what becomes of a warp of which a part waits at one such instruction and a part at another.
#[test]
fn who_meets_meets_at_one_place() {
    let meetings = [
        ("thread::sync_threads()", "bar.sync"),
        ("warp::sync_warp(warp::FULL_MASK)", "bar.warp.sync"),
        (
            "x.add(4).store(warp::shuffle_xor(warp::FULL_MASK, thread::thread_idx_x(), 1))",
            "shfl.sync.bfly",
        ),
        ("x.add(4).store(warp::elect(warp::FULL_MASK) as u32)", "elect.sync"),
        ("x.add(4).store(hint::uniform(thread::block_idx_x()))", "redux.sync"),
        ("named_barrier::sync(1, 64)", "bar.sync"),
        ("named_barrier::arrive(1, 64)", "bar.arrive"),
        ("cluster::arrive()", "barrier.cluster.arrive"),
        ("cluster::wait()", "barrier.cluster.wait"),
        ("registers::increase::<232>()", "setmaxnreg.inc"),
        ("registers::decrease::<40>()", "setmaxnreg.dec"),
        ("wgmma::fence()", "wgmma.fence"),
        ("wgmma::commit_group()", "wgmma.commit_group"),
        ("wgmma::wait_group::<0>()", "wgmma.wait_group"),
    ];
    let mut modules = String::new();
    for (i, (meeting, _)) in meetings.iter().enumerate() {
        let (kept, found) = (format!("kept{i}"), format!("found{i}"));
        let module =
            DIVIDED.replace("MEETING", meeting).replace("kept", &kept).replace("found", &found);
        modules += &format!("mod m{i} {{ {module} }}\n");
    }
    let source = format!("{HEAD}#![allow(unused_imports)]\n{modules}");
    let compiled = device::compile("meetings", &[("lib.rs", &*source)], ["sm_90a"]);
    for (i, (meeting, instruction)) in meetings.iter().enumerate() {
        for entry in [format!("kept{i}"), format!("found{i}")] {
            let ptx = device::text(&compiled, "sm_90a", &entry);
            assert_eq!(ptx.matches(instruction).count(), 1, "{meeting}: {ptx}");
        }
    }
}

/// What orders or moves memory, and each instruction that it is, with its semantics, scope and state space, and with
/// operands that are constants. On the simulator none of these instructions run, so only a GPU would show a weaker one.
const OPERATIONS: &[(&str, &[&str])] = &[
    ("signal::post(x, 1)", &["st.release.gpu.global.u32"]),
    ("signal::post_if(holds, x, 1)", &["st.release.gpu.global.u32"]),
    ("signal::wait(x, 1)", &["ld.acquire.gpu.global.u32"]),
    ("signal::clear(x)", &["st.relaxed.gpu.global.u32"]),
    ("counter::add(x, 3)", &["red.relaxed.gpu.global.add.u32"]),
    ("_ = counter::arrive(x)", &["atom.acq_rel.gpu.global.add.u32"]),
    ("_ = counter::wait_a_while(x, 1)", &["ld.relaxed.gpu.global.u32"]),
    ("counter::clear(x)", &["st.relaxed.gpu.global.u32"]),
    ("object.init(7)", &["mbarrier.init.shared.b64"]),
    ("object.arrive()", &["mbarrier.arrive.shared.b64"]),
    ("object.arrive_if(holds)", &["mbarrier.arrive.shared.b64"]),
    ("object.arrive_expect_tx(64)", &["mbarrier.arrive.expect_tx.shared.b64"]),
    ("object.arrive_on_copies()", &["cp.async.mbarrier.arrive.noinc.shared.b64"]),
    ("object.wait(0)", &["mbarrier.try_wait.parity.shared.b64"]),
    (
        "object.in_block(1).arrive()",
        &["mapa.shared::cluster.u32", "mbarrier.arrive.shared::cluster.b64"],
    ),
    ("mbarrier::fence_init()", &["fence.mbarrier_init.release.cluster"]),
    ("async_copy::copy_async::<u32, 1>(room, x, holds)", &["cp.async.ca.shared.global"]),
    ("async_copy::copy_async::<u32, 2>(room, x, holds)", &["cp.async.ca.shared.global"]),
    ("async_copy::copy_async::<u32, 4>(room, x, holds)", &["cp.async.cg.shared.global"]),
    ("async_copy::commit_group()", &["cp.async.commit_group"]),
    ("async_copy::wait_group::<2>()", &["cp.async.wait_group 2"]),
    (
        "bulk_copy::load_2d(room, map, [0, 0], object)",
        &["cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"],
    ),
    (
        "bulk_copy::load_3d(room, map, [0; 3], object)",
        &["cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"],
    ),
    (
        "bulk_copy::load_3d_multicast(room, map, [0; 3], object, 3)",
        &[
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster",
        ],
    ),
    (
        "bulk_copy::store_2d(map, [0, 0], room)",
        &["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"],
    ),
    (
        "bulk_copy::store_3d(map, [0; 3], room)",
        &["cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group"],
    ),
    ("bulk_copy::commit_group()", &["cp.async.bulk.commit_group"]),
    ("bulk_copy::wait_group::<1>()", &["cp.async.bulk.wait_group 1"]),
    ("bulk_copy::wait_group_read::<1>()", &["cp.async.bulk.wait_group.read 1"]),
    ("bulk_copy::fence_shared()", &["fence.proxy.async.shared::cta"]),
    ("cluster::arrive()", &["barrier.cluster.arrive"]),
    ("cluster::wait()", &["barrier.cluster.wait"]),
    (
        "_ = cluster::load_vector::<u32, 4>(room, 1)",
        &["mapa.shared::cluster.u32", "ld.shared::cluster.v4.b32"],
    ),
    ("early_start::wait()", &["griddepcontrol.wait"]),
    ("thread::sync_threads()", &["bar.sync 0"]),
    ("warp::sync_warp(warp::FULL_MASK)", &["bar.warp.sync -1"]),
    ("named_barrier::sync(1, 64)", &["bar.sync 1, 64"]),
    ("named_barrier::arrive(1, 64)", &["bar.arrive 1, 64"]),
    ("wgmma::fence()", &["wgmma.fence.sync.aligned"]),
    ("wgmma::commit_group()", &["wgmma.commit_group.sync.aligned"]),
    ("wgmma::wait_group::<1>()", &["wgmma.wait_group.sync.aligned 1"]),
];

/// A kernel that does one of these things.
const OPERATION: &str = "
#[cuda_std::kernel]
pub unsafe fn NAME(x: GlobalPtr<u32>, holds: bool, #[grid_constant] map: &TensorMap) {
    let (object, room) = (Mbarrier::new(shared_array!(u64; 1)), shared::dynamic::<u32>());
    unsafe { OPERATION };
}
";

/// The instructions that order or move memory, but for loads of parameters, and operands if they are all constants.
fn ordering_instructions(ptx: &str) -> Vec<String> {
    const WHICH: [&str; 13] = [
        "st",
        "ld",
        "atom",
        "red",
        "fence",
        "membar",
        "mbarrier",
        "cp",
        "mapa",
        "bar",
        "barrier",
        "griddepcontrol",
        "wgmma",
    ];
    let (_, body) = ptx.split_once("\n{").unwrap();
    let statements = body.split(['\n', ';', '{', '}']).map(str::trim);
    let unconditional = statements.map(|text| match text.strip_prefix('@') {
        Some(guarded) => guarded.split_once(' ').map_or("", |(_, text)| text),
        None => text,
    });
    let is_one = |text: &&str| {
        text.split('.').next().is_some_and(|opcode| WHICH.contains(&opcode))
            && !text.starts_with("ld.param")
    };
    let of_constants = |text: &str| text.chars().all(|c| c.is_ascii_digit() || "-, ".contains(c));
    let shortened = |text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match text.split_once(' ') {
            Some((opcode, operands)) if !of_constants(operands) => opcode.to_owned(),
            _ => text,
        }
    };
    unconditional.filter(is_one).map(shortened).collect()
}

#[test]
fn operations_are_the_instructions_of_their_scope_and_semantics() {
    let mut source = format!("{HEAD}#![allow(unused)]");
    source += "
        use cuda_std::bulk_copy::{self, TensorMap};
        use cuda_std::mbarrier::{self, Mbarrier};
        use cuda_std::memory::GlobalPtr;
        use cuda_std::{async_copy, cluster, counter, early_start, named_barrier, shared, shared_array, signal, thread};
        use cuda_std::{warp, wgmma};
    ";
    for (i, (operation, _)) in OPERATIONS.iter().enumerate() {
        let name = format!("operation{i}");
        source += &OPERATION.replace("NAME", &name).replace("OPERATION", operation);
    }
    let modules = device::compile("operations", &[("lib.rs", &*source)], ["sm_90a"]);
    for (i, (operation, expected)) in OPERATIONS.iter().enumerate() {
        let ptx = device::text(&modules, "sm_90a", &format!("operation{i}"));
        let mut found = ordering_instructions(&ptx);
        // The compiler writes out some rounds of loops.
        found.dedup();
        assert_eq!(found, *expected, "{operation}: {ptx}");
    }
}

/// A kernel that measures how long a load takes.
const TIMED: &str = "
use cuda_std::clock;
use cuda_std::memory::GlobalPtr;

#[cuda_std::kernel]
pub unsafe fn timed(x: GlobalPtr<u64>) {
    let begin = (clock::multiprocessor(), clock::cycles(), clock::nanoseconds());
    unsafe {
        let loaded = x.load();
        let end = (clock::cycles(), clock::nanoseconds());
        let cycles = end.0 - begin.1;
        x.add(begin.0.into()).store(loaded + cycles * (end.1 - begin.2));
    }
}
";

#[test]
fn time_is_read_where_the_kernel_does_so() {
    let source = format!("{HEAD}{TIMED}");
    let modules = device::compile("timed", &[("lib.rs", &*source)], ["sm_75", "sm_90a"]);
    for arch in ["sm_75", "sm_90a"] {
        let ptx = device::text(&modules, arch, "timed");
        let words = ptx.split(|c: char| !(c.is_alphanumeric() || "%._".contains(c)));
        let of_interest =
            |word: &&str| ["%smid", "%clock64", "%globaltimer", "ld.global.b64"].contains(word);
        let mut found = Vec::from_iter(words.filter(of_interest));
        // Where the number of the multiprocessor is read does not matter.
        found.retain(|word| *word != "%smid");
        let twice = ["%clock64", "%globaltimer"];
        let expected = [&twice[..], &["ld.global.b64"], &twice].concat();
        assert_eq!(found, expected, "{ptx}");
        assert!(ptx.contains("mov.u32") && ptx.contains("%smid"), "{ptx}");
    }
}
