//! What `mul` and `ladder` count, and what they say of results that are not finite.

use crate::harness::*;
use serde_json::Value;
use std::path::Path;

/// A matrix of one number.
fn constant(folder: &Path, name: &str, (rows, cols): (usize, usize), value: f32) {
    write_f32(folder, name, &format!("({rows}, {cols})"), &vec![value; rows * cols]);
}

/// 64 x 64 x 64 are 262,144, which tensor cores do; what comes on top is the epilogue.
#[test]
fn multiply_adds_of_tensor_cores_are_counted_with_the_others() {
    let folder = tempfile::tempdir().unwrap();
    constant(folder.path(), "x.npy", (64, 64), 1.0);
    let line = "mul x.npy x.npy -o d.npy --as f16 --kernel tensor_core --device sim";
    let said = succeed(folder.path(), line);
    let (counted, _) = said.split_once(" fused multiply-adds").unwrap();
    let counted = counted.rsplit(' ').next().unwrap().replace(',', "").parse::<u64>().unwrap();
    let document: Value =
        serde_json::from_str(&succeed(folder.path(), &format!("{line} --force --json"))).unwrap();
    let of = |name: &str| document["counters"][name].as_u64().unwrap();
    assert!(of("tensor_fma") >= 64 * 64 * 64, "{document}");
    assert_eq!(counted, of("fma") + of("tensor_fma"), "{said}");

    let ladder = "ladder --device sim --sizes 64 --dtype f16 --kernels tensor_core";
    let said = succeed(folder.path(), ladder);
    let document: Value =
        serde_json::from_str(&succeed(folder.path(), &format!("{ladder} --json"))).unwrap();
    let counters = &document["results"][0]["kernels"][0]["counters"];
    let both = counters["fma"].as_u64().unwrap() + counters["tensor_fma"].as_u64().unwrap();
    let digits: String = said.replace(',', "");
    assert!(digits.contains(&format!(" {both} ")), "{both} is missing in:\n{said}");
}

#[test]
fn results_that_overflow_are_counted_in_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    constant(at, "large.npy", (40, 40), 1e30);
    constant(at, "middling.npy", (40, 40), 300.0);
    constant(at, "small.npy", (40, 40), 1.0);
    for (files, options) in [
        ("large.npy large.npy", ""),
        ("middling.npy middling.npy", "--as f16"),
        ("large.npy large.npy", "--verify"),
        ("middling.npy middling.npy", "--as f16 --verify"),
    ] {
        let line = format!("mul {files} -o d.npy --force --device sim {options}");
        let output = run(at, &line);
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(SUCCESS), "{line}: {errors}");
        let warning = "warning: 1,600 elements of D are NaN or infinite, though all that they are computed from is finite";
        assert!(errors.contains(warning), "{line}: {errors}");
        assert!(!said.contains("error in norm"), "nothing finite was compared:\n{said}");
        assert_eq!(said.contains("verified"), options.contains("--verify"), "{said}");
    }
    // One row of D alone.
    let mut rows = vec![1.0; 1600];
    rows[..40].fill(1e30);
    write_f32(at, "mixed.npy", "(40, 40)", &rows);
    let line = "mul mixed.npy large.npy -o d.npy --force --device sim --verify --json";
    let document: Value = serde_json::from_str(&text(&run(at, line).stdout)).unwrap();
    let warnings = document["warnings"].as_array().unwrap();
    assert!(warnings.len() == 1 && warnings[0].as_str().unwrap().starts_with("40 "), "{document}");
    let said = text(&run(at, line.trim_end_matches(" --json")).stdout);
    assert!(said.contains("error in norm"), "the rest was compared:\n{said}");
    let quiet = run(at, "mul small.npy small.npy -o d.npy --force --device sim --verify");
    assert_eq!(text(&quiet.stderr), "");
    // What an input holds is said of the input.
    constant(at, "infinite.npy", (40, 40), f32::INFINITY);
    let output = run(at, "mul infinite.npy small.npy -o d.npy --force --device sim");
    let errors = text(&output.stderr);
    assert!(
        errors.contains("infinite.npy: 1,600 elements") && !errors.contains("of D"),
        "{errors}"
    );
}

/// What does not take part is not warned of.
#[test]
fn what_is_not_read_may_be_anything() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    constant(at, "x.npy", (2, 2), 1.0);
    constant(at, "nan.npy", (2, 2), f32::NAN);
    let mul = |options: &str| {
        let line = format!("mul {options} -o d.npy --force --device sim");
        let output = run(at, &line);
        assert_eq!(output.status.code(), Some(SUCCESS), "{line}");
        text(&output.stderr)
    };
    assert_eq!(mul("nan.npy x.npy --alpha 0"), "");
    assert_eq!(mul("x.npy x.npy --c nan.npy --beta 0"), "");
    let warning = "regemm: warning: nan.npy: 4 elements are NaN or infinite\n";
    assert_eq!(mul("nan.npy x.npy"), warning);
    assert_eq!(mul("x.npy x.npy --alpha 0 --c nan.npy"), warning);
    write_f32(at, "one.npy", "(2, 2)", &[1.0, f32::NAN, 1.0, 1.0]);
    assert_eq!(mul("one.npy x.npy"), "regemm: warning: one.npy: 1 element is NaN or infinite\n");
}

