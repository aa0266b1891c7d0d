//! `regemm accuracy`: tables, records and pictures of errors.

use crate::harness::{DEVICE, FILE, INTERRUPTED, USAGE, fail, listing, regemm, run, succeed, text};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

const TINY: &str = "accuracy --device sim --sizes 8,40 --rows 5 --cols 6";

#[test]
fn text_has_a_table_a_kind_of_data_and_both_errors() {
    let folder = tempfile::tempdir().unwrap();
    let said =
        succeed(folder.path(), &format!("{TINY} --data wide,uniform --precisions exact,split"));
    for part in ["5 x 6 x K in f32, seed 1", "wide: ", "uniform: in [0, 1)", "exact", "split", "40"]
    {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    assert!(!said.contains("normal: mean"), "{said}");
    let is_error = |word: &&str| word.contains("e-") && word.parse::<f64>().is_ok();
    let errors = said.split_whitespace().filter(is_error).count();
    // Two kinds, two depths, two precisions, two errors.
    assert_eq!(errors, 16, "{said}");
}

#[test]
fn records_are_repeatable_and_hold_every_point() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("{TINY} --precisions exact --json");
    let parse =
        |line: &str| -> Value { serde_json::from_str(&succeed(folder.path(), line)).unwrap() };
    let document = parse(&line);
    assert_eq!((&document["command"], &document["rows"]), (&"accuracy".into(), &5.into()));
    let points = document["points"].as_array().unwrap();
    let places: Vec<(&str, u64)> = points
        .iter()
        .map(|point| (point["data"].as_str().unwrap(), point["k"].as_u64().unwrap()))
        .collect();
    let kinds = ["normal", "uniform", "wide"];
    let expected: Vec<_> = kinds.into_iter().flat_map(|kind| [(kind, 8), (kind, 40)]).collect();
    assert_eq!(places, expected);
    for point in points {
        let (in_norm, componentwise) =
            (point["in_norm"].as_f64().unwrap(), point["componentwise"].as_f64().unwrap());
        assert!(in_norm > 1e-9 && in_norm < 1e-5, "{point}");
        assert!(componentwise > 0.0 && componentwise < 40.0 * 6e-8, "{point}");
        assert_eq!(point["mode"], "exact");
        assert!(point["kernel"].as_str().unwrap().ends_with("_f32"), "{point}");
    }
    assert_eq!(document["points"], parse(&line)["points"]);
    assert_ne!(document["points"], parse(&format!("{line} --seed 2"))["points"]);
}

#[test]
fn a_record_becomes_pictures_and_a_section() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let line = format!("{TINY} --data normal --output study.json --svg study.svg --png study.png");
    let said = succeed(at, &format!("{line} --json"));
    let record = fs::read_to_string(at.join("study.json")).unwrap();
    assert_eq!(said, record, "standard output and file hold the same document");
    let svg = fs::read_to_string(at.join("study.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("split") && svg.contains("error in norm"));
    assert_eq!(&fs::read(at.join("study.png")).unwrap()[..8], b"\x89PNG\r\n\x1a\n");

    succeed(at, "report study.json -o page.html --pictures drawn");
    let page = fs::read_to_string(at.join("page.html")).unwrap();
    for part in ["Errors by precision on", "normal: mean 0, variance 1", "<svg"] {
        assert!(page.contains(part), "`{part}` is missing");
    }
    assert_eq!(fs::read_to_string(at.join("drawn/accuracy-f32.svg")).unwrap(), svg);
    fail(at, &line, FILE, &["study.json", "--force"]);
}

/// There is no room for the second depth.
#[test]
fn what_came_before_a_failure_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let line =
        "accuracy --device sim --sizes 8,2147483647 --size 4 --data normal --precisions exact";
    let output = run(at, &format!("{line} --output study.json --svg study.svg"));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(DEVICE), "{stderr}");
    let said = text(&output.stdout);
    assert!(said.contains("normal: mean 0") && said.contains("ended before all"), "{said}");
    let record: Value =
        serde_json::from_str(&fs::read_to_string(at.join("study.json")).unwrap()).unwrap();
    assert_eq!(
        (record["points"].as_array().unwrap().len(), &record["points"][0]["k"]),
        (1, &8.into())
    );
    assert!(stderr.contains(record["stopped"].as_str().unwrap()), "{stderr}");
    assert!(at.join("study.svg").exists());
    succeed(at, "report study.json -o page.html");
    assert!(fs::read_to_string(at.join("page.html")).unwrap().contains("ended before all"));
    // Of a study without a point no file is written.
    let line = line.replace("8,", "") + " --output none.json";
    fail(at, &line, DEVICE, &[]);
}

/// Ctrl-C is heard between two precisions.
#[test]
fn what_came_before_an_interruption_is_kept() {
    // When the first point is there shows nowhere before the end, so what was interrupted too early is repeated.
    let mut delay = Duration::from_millis(250);
    while !is_kept_when_interrupted_after(delay) {
        delay *= 2;
        assert!(delay < Duration::from_secs(120), "no point after {delay:?}");
    }
}

/// Interrupts a study after a while, and checks what it has left. False if it had not got to its first point.
fn is_kept_when_interrupted_after(delay: Duration) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // The first is done at once, all others would take minutes.
    let line = "accuracy --device sim --sizes 8,20000,20001,20002 --size 64 --output study.json";
    let study = regemm(at)
        .args(line.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(delay);
    let pid = study.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    let output = study.wait_with_output().unwrap();
    let said = text(&output.stderr);
    // Before it hears interruptions it ends at once; and then it may be at its first point.
    if !said.contains("stopping after this step") || said.contains("nothing was measured yet") {
        assert_ne!(output.status.code(), Some(0), "{said}");
        assert!(!at.join("study.json").exists(), "{said}");
        return false;
    }
    assert_eq!(output.status.code(), Some(INTERRUPTED), "{said}");
    let record: Value =
        serde_json::from_str(&fs::read_to_string(at.join("study.json")).unwrap()).unwrap();
    let points = record["points"].as_array().unwrap().len();
    assert!(points > 0 && record["stopped"] == "interrupted", "{record}");
    assert!(text(&output.stdout).contains("ended before all was measured: interrupted"));
    assert_eq!(listing(at).len(), 1);
    true
}

#[test]
fn options_are_checked_and_explained() {
    let folder = tempfile::tempdir().unwrap();
    for wrong in ["--sizes 0", "--data strange", "--precisions triple", "--rows 0"] {
        let output = run(folder.path(), &format!("accuracy --device sim {wrong}"));
        assert_eq!(output.status.code(), Some(USAGE), "{wrong}: {}", text(&output.stderr));
    }
    let help = succeed(folder.path(), "accuracy --help");
    for part in ["--depths", "normal, uniform, wide", "--precisions", "||D - AB||", "Examples:"] {
        assert!(help.contains(part), "`{part}` is missing in:\n{help}");
    }
    assert!(succeed(folder.path(), "--help").contains("errors by precision"));
}
