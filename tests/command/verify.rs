//! `verify`: what it checks, says and refuses.

use crate::harness::*;
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use std::slice;

#[test]
fn a_run_that_is_right_ends_with_what_it_has_seen() {
    let folder = tempfile::tempdir().unwrap();
    let line = "verify --device sim --cases 3 --seed 1 --max-size 20 --dtype f32";
    let said = succeed(folder.path(), &format!("{line} --kernels naive"));
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("3 problems, ") && last.ends_with(" elements: all right"), "{said}");
    assert!(last.contains(" kernels, ") || last.contains(" kernel, "), "{said}");
    // The name that the option had.
    let alias = succeed(folder.path(), &format!("{line} --kernel naive"));
    assert_eq!(said, alias);
}

#[test]
fn a_run_of_nothing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for options in ["--cases 0", "--max-size 0", "--max-size 99999999999", "--max-size 2147483648"]
    {
        let output = run(folder.path(), &format!("verify --device sim {options}"));
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(USAGE), "{options}: {errors}");
        assert!(errors.contains("a whole number from 1"), "{options}: {errors}");
    }
}

/// As `ladder` and `accuracy` do, and the document says that it is not all.
#[test]
fn what_was_verified_before_an_interruption_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let line = "verify --device sim --seed 1 --cases 1000000 --max-size 20 --kernels naive --json";
    let output = interrupted(folder.path(), line);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(INTERRUPTED), "{errors}");
    assert!(errors.contains("only what was verified is reported"), "{errors}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["problems"].as_u64().unwrap() > 0, "{document}");
    assert!(document["kernels"][0]["cases"].as_u64().unwrap() > 0, "{document}");
    assert!(document["stopped"].as_str().unwrap().starts_with("interrupted"), "{document}");
    assert_eq!(document["pass"], false);
}

/// A document is what `--json` asks for, also of work that cannot stop before its end.
#[test]
fn an_interruption_is_a_document_where_one_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_f32(at, "x.npy", "(1500, 1500)", &vec![1.0; 1500 * 1500]);
    for line in ["mul x.npy x.npy -o d.npy --device sim", "traffic --size 1500 --kernels naive"] {
        for (json, documents) in [(" --json", 1), ("", 0)] {
            let output = interrupted(at, &format!("{line}{json}"));
            assert_eq!(output.status.code(), Some(INTERRUPTED), "{line}");
            assert!(text(&output.stderr).contains("regemm: interrupted"), "{line}");
            let said = text(&output.stdout);
            assert_eq!(said.matches("\"kind\": \"interrupted\"").count(), documents, "{said}");
            if documents > 0 {
                let document: Value = serde_json::from_str(&said).unwrap();
                assert_eq!(document["error"]["exit_code"], INTERRUPTED);
            }
        }
    }
}

/// Whoever asked for no simulator hears why nothing seems to happen.
#[test]
fn long_work_of_the_simulator_is_announced() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (line, words) in [
        (
            "ladder --kernels naive,tiled --sizes 700",
            "computes instead, which is slow: 1029 million",
        ),
        (
            "accuracy --sizes 4000000 --precisions exact",
            "computes instead, which is slow: 12288 million",
        ),
        ("traffic --kernels naive,tiled --size 700", "counts, which is slow: 1029 million"),
    ] {
        let errors = text(&interrupted_at_once(at, line).stderr);
        assert!(errors.contains(words), "{line}: {errors}");
    }
    for line in ["ladder --kernels naive --sizes 16", "traffic --kernels naive --size 16"] {
        assert_eq!(text(&run(at, line).stderr), "", "{line}");
    }
}

/// By the name of a kernel or of a rung: both exist, in another precision.
#[test]
fn kernels_of_precision_exact_are_said_to_be_that() {
    let folder = tempfile::tempdir().unwrap();
    for precision in ["split", "fast", "tf32"] {
        let line = format!("verify --device sim --precision {precision} --kernels");
        let fails = |name: &str, words: &[&str]| {
            fail(folder.path(), &format!("{line} {name}"), USAGE, words);
        };
        let words = format!("in precision exact, not in {precision}: leave out --precision");
        fails("tiled16", &["kernel tiled16_f32 computes", &words]);
        fails("tiled", &["kernels of rung tiled compute", &words]);
        fails("tield", &["there is no kernel `tield`"]);
    }
}

