//! JSON, exit codes and pipes.

use crate::harness::*;
use serde_json::Value;
use std::fs;
use std::process::Stdio;

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
        ("mul a.npy b.npy -o d.npy --precision split --kernel naive --device sim", USAGE),
        ("mul a.npy b.npy -o d.npy --precision split --as f16 --device sim", USAGE),
        ("mul a.npy b.npy -o d.npy --activation relu --leaky-slope 0.1", USAGE),
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
    for (kernel, words) in [("warpgroup", "only for f16, bf16"), ("halves", "in precision split")] {
        let line = format!("mul a.npy b.npy -o d.npy --device sim --kernel {kernel}");
        fail(folder.path(), &line, USAGE, &[words]);
    }
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

/// Every command line among the experiments of the help is one that is understood.
#[test]
fn experiments_of_the_help_run() {
    let folder = tempfile::tempdir().unwrap();
    let help = succeed(folder.path(), "--help");
    let experiments = help.split("Experiments").nth(1).unwrap().split("Exit codes").next().unwrap();
    // What the default build refuses is marked as that.
    for line in
        experiments.lines().filter(|line| line.contains("  sweep") || line.ends_with("pipelining"))
    {
        assert!(line.ends_with("(*)"), "{line}");
    }
    for line in experiments.lines().filter(|line| line.contains("4096 (") || line.contains("--cpu"))
    {
        assert!(line.ends_with("(+)"), "{line}");
    }
    assert!(experiments.contains("(+) on a GPU"));
    assert!(experiments.contains("--features sweep") && experiments.contains("--example phases"));
    for (words, options) in [
        ("ladder --kernels naive,tiled", "--sizes 16"),
        ("occupancy", ""),
        ("info", ""),
        ("ladder --kernels warp_tiled,decoupled,warp_specialised,stream_k", "--sizes 16"),
        ("ladder --dtype f16 --kernels tensor_core,warpgroup", "--sizes 16"),
        ("tune --explain 100x200x300", ""),
    ] {
        assert!(experiments.contains(words), "`{words}` is missing in:\n{help}");
        succeed(folder.path(), format!("{words} {options} --device sim").trim());
    }
}

/// Where the variable is set the build takes that toolchain or none, whatever else there is.
#[test]
fn setup_refuses_a_toolchain_that_cannot_compile_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let setup = |toolchain: &str| {
        std::process::Command::new("bash")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/setup.sh"))
            .env("CUDA_BUILDER_TOOLCHAIN", toolchain)
            .output()
            .unwrap()
    };
    let nowhere = folder.path().join("none").display().to_string();
    let output = setup(&nowhere);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    let errors = text(&output.stderr);
    assert!(errors.contains(&format!("CUDA_BUILDER_TOOLCHAIN is {nowhere}")), "{errors}");
}
