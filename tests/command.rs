//! The command `regemm` as scripts and people meet it, on the simulator.
//!
//! Input files are written byte by byte, so that the reader is tested against the format and not against its own writer.
//!
//! | theme | tests |
//! |---|---|
//! | results | `mul_*` |
//! | what files may look like | `reads_*` |
//! | what is wrong with an input | `rejects_*` |
//! | nothing half-written stays behind | `output_*` |
//! | the other subcommands | `ladder_*`, `verify_*`, `info_*` |
//! | scripts | `json_*`, `exit_*`, `pipes_*` |

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SUCCESS: i32 = 0;
const VERIFICATION: i32 = 1;
const USAGE: i32 = 2;
const FILE: i32 = 3;
const DEVICE: i32 = 4;
const INTERRUPTED: i32 = 130;

/// The command with no library path that could lead to a driver, in a folder of its own.
fn regemm(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regemm"));
    command.current_dir(folder).env("LD_LIBRARY_PATH", "").env("CUDA_VISIBLE_DEVICES", "");
    command
}

/// Runs a command line; words are separated by blanks.
fn run(folder: &Path, line: &str) -> Output {
    regemm(folder).args(line.split_whitespace()).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[track_caller]
fn succeed(folder: &Path, line: &str) -> String {
    let output = run(folder, line);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(SUCCESS), "regemm {line}: {stderr}");
    text(&output.stdout)
}

/// Runs a command line that must fail with this code, say one line on standard error that holds all these words, and leave
/// no new file behind.
#[track_caller]
fn fail(folder: &Path, line: &str, code: i32, words: &[&str]) {
    let before = listing(folder);
    let output = run(folder, line);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "regemm {line}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "regemm {line}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "regemm {line}: `{word}` is missing in: {stderr}");
    }
    assert_eq!(text(&output.stdout), "", "regemm {line}");
    assert_eq!(listing(folder), before, "regemm {line}");
}

/// Names and lengths of the files in a folder.
fn listing(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| (entry.path(), entry.metadata().map_or(0, |metadata| metadata.len())))
        .collect();
    files.sort();
    files
}

/// A .npy file of the given version: magic, header length, a header padded with blanks to 64 bytes, data.
fn npy(version: u8, descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let dict = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}");
    let prefix = if version == 1 { 10 } else { 12 };
    let length = (prefix + dict.len() + 1).next_multiple_of(64) - prefix;
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((length as u16).to_le_bytes()),
        _ => bytes.extend((length as u32).to_le_bytes()),
    }
    bytes.extend(format!("{dict:<width$}\n", width = length - 1).bytes());
    bytes.extend(data);
    bytes
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Writes a little-endian float32 matrix in C order.
fn write_f32(folder: &Path, name: &str, shape: &str, values: &[f32]) {
    fs::write(folder.join(name), npy(1, "'<f4'", false, shape, &f32s(values))).expect("written");
}

/// A folder with A = [[1, 2, 3], [4, 5, 6]] and B = [[1, 0], [0, 1], [1, -1]], so that A B = [[4, -1], [10, -1]].
fn sample() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write_f32(folder.path(), "a.npy", "(2, 3)", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    write_f32(folder.path(), "b.npy", "(3, 2)", &[1.0, 0.0, 0.0, 1.0, 1.0, -1.0]);
    folder
}

/// Checks the header of a little-endian float32 matrix in C order and gives its elements.
fn read_f32(path: &Path, shape: &str) -> Vec<f32> {
    let bytes = fs::read(path).expect("the output exists");
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    // NumPy reads the shape with and without a comma at its end.
    let header = text(&bytes[10..10 + length]).replace(", )", ")");
    for part in ["'<f4'", "'fortran_order': False", &format!("'shape': {shape}")] {
        assert!(header.contains(part), "{header}");
    }
    bytes[10 + length..]
        .chunks(4)
        .map(|chunk| f32::from_le_bytes(chunk.try_into().expect("whole elements")))
        .collect()
}

