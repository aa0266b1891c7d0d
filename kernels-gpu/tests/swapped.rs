//! What epilogues are told where [A and B are swapped](regemm_kernels::swapped): places of D, though sums are those of
//! its transpose.

use regemm_kernels::epilogue::Epilogue;
use regemm_kernels::epilogue::pairs::{PAIRS, Pairs, PairsAt, ROWS};

/// Says of which element of D a value is, by `apply` alone, as a user's epilogue may.
#[derive(Clone, Copy)]
struct Place;

impl Epilogue<half::bf16> for Place {
    unsafe fn apply(&self, sum: f32, row: u32, col: u32) -> f32 {
        sum + (1000 * row + col) as f32
    }
}

#[test]
fn values_are_of_the_places_that_epilogues_are_told() {
    const UNTOUCHED: f32 = -1.0;
    for swapped in [false, true] {
        // 16 rows and 32 columns from (48, 64) on, of which this lane has the second pair, in a matrix that ends among
        // them.
        let at = PairsAt { row: 48, col: 66, m: 50, n: 91, swapped, is_scarce: false };
        let mut values: Pairs<f32> = [[[UNTOUCHED; 2]; PAIRS]; ROWS];
        // SAFETY: the epilogue reads nothing.
        unsafe { Place.finish(&mut values, &at) };
        for (i, row) in values.iter().enumerate() {
            for (j, pair) in row.iter().enumerate() {
                for (e, &value) in pair.iter().enumerate() {
                    let (of_sums, across) = (48 + 8 * i as u32, 66 + 8 * j as u32 + e as u32);
                    let (row, col) = if swapped { (across, of_sums) } else { (of_sums, across) };
                    assert_eq!(at.place(i, j, e), (row, col));
                    if of_sums < 50 && across < 91 {
                        assert_eq!(value, UNTOUCHED + (1000 * row + col) as f32);
                    } else if of_sums >= 50 || across >= 92 {
                        assert_eq!(value, UNTOUCHED, "it is outside");
                    }
                }
            }
        }
    }
}
