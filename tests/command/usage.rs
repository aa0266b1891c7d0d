//! How options are read, and what is said of those that are wrong.

use crate::harness::*;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// What a command line is told that clap refuses: the first paragraph.
#[track_caller]
fn refused(folder: &Path, line: &str, words: &[&str]) {
    let output = run(folder, line);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(USAGE), "regemm {line}: {errors}");
    for word in words {
        assert!(errors.contains(word), "regemm {line}: `{word}` is missing in: {errors}");
    }
}

#[test]
fn json_is_one_document_for_wrong_usage_too() {
    let folder = sample();
    for line in [
        "--json mul --bogus",
        "mul a.npy b.npy --json",
        "ladder --reps 0 --json",
        "--json multiply",
        "--json",
    ] {
        let output = run(folder.path(), line);
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(USAGE), "{line}: {errors}");
        let document: Value =
            serde_json::from_str(&said).unwrap_or_else(|_| panic!("{line}: {said}"));
        assert_eq!(
            (&document["error"]["kind"], &document["error"]["exit_code"]),
            (&"usage".into(), &2.into())
        );
        let message = document["error"]["message"].as_str().unwrap();
        assert!(!message.is_empty() && errors.contains(message), "{line}: {message}\n{errors}");
        assert!(!message.contains("Usage:") && !message.starts_with("error"), "{message}");
    }
    for line in ["mul --bogus", "mul a.npy b.npy -- --json"] {
        assert_eq!(text(&run(folder.path(), line).stdout), "", "{line}");
    }
    assert!(succeed(folder.path(), "--help --json").contains("Exit codes"));
}

#[test]
fn numbers_are_refused_in_plain_words() {
    let folder = sample();
    let at = folder.path();
    refused(at, "ladder --reps 0", &["must be a whole number from 1"]);
    refused(at, "ladder --seed abc", &["must be a whole number from 0"]);
    for line in ["ladder --seed -1", "verify --seed -1", "tune --seed -1", "accuracy --seed -1"] {
        refused(at, line, &["invalid value '-1' for '--seed", "must be a whole number from 0"]);
    }
    for line in ["ladder --sizes -4", "traffic --size -4", "tune --check -4", "tune --sizes 8,-4"] {
        refused(at, line, &["invalid value '-4' for '--", "numbers from 1 to 2147483647"]);
    }
    for line in
        ["ladder --reps -1", "verify --cases -1", "verify --max-size -1", "accuracy --size -1"]
    {
        refused(at, line, &["invalid value '-1' for '--", "must be a whole number from 1"]);
    }
    // There would be no problem of that number, and so nothing wrong.
    let last = format!("verify --seed 1 --case {}", u64::MAX);
    refused(at, &last, &["must be a whole number from 0 to 9223372036854775806"]);
    refused(at, "mul a.npy b.npy -o d.npy --alpha x", &["must be a number, such as 0.5"]);
    refused(at, "accuracy --sizes 0", &["must be a whole number from 1 to 2147483647"]);
    refused(at, "accuracy --sizes 2147483648", &["must be a whole number from 1 to 2147483647"]);
    // Nothing is allocated for what no kernel could compute.
    let words = ["numbers from 1 to 2147483647"];
    refused(at, "ladder --device sim --sizes 1x1x3000000000 --kernels naive", &words);
    refused(at, "ladder --device sim --sizes 99999999999", &words);
    refused(at, "traffic --formulas --size 4294967296", &words);
    refused(at, "tune --explain 1x2147483648x1", &words);
    refused(at, "accuracy --size 8 --rows 8 --cols 8", &["--size would have no effect"]);
}

#[test]
fn lists_are_said_to_be_lists() {
    let folder = tempfile::tempdir().unwrap();
    for (subcommand, lists) in
        [("ladder", 2), ("verify", 2), ("accuracy", 3), ("tune", 5), ("traffic", 1), ("info", 2)]
    {
        let help = succeed(folder.path(), &format!("{subcommand} --help"));
        assert_eq!(help.matches("comma-separated").count(), lists, "{help}");
    }
}

/// The nearest name of a value is no help to whoever gives two.
#[test]
fn a_list_where_one_value_is_taken_is_said_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    for (line, option) in [
        ("ladder --device sim --dtype f16,f32", "'--dtype <TYPE>'"),
        ("ladder --device sim --layouts nn,nt", "'--layouts <LAYOUTS>'"),
        ("traffic --dtype f16,f32", "'--dtype <TYPE>'"),
        ("occupancy --dtype f16,f32", "'--dtype <TYPE>'"),
    ] {
        refused(folder.path(), line, &[option, "it takes one, not a list"]);
        let errors = text(&run(folder.path(), line).stderr);
        assert!(!errors.contains("similar"), "{errors}");
    }
    for (line, words) in [("ladder --dtype f31", "f32"), ("ladder --layouts nm", "nn, nt, tn, tt")]
    {
        refused(folder.path(), line, &["possible values", words]);
    }
    for subcommand in ["ladder", "traffic", "occupancy"] {
        let help = succeed(folder.path(), &format!("{subcommand} --help"));
        assert!(help.contains("one kind in a run") && help.contains("possible values"), "{help}");
    }
}