/// The matrix in `d.npy`, which must be 2 x 2.
fn d(folder: &TempDir) -> Vec<f32> {
    read_f32(&folder.path().join("d.npy"), "(2, 2)")
}

// Results.

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
    assert!(stderr.contains("a.npy: 1 elements are infinite as f16"), "{stderr}");
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
}

// What files may look like.

#[test]
fn reads_fortran_order_big_endian_and_later_versions() {
    let folder = sample();
    // A and B column by column.
    let a = [1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0];
    let big: Vec<u8> = a.iter().flat_map(|value| value.to_be_bytes()).collect();
    for (name, bytes) in [
        ("fortran", npy(1, "'<f4'", true, "(2, 3)", &f32s(&a))),
        ("big", npy(1, "'>f4'", true, "(2, 3)", &big)),
        ("version2", npy(2, "'<f4'", true, "(2, 3)", &f32s(&a))),
        ("version3", npy(3, "'<f4'", true, "(2, 3)", &f32s(&a))),
    ] {
        fs::write(folder.path().join(name), bytes).unwrap();
        succeed(folder.path(), &format!("mul {name} b.npy -o d.npy --force"));
        assert_eq!(d(&folder), [4.0, -1.0, 10.0, -1.0], "{name}");
    }
}

#[test]
fn reads_and_writes_f64_and_f16() {
    let folder = tempfile::tempdir().unwrap();
    let third: Vec<u8> = (1.0f64 / 3.0).to_be_bytes().to_vec();
    fs::write(folder.path().join("x.npy"), npy(1, "'>f8'", false, "(1, 1)", &third)).unwrap();
    let three: Vec<u8> = 3.0f64.to_le_bytes().to_vec();
    fs::write(folder.path().join("y.npy"), npy(1, "'<f8'", false, "(1, 1)", &three)).unwrap();
    let said = succeed(folder.path(), "mul x.npy y.npy -o d.npy --verify");
    assert!(said.contains("f64"), "{said}");
    let d = fs::read(folder.path().join("d.npy")).unwrap();
    assert!(text(&d[10..64]).contains("'<f8'"));
    assert!(d.ends_with(&1.0f64.to_le_bytes()));

    // 1.5 and 2 in binary16, most significant byte first.
    fs::write(folder.path().join("x.npy"), npy(1, "'>f2'", false, "(1, 1)", &[0x3e, 0x00]))
        .unwrap();
    fs::write(folder.path().join("y.npy"), npy(1, "'<f2'", false, "(1, 1)", &[0x00, 0x40]))
        .unwrap();
    succeed(folder.path(), "mul x.npy y.npy -o h.npy --verify");
    let h = fs::read(folder.path().join("h.npy")).unwrap();
    assert!(text(&h[10..64]).contains("'<f2'"));
    assert!(h.ends_with(&[0x00, 0x42]), "3 in binary16");
}

#[test]
fn reads_from_a_pipe() {
    let folder = sample();
    let file = fs::File::open(folder.path().join("a.npy")).unwrap();
    let mut cat = Command::new("cat").stdin(file).stdout(Stdio::piped()).spawn().unwrap();
    let status = regemm(folder.path())
        .args(["mul", "/dev/stdin", "b.npy", "-o", "d.npy"])
        .stdin(cat.stdout.take().unwrap())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(cat.wait().unwrap().success() && status.success());
    assert_eq!(d(&folder), [4.0, -1.0, 10.0, -1.0]);
}

// What is wrong with an input.

