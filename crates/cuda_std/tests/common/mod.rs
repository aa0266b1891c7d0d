//! What the tests of the simulator share: typed memory, launches in one line, and the places of faults.
#![allow(dead_code, unused_macros, unused_imports, reason = "each test file uses a part of it")]

use cuda_std::memory::GlobalPtr;
use cuda_std::scalar::Scalar;
use cuda_std::sim::{AccessKind, Counters, Fault, FaultKind, SimError, Simulator, Space};

/// A shape: `n`, `(x, y)` or `(x, y, z)`.
pub trait Shape {
    /// Its three sizes.
    fn dim(self) -> [u32; 3];
}

impl Shape for u32 {
    fn dim(self) -> [u32; 3] {
        [self, 1, 1]
    }
}

impl Shape for (u32, u32) {
    fn dim(self) -> [u32; 3] {
        [self.0, self.1, 1]
    }
}

impl Shape for (u32, u32, u32) {
    fn dim(self) -> [u32; 3] {
        [self.0, self.1, self.2]
    }
}

/// `launch!(simulator, kernel[grid, block, dynamic_shared](arguments))`: the result of a launch.
macro_rules! launch {
    ($simulator:expr, $kernel:ident[$grid:expr, $block:expr, $shared:expr]($($argument:expr),* $(,)?)) => {{
        use $crate::common::Shape as _;
        let launch = cuda_std::sim::Launch {
            grid: $grid.dim(),
            block: $block.dim(),
            dynamic_shared: $shared,
        };
        let sizes: &[usize] = &[$(size_of_val(&$argument)),*];
        let expected: Vec<usize> = $kernel::ENTRY.parameters.iter().map(|p| p.size).collect();
        assert_eq!(sizes, expected, "the test passes arguments of other types than the kernel has");
        // SAFETY: the arguments have the types of the parameters, as far as their sizes can tell.
        unsafe {
            $simulator.launch(&$kernel::ENTRY, launch, &[$(std::ptr::from_ref(&$argument).cast()),*])
        }
    }};
}
pub(crate) use launch;

/// Memory of `len` elements that nobody has written.
pub fn alloc<T: Scalar>(simulator: &Simulator, len: usize) -> GlobalPtr<T> {
    GlobalPtr::from_address(simulator.alloc((len * size_of::<T>()) as u64).unwrap())
}

/// Memory that holds `values`.
pub fn upload<T: Scalar>(simulator: &Simulator, values: &[T]) -> GlobalPtr<T> {
    let pointer = alloc(simulator, values.len());
    // SAFETY: scalars have no padding.
    let bytes =
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
    simulator.write(pointer.address(), bytes).unwrap();
    pointer
}

/// `len` elements from `pointer` on.
pub fn download<T: Scalar>(simulator: &Simulator, pointer: GlobalPtr<T>, len: usize) -> Vec<T> {
    let mut bytes = vec![0; len * size_of::<T>()];
    simulator.read(pointer.address(), &mut bytes).unwrap();
    // SAFETY: any bits are a valid scalar.
    bytes
        .chunks_exact(size_of::<T>())
        .map(|chunk| unsafe { chunk.as_ptr().cast::<T>().read_unaligned() })
        .collect()
}

/// The fault of a launch that must have one.
#[track_caller]
pub fn fault(result: Result<Counters, SimError>) -> Fault {
    match result {
        Err(SimError::Fault(fault)) => {
            println!("{fault}");
            *fault
        }
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// Checks everything that identifies a faulty access, and that the text names it.
#[track_caller]
pub fn assert_access(
    fault: &Fault,
    kernel: &str,
    (block, thread): ([u32; 3], [u32; 3]),
    (space, kind, address, bytes): (Space, AccessKind, u64, u32),
) {
    assert_eq!(fault.kernel, kernel);
    assert_eq!(fault.block, block);
    assert_eq!(fault.thread, thread);
    let access = fault.access.expect("the fault of an access");
    assert_eq!((access.space, access.kind), (space, kind));
    assert_eq!(access.address, address);
    assert_eq!(access.bytes, bytes);
    let [bx, by, bz] = block;
    let [tx, ty, tz] = thread;
    let text = fault.to_string();
    let start = format!(
        "kernel {kernel}, block ({bx},{by},{bz}), thread ({tx},{ty},{tz}): {kind} of {bytes} byte"
    );
    assert!(text.starts_with(&start), "{text:?} does not start with {start:?}");
    assert!(text.contains(&format!("{space} address {address:#x}")), "{text}");
}

/// Checks that a fault lies in the line of `source` (a test's own text) that ends in `// <marker>`.
#[track_caller]
pub fn assert_line(fault: &Fault, source: &str, marker: &str) {
    let end = format!("// {marker}");
    let line = source.lines().position(|line| line.ends_with(&end)).expect("the marker") as u32 + 1;
    let location = fault.location.as_ref().expect("a place in the source");
    assert_eq!(location.line, line, "{fault}");
    assert!(location.file.ends_with(".rs"));
}
