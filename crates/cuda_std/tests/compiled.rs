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