#[test]
fn rejects_files_that_are_no_matrices() {
    let folder = sample();
    let good = fs::read(folder.path().join("a.npy")).unwrap();
    let with = |extra: &[u8]| [&good[..], extra].concat();
    let descr = |descr: &str, size: usize| npy(1, descr, false, "(2, 3)", &vec![0; 6 * size]);
    let cases: &[(&str, Vec<u8>, &[&str])] = &[
        ("empty", vec![], &["is empty"]),
        ("text", b"1 2 3\n4 5 6\n".to_vec(), &["not a NumPy file", "np.save"]),
        ("short", b"\x93NU".to_vec(), &["not a NumPy file"]),
        ("npz", b"PK\x03\x04 and so on".to_vec(), &[".npz archive", "np.save"]),
        ("truncated", good[..good.len() - 1].to_vec(), &["truncated", "23 of 24 bytes"]),
        ("half-header", good[..40].to_vec(), &["truncated", "header"]),
        ("only-magic", good[..8].to_vec(), &["truncated", "header"]),
        ("trailing", with(b"!"), &["1 bytes follow the array"]),
        ("two-arrays", with(&good), &["follow the array"]),
        ("int64", descr("'<i8'", 8), &["'<i8'", "x.astype(np.float32)"]),
        ("complex", descr("'<c8'", 8), &["'<c8'", "x.astype(np.float32)"]),
        ("longdouble", descr("'<f16'", 16), &["'<f16'", "x.astype(np.float32)"]),
        ("object", descr("'|O'", 8), &["pickled", "x.astype"]),
        ("record", descr("[('x', '<f4'), ('y', '<f4')]", 8), &["no plain numbers"]),
        ("huge", npy(1, "'<f4'", false, "(4294967296, 4294967296)", &[]), &["impossible shape"]),
        ("large", npy(1, "'<f4'", false, "(1000000, 1000000)", &[]), &["truncated"]),
        ("garbled", npy(1, "'<f4", false, "(2, 3)", &[]), &["damaged"]),
        ("no-shape", npy(1, "'<f4'", false, "'no'", &[]), &["damaged"]),
        ("deep", npy(2, &"(".repeat(30_000), false, "(2, 3)", &[]), &["no plain numbers"]),
        ("version9", npy(9, "'<f4'", false, "(2, 3)", &[0; 24]), &["damaged"]),
        ("1d", npy(1, "'<f4'", false, "(3,)", &[0; 12]), &["1 dimensions", "x[None, :]"]),
        ("0d", npy(1, "'<f4'", false, "()", &[0; 4]), &["0 dimensions"]),
        ("3d", npy(1, "'<f4'", false, "(1, 2, 3)", &[0; 24]), &["3 dimensions [1, 2, 3]"]),
        ("claims-4-gigabytes", b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), &["damaged"]),
    ];
    for (name, bytes, words) in cases {
        fs::write(folder.path().join(name), bytes).unwrap();
        let words = [&[*name], *words].concat();
        fail(folder.path(), &format!("mul {name} b.npy -o d.npy"), FILE, &words);
        fail(folder.path(), &format!("mul a.npy {name} -o d.npy"), FILE, &words);
    }
}

#[test]
fn rejects_paths_that_lead_nowhere() {
    let folder = sample();
    fail(folder.path(), "mul none.npy b.npy -o d.npy", FILE, &["none.npy", "no such file"]);
    fail(folder.path(), "mul a.npy none.npy -o d.npy", FILE, &["none.npy", "no such file"]);
    fail(folder.path(), "mul . b.npy -o d.npy", FILE, &[".: is a folder"]);
    fail(folder.path(), "mul a.npy/x b.npy -o d.npy", FILE, &["a.npy/x: cannot be opened"]);
}