/// The ladder of the README is of rungs, and the best kernel of one is seldom the first.
#[test]
fn names_of_rungs_stand_for_all_their_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let names = |line: &str, place: &str, name: &str| -> Vec<String> {
        let document: Value =
            serde_json::from_str(&succeed(at, &format!("{line} --json"))).unwrap();
        let kernels = document.pointer(place).and_then(Value::as_array).unwrap();
        kernels.iter().map(|kernel| kernel[name].as_str().unwrap().to_owned()).collect()
    };
    let of_ladder = |line: &str| {
        let line = format!("ladder --device sim --sizes 16 {line}");
        names(&line, "/results/0/kernels", "kernel")
    };
    let tiled = ["tiled16_f32", "tiled32_f32"];
    assert_eq!(of_ladder("--kernels tiled"), tiled);
    assert_eq!(of_ladder("--kernels tiled --layouts nt"), ["tiled16_nt_f32", "tiled32_nt_f32"]);
    // A name that a rung shares with one of its kernels is the rung's; the kernel has another one.
    let all = of_ladder("--kernels stream_k");
    assert!(all.len() > 1 && all.iter().all(|name| name.starts_with("stream_k")), "{all:?}");
    assert!(all.contains(&"stream_k_bulk_f32".to_owned()), "{all:?}");
    assert_eq!(of_ladder("--kernels stream_k_f32"), ["stream_k_f32"]);
    assert_eq!(
        of_ladder("--kernels tiled32,tiled,naive"),
        ["tiled32_f32", "tiled16_f32", "naive_f32"]
    );
    let skinny = [
        "skinny_rows_f32",
        "skinny_cols_f32",
        "skinny4_cols_f32",
        "skinny8_cols_f32",
        "skinny16_cols_f32",
        "skinny32_cols_f32",
    ];
    assert_eq!(names("occupancy --gpu h200 --kernels skinny", "/kernels", "kernel"), skinny);
    assert_eq!(names("traffic --size 16 --kernels tiled", "/kernels", "kernel"), tiled);
    let verified = names(
        "verify --device sim --seed 1 --cases 2 --max-size 20 --dtype f32 --kernels tiled",
        "/kernels",
        "kernel",
    );
    assert!(verified.len() >= 2 && verified.iter().all(|name| name.starts_with("tiled")));
    let info = names("info --device sim --dtype f32 --kernels tiled", "/kernels", "name");
    assert_eq!(info.len(), 8, "two in four layouts: {info:?}");
    // One that cannot be shown is left out of a rung, but not where it is named.
    let shown = names("traffic --size 16 --dtype f64 --kernels tensor_core", "/kernels", "kernel");
    assert!(!shown.is_empty() && !shown.contains(&"tensor_core_bulk_f64".to_owned()), "{shown:?}");
    let line = "traffic --size 16 --dtype f64 --kernels tensor_core_bulk";
    fail(at, line, USAGE, &["tensor_core_bulk_f64", "leave it out"]);
    let line = "ladder --device sim --dtype bf16_f32 --kernels tiled";
    fail(at, line, USAGE, &["`tiled`", "only for", "f32"]);
}

/// There is no option that would make `ladder` and `traffic` take them.
#[test]
fn kernels_of_other_precisions_are_refused_with_what_shows_them() {
    let folder = tempfile::tempdir().unwrap();
    for subcommand in ["ladder --device sim --sizes 16", "traffic --size 16"] {
        let line = format!("{subcommand} --kernels halves");
        let words = ["halves_f32", "precision split", "regemm accuracy --precisions split"];
        fail(folder.path(), &line, USAGE, &words);
        let output = run(folder.path(), &line);
        assert!(!text(&output.stderr).contains("ask for that precision"));
    }
}

