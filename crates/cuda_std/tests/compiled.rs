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