#[test]
fn rejects_operands_that_do_not_fit() {
    let folder = sample();
    write_f32(folder.path(), "c.npy", "(2, 3)", &[0.0; 6]);
    write_f32(folder.path(), "cube.npy", "(2, 2, 1)", &[0.0; 4]);
    write_f32(folder.path(), "square.npy", "(2, 2)", &[0.0; 4]);
    let doubles = npy(1, "'<f8'", false, "(3, 2)", &[0; 48]);
    fs::write(folder.path().join("f64.npy"), doubles).unwrap();
    fail(folder.path(), "mul a.npy a.npy -o d.npy", FILE, &["a.npy", "is 2 x 3", "3 rows"]);
    fail(folder.path(), "mul a.npy b.npy -o d.npy --c c.npy", FILE, &["c.npy", "2 x 3", "2 x 2"]);
    fail(folder.path(), "mul a.npy b.npy -o d.npy --c cube.npy", FILE, &["cube.npy", "3 dim"]);
    fail(
        folder.path(),
        "mul a.npy b.npy -o d.npy --bias square.npy",
        FILE,
        &["square.npy", "[2, 2]", "x.ravel()"],
    );
    fail(
        folder.path(),
        "mul a.npy f64.npy -o d.npy",
        FILE,
        &["f64.npy", "float64", "a.npy", "x.astype(np.float32)"],
    );
    fail(folder.path(), "mul f64.npy b.npy -o d.npy", FILE, &["x.astype(np.float64)"]);
    write_f32(folder.path(), "c.npy", "(2, 2)", &[0.0; 4]);
    fail(folder.path(), "mul f64.npy f64.npy -o d.npy --as bf16", USAGE, &["--as", "float64"]);
}

// Nothing half-written stays behind.

#[test]
fn output_that_exists_is_kept_without_force() {
    let folder = sample();
    fs::write(folder.path().join("d.npy"), "precious").unwrap();
    fail(folder.path(), "mul a.npy b.npy -o d.npy", FILE, &["d.npy", "exists", "--force"]);
    assert_eq!(fs::read(folder.path().join("d.npy")).unwrap(), b"precious");
    succeed(folder.path(), "mul a.npy b.npy -o d.npy --force");
    assert_eq!(d(&folder), [4.0, -1.0, 10.0, -1.0]);
}

#[test]
fn output_that_exists_survives_every_failure() {
    let folder = sample();
    fs::write(folder.path().join("d.npy"), "precious").unwrap();
    fail(folder.path(), "mul a.npy a.npy -o d.npy --force", FILE, &["a.npy"]);
    fail(folder.path(), "mul a.npy none.npy -o d.npy --force", FILE, &["none.npy"]);
    fail(folder.path(), "mul a.npy b.npy -o d.npy --force --device cuda:0", DEVICE, &["driver"]);
    fail(folder.path(), "mul a.npy b.npy -o d.npy --force --kernel nope", USAGE, &["nope"]);
    assert_eq!(fs::read(folder.path().join("d.npy")).unwrap(), b"precious");
}

#[test]
fn output_may_replace_an_input_only_when_forced() {
    let folder = sample();
    write_f32(folder.path(), "c.npy", "(2, 2)", &[1.0; 4]);
    fail(folder.path(), "mul a.npy b.npy -o ./a.npy", FILE, &["a.npy", "is an input", "--force"]);
    succeed(folder.path(), "mul a.npy b.npy --c c.npy -o c.npy --force");
    let sums = read_f32(&folder.path().join("c.npy"), "(2, 2)");
    assert_eq!(sums, [5.0, 0.0, 11.0, 0.0]);
}

#[test]
fn output_needs_a_folder_that_can_be_written() {
    let folder = sample();
    fail(folder.path(), "mul a.npy b.npy -o no/d.npy", FILE, &["no/d.npy", "no does not exist"]);
    fail(folder.path(), "mul a.npy b.npy -o .", FILE, &["is a folder"]);
    fail(folder.path(), "mul a.npy b.npy -o a.npy/d.npy", FILE, &["a.npy/d.npy"]);
    // /proc refuses new files even to the superuser.
    fail(folder.path(), "mul a.npy b.npy -o /proc/d.npy", FILE, &["/proc/d.npy", "/proc"]);
}

