//! The formulas against the simulator, and what the write-ups of tiling say.

use super::*;
use crate::kernels::{find, kernels};
use crate::traffic::count;
use proptest::prelude::*;

fn problem(kernel: &KernelInfo, (m, n, k): (u32, u32, u32)) -> Problem {
    let plain = Problem::new(kernel.dtype, m, n, k);
    Problem { layouts: kernel.layouts, target: kernel.target, ..plain }
}

/// The kernels that there are formulas for.
fn with_formulas() -> impl Iterator<Item = &'static KernelInfo> {
    kernels().iter().filter(|kernel| Formula::exists(kernel))
}

#[test]
fn only_kernels_whose_k_is_split_have_no_formula() {
    for kernel in kernels() {
        let found = Formula::new(kernel, &problem(kernel, (64, 64, 64))).is_some();
        assert_eq!(
            found,
            kernel.schedule == Schedule::Tiles && kernel.producers == 0,
            "{}",
            kernel.name
        );
    }
}

/// All differences, of which none may be in a quantity that is exact.
#[track_caller]
fn differences(kernel: &'static KernelInfo, shape: (u32, u32, u32)) -> Vec<Difference> {
    let problem = problem(kernel, shape);
    let formula = Formula::new(kernel, &problem).unwrap();
    let differences = formula.differences(&count(kernel, &problem).unwrap());
    let wrong: Vec<_> = differences.iter().filter(|difference| difference.exact).collect();
    assert!(wrong.is_empty(), "{}, {problem}: {wrong:#?}", kernel.name);
    differences
}

#[test]
fn whole_tiles_are_exact() {
    for kernel in with_formulas() {
        for shape in [(128, 128, 128), (128, 256, 64), (256, 128, 32)] {
            assert_eq!(differences(kernel, shape), []);
        }
    }
}

/// How far the quantity that is not exact may be off.
const SLACK: f64 = 0.25;

#[track_caller]
fn check_slack(differences: &[Difference]) {
    for difference in differences {
        let ratio = difference.counted as f64 / difference.formula as f64;
        assert!((ratio - 1.0).abs() <= SLACK, "{difference:?}");
    }
}

#[test]
fn odd_shapes_are_exact_but_for_the_sectors_of_ragged_stores() {
    let shapes = [(1, 1, 1), (35, 67, 21), (130, 7, 40), (3, 260, 17), (65, 136, 9), (64, 60, 12)];
    let mut inexact = 0;
    for kernel in with_formulas() {
        for shape in shapes {
            let differences = differences(kernel, shape);
            check_slack(&differences);
            inexact += differences.len();
        }
    }
    assert!(inexact > 0, "everything is exact: nothing need be called approximate");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_shape_is_exact_but_for_the_sectors_of_ragged_stores(
        kernel in proptest::sample::select(with_formulas().collect::<Vec<_>>()),
        shape in (1..200_u32, 1..200_u32, 1..100_u32),
    ) {
        check_slack(&differences(kernel, shape));
    }
}

#[test]
fn a_difference_is_found_and_says_whether_it_matters() {
    let kernel = find("microkernel_f32").unwrap();
    let formula = Formula::new(kernel, &problem(kernel, (128, 127, 8))).unwrap();
    let mut counted = formula.traffic;
    counted.fma += 1;
    counted.global_store_sectors += 1;
    let differences = formula.differences(&counted);
    let found: Vec<_> = differences.iter().map(|found| (found.quantity, found.exact)).collect();
    assert_eq!(found, [("global_store_sectors", false), ("fma", true)]);
    assert_eq!(differences[1].counted, differences[1].formula + 1);
}

fn formula(name: &str, size: u32) -> Traffic {
    let kernel = find(name).unwrap();
    Formula::new(kernel, &problem(kernel, (size, size, size))).unwrap().traffic
}

/// The experiment of the write-up on tiling, at its size: tiles of 16 x 16 read 16 times less.
#[test]
fn tiles_read_as_many_times_less_as_they_are_wide() {
    let naive = formula("naive_f32", 4096).global_load_bytes;
    assert_eq!(naive, 2 * 4096_u64.pow(3) * 4);
    assert_eq!(naive, 16 * formula("tiled16_f32", 4096).global_load_bytes);
    assert_eq!(naive, 32 * formula("tiled32_f32", 4096).global_load_bytes);
    assert_eq!(naive, 128 * formula("microkernel_f32", 4096).global_load_bytes);
}

/// Tiles of TM x TN: TM + TN shared loads for TM * TN multiply-adds, where there were two for one.
#[test]
fn thread_tiles_divide_shared_loads() {
    let tiled = formula("tiled32_f32", 4096).shared_load_bytes;
    assert_eq!(tiled, 8 * formula("microkernel_f32", 4096).shared_load_bytes);
    assert_eq!(tiled, 4 * formula("double_buffered64_f32", 4096).shared_load_bytes);
}

#[test]
fn nothing_is_moved_for_nothing() {
    for kernel in with_formulas() {
        for shape in [(0, 5, 5), (5, 0, 5)] {
            let formula = Formula::new(kernel, &problem(kernel, shape)).unwrap();
            assert_eq!(formula.traffic, Traffic::default());
        }
        assert_eq!(differences(kernel, (64, 64, 0)), [], "{}: the epilogue alone", kernel.name);
    }
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let largest = i32::MAX as u32;
    for kernel in with_formulas() {
        assert_eq!(Formula::new(kernel, &problem(kernel, (largest, largest, largest))), None);
        assert!(Formula::new(kernel, &problem(kernel, (largest, 1, 3))).is_some());
        assert!(Formula::new(kernel, &problem(kernel, (1, largest, 3))).is_some());
        assert!(Formula::new(kernel, &problem(kernel, (1, 3, largest))).is_some());
    }
}