/// An error of zero would say that the result is right to the last bit.
#[test]
fn where_nothing_is_finite_no_error_is_stated() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    constant(at, "x.npy", (4, 4), 1.0);
    let mut elements = [f32::NAN; 16];
    write_f32(at, "nan.npy", "(4, 4)", &elements);
    elements[..4].fill(1.0);
    write_f32(at, "row.npy", "(4, 4)", &elements);
    for (file, finite) in [("nan.npy", 0), ("row.npy", 4), ("x.npy", 16)] {
        let line = format!("mul {file} x.npy -o d.npy --force --device sim --verify");
        let document: Value =
            serde_json::from_str(&text(&run(at, &format!("{line} --json")).stdout)).unwrap();
        let comparison = &document["verification"]["comparison"];
        assert_eq!((&comparison["elements"], &comparison["finite"]), (&16.into(), &finite.into()));
        assert_eq!(document["verification"]["pass"], true);
        for error in ["max_ratio", "relative_norm_error"] {
            assert_eq!(comparison[error].is_null(), finite == 0, "{comparison}");
        }
        let said = text(&run(at, &line).stdout);
        let words = match finite {
            0 => "verified 16 elements: none of them is a finite number, so there is no error",
            16 => "verified 16 elements: worst error",
            _ => "verified 16 elements, 4 of them finite: worst error",
        };
        assert!(said.contains(words), "{said}");
    }
    constant(at, "one.npy", (1, 1), 2.0);
    let said = succeed(at, "mul one.npy one.npy -o d.npy --force --device sim --verify");
    assert!(said.contains("verified 1 element: "), "{said}");
}

#[test]
fn factors_that_are_infinite_or_zero_in_the_type_are_refused() {
    let folder = sample();
    let at = folder.path();
    let refused = |options: &str, words: &[&str]| {
        fail(at, &format!("mul a.npy b.npy -o d.npy --device sim {options}"), USAGE, words);
    };
    refused("--alpha 1e39", &["--alpha 1e39", "infinite in f32"]);
    refused("--alpha=-1e300", &["--alpha -1e300", "infinite in f32"]);
    refused("--alpha 1e-50", &["--alpha 1e-50", "zero in f32", "or 0"]);
    for (number, words) in [("1e400", "is too large for any type"), ("1e-400", "is too small")] {
        let output = run(at, &format!("mul a.npy b.npy -o d.npy --device sim --alpha {number}"));
        assert_eq!(output.status.code(), Some(USAGE));
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
    write_f32(at, "c.npy", "(2, 2)", &[1.0; 4]);
    refused("--c c.npy --beta 1e39", &["--beta 1e39", "infinite in f32"]);
    let slope = "--activation leaky-relu --leaky-slope 1e39";
    refused(slope, &["--leaky-slope 1e39", "infinite in f32"]);
    refused("--c c.npy --beta=-1e-60", &["--beta -1e-60", "zero in f32"]);
    // What f32 holds less exactly it still holds, and an infinity that is meant is taken.
    succeed(at, "mul a.npy b.npy -o d.npy --device sim --force --alpha 1e-44");
    succeed(at, "mul a.npy b.npy -o d.npy --device sim --force --alpha 0");
    succeed(at, "mul a.npy b.npy -o d.npy --device sim --force --alpha inf");
}

/// clap's own test for a negative number knows neither signs of exponents nor numbers without a digit before the point.
#[test]
fn negative_factors_are_taken_in_every_form() {
    let folder = sample();
    write_f32(folder.path(), "c.npy", "(2, 2)", &[1.0; 4]);
    for (form, value) in [("-25e-2", -0.25), ("-.5", -0.5), ("-1e1", -10.0)] {
        succeed(folder.path(), &format!("mul a.npy b.npy -o d.npy --force --alpha {form}"));
        assert_eq!(d(&folder), [4.0, -1.0, 10.0, -1.0].map(|element| element * value), "{form}");
        let line = format!("mul a.npy b.npy -o d.npy --force --c c.npy --beta {form}");
        succeed(folder.path(), &line);
        assert_eq!(d(&folder), [4.0, -1.0, 10.0, -1.0].map(|element| element + value), "{form}");
        let slope = format!("--activation leaky-relu --leaky-slope {form}");
        succeed(folder.path(), &format!("mul a.npy b.npy -o d.npy --force {slope}"));
        assert_eq!(d(&folder), [4.0, -value, 10.0, -value], "{form}");
    }
    succeed(folder.path(), "mul a.npy b.npy -o d.npy --force --alpha -inf");
    let infinite = f32::INFINITY;
    assert_eq!(d(&folder), [-infinite, infinite, -infinite, infinite]);
}