#[test]
fn output_through_a_link_replaces_what_is_behind_it() {
    let folder = sample();
    let elsewhere = tempfile::tempdir().unwrap();
    let behind = elsewhere.path().join("behind.npy");
    fs::write(&behind, "old").unwrap();
    std::os::unix::fs::symlink(&behind, folder.path().join("d.npy")).unwrap();
    fail(folder.path(), "mul a.npy b.npy -o d.npy", FILE, &["exists"]);
    succeed(folder.path(), "mul a.npy b.npy -o d.npy --force");
    assert!(folder.path().join("d.npy").is_symlink());
    assert_eq!(read_f32(&behind, "(2, 2)"), [4.0, -1.0, 10.0, -1.0]);
    assert_eq!(listing(elsewhere.path()).len(), 1);
}

#[test]
fn output_to_a_full_disk_fails_and_leaves_nothing() {
    let folder = sample();
    fail(folder.path(), "mul a.npy b.npy -o /dev/full", FILE, &["/dev/full", "No space left"]);
    // A limit on the size of files stops a write in its middle, as a full disk does.
    write_f32(folder.path(), "tall.npy", "(1000, 1)", &[1.0; 1000]);
    write_f32(folder.path(), "wide.npy", "(1, 1000)", &[1.0; 1000]);
    let before = listing(folder.path());
    let output = Command::new("sh")
        .arg("-c")
        .arg(r#"ulimit -f 100; exec "$0" mul tall.npy wide.npy -o d.npy"#)
        .arg(env!("CARGO_BIN_EXE_regemm"))
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(FILE), "{stderr}");
    assert!(stderr.contains("d.npy: cannot be written") && stderr.contains("ulimit"), "{stderr}");
    assert_eq!(listing(folder.path()), before);
}

#[test]
fn output_may_be_a_device() {
    let folder = sample();
    succeed(folder.path(), "mul a.npy b.npy -o /dev/null");
    use std::os::unix::fs::FileTypeExt;
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn output_has_the_permissions_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = sample();
    succeed(folder.path(), "mul a.npy b.npy -o d.npy");
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("d.npy"), mode("a.npy"));
}

/// Starts a product of a `size x size` matrix with itself into `d.npy`, and waits until the unfinished file is there.
fn start_product(folder: &Path, size: usize) -> Child {
    write_f32(folder, "x.npy", &format!("({size}, {size})"), &vec![1.0; size * size]);
    let mut child = regemm(folder)
        .args(["mul", "x.npy", "x.npy", "-o", "d.npy", "--device", "sim"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while listing(folder).len() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        assert!(start.elapsed() < Duration::from_secs(60), "no unfinished file appeared");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

#[test]
fn output_of_an_interrupted_run_is_removed() {
    for signal in ["INT", "TERM"] {
        let folder = tempfile::tempdir().unwrap();
        // Many seconds of work.
        let mut child = start_product(folder.path(), 1500);
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(INTERRUPTED));
        assert_eq!(listing(folder.path()).len(), 1, "SIG{signal} left something behind");
    }
}

#[test]
fn output_that_appears_meanwhile_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let child = start_product(folder.path(), 500);
    fs::write(folder.path().join("d.npy"), "precious").unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(FILE), "{stderr}");
    assert!(stderr.contains("d.npy: was created by someone else"), "{stderr}");
    assert_eq!(fs::read(folder.path().join("d.npy")).unwrap(), b"precious");
    assert_eq!(listing(folder.path()).len(), 2);
}

// The other subcommands.

#[test]
fn ladder_counts_on_the_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let said = succeed(folder.path(), "ladder --device sim --sizes 64 --kernels naive,tiled16");
    for part in ["64 x 64 x 64", "524,288", "32,768", "16.00 x", "tiled16_f32"] {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    assert!(!said.contains("GFLOP/s"), "the simulator gives no speed:\n{said}");
}

