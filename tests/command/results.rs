//! What `mul` computes and says.

use crate::harness::*;
use serde_json::Value;
use std::path::Path;

#[test]
fn mul_writes_the_product_and_says_what_it_did() {
    let folder = sample();
    let said = succeed(folder.path(), "mul a.npy b.npy -o d.npy --device sim --verify");
    assert_eq!(d(&folder), [4.0, -1.0, 10.0, -1.0]);
    for part in [
        "D = 2 x 2",
        "A = 2 x 3",
        "B = 3 x 2",
        "f32",
        "naive_f32: ",
        "16 fused",
        "verified 4",
        "wrote",
    ] {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    assert!(!said.contains("time"), "the simulator gives no times:\n{said}");
    assert_eq!(listing(folder.path()).len(), 3);
}

/// The first product waits for the driver to load the kernel, often for longer than for the product.
#[test]
fn mul_tells_the_time_of_a_product_from_that_of_loading_its_kernel() {
    let folder = sample();
    let on_gpu = |options: &str| {
        let line = format!("mul a.npy b.npy -o d.npy --force {options}");
        let output = with_fake_gpu(folder.path()).args(line.split_whitespace()).output().unwrap();
        assert_eq!(output.status.code(), Some(SUCCESS), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let said = on_gpu("");
    let line = said.lines().find(|line| line.starts_with("time ")).unwrap();
    assert!(line.contains("by the host's clock") && line.contains("the first time"), "{said}");
    let document: Value = serde_json::from_str(&on_gpu("--json")).unwrap();
    for time in ["seconds", "seconds_once_loaded"] {
        assert!(document[time].as_f64().is_some_and(|seconds| seconds > 0.0), "{document}");
    }
}

/// Also where they hold what is no number.
#[test]
fn what_is_multiplied_by_zero_is_not_read_as_the_help_says() {
    let folder = sample();
    write_f32(folder.path(), "nan.npy", "(2, 3)", &[f32::NAN; 6]);
    write_f32(folder.path(), "c.npy", "(2, 2)", &[f32::INFINITY; 4]);
    succeed(folder.path(), "mul nan.npy b.npy -o d.npy --alpha 0 --device sim");
    assert_eq!(d(&folder), [0.0; 4]);
    succeed(folder.path(), "mul a.npy b.npy -o d.npy --force --c c.npy --beta 0 --device sim");
    assert_eq!(d(&folder), [4.0, -1.0, 10.0, -1.0]);
    let help = succeed(folder.path(), "mul --help");
    assert!(help.contains("--alpha 0") && help.contains("--beta 0"), "{help}");
}

#[test]
fn mul_obeys_every_part_of_the_operation() {
    let folder = sample();
    write_f32(folder.path(), "c.npy", "(2, 2)", &[1.0, 1.0, 2.0, 2.0]);
    write_f32(folder.path(), "bias.npy", "(2,)", &[100.0, 200.0]);
    for (options, expected) in [
        ("--alpha -2", [-8.0, 2.0, -20.0, 2.0]),
        ("--c c.npy", [5.0, 0.0, 12.0, 1.0]),
        ("--c c.npy --beta -0.5 --alpha 0", [-0.5, -0.5, -1.0, -1.0]),
        ("--bias bias.npy --bias-axis column", [104.0, 199.0, 110.0, 199.0]),
        ("--bias bias.npy --bias-axis row", [104.0, 99.0, 210.0, 199.0]),
        ("--activation relu", [4.0, 0.0, 10.0, 0.0]),
        ("--activation leaky-relu --leaky-slope 0.25", [4.0, -0.25, 10.0, -0.25]),
        ("--kernel tiled16", [4.0, -1.0, 10.0, -1.0]),
        ("--kernel microkernel_f32", [4.0, -1.0, 10.0, -1.0]),
        ("--as bf16", [4.0, -1.0, 10.0, -1.0]),
        ("--as f16", [4.0, -1.0, 10.0, -1.0]),
    ] {
        let line = format!("mul a.npy b.npy -o d.npy --force --verify --device sim {options}");
        succeed(folder.path(), &line);
        assert_eq!(d(&folder), expected, "{options}");
    }
}

/// Each has a kernel of its own, and says what the library would have chosen otherwise. 1 + 2^-11 is rounded by those
/// that keep 11 bits.
#[test]
fn mul_computes_in_the_precision_that_is_asked_for() {
    let folder = sample();
    let between = 1.0 + 2.0_f32.powi(-11);
    write_f32(folder.path(), "a.npy", "(1, 1)", &[between]);
    write_f32(folder.path(), "b.npy", "(1, 1)", &[1.0]);
    for (precision, kernel, expected) in [
        ("exact", "naive_f32: ", between),
        // Which of them depends on how many multiprocessors there are.
        ("split", "halves", between),
        ("tf32", "tf32_f32: ", 1.0 + 2.0_f32.powi(-10)),
        ("fast", "rounded_f32: ", 1.0),
    ] {
        let options = format!("--device sim --verify --explain --precision {precision}");
        let said = succeed(folder.path(), &format!("mul a.npy b.npy -o d.npy --force {options}"));
        assert_eq!(read_f32(&folder.path().join("d.npy"), "(1, 1)"), [expected], "{precision}");
        assert!(said.contains(kernel), "{said}");
        let otherwise = said.contains("with --precision exact it would be naive_f32: ");
        assert_eq!(otherwise, precision != "exact", "{said}");
    }
}

/// Tensor cores cut off so little that a product of ones shows nothing of it: what shows is the kernel, and by which
/// bound it is verified.
#[test]
fn mul_takes_sums_over_to_f32_where_that_is_asked_for() {
    let folder = sample();
    // More than what tensor cores add up at once.
    let k = 300;
    let ones = vec![1.0; k];
    write_f32(folder.path(), "a.npy", "(1, 300)", &ones);
    write_f32(folder.path(), "b.npy", "(300, 1)", &ones);
    let line =
        "mul a.npy b.npy -o d.npy --force --device sim --as bf16 --results f32 --verify --explain";
    let said = succeed(folder.path(), &format!("{line} --precision promoted"));
    assert_eq!(read_f32(&folder.path().join("d.npy"), "(1, 1)"), [300.0]);
    for part in [
        "bf16_f32: of those that promote their sums: ",
        "computed promoted (precision promoted)",
        "cannot: does not take sums over to f32",
        "verified 1 element: ",
    ] {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    assert!(!said.contains("it would be"), "the choice that is explained was made:\n{said}");
    let line = format!("{line} --precision promoted --kernel warpgroup128");
    let said = succeed(folder.path(), &line);
    assert!(
        said.contains("kernel   warpgroup128_bf16_f32: the kernel that was asked for"),
        "{said}"
    );
    assert!(said.contains("without --kernel it would be "), "{said}");
    let refused = |options: &str, words: &[&str]| {
        let line = "mul a.npy b.npy -o d.npy --force --device sim --precision promoted";
        fail(folder.path(), &format!("{line} {options}"), USAGE, words);
    };
    let products = "f16 or bf16 with results of f32: add --results f32";
    refused("", &["promoted", &format!("{products}, and --as bf16")]);
    refused("--as bf16", &["promoted", products]);
    refused("--as f16 --results f32 --kernel warpgroup", &["warpgroup_f16_f32", "warpgroup128"]);
}

/// Infinities that halves make NaN of, and elements that have no bits beside much larger ones, are what a precision is
/// worth.
#[test]
fn mul_verifies_by_what_a_precision_promises() {
    let folder = sample();
    write_f32(folder.path(), "a.npy", "(1, 2)", &[f32::INFINITY, 1.0]);
    write_f32(folder.path(), "b.npy", "(2, 1)", &[1.0, 1.0]);
    let multiply = |precision: &str| {
        let line = "mul a.npy b.npy -o d.npy --force --device sim --verify --precision";
        succeed(folder.path(), &format!("{line} {precision}"));
    };
    let found = || read_f32(&folder.path().join("d.npy"), "(1, 1)")[0];
    multiply("split");
    assert!(found().is_nan());
    for precision in ["exact", "tf32", "fast", "auto"] {
        multiply(precision);
        assert_eq!(found(), f32::INFINITY, "{precision}");
    }
    write_f32(folder.path(), "a.npy", "(1, 2)", &[1e25, 1e-25]);
    write_f32(folder.path(), "b.npy", "(2, 2)", &[1.0, 0.0, 0.0, 1.0]);
    for (precision, small) in [("exact", 1e-25), ("split", 0.0), ("fast", 0.0)] {
        multiply(precision);
        assert_eq!(read_f32(&folder.path().join("d.npy"), "(1, 2)")[1], small, "{precision}");
    }
}

#[test]
fn mul_infers_the_axis_of_a_bias_or_asks() {
    let folder = sample();
    // D is 2 x 1 with this B.
    write_f32(folder.path(), "v.npy", "(3, 1)", &[1.0, 1.0, 1.0]);
    write_f32(folder.path(), "two.npy", "(2,)", &[10.0, 20.0]);
    write_f32(folder.path(), "one.npy", "(1, 1)", &[0.5]);
    write_f32(folder.path(), "five.npy", "(5,)", &[0.0; 5]);
    let file = folder.path().join("d.npy");
    succeed(folder.path(), "mul a.npy v.npy -o d.npy --bias two.npy");
    assert_eq!(read_f32(&file, "(2, 1)"), [16.0, 35.0]);
    succeed(folder.path(), "mul a.npy v.npy -o d.npy --bias one.npy --force");
    assert_eq!(read_f32(&file, "(2, 1)"), [6.5, 15.5]);
    write_f32(folder.path(), "w.npy", "(1, 3)", &[1.0, 2.0, 3.0]);
    succeed(folder.path(), "mul w.npy v.npy -o d.npy --bias one.npy --force");
    assert_eq!(read_f32(&file, "(1, 1)"), [6.5], "one element runs either way alike");
    let ambiguous = "mul a.npy b.npy -o e.npy --bias two.npy";
    fail(folder.path(), ambiguous, USAGE, &["two.npy", "--bias-axis"]);
    let misfit = "mul a.npy b.npy -o e.npy --bias five.npy";
    fail(folder.path(), misfit, FILE, &["five.npy", "5 elements", "2 columns"]);
    fail(
        folder.path(),
        "mul a.npy v.npy -o e.npy --bias two.npy --bias-axis column",
        FILE,
        &["two.npy", "1 columns"],
    );
}

#[test]
fn mul_rounds_to_the_type_it_is_told_to_compute_in() {
    let folder = tempfile::tempdir().unwrap();
    // 1 + 2^-9 is a float16 but no bfloat16.
    let value = 1.0 + f32::powi(2.0, -9);
    write_f32(folder.path(), "x.npy", "(1, 1)", &[value]);
    write_f32(folder.path(), "one.npy", "(1, 1)", &[1.0]);
    for (options, expected) in [("", value), ("--as f16", value), ("--as bf16", 1.0)] {
        succeed(folder.path(), &format!("mul x.npy one.npy -o d.npy --force --verify {options}"));
        assert_eq!(read_f32(&folder.path().join("d.npy"), "(1, 1)"), [expected], "{options}");
    }
}

#[test]
fn mul_keeps_results_as_they_are_where_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let value = 1.0 + f32::powi(2.0, -7);
    write_f32(folder.path(), "x.npy", "(1, 1)", &[value]);
    // C and the bias are not rounded either.
    write_f32(folder.path(), "c.npy", "(1, 1)", &[f32::powi(2.0, -20)]);
    let line = "mul x.npy x.npy -o d.npy --force --verify --c c.npy --device sim";
    let exact = value * value + f32::powi(2.0, -20);
    for (options, expected, types) in [
        ("--as bf16", 1.0 + f32::powi(2.0, -6), "bf16"),
        ("--as bf16 --results f32", exact, "bf16 with results of f32"),
        ("--as f16 --results f32", exact, "f16 with results of f32"),
        ("--results f32", exact, "f32"),
    ] {
        let said = succeed(folder.path(), &format!("{line} {options}"));
        assert_eq!(read_f32(&folder.path().join("d.npy"), "(1, 1)"), [expected], "{options}");
        assert!(said.contains(&format!("1 x 1, {types}\n")), "{options}:\n{said}");
    }
    // Files of float16 as they are.
    let half = npy(1, "'<f2'", false, "(1, 1)", &0x3c08u16.to_le_bytes());
    std::fs::write(folder.path().join("h.npy"), half).unwrap();
    let line = "mul h.npy h.npy -o d.npy --force --verify --device sim --results f32";
    let said =
        succeed(folder.path(), &format!("{line} --c c.npy --kernel tensor_core64 --explain"));
    assert_eq!(read_f32(&folder.path().join("d.npy"), "(1, 1)"), [exact]);
    assert!(said.contains("tensor_core64_f16_f32"), "{said}");
    fail(folder.path(), &format!("{line} --c h.npy"), FILE, &["h.npy", "float16", "float32"]);
}

#[test]
fn mul_says_what_it_computed_in() {
    let folder = tempfile::tempdir().unwrap();
    let mut a = vec![1.5; 128];
    write_f32(folder.path(), "good.npy", "(1, 128)", &a);
    write_f32(folder.path(), "b.npy", "(128, 1)", &a);
    a[7] = 1e-30;
    write_f32(folder.path(), "wide.npy", "(1, 128)", &a);
    for (file, precision, computed) in [
        ("good.npy", "auto", "split"),
        ("wide.npy", "auto", "exact"),
        ("wide.npy", "split", "split"),
        ("good.npy", "exact", "exact"),
    ] {
        let line = format!("mul {file} b.npy -o d.npy --force --verify --device sim --explain");
        let line = format!("{line} --precision {precision}");
        let document: Value =
            serde_json::from_str(&succeed(folder.path(), &format!("{line} --json"))).unwrap();
        assert_eq!(
            (&document["precision"], &document["computed"]),
            (&precision.into(), &computed.into())
        );
        let weighed = document["weighed"].as_str().unwrap_or_default();
        assert_eq!(weighed.contains("halves_f32 unless"), precision == "auto", "{weighed}");
        if file == "wide.npy" && precision == "auto" {
            let said = succeed(folder.path(), &line);
            assert!(said.contains("computed exact (precision auto)"), "{said}");
            assert!(said.contains(&format!("weighed  {weighed}")), "{said}");
        }
    }
    // What the host decides by itself.
    write_f32(folder.path(), "x.npy", "(1, 1)", &[2.0]);
    let line = "mul x.npy x.npy -o d.npy --force --device sim --precision auto --explain";
    let said = succeed(folder.path(), line);
    assert!(said.contains("computed exact") && said.contains("fewer than 128 products"), "{said}");
}

#[test]
fn verify_knows_results_of_f32() {
    let folder = tempfile::tempdir().unwrap();
    let line = "verify --dtype bf16_f32 --cases 6 --seed 3 --max-size 40 --device sim --json";
    let document: Value = serde_json::from_str(&succeed(folder.path(), line)).unwrap();
    let kernels = document["kernels"].as_array().unwrap();
    assert!(!kernels.is_empty() && document["pass"] == true, "{document}");
    for kernel in kernels {
        assert_eq!((&kernel["dtype"], &kernel["target"]), (&"bf16".into(), &"f32".into()));
    }
}

#[test]
fn mul_computes_with_nan_and_infinity_and_warns() {
    let folder = sample();
    write_f32(folder.path(), "a.npy", "(2, 3)", &[f32::NAN, 2.0, 3.0, f32::INFINITY, 5.0, 6.0]);
    let output = run(folder.path(), "mul a.npy b.npy -o d.npy --verify");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(SUCCESS), "{stderr}");
    assert!(stderr.contains("warning: a.npy: 2 elements are NaN or infinite"), "{stderr}");
    let d = d(&folder);
    assert!(d[0].is_nan() && d[1].is_nan() && d[3].is_nan());
    assert_eq!(d[2], f32::INFINITY);
}

/// Every kernel is right, so the way to a failed verification is a product that cannot be judged.
#[test]
fn mul_does_not_write_what_it_could_not_verify() {
    let folder = tempfile::tempdir().unwrap();
    write_f32(folder.path(), "x.npy", "(1, 2)", &[1e30, -1e30]);
    write_f32(folder.path(), "y.npy", "(2, 1)", &[1e30, 1e30]);
    let output = run(folder.path(), "mul x.npy y.npy -o d.npy --verify --json");
    assert_eq!(output.status.code(), Some(VERIFICATION), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("overflow"), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["verification"]["pass"], false);
    assert!(document["output"].is_null());
    assert_eq!(listing(folder.path()).len(), 2);
    succeed(folder.path(), "mul x.npy y.npy -o d.npy");
}

#[test]
fn mul_warns_where_conversion_overflows() {
    let folder = sample();
    write_f32(folder.path(), "a.npy", "(2, 3)", &[1e6, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let output = run(folder.path(), "mul a.npy b.npy -o d.npy --as f16");
    let stderr = text(&output.stderr);
    assert!(stderr.contains("a.npy: 1 element is infinite as f16"), "{stderr}");
}

#[test]
fn mul_takes_empty_matrices() {
    let folder = tempfile::tempdir().unwrap();
    write_f32(folder.path(), "a.npy", "(2, 0)", &[]);
    write_f32(folder.path(), "b.npy", "(0, 2)", &[]);
    write_f32(folder.path(), "none.npy", "(0, 0)", &[]);
    succeed(folder.path(), "mul a.npy b.npy -o d.npy --verify");
    assert_eq!(d(&folder), [0.0; 4]);
    succeed(folder.path(), "mul b.npy a.npy -o e.npy --verify");
    assert_eq!(read_f32(&folder.path().join("e.npy"), "(0, 0)"), [0.0; 0]);
}

#[test]
fn mul_multiplies_the_sample_of_the_repository() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data");
    let [a, b, bias] = ["a.npy", "b.npy", "bias.npy"].map(|name| data.join(name));
    let output = regemm(folder.path())
        .arg("mul")
        .args([&a, &b])
        .args(["-o", "d.npy", "--activation", "gelu-erf", "--verify", "--bias"])
        .arg(&bias)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(SUCCESS), "{}", text(&output.stderr));
    assert_eq!(read_f32(&folder.path().join("d.npy"), "(200, 250)").len(), 50_000);
    // The first command that a newcomer tries, and what the README shows of it.
    let line = format!("mul {} {} -o first.npy --verify --device sim", a.display(), b.display());
    let said = succeed(folder.path(), &line).replace("first.npy", "d.npy");
    let readme = include_str!("../../README.md");
    assert!(readme.contains(&format!("```text\n{said}```")), "the README lacks:\n{said}");
}

#[test]
fn mul_takes_files_that_hold_transposed_matrices() {
    let folder = sample();
    write_f32(folder.path(), "at.npy", "(3, 2)", &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    write_f32(folder.path(), "bt.npy", "(2, 3)", &[1.0, 0.0, 1.0, 0.0, 1.0, -1.0]);
    for (files, layouts) in [
        ("a.npy bt.npy --transpose-b", "nt"),
        ("at.npy b.npy --transpose-a", "tn"),
        ("at.npy bt.npy --transpose-a --transpose-b", "tt"),
    ] {
        for kernel in ["", " --kernel tiled16"] {
            let line =
                format!("mul {files} -o d.npy --force --verify --explain --device sim{kernel}");
            let said = succeed(folder.path(), &line);
            assert_eq!(d(&folder), [4.0, -1.0, 10.0, -1.0], "{line}");
            let name = if kernel.is_empty() { "naive" } else { "tiled16" };
            for part in [format!("kernel   {name}_{layouts}_f32: "), "(transposed)".to_owned()] {
                assert!(said.contains(&part), "`{part}` is missing in:\n{said}");
            }
            assert!(!said.contains("microkernel"), "no kernel for these factors:\n{said}");
        }
    }
    let refused = "mul at.npy b.npy -o e.npy --transpose-a --device sim --kernel microkernel";
    fail(folder.path(), refused, USAGE, &["microkernel_f32", "`tn`", "such as naive_tn_f32"]);
    let wrong = "mul a.npy b.npy -o e.npy --transpose-a --device sim";
    fail(folder.path(), wrong, FILE, &["b.npy", "3 x 2", "2 rows", "3 x 2 when transposed"]);
}

#[test]
fn mul_takes_batches_and_shares_what_is_none() {
    let folder = sample();
    let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let twice: Vec<f32> =
        a.iter().chain(&a).enumerate().map(|(i, x)| x * (1 + i / 6) as f32).collect();
    write_f32(folder.path(), "as.npy", "(2, 2, 3)", &twice);
    write_f32(folder.path(), "cs.npy", "(2, 2, 2)", &[1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
    write_f32(folder.path(), "c.npy", "(2, 2)", &[1.0, 2.0, 3.0, 4.0]);
    write_f32(folder.path(), "bias.npy", "(2,)", &[100.0, 200.0]);
    write_f32(folder.path(), "biases.npy", "(2, 2)", &[0.0, 10.0, 20.0, 30.0]);
    let batch = |folder: &Path| read_f32(&folder.join("d.npy"), "(2, 2, 2)");
    for (options, expected) in [
        ("", [4.0, -1.0, 10.0, -1.0, 8.0, -2.0, 20.0, -2.0]),
        ("--c cs.npy", [5.0, 0.0, 11.0, 0.0, 10.0, 0.0, 22.0, 0.0]),
        ("--c c.npy", [5.0, 1.0, 13.0, 3.0, 9.0, 0.0, 23.0, 2.0]),
        (
            "--bias bias.npy --bias-axis column",
            [104.0, 199.0, 110.0, 199.0, 108.0, 198.0, 120.0, 198.0],
        ),
        ("--bias biases.npy --bias-axis column", [4.0, 9.0, 10.0, 9.0, 28.0, 28.0, 40.0, 28.0]),
        ("--as bf16 --kernel tiled32", [4.0, -1.0, 10.0, -1.0, 8.0, -2.0, 20.0, -2.0]),
    ] {
        let line = format!("mul as.npy b.npy -o d.npy --force --verify --device sim {options}");
        let said = succeed(folder.path(), &line);
        assert_eq!(batch(folder.path()), expected, "{options}");
        assert!(said.contains("D = 2 times 2 x 2") && said.contains("verified 8"), "{said}");
    }
    let line = "mul as.npy b.npy -o d.npy --force --device sim --json";
    let said: Value = serde_json::from_str(&succeed(folder.path(), line)).unwrap();
    assert_eq!((&said["batch"], &said["layouts"]), (&Value::from(2), &Value::from("nn")));

    write_f32(folder.path(), "three.npy", "(3, 3, 2)", &[0.0; 18]);
    let line = "mul as.npy three.npy -o e.npy --device sim";
    fail(folder.path(), line, FILE, &["three.npy", "a batch of 3", "as.npy is one of 2"]);
    write_f32(folder.path(), "none.npy", "(0, 2, 3)", &[]);
    succeed(folder.path(), "mul none.npy b.npy -o e.npy --verify --device sim");
    assert_eq!(read_f32(&folder.path().join("e.npy"), "(0, 2, 2)"), [0.0; 0]);
}

/// With one column a bias of each product is a single element, and all of them look like one vector.
#[test]
fn mul_takes_a_bias_for_each_product_whatever_its_shape() {
    let folder = sample();
    let twice: Vec<f32> = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].repeat(2);
    write_f32(folder.path(), "as.npy", "(2, 2, 3)", &twice);
    write_f32(folder.path(), "v.npy", "(3, 1)", &[1.0; 3]);
    write_f32(folder.path(), "biases.npy", "(2, 1)", &[100.0, 200.0]);
    write_f32(folder.path(), "bias.npy", "(2,)", &[100.0, 200.0]);
    for (bias, expected) in
        [("biases.npy", [106.0, 115.0, 206.0, 215.0]), ("bias.npy", [106.0, 215.0, 106.0, 215.0])]
    {
        let line = format!("mul as.npy v.npy -o d.npy --force --verify --device sim --bias {bias}");
        succeed(folder.path(), &line);
        assert_eq!(read_f32(&folder.path().join("d.npy"), "(2, 2, 1)"), expected, "{bias}");
    }
    // Without a batch it is one vector, as before, and no matrix, which is what C is.
    write_f32(folder.path(), "c.npy", "(2, 2)", &[1.0, 2.0, 3.0, 4.0]);
    let line = "mul a.npy b.npy -o e.npy --device sim --bias c.npy --bias-axis column";
    fail(folder.path(), line, FILE, &["c.npy", "has shape [2, 2]", "--c"]);
    let line = "mul a.npy v.npy -o d.npy --force --verify --device sim --bias biases.npy";
    succeed(folder.path(), line);
    assert_eq!(read_f32(&folder.path().join("d.npy"), "(2, 1)"), [106.0, 215.0]);
}

#[test]
fn verify_covers_transposed_factors_and_batches() {
    let folder = sample();
    let line = "verify --cases 40 --seed 3 --max-size 20 --dtype f32 --device sim --json";
    let said: Value = serde_json::from_str(&succeed(folder.path(), line)).unwrap();
    let kernels = said["kernels"].as_array().unwrap();
    for name in ["naive", "tiled16", "tiled32"] {
        let cases = |name: &str| {
            let found = kernels.iter().find(|kernel| kernel["kernel"] == name);
            found.map_or(0, |kernel| kernel["cases"].as_u64().unwrap())
        };
        let of_layouts =
            ["", "_nt", "_tn", "_tt"].map(|layouts| cases(&format!("{name}{layouts}_f32")));
        assert_eq!(of_layouts.iter().sum::<u64>(), 40, "{name}");
        assert!(of_layouts.iter().all(|&cases| cases > 0), "{of_layouts:?}");
    }
    let line = "verify --cases 10 --seed 3 --max-size 20 --kernel tiled16_nt --device sim --json";
    let said: Value = serde_json::from_str(&succeed(folder.path(), line)).unwrap();
    let kernels = said["kernels"].as_array().unwrap();
    assert!(!kernels.is_empty());
    assert!(kernels.iter().all(|kernel| kernel["kernel"].as_str().unwrap().contains("_nt_")));
}

#[test]
fn ladders_are_of_row_major_factors_unless_others_are_asked_for() {
    let folder = sample();
    let ladder = succeed(folder.path(), "ladder --sizes 32 --device sim");
    assert!(ladder.contains("tiled16_f32") && !ladder.contains("_nt_"), "{ladder}");
    let others = succeed(folder.path(), "ladder --sizes 20x30x40 --device sim --layouts nt");
    assert!(others.contains("tiled16_nt_f32") && !others.contains("tiled16_f32"), "{others}");
    let refused = "ladder --sizes 20 --device sim --kernels tiled16_nt";
    fail(folder.path(), refused, USAGE, &["tiled16_nt_f32", "`nn`", "such as tiled16_f32"]);
    let traffic = succeed(folder.path(), "traffic --size 64 --kernels tiled16_tt,naive_nt");
    assert!(traffic.contains("tiled16_tt_f32") && traffic.contains("naive_nt_f32"), "{traffic}");
}
