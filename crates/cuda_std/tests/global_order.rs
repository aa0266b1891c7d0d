//! What threads have been told of that others have written in global memory, in launches that note what could be left
//! out.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{assert_line, download, fault, launch, upload};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Counters, FaultKind, SimError, Simulator};
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::warp::{FULL_MASK, WARP_SIZE, shuffle_xor, sync_warp};
use cuda_std::{cluster, kernel, signal};

const SOURCE: &str = include_str!("global_order.rs");

/// One block after the other: of two at a time either may come first where one does not wait for the other.
fn one_at_a_time(
    run: impl FnOnce(&Simulator) -> Result<Counters, SimError> + Send,
) -> Result<Counters, SimError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| run(&Simulator::new().noting_sites()))
}

/// Each block tells the next one that it has heard from the one before, or not; the last one reads what the first has
/// written.
#[kernel]
unsafe fn chain(x: GlobalPtr<u32>, words: GlobalPtr<u32>, silent: u32) {
    let (block, last) = (block_idx_x(), cuda_std::thread::grid_dim_x() - 1);
    unsafe {
        if block == 0 {
            x.store(1);
        } else if block != silent {
            let word = words.add(u64::from(block) - 1);
            signal::wait(word, 1);
            signal::clear(word);
        }
        if block == last {
            x.add(1).store(x.load()); // chain
        } else if block + 1 == silent {
            signal::clear(words.add(block.into()));
        } else {
            signal::post(words.add(block.into()), 1);
        }
    }
}

#[test]
fn what_a_block_has_heard_it_passes_on() {
    const BLOCKS: u32 = 5;
    let run = |silent: u32| {
        one_at_a_time(|simulator| {
            let x = upload(simulator, &[0_u32; 2]);
            let words = upload(simulator, &[0_u32; BLOCKS as usize]);
            let result = launch!(simulator, chain[BLOCKS, 1, 0](x, words, silent));
            assert!(result.is_err() || download(simulator, x, 2) == [1, 1]);
            result
        })
    };
    run(u32::MAX).unwrap();
    for silent in 1..BLOCKS {
        let fault = fault(run(silent));
        let race = FaultKind::GlobalRace { block: [0; 3], thread: [0; 3] };
        assert_eq!(fault.kind, race, "{silent}");
        assert_line(&fault, SOURCE, "chain");
    }
}

/// A thread tells one of another warp what it has written; that one waits for it or for something else.
#[kernel]
unsafe fn within(x: GlobalPtr<u32>, words: GlobalPtr<u32>, waits: u64) {
    let i = thread_idx_x();
    unsafe {
        if i == 0 {
            signal::post(words.add(1), 1);
            x.store(1);
            signal::post(words, 1);
        }
        if i == WARP_SIZE {
            signal::wait(words.add(waits), 1);
            x.add(1).store(x.load()); // within
            signal::clear(words);
            signal::clear(words.add(1));
        }
    }
}

#[test]
fn a_thread_hears_from_one_of_its_block() {
    let run = |waits: u64| {
        one_at_a_time(|simulator| {
            let [x, words] = [(); 2].map(|()| upload(simulator, &[0_u32; 2]));
            launch!(simulator, within[1, 2 * WARP_SIZE, 0](x, words, waits))
        })
    };
    run(0).unwrap();
    let fault = fault(run(1));
    assert_eq!(fault.kind, FaultKind::GlobalRace { block: [0; 3], thread: [0; 3] });
    assert_line(&fault, SOURCE, "within");
}

/// What lies between a write of the first block of a cluster and a read of the second.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Between {
    Nothing,
    Barrier,
    /// The first block waits for no other thread before the barrier, and writes after it.
    BarrierBefore,
    /// A third block reads, of another cluster, that the second one tells.
    BarrierAndSignal,
}

