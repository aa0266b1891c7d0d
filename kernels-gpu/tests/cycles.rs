//! What is noted of multiprocessors, on the simulator, where each block has one of its own.

use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Launch, Simulator};
use regemm_kernels::cycles::{THREADS, WORDS};
use regemm_kernels::table::CYCLE_COUNTER;

/// Notes of `multiprocessors`, and one more for what lies behind them, after a launch of so many blocks.
fn note(simulator: &Simulator, blocks: u32, multiprocessors: u32, mark: u32) -> Vec<[u64; WORDS]> {
    let mut bytes = vec![0; (multiprocessors as usize + 1) * WORDS * size_of::<u64>()];
    let to = GlobalPtr::<u64>::from_address(simulator.alloc(bytes.len() as u64).unwrap());
    simulator.write(to.address(), &bytes).unwrap();
    let launch = Launch { grid: [blocks, 1, 1], block: [THREADS, 1, 1], dynamic_shared: 0 };
    let arguments =
        [(&raw const to).cast(), (&raw const multiprocessors).cast(), (&raw const mark).cast()];
    // SAFETY: the arguments are the kernel's.
    unsafe { simulator.launch(&CYCLE_COUNTER, launch, &arguments).unwrap() };
    simulator.read(to.address(), &mut bytes).unwrap();
    let words = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
    Vec::from_iter(words).as_chunks().0.to_vec()
}

#[test]
fn each_multiprocessor_is_noted_and_nothing_behind_them() {
    let simulator = Simulator::new();
    for (blocks, multiprocessors) in [(1, 1), (7, 7), (3, 7), (9, 7)] {
        let notes = note(&simulator, blocks, multiprocessors, 42);
        for (i, [mark, cycles, nanoseconds]) in notes.into_iter().enumerate() {
            let is_noted = i < blocks.min(multiprocessors) as usize;
            assert_eq!(mark, if is_noted { 42 } else { 0 }, "{i} of {blocks}");
            assert_eq!(is_noted, cycles > 0 || nanoseconds > 0, "{i} of {blocks}");
            // The simulator's cycles are nanoseconds.
            assert!(cycles <= nanoseconds, "{i} of {blocks}");
        }
    }
}
