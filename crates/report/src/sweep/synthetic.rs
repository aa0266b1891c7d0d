//! Records made up for tests.

use super::{Choice, Config, Counts, Entry, Record, Timing};
use crate::provenance::Provenance;

/// A record of these configurations over the sizes that they have results on.
pub fn record(results: Vec<Entry>) -> Record {
    let mut sizes: Vec<usize> = results
        .iter()
        .flat_map(|entry| {
            let timed = entry.timings.iter().map(|timing| timing.size);
            timed.chain(entry.counts.iter().map(|counts| counts.size))
        })
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    Record {
        command: "sweep".into(),
        provenance: Provenance::synthetic(),
        dtype: "f32".into(),
        peak_tflops: Some(66.9),
        sizes,
        seed: 1,
        reps: 20,
        complete: true,
        results,
        library: Vec::new(),
        effort: None,
    }
}

/// A configuration that has not been measured yet.
pub fn entry(
    (bm, bn, bk): (u32, u32, u32),
    (tm, tn): (u32, u32),
    order: &str,
    staging: &str,
) -> Entry {
    let config = Config { bm, bn, bk, tm, tn, order: order.into(), staging: staging.into() };
    let stages = match staging {
        "direct" => 0,
        "single" => 1,
        "async3" => 3,
        "async4" => 4,
        _ => 2,
    };
    Entry {
        kernel: format!("k_{}", config.to_string().replace(' ', "_")),
        threads: (bm / tm) * (bn / tn),
        registers: Some(tm * tn + 32),
        local_bytes: Some(0),
        shared_bytes: (bm + bn) * bk * 4 * stages,
        resident_blocks: Some(2),
        config,
        ..Entry::default()
    }
}

/// Times of a product of this size at this speed.
pub fn timing(size: usize, tflops: f64) -> Timing {
    Timing {
        size,
        milliseconds: 2.0 * (size as f64).powi(3) / tflops / 1e9,
        tflops,
        spread: 0.01,
        samples: 20,
        relative_error: 3e-7,
        sample_milliseconds: Vec::new(),
    }
}

/// The same configuration, measured on one more size.
pub fn timed(mut entry: Entry, size: usize, tflops: f64) -> Entry {
    entry.timings.push(timing(size, tflops));
    entry
}

/// The same configuration, counted on one more size.
pub fn counted(mut entry: Entry, size: usize, global_bytes: u64) -> Entry {
    entry.registers = None;
    entry.resident_blocks = None;
    entry.counts.push(Counts {
        size,
        global_bytes,
        global_sectors: global_bytes / 32,
        shared_wavefronts: 500,
        shared_conflicts: 7,
        barriers: 12,
        async_copies: 0,
        fma: (size as u64).pow(3),
        relative_error: 1e-7,
    });
    entry
}

/// What the library chose, on a GPU.
pub fn choice(kernel: &str, timing: Timing) -> Choice {
    Choice { size: timing.size, kernel: kernel.into(), timing: Some(timing), counts: None }
}