#[test]
fn ladders_have_results_of_f32_and_say_what_columns_compare_with() {
    let folder = tempfile::tempdir().unwrap();
    let line =
        "ladder --device sim --sizes 33 --dtype bf16_f32 --layout nt --kernels naive,tensor_core";
    let said = succeed(folder.path(), line);
    for part in ["bf16 with results of f32", "naive_nt_bf16_f32", "the row above"] {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    let traffic = succeed(folder.path(), "traffic --size 33x70x19 --dtype bf16_f32");
    for part in ["bf16 with results of f32", "naive_bf16_f32", "tensor_core_bf16_f32"] {
        assert!(traffic.contains(part), "`{part}` is missing in:\n{traffic}");
    }
    assert!(!traffic.contains('\u{2260}'), "a formula differs:\n{traffic}");
    let traffic = succeed(folder.path(), "traffic --size 64 --kernels naive,tiled16");
    assert!(traffic.contains("fewer than above") && traffic.contains("the row above"), "{traffic}");
}

#[test]
fn a_file_is_not_named_by_a_hyphen() {
    let folder = sample();
    let at = folder.path();
    fail(at, "mul a.npy b.npy -o -", USAGE, &["`-`", "what the command says", "mkfifo", "./-"]);
    fail(at, "mul - b.npy -o d.npy", USAGE, &["`-`", "/dev/stdin", "./-"]);
    fail(at, "report - -o r.html", USAGE, &["`-`", "/dev/stdin"]);
    fail(at, "traffic --formulas --measured -", USAGE, &["`-`", "/dev/stdin"]);
    // A file of that name can still be meant.
    succeed(at, "mul a.npy b.npy -o ./- --device sim");
    succeed(at, "mul ./- b.npy -o d.npy --transpose-b --device sim");
}

#[test]
fn folders_that_refuse_a_file_are_not_said_to_be_missing() {
    let folder = sample();
    let output = run(folder.path(), "mul a.npy b.npy -o /proc/e.npy");
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(FILE), "{errors}");
    assert!(
        errors.contains("cannot create a file in /proc") && errors.contains("os error"),
        "{errors}"
    );
    assert!(!errors.contains("does not exist"), "{errors}");
}

#[test]
fn info_shows_what_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let rows = |options: &str| -> Vec<String> {
        let said = succeed(folder.path(), &format!("info --device sim --json {options}"));
        let document: Value = serde_json::from_str(&said).unwrap();
        let kernels = document["kernels"].as_array().unwrap();
        kernels.iter().map(|kernel| kernel["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = rows("");
    let of_f64 = rows("--dtype f64");
    assert!(!of_f64.is_empty() && of_f64.len() < all.len(), "{of_f64:?}");
    assert!(of_f64.iter().all(|name| name.ends_with("_f64")), "{of_f64:?}");
    let tiled = rows("--kernels tiled16 --dtype f32,bf16_f32");
    assert!(
        tiled.contains(&"tiled16_f32".to_owned()) && tiled.contains(&"tiled16_tt_f32".to_owned())
    );
    assert!(tiled.iter().all(|name| name.starts_with("tiled16_")), "{tiled:?}");
    assert_eq!(rows("--kernels tiled16_nt_f32"), ["tiled16_nt_f32"]);
    assert_eq!(
        rows("--kernels halves --dtype f32")
            .iter()
            .filter(|name| name.starts_with("halves"))
            .count(),
        4
    );
    let line = "info --device sim --kernels tild16";
    fail(folder.path(), line, USAGE, &["tild16", "did you mean", "tiled16"]);
    fail(
        folder.path(),
        "info --device sim --kernels warpgroup --dtype f32",
        USAGE,
        &["warpgroup", "f32"],
    );
}

/// A large product would leave whoever has a GPU wondering what takes so long.
#[test]
fn the_simulator_is_announced_where_it_is_slow() {
    let folder = tempfile::tempdir().unwrap();
    write_f32(folder.path(), "large.npy", "(600, 600)", &vec![1.0; 360_000]);
    let first_words = |options: &str| {
        let line = format!("mul large.npy large.npy -o d.npy {options}");
        let mut command: Command = regemm(folder.path());
        let mut child = command
            .args(line.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let _ = child.kill();
        child.wait().unwrap();
        said
    };
    let said = first_words("--device auto");
    for part in ["no NVIDIA driver", "simulator", "slow"] {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    // Who asks for it knows.
    write_f32(folder.path(), "x.npy", "(8, 8)", &[1.0; 64]);
    for line in
        ["mul x.npy x.npy -o d.npy --force", "mul x.npy x.npy -o d.npy --force --device sim"]
    {
        assert_eq!(text(&run(folder.path(), line).stderr), "", "{line}");
    }
}

#[test]
fn kernels_without_a_formula_are_named_as_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let said = succeed(folder.path(), "traffic --size 32");
    for part in ["without a formula, and so left out: ", "split_k_f32", "warp_specialised_f32"] {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    let asked = succeed(folder.path(), "traffic --size 32 --kernels naive");
    assert!(!asked.contains("left out"), "{asked}");
    let document: Value =
        serde_json::from_str(&succeed(folder.path(), "traffic --size 32 --json")).unwrap();
    assert!(document["left_out"].as_array().unwrap().iter().any(|name| name == "split_k_f32"));
    let why = |kernel: &str, words: &[&str]| {
        fail(folder.path(), &format!("traffic --size 32 --kernels {kernel}"), USAGE, words);
    };
    why("split_k", &["split_k_f32", "blocks that share a tile"]);
    why("warp_specialised", &["warp_specialised_f32", "warps that only copy"]);
}