/// What a problem after others fails with does not hide the others.
#[test]
fn what_was_verified_before_a_failure_of_the_device_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let line =
        "verify --device sim --seed 1 --cases 20 --max-size 2147483647 --kernels naive --json";
    for seed in 1..100 {
        let line = line.replace("--seed 1", &format!("--seed {seed}"));
        let output = run(folder.path(), &line);
        assert_eq!(output.status.code(), Some(DEVICE), "{}", text(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        // The first problem may be the one that is too large.
        if document["error"].is_null() {
            assert!(document["problems"].as_u64().unwrap() > 0, "{document}");
            assert!(
                document["stopped"].as_str().unwrap().contains("has no room for"),
                "{document}"
            );
            assert_eq!(document["pass"], false);
            return;
        }
    }
    panic!("all first problems were too large");
}

/// Not an abort: the exit code says that memory is what is short.
#[test]
fn what_the_host_has_no_room_for_is_an_error_of_the_device() {
    let folder = tempfile::tempdir().unwrap();
    for line in [
        "verify --device sim --seed 1 --cases 20 --max-size 2147483647 --kernels naive",
        "accuracy --device sim --sizes 64 --size 2147483647",
        "accuracy --device sim --size 8 --sizes 2147483647 --precisions exact",
    ] {
        let output = run(folder.path(), line);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(DEVICE), "{line}: {errors}");
        assert!(errors.contains("has no room for"), "{line}: {errors}");
        assert!(!errors.contains("panicked"), "{line}: {errors}");
    }
}

/// Not an abort either where the host has room for some of it; an abort would leave the unfinished output behind.
#[test]
fn what_the_host_has_no_room_for_leaves_nothing_behind() {
    let folder = sample();
    // Zeros that take no room on the disk: 3.6 GB and 256 MB.
    for (name, side) in [("huge.npy", 30_000), ("large.npy", 8_000)] {
        let path = folder.path().join(name);
        fs::write(&path, npy(1, "'<f4'", false, &format!("({side}, {side})"), &[])).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        let header = file.metadata().unwrap().len();
        file.set_len(header + side * side * 4).unwrap();
    }
    let before = listing(folder.path());
    for (kilobytes, line) in [
        (3_000_000, "mul huge.npy huge.npy -o d.npy --device sim"),
        (600_000, "mul large.npy large.npy -o d.npy --device sim --as f16"),
        (700_000, "ladder --device sim --sizes 5000 --kernels naive"),
    ] {
        let command = format!("ulimit -v {kilobytes}; exec \"$0\" {line}");
        let output = Command::new("sh")
            .args(["-c", &command, env!("CARGO_BIN_EXE_regemm")])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(DEVICE), "{line}: {errors}");
        assert!(errors.contains("has no room for"), "{line}: {errors}");
        assert_eq!(listing(folder.path()), before, "{line}");
    }
}

/// On a terminal, which `script` pretends to be, a bar is drawn that must not stand before what is said.
#[test]
fn what_is_said_of_a_failure_stands_in_lines_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let line = "verify --device sim --cases 1 --seed 1 --max-size 2147483647 --kernels naive";
    let command = format!("{} {line}", env!("CARGO_BIN_EXE_regemm"));
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &command, "/dev/null"]).current_dir(folder.path());
    let output = terminal.stdin(Stdio::null()).env("TERM", "xterm").output().unwrap();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(DEVICE), "{said:?}");
    // A line begins anew after an end of line, a return and the erasure of all of it.
    let messages: Vec<_> = said.match_indices("regemm: ").collect();
    assert_eq!(messages.len(), 3, "{said:?}");
    for (start, _) in messages {
        assert!(
            ["\n", "\r", "\u{1b}[2K"].iter().any(|begin| said[..start].ends_with(begin)),
            "{said:?}"
        );
    }
}

/// On a GPU that computes nothing all results stay NaN, so that every problem with elements is a failure. Of the
/// kernels one is for all element types and one for few of them, so that the types there are to draw from are fewer
/// where that one is named alone.
#[test]
fn a_failure_is_repeated_by_the_command_that_it_prints() {
    let folder = tempfile::tempdir().unwrap();
    let failures = |line: &str| {
        let output = with_fake_gpu(folder.path()).args(line.split_whitespace()).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(VERIFICATION), "regemm {line}: {errors}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        document["failures"].as_array().unwrap().clone()
    };
    let line = "verify --cases 12 --seed 4 --max-size 24 --kernels naive,tensor_core --json";
    let first = failures(line);
    let of_few_types = |failure: &&Value| failure["kernel"].as_str().unwrap().contains("tensor");
    assert!(first.iter().filter(of_few_types).count() > 1, "{first:?}");
    for failure in &first {
        let repeat = failure["repeat"].as_str().unwrap().strip_prefix("regemm ").unwrap();
        assert_eq!(failures(&format!("{repeat} --json")), slice::from_ref(failure), "{repeat}");
    }
}
