//! What files may look like, and what is wrong with them.

use crate::harness::*;
use std::fs;
use std::process::{Command, Stdio};

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
        ("complex", descr("'<c8'", 8), &["'<c8'", "x.real.astype(np.float32)"]),
        ("bfloat16", descr("'<V2'", 2), &["bfloat16", "x.astype(np.float32)", "--as bf16"]),
        ("bfloat16-plain", descr("'|V2'", 2), &["'|V2'", "--as bf16"]),
        ("void", descr("'|V4'", 4), &["'|V4'", "only float32"]),
        ("longdouble", descr("'<f16'", 16), &["'<f16'", "x.astype(np.float32)"]),
        ("object", descr("'|O'", 8), &["pickled", "x.astype"]),
        ("record", descr("[('x', '<f4'), ('y', '<f4')]", 8), &["no plain numbers"]),
        ("huge", npy(1, "'<f4'", false, "(4294967296, 4294967296)", &[]), &["impossible shape"]),
        ("large", npy(1, "'<f4'", false, "(1000000, 1000000)", &[]), &["truncated"]),
        ("garbled", npy(1, "'<f4", false, "(2, 3)", &[]), &["damaged"]),
        ("no-shape", npy(1, "'<f4'", false, "'no'", &[]), &["damaged"]),
        ("deep", npy(2, &"(".repeat(30_000), false, "(2, 3)", &[]), &["no plain numbers"]),
        (
            "version9",
            npy(9, "'<f4'", false, "(2, 3)", &[0; 24]),
            &["damaged", "version 9", "1 to 3"],
        ),
        ("version88", b"\x93NUMPYX'X'{'descr'".to_vec(), &["damaged", "version 88"]),
        ("1d", npy(1, "'<f4'", false, "(3,)", &[0; 12]), &["1 dimension [3]", "x[None, :]"]),
        ("0d", npy(1, "'<f4'", false, "()", &[0; 4]), &["0 dimensions"]),
        ("4d", npy(1, "'<f4'", false, "(1, 1, 2, 3)", &[0; 24]), &["4 dimensions [1, 1, 2, 3]"]),
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
    // Three dimensions are a batch, and rows of a matrix one bias for each product.
    fail(folder.path(), "mul a.npy b.npy -o d.npy --c cube.npy", FILE, &["cube.npy", "is 2 x 1"]);
    fail(
        folder.path(),
        "mul a.npy b.npy -o d.npy --bias cube.npy",
        FILE,
        &["cube.npy", "[2, 2, 1]", "x.ravel()"],
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
    let line = "mul f64.npy f64.npy -o d.npy --results f32";
    fail(folder.path(), line, USAGE, &["--results", "float64"]);
}
