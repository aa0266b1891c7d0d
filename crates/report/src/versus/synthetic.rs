//! A record made up for tests.

use super::*;

/// Speeds are rounded to parts of a power of two, which survive being written as decimals.
const PARTS: f64 = 1024.0;

fn entry(case: &Case, name: &str, microseconds: f64) -> Entry {
    Entry {
        name: name.into(),
        kernel: name.starts_with(REGEMM).then(|| "tiled16_f32".to_owned()),
        microseconds,
        tflops: (case.flops() / microseconds / 1e6 * PARTS).round() / PARTS,
        spread: 0.01,
        samples: 30,
        products: 4,
        late: 0,
        sm_mhz: None,
        relative_error: if name.starts_with(REGEMM) { 3e-7 } else { 2.5e-7 },
        burst: None,
        turn: None,
    }
}

fn measured(case: Case, times: &[(&str, f64)]) -> Measured {
    Measured {
        case,
        bytes: case.bytes(4, 4),
        memory_bound: case.m == 1,
        conditions: None,
        entries: times.iter().map(|(name, time)| entry(&case, name, *time)).collect(),
        unsupported: Vec::new(),
    }
}

/// A case that was measured in bursts too, with clocks.
fn in_bursts(mut measured: Measured, times: [f64; 3]) -> Measured {
    measured.conditions = Some(Conditions { sm_mhz: 1410.0, watts: Some(698.0), readings: 75 });
    for (entry, microseconds) in measured.entries.iter_mut().zip(times) {
        let in_burst = self::entry(&measured.case, &entry.name, microseconds);
        entry.relative_error = 2.5e-7;
        entry.burst = Some(Burst {
            microseconds,
            tflops: in_burst.tflops,
            spread: 0.02,
            bursts: 5,
            products: 4,
            late: 0,
            watts_before: Some(150.0),
            sm_mhz: Some(1965.0),
        });
    }
    measured
}

/// A case that was measured in turns too: the time of each contender in microseconds and its power in watts.
fn in_turns(mut measured: Measured, of_each: &[(f64, f64)]) -> Measured {
    for (entry, (microseconds, watts)) in measured.entries.iter_mut().zip(of_each) {
        entry.turn = Some(Turn {
            microseconds: *microseconds,
            tflops: self::entry(&measured.case, &entry.name, *microseconds).tflops,
            spread: 0.03,
            turns: 4,
            products: 250,
            sm_mhz: Some(1500.0),
            watts: Some(*watts),
        });
    }
    measured
}

/// Some cases of every group.
pub fn record() -> Record {
    let three = |case, [regemm, lt, blas]: [f64; 3]| {
        measured(case, &[(REGEMM, regemm), (CUBLAS_LT, lt), (CUBLAS, blas)])
    };
    let square = |group, size| Case::of(group, (size, size, size));
    let layouts = |size, layouts| Case { layouts, ..square(Group::Layouts, size) };
    let batched = Case { batch: 64, ..square(Group::Batched, 256) };
    Record {
        provenance: crate::provenance::Provenance::synthetic(),
        clocks_after: Some("1755 MHz".into()),
        dtype: "f32".into(),
        peak: Some(60.0),
        bandwidth: Some(4.8),
        settings: Settings {
            arguments: Some("--rounds 30".into()),
            seed: Some(7),
            tuning: Some("table".into()),
        },
        libraries: vec!["cuBLASLt 13.1.0, best of 16".into(), "cuBLAS 13.1.0".into()],
        without: vec!["libother: not found".into()],
        cases: vec![
            three(square(Group::Squares, 256), [20.0, 16.0, 18.0]),
            three(square(Group::Squares, 512), [16.0, 22.0, 20.0]),
            in_turns(
                in_bursts(
                    three(square(Group::Squares, 4096), [2500.0, 2000.0, 2000.0]),
                    [2000.0, 2300.0, 2200.0],
                ),
                &[(2000.0, 650.0), (2100.0, 690.0), (1900.0, 700.0)],
            ),
            three(square(Group::Odd, 1023), [100.0, 120.0, 110.0]),
            three(Case::of(Group::Rectangles, (1, 8192, 8192)), [70.0, 63.0, 80.0]),
            three(layouts(4096, Layouts::Nt), [5000.0, 2000.0, 2000.0]),
            three(layouts(1024, Layouts::Tt), [50.0, 60.0, 70.0]),
            Measured {
                unsupported: vec![Unsupported {
                    name: REGEMM.into(),
                    why: "no batches".into(),
                    wrong: false,
                }],
                ..measured(batched, &[(CUBLAS_LT, 50.0), (CUBLAS, 51.0)])
            },
            in_turns(
                measured(
                    square(Group::Epilogue, 4096),
                    &[
                        (REGEMM, 2500.0),
                        (WITH_EPILOGUE, 2525.0),
                        (CUBLAS_LT, 2600.0),
                        (LT_WITH_EPILOGUE, 2727.0),
                    ],
                ),
                &[(2000.0, 700.0), (2500.0, 700.0), (1750.0, 700.0), (2625.0, 700.0)],
            ),
        ],
        host: Some(HostCost {
            size: 64,
            calls: 5120,
            entries: vec![CallCost { name: "Gemm::enqueue".into(), median: 3.5, p95: 4.25 }],
        }),
        first_results: vec![FirstResult {
            cached: true,
            size: 1024,
            kernel: "tiled16_f32".into(),
            open: 200.0,
            first_use: 5.0,
            product: 4.0,
        }],
    }
}