#[test]
fn ladder_takes_every_type_and_odd_sizes() {
    let folder = tempfile::tempdir().unwrap();
    for dtype in ["f32", "f64", "f16", "bf16"] {
        let line = format!("ladder --device sim --sizes 17,5x33x70 --dtype {dtype} --json");
        let document: Value = serde_json::from_str(&succeed(folder.path(), &line)).unwrap();
        let results = document["results"].as_array().unwrap();
        assert_eq!((results.len(), &results[1]["k"]), (2, &Value::from(70)));
        let kernels = results[1]["kernels"].as_array().unwrap();
        assert!(kernels.len() >= 5);
        for kernel in kernels {
            assert_eq!(kernel["verification"]["pass"], true, "{kernel}");
            assert!(kernel["seconds"].is_null() && kernel["gflops"].is_null());
            assert!(kernel["counters"]["fma"].as_u64() >= Some(5 * 33 * 70));
        }
    }
}

#[test]
fn ladder_at_256_is_quick() {
    let folder = tempfile::tempdir().unwrap();
    let start = Instant::now();
    succeed(folder.path(), "ladder --device sim");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn verify_repeats_from_its_seed() {
    let folder = tempfile::tempdir().unwrap();
    let line = "verify --device sim --cases 6 --seed 11 --max-size 40 --json";
    let first = succeed(folder.path(), line);
    assert_eq!(first, succeed(folder.path(), line));
    assert_ne!(first, succeed(folder.path(), &line.replace("11", "12")));
    let document: Value = serde_json::from_str(&first).unwrap();
    assert_eq!((&document["pass"], &document["seed"]), (&true.into(), &11.into()));
    let cases = |dtype: &str| -> u64 {
        let kernels = document["kernels"].as_array().unwrap();
        let naive = |kernel: &&Value| kernel["kernel"] == format!("naive_{dtype}");
        kernels.iter().find(naive).and_then(|kernel| kernel["cases"].as_u64()).unwrap()
    };
    assert_eq!(["f32", "f64", "f16", "bf16"].map(cases).iter().sum::<u64>(), 6);
}

#[test]
fn verify_runs_a_single_case_again() {
    let folder = tempfile::tempdir().unwrap();
    let line = "verify --device sim --seed 5 --case 3 --dtype f16 --kernel naive,tiled16 --json";
    let document: Value = serde_json::from_str(&succeed(folder.path(), line)).unwrap();
    let kernels = document["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), 2);
    for kernel in kernels {
        assert_eq!((&kernel["cases"], &kernel["dtype"]), (&1.into(), &"f16".into()));
    }
}

#[test]
fn verify_draws_a_seed_and_prints_it() {
    let folder = tempfile::tempdir().unwrap();
    let seed = || {
        let said = succeed(folder.path(), "verify --device sim --cases 1 --max-size 5");
        let seed = said.lines().next().unwrap().rsplit("seed ").next().unwrap();
        seed.parse::<u64>().unwrap()
    };
    assert_ne!(seed(), seed());
}

#[test]
fn info_lists_devices_and_kernels_without_a_driver() {
    let folder = tempfile::tempdir().unwrap();
    let said = succeed(folder.path(), "info --device sim");
    for part in ["sim: SIMT simulator", "naive_f32", "double_buffered_bf16", "128 x 128 x 8"] {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    let document: Value =
        serde_json::from_str(&succeed(folder.path(), "info --device sim --json")).unwrap();
    let devices = document["devices"].as_array().unwrap();
    assert!(devices.iter().any(|device| device["device"] == "sim"));
    // Either there is a GPU, or it says why not.
    assert_eq!(devices.len() == 1, document["without_gpu"].is_string(), "{document}");
    let kernels = document["kernels"].as_array().unwrap();
    assert!(kernels.iter().all(|kernel| kernel["threads"].as_u64() > Some(0)));
    assert!(kernels.len() >= 16);
}

// Scripts.

#[test]
fn json_is_one_document_for_results() {
    let folder = sample();
    let said = succeed(folder.path(), "--json mul a.npy b.npy -o d.npy --verify --device sim");
    let document: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(document["command"], "mul");
    assert_eq!(document["output"], "d.npy");
    assert_eq!(document["shape"], serde_json::json!({ "m": 2, "n": 2, "k": 3 }));
    assert_eq!(document["verification"]["pass"], true);
    assert_eq!(document["counters"]["fma"].as_u64(), Some(16));
    assert_eq!(document["warnings"], serde_json::json!([]));
    assert!(document["seconds"].is_null());
}

#[test]
fn json_is_one_document_for_failures() {
    let folder = sample();
    for (line, code, kind) in [
        ("mul none.npy b.npy -o d.npy --json", FILE, "file"),
        ("mul a.npy b.npy -o d.npy --kernel nope --json", USAGE, "usage"),
        ("mul a.npy b.npy -o d.npy --kernel naive_f64 --json", USAGE, "usage"),
        ("info --device cuda:0 --json", DEVICE, "device"),
    ] {
        let output = run(folder.path(), line);
        assert_eq!(output.status.code(), Some(code), "{line}");
        let document: Value = serde_json::from_slice(&output.stdout).expect(line);
        assert_eq!(document["error"]["kind"], kind, "{line}");
        assert_eq!(document["error"]["exit_code"], code, "{line}");
        let message = document["error"]["message"].as_str().unwrap();
        assert!(text(&output.stderr).contains(message), "{line}");
    }
}

#[test]
fn exit_codes_tell_what_went_wrong() {
    let folder = sample();
    for (line, code) in [
        ("--help", SUCCESS),
        ("--version", SUCCESS),
        ("mul --help", SUCCESS),
        ("", USAGE),
        ("multiply", USAGE),
        ("mul a.npy", USAGE),
        ("mul a.npy b.npy -o d.npy --device gpu", USAGE),
        ("mul a.npy b.npy -o d.npy --activation sine", USAGE),
        ("mul a.npy b.npy -o d.npy --beta 2", USAGE),
        ("mul a.npy b.npy -o d.npy --bias-axis row", USAGE),
        ("mul a.npy b.npy -o d.npy --kernel microkernl", USAGE),
        ("ladder --sizes 0", USAGE),
        ("ladder --kernels naive_f64", USAGE),
        ("verify --case 3", USAGE),
        ("verify --kernel nope", USAGE),
        ("mul none.npy b.npy -o d.npy", FILE),
        ("mul a.npy b.npy -o d.npy --device cuda:0", DEVICE),
    ] {
        let output = run(folder.path(), line);
        assert_eq!(output.status.code(), Some(code), "regemm {line}: {}", text(&output.stderr));
    }
    assert_eq!(listing(folder.path()).len(), 2);
}

#[test]
fn exit_codes_are_documented() {
    let folder = tempfile::tempdir().unwrap();
    let help = succeed(folder.path(), "--help");
    for code in ["0  ", "1  ", "2  ", "3  ", "4  ", "130"] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(code)), "{code}: {help}");
    }
    for subcommand in ["mul", "ladder", "verify", "info"] {
        let help = succeed(folder.path(), &format!("{subcommand} --help"));
        assert!(help.contains("Examples:") && help.contains("--device"), "{help}");
    }
}

#[test]
fn exit_messages_suggest_what_would_be_right() {
    let folder = sample();
    let wrong_kernel = "mul a.npy b.npy -o d.npy --kernel microkernl";
    fail(folder.path(), wrong_kernel, USAGE, &["microkernl", "did you mean", "microkernel"]);
    let no_gpu = "mul a.npy b.npy -o d.npy --device cuda:7";
    fail(folder.path(), no_gpu, DEVICE, &["driver"]);
}

/// `regemm info | head -1`: the reader goes away, and nobody hears of it.
#[test]
fn pipes_that_close_early_are_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    for line in ["info --device sim", "ladder --device sim --sizes 8,8,8", "info --json"] {
        let mut child = regemm(folder.path())
            .args(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(SUCCESS), "{line}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{line}");
    }
}

#[test]
fn pipes_that_cannot_be_written_are_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = regemm(folder.path()).args(["info"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(FILE));
    assert!(text(&output.stderr).contains("standard output"), "{}", text(&output.stderr));
}
