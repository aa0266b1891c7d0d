//! `regemm report`: pages and pictures of what other subcommands print.

use crate::harness::{FILE, USAGE, VERIFICATION, fail, listing, succeed, with_fake_gpu};
use scraper::{Html, Selector};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Keeps what a command line prints in a file.
fn keep(folder: &Path, line: &str, name: &str) {
    fs::write(folder.join(name), succeed(folder, line)).expect("written");
}

/// A record of the benchmark.
const RECORD: &str = r#"{
    "date": "2026-01-31", "commit": "abc1234", "gpu": "NVIDIA Imaginary", "multiprocessors": 10, "driver": "580.1",
    "clocks": "1980 MHz", "dtype": "f16", "peak": 66.9,
    "rounds": [{"size": 256, "vendor": "cuBLASLt 13.1", "without_vendor": null, "entries": [
        {"name": "naive_f16", "milliseconds": 0.5, "tflops": 12.34, "spread": 0.25, "samples": 30, "relative_error": 0.125},
        {"name": "cuBLASLt", "milliseconds": 0.1, "tflops": 56.78, "spread": 0.25, "samples": 30, "relative_error": 0.125}
    ]}]
}"#;

fn texts(page: &Html, selector: &str) -> Vec<String> {
    let selector = Selector::parse(selector).expect("a selector");
    page.select(&selector).map(|element| element.text().collect()).collect()
}

#[test]
fn what_subcommands_print_becomes_sections_of_a_page() {
    let folder = folder();
    let at = folder.path();
    keep(at, "ladder --device sim --sizes 32 --kernels naive,tiled16 --json", "ladder.json");
    keep(at, "traffic --size 64 --kernels naive,tiled16 --gpu h200 --json", "traffic.json");
    keep(at, "occupancy --gpu h200 --json", "occupancy.json");
    fs::write(at.join("record.json"), RECORD).expect("written");
    let line = "report ladder.json traffic.json occupancy.json record.json -o report.html";
    let said = succeed(at, line);
    assert!(said.contains("wrote report.html"), "{said}");

    let text = fs::read_to_string(at.join("report.html")).expect("the page");
    let page = Html::parse_document(&text);
    assert_eq!(page.errors, Vec::<String>::new());
    let headings = texts(&page, "h2");
    let expected = [
        "The ladder in f32, counted on the simulator",
        "Traffic at 64 x 64 x 64 in f32, and the roofline of NVIDIA H200",
        "Occupancy on NVIDIA H200",
        "The ladder in f16 on NVIDIA Imaginary",
        "Provenance",
    ];
    assert_eq!(headings, expected);
    let cells = texts(&page, "td, th");
    // 32 x 32 x 33 multiply-adds, one of them the epilogue; what lanes of naive load for 64 x 64 x 64; the record's
    // speeds.
    for cell in ["33,792", "2,097,152", "12.34", "56.78", "naive_f32", "pipelined_f32", "580.1"] {
        assert!(cells.iter().any(|found| found == cell), "`{cell}` is missing among {cells:?}");
    }
    assert_eq!(texts(&page, "figure").len(), 2, "the roofline and the ladder that has times");
}

/// Every kind of record that the repository keeps.
#[test]
fn records_of_all_benchmarks_are_shown() {
    let folder = folder();
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/measurements");
    let named: Vec<String> =
        ["2026-11-26-h200-gemm-f16", "2026-11-21-h200-ladder-f32", "2026-11-22-h200-accuracy-f32"]
            .iter()
            .map(|name| records.join(name).with_extension("json").display().to_string())
            .collect();
    succeed(folder.path(), &format!("report {} -o page.html --pictures drawn", named.join(" ")));
    let page = fs::read_to_string(folder.path().join("page.html")).expect("the page");
    let page = Html::parse_document(&page);
    assert!(texts(&page, "h2")[0].starts_with("Beside the vendor's library in f16 on NVIDIA H200"));
    assert!(texts(&page, "td, th").iter().any(|cell| cell == "ratio to the vendor's best"));
    assert!(folder.path().join("drawn/gemm-f16.svg").exists());
    let measured = format!("traffic --formulas --dtype f16 --measured {}", named[0]);
    fail(folder.path(), &measured, FILE, &["cargo bench --bench gemm", "one of the ladder"]);
}

