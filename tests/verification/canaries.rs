//! Canaries.

use regemm::f16;
use regemm::verify::{Canaries, CanaryFault};

#[test]
fn canaries_show_stray_and_missing_writes() {
    let canaries = Canaries::around(3, 4, 2, 1, 2);
    let untouched: Vec<f32> = canaries.buffer();
    assert_eq!(untouched.len(), 7 * 7);
    assert_eq!(
        canaries.check(&untouched, true),
        Err(CanaryFault::Unwritten { count: 12, row: 0, col: 0 })
    );
    assert_eq!(canaries.check(&untouched, false), Ok(()));
    let mut written = untouched.clone();
    for row in canaries.inside_rows.clone() {
        for col in canaries.inside_cols.clone() {
            written[row * canaries.ld + col] = 0.0;
        }
    }
    assert_eq!(canaries.check(&written, true), Ok(()));
    for (row, col) in [(0, 0), (1, 2), (2, 0), (2, 5), (3, 6), (5, 1), (6, 6)] {
        let mut stray = written.clone();
        stray[row * canaries.ld + col] = 0.0;
        assert_eq!(
            canaries.check(&stray, true),
            Err(CanaryFault::Overwritten { count: 1, row, col })
        );
    }
    let mut missing = written.clone();
    missing[3 * 7 + 2] = untouched[3 * 7 + 2];
    assert_eq!(
        canaries.check(&missing, true),
        Err(CanaryFault::Unwritten { count: 1, row: 1, col: 1 })
    );
    assert_eq!(canaries.check(&written[1..], true), Err(CanaryFault::Length { got: 48, want: 49 }));
}

#[test]
fn canaries_lie_between_the_results_of_a_batch() {
    let canaries = Canaries::around_each(3, (2, 4), 1, 1, 2);
    let mut buffer: Vec<f32> = canaries.buffer();
    assert_eq!((canaries.rows, canaries.ld, buffer.len()), (10, 7, 70));
    for row in [1, 2, 4, 5, 7, 8] {
        buffer[row * 7 + 1..row * 7 + 5].fill(0.0);
    }
    assert_eq!(canaries.check(&buffer, true), Ok(()));
    for row in [0, 3, 6, 9] {
        let mut stray = buffer.clone();
        stray[row * 7 + 2] = 0.0;
        let expected = Err(CanaryFault::Overwritten { count: 1, row, col: 2 });
        assert_eq!(canaries.check(&stray, true), expected);
    }
    let mut missing = buffer.clone();
    missing[5 * 7 + 3] = canaries.buffer::<f32>()[5 * 7 + 3];
    let expected = Err(CanaryFault::Unwritten { count: 1, row: 3, col: 2 });
    assert_eq!(canaries.check(&missing, true), expected);
}

#[test]
fn canaries_of_every_type_differ_from_place_to_place() {
    let canaries = Canaries::around(1, 1, 0, 0, 999);
    let distinct =
        |bits: Vec<u64>| bits.into_iter().collect::<std::collections::HashSet<_>>().len();
    let f64s = canaries.buffer::<f64>().into_iter().map(f64::to_bits).collect();
    let halves = canaries.buffer::<f16>().into_iter().map(|v| u64::from(v.to_bits())).collect();
    assert_eq!(distinct(f64s), 1000);
    assert!(distinct(halves) > 950);
}