#[kernel(cluster = 2)]
unsafe fn in_cluster(x: GlobalPtr<u32>, word: GlobalPtr<u32>, how: Between) {
    let (block, thread) = (block_idx_x(), thread_idx_x());
    unsafe {
        if block == 0 && thread == 33 && how != Between::BarrierBefore {
            x.store(1);
        }
        if how != Between::Nothing {
            cluster::sync();
        }
        if block == 0 && thread == 33 && how == Between::BarrierBefore {
            x.store(1);
        }
        if thread == 0 && block == 1 {
            if how == Between::BarrierAndSignal {
                signal::post(word, 1);
            } else {
                x.add(1).store(x.load()); // in cluster
            }
        }
        if thread == 0 && block == 2 && how == Between::BarrierAndSignal {
            signal::wait(word, 1);
            signal::clear(word);
            x.add(1).store(x.load());
        }
    }
}

#[test]
fn barriers_of_the_cluster_order_global_memory() {
    let run = |how: Between| {
        one_at_a_time(|simulator| {
            let x = upload(simulator, &[0_u32; 2]);
            let word = upload(simulator, &[0_u32]);
            launch!(simulator, in_cluster[4, 64, 0](x, word, how))
        })
    };
    for right in [Between::Barrier, Between::BarrierAndSignal] {
        run(right).unwrap_or_else(|e| panic!("{right:?}: {e}"));
    }
    for wrong in [Between::Nothing, Between::BarrierBefore] {
        let fault = fault(run(wrong));
        let race = FaultKind::GlobalRace { block: [0; 3], thread: [33, 0, 0] };
        assert_eq!(fault.kind, race, "{wrong:?}");
        assert_line(&fault, SOURCE, "in cluster");
    }
}

/// Each lane writes a byte and reads one, its own or its neighbour's; a shuffle lies between, which orders nothing.
#[kernel]
unsafe fn bytes(x: GlobalPtr<u8>, neighbour: u32) {
    let i = thread_idx_x();
    unsafe {
        x.add(i.into()).store(i as u8);
        shuffle_xor(FULL_MASK, 0, 1);
        x.add((i ^ neighbour).into()).load(); // byte
    }
}

#[test]
fn neighbouring_bytes_are_apart() {
    let run = |neighbour: u32| {
        one_at_a_time(|simulator| {
            let x = upload(simulator, &[0_u8; 32]);
            launch!(simulator, bytes[1, WARP_SIZE, 0](x, neighbour))
        })
    };
    run(0).unwrap();
    for neighbour in [1, 2, 4] {
        let fault = fault(run(neighbour));
        let thread = [neighbour, 0, 0];
        assert_eq!(fault.kind, FaultKind::GlobalRace { block: [0; 3], thread });
        assert_line(&fault, SOURCE, "byte");
    }
}

/// Lane 0 writes a word, lane 1 a byte of it, and lane 2, if it is told, the word anew; some lane reads the word.
#[kernel]
unsafe fn parts(x: GlobalPtr<u32>, reader: u32, anew: u32) {
    let i = thread_idx_x();
    unsafe {
        if i == 0 {
            x.store(0);
        }
        sync_warp(FULL_MASK);
        if i == 1 {
            x.cast::<u8>().add(2).store(1);
        }
        if anew != 0 {
            sync_warp(FULL_MASK);
            if i == 2 {
                x.store(2);
            }
        }
        shuffle_xor(FULL_MASK, 0, 1);
        if i == reader {
            x.load(); // word
        }
    }
}

#[test]
fn words_of_which_a_part_was_written_later() {
    let run = |reader: u32, anew: u32| {
        one_at_a_time(|simulator| {
            let x = upload(simulator, &[0_u32]);
            launch!(simulator, parts[1, WARP_SIZE, 0](x, reader, anew))
        })
    };
    for (reader, anew, writer) in [(1, 0, None), (2, 0, Some(1)), (2, 1, None), (1, 1, Some(2))] {
        let result = run(reader, anew);
        let Some(writer) = writer else {
            result.unwrap();
            continue;
        };
        let fault = fault(result);
        let thread = [writer, 0, 0];
        assert_eq!(fault.kind, FaultKind::GlobalRace { block: [0; 3], thread });
        assert_line(&fault, SOURCE, "word");
    }
}