/// Times are shown by whom they were measured for, or were kept by.
#[test]
fn times_that_tune_keeps_are_shown() {
    let folder = folder();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let times = root.join("docs/measurements/2026-11-25-h100-tune-bf16.json");
    succeed(folder.path(), &format!("report {} -o page.html", times.display()));
    let page = fs::read_to_string(folder.path().join("page.html")).expect("the page");
    let page = Html::parse_document(&page);
    let title = "Measured times for the choice of kernels on NVIDIA H100 80GB HBM3";
    assert_eq!(texts(&page, "h2")[0], title);
    assert!(texts(&page, "td, th").iter().any(|cell| cell == "warpgroup_bf16"));
}

/// Windows PowerShell writes UTF-16, or UTF-8 with a mark before it.
#[test]
fn what_other_shells_redirect_is_read() {
    let folder = folder();
    let at = folder.path();
    let marked: Vec<u16> = format!("\u{feff}{RECORD}").encode_utf16().collect();
    let little: Vec<u8> = marked.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> = marked.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    let utf8 = format!("\u{feff}{RECORD}").into_bytes();
    for bytes in [&little, &big, &utf8] {
        fs::write(at.join("record.json"), bytes).expect("written");
        succeed(at, "report record.json -o page.html --force");
    }
    fs::write(at.join("record.json"), &little[..little.len() - 1]).expect("written");
    fail(at, "report record.json -o other.html", FILE, &["record.json", "is no text"]);
}

/// By a driver that computes nothing: a GPU all of whose results are wrong, beside a processor that is right.
#[test]
fn a_ladder_without_a_right_result_is_no_simulator_and_says_what_was_wrong() {
    let folder = folder();
    let at = folder.path();
    let line = "ladder --cpu --sizes 16 --kernels naive,tiled16 --json";
    let output = with_fake_gpu(at).args(line.split_whitespace()).output().expect("started");
    assert_eq!(output.status.code(), Some(VERIFICATION));
    fs::write(at.join("ladder.json"), &output.stdout).expect("written");
    succeed(at, "report ladder.json -o page.html");
    let page = Html::parse_document(&fs::read_to_string(at.join("page.html")).expect("the page"));
    let headings = texts(&page, "h2, h3");
    assert!(headings.iter().any(|heading| heading == "Wrong results"), "{headings:?}");
    assert!(!headings[0].contains("simulator"), "{headings:?}");
    let lines = texts(&page, "li");
    for kernel in ["naive_f32 on 16: ", "tiled16_f32 on 16: "] {
        assert!(lines.iter().any(|line| line.starts_with(kernel)), "{lines:?}");
    }
    assert!(texts(&page, "th").iter().any(|cell| cell == "processor, f32"));

    let line = "ladder --sizes 16 --kernels naive --json";
    let output = with_fake_gpu(at).args(line.split_whitespace()).output().expect("started");
    fs::write(at.join("wrong.json"), &output.stdout).expect("written");
    let line = "traffic --formulas --size 16 --measured wrong.json";
    fail(at, line, FILE, &["wrong.json", "no kernel had a right result"]);
}

#[test]
fn pictures_are_written_in_both_formats() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("a.json"), RECORD).expect("written");
    fs::write(at.join("b.json"), RECORD).expect("written");
    succeed(at, "report a.json b.json --pictures drawn");
    let names: Vec<String> = listing(&at.join("drawn"))
        .into_iter()
        .map(|(path, _)| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    let expected = ["ladder-f16-2.png", "ladder-f16-2.svg", "ladder-f16.png", "ladder-f16.svg"];
    assert_eq!(names, expected);
    let png = fs::read(at.join("drawn/ladder-f16.png")).expect("the picture");
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let svg = fs::read_to_string(at.join("drawn/ladder-f16.svg")).expect("the picture");
    assert!(svg.starts_with("<svg") && svg.contains("naive_f16"), "{svg}");
}

#[test]
fn what_has_no_picture_is_said() {
    let folder = folder();
    let at = folder.path();
    keep(at, "ladder --device sim --sizes 16 --kernels naive --json", "counts.json");
    fs::write(at.join("a.json"), RECORD).expect("written");
    let words = ["there is no picture of counts.json", "--output"];
    fail(at, "report counts.json --pictures drawn", USAGE, &words);
    assert!(!at.join("drawn").exists());
    let said = succeed(at, "report counts.json a.json --pictures drawn");
    assert!(said.ends_with("there is no picture of counts.json\n"), "{said}");
    let said = succeed(at, "report counts.json -o page.html --pictures none");
    assert!(said.ends_with("there is no picture of counts.json\n"), "{said}");
    assert!(!at.join("none").exists());
    let said = succeed(at, "report counts.json -o page.html --pictures none --force --json");
    let document: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(document["without_picture"][0], "counts.json");
}

#[test]
fn json_says_what_was_read_and_written() {
    let folder = folder();
    fs::write(folder.path().join("a.json"), RECORD).expect("written");
    let said = succeed(folder.path(), "report a.json -o a.html --json");
    let document: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(document["command"], "report");
    assert_eq!(document["documents"][0]["kind"], "ladder");
    assert_eq!(document["written"][0], "a.html");
}

#[test]
fn what_is_no_document_is_refused() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("a.json"), RECORD).expect("written");
    fs::write(at.join("other.json"), "{\"x\": 1}").expect("written");
    fs::write(at.join("broken.json"), "{").expect("written");
    fs::write(at.join("picture.png"), b"\x89PNG\r\n\x1a\n").expect("written");
    keep(at, "info --json", "info.json");
    fail(at, "report a.json other.json -o r.html", FILE, &["other.json", "reports show ladder"]);
    fail(at, "report broken.json -o r.html", FILE, &["broken.json", "is no JSON"]);
    fail(at, "report picture.png -o r.html", FILE, &["picture.png", "no JSON", "--json"]);
    fail(at, "report info.json -o r.html", FILE, &["info.json", "regemm info"]);
    fail(at, "report missing.json -o r.html", FILE, &["missing.json", "no such file"]);
    fail(at, "report . -o r.html", FILE, &[".: is a folder; name a file"]);
    let line = "report a.json --pictures picture.png";
    fail(at, line, FILE, &["picture.png: is no folder; name another"]);
    for (name, words) in [("picture.png", "no text"), (".", "is a folder"), ("no", "no such file")]
    {
        let line = format!("traffic --formulas --measured {name}");
        fail(at, &line, FILE, &[&format!("{name}: "), words]);
    }
}

#[test]
fn existing_files_stay_unless_told_otherwise() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("a.json"), RECORD).expect("written");
    fs::write(at.join("r.html"), "mine").expect("written");
    fail(at, "report a.json -o r.html", FILE, &["r.html", "--force"]);
    fail(at, "report a.json -o a.json", FILE, &["a.json", "is an input"]);
    succeed(at, "report a.json -o r.html --force");
    let page = fs::read_to_string(at.join("r.html")).expect("the page");
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
}

#[test]
fn a_page_is_no_picture() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("a.json"), RECORD).expect("written");
    fs::create_dir(at.join("drawn")).expect("a folder");
    let line = "report a.json -o drawn/ladder-f16.svg --pictures drawn";
    fail(at, line, USAGE, &["drawn/ladder-f16.svg", "one file for two outputs"]);
    assert_eq!(listing(&at.join("drawn")), []);
}

#[test]
fn an_output_is_needed() {
    let folder = folder();
    let output = crate::harness::run(folder.path(), "report a.json");
    assert_eq!(output.status.code(), Some(USAGE));
}
