//! The programs: what they refuse and keep, and what they do where there is no GPU, or one that computes nothing.

#[allow(dead_code, reason = "what runs one test again is for others")]
#[path = "../../crates/cuda_driver/tests/support/mod.rs"]
mod support;

use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use tempfile::TempDir;

const BENCHMARKS: [&str; 3] = ["ladder", "gemm", "accuracy"];

/// The benchmarks are programs of their own, which only cargo knows where to find: this needs the cargo that runs it.
/// They are built of the whole workspace's features and, where the environment says some, with the options of its other
/// builds, of which they share all but themselves.
static EXECUTABLES: LazyLock<HashMap<String, PathBuf>> = LazyLock::new(|| {
    let cargo = std::env::var_os("CARGO").expect("start this with `cargo test`");
    let options = std::env::var("REGEMM_CARGO_OPTIONS").unwrap_or_default();
    let output = Command::new(cargo)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .arg("bench")
        .args(options.split_whitespace())
        .args(BENCHMARKS.iter().flat_map(|name| ["--bench", name]))
        .args(["--workspace", "--no-run", "--quiet", "--message-format=json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let messages = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let benches = messages.filter(|message| message["target"]["kind"][0] == "bench");
    benches
        .filter_map(|message| {
            let name = message["target"]["name"].as_str()?.to_owned();
            Some((name, message["executable"].as_str()?.into()))
        })
        .collect()
});

fn benchmark(name: &str) -> Command {
    let mut command = Command::new(&EXECUTABLES[name]);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

/// A benchmark where there is no GPU, for as long as the folder is there.
fn without_gpus(name: &str) -> (Command, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    // The same as no driver, also on a machine that has one.
    std::fs::write(folder.path().join("libcuda.so.1"), "not a library").unwrap();
    let mut command = benchmark(name);
    command.env("LD_LIBRARY_PATH", folder.path());
    (command, folder)
}

/// What a benchmark writes that is started so where there is no GPU.
#[track_caller]
fn without_a_gpu(name: &str, arguments: &str) -> String {
    let (mut command, _folder) = without_gpus(name);
    let output = command.args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{name} {arguments}: {}", errors(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// What a benchmark says that refuses its arguments, before it looks for a GPU.
#[track_caller]
fn refusal(name: &str, arguments: &str) -> String {
    let (mut command, _folder) = without_gpus(name);
    let output = command.args(arguments.split_whitespace()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && text.is_empty(), "{name} {arguments}: {text}");
    errors(&output)
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const NOTHING_TO_MEASURE: &str = "There is nothing to measure: no NVIDIA driver";

#[test]
fn without_a_gpu_the_benchmarks_say_so_and_succeed() {
    for bench in BENCHMARKS {
        let text = without_a_gpu(bench, "--bench");
        assert!(text.starts_with(NOTHING_TO_MEASURE), "{bench}: {text}");
    }
}

/// Kernels in commands of records from when they were there.
const GONE: [&str; 2] = [",warpgroup_pair192", "--kernel warpgroup192_bf16 "];

/// Those that measure get as far as the lack of a GPU.
#[test]
fn commands_of_pages_are_taken() {
    const PAGES: [&str; 4] =
        ["README.md", "docs/performance.md", "docs/benchmarks.md", "docs/measurements/README.md"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = PAGES.map(|page| std::fs::read_to_string(root.join(page)).unwrap()).concat();
    let spans = pages.split("cargo bench --bench ").skip(1);
    let commands: BTreeSet<(&str, &str)> = spans
        .filter_map(|span| {
            // Comments of a shell are none of it.
            let (command, _) = span.split_once(['`', '#', '\n'])?;
            Some(command.trim().split_once(" -- ").unwrap_or((command.trim(), "")))
        })
        // Of records that the reader is to name.
        .filter(|(_, arguments)| {
            !["--from", "A.json"].iter().any(|named| arguments.contains(named))
        })
        .collect();
    assert!(commands.len() > 50, "{commands:?}");
    for (bench, arguments) in commands {
        // `P` stands for any precision. Records of earlier commits may name kernels that are no more.
        let arguments = arguments.replace("--precision P ", "--precision split ");
        let arguments = GONE.iter().fold(arguments, |text, gone| text.replace(gone, ""));
        let text = without_a_gpu(bench, &arguments);
        let measures = !arguments.contains("--summary");
        assert_eq!(measures, text.starts_with(NOTHING_TO_MEASURE), "{bench} {arguments}: {text}");
    }
}

/// A record in this repository of each benchmark.
const RECORDS: [(&str, &str); 3] = [
    ("ladder", "docs/measurements/2026-11-21-h200-ladder-f64.json"),
    ("gemm", "docs/measurements/2026-11-25-h200-gemm-f32-addend.json"),
    ("accuracy", "docs/measurements/2026-11-22-h200-accuracy-f32.json"),
];

/// The endings of what a benchmark leaves in a folder.
fn endings(folder: &Path) -> BTreeSet<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.map(|path| path.extension().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Makes a record again with its output going elsewhere. All files have to be there.
#[track_caller]
fn made_again(bench: &str, from: &str, stdout: Stdio) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = benchmark(bench);
    command.args(["--from", from, "--record"]).arg(folder.path().join("record"));
    let output = command.stdout(stdout).output().unwrap();
    let expected: &[&str] =
        if bench == "ladder" { &["json", "md", "svg"] } else { &["json", "md", "png", "svg"] };
    assert_eq!(
        endings(folder.path()),
        expected.iter().map(|&ending| ending.to_owned()).collect(),
        "{bench}: {}",
        errors(&output)
    );
    output
}

#[test]
fn a_record_is_kept_though_its_reader_has_gone() {
    for (bench, from) in RECORDS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = made_again(bench, from, writer.into());
        assert!(output.status.success(), "{bench}: {}", errors(&output));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_record_is_kept_though_there_is_no_room_for_what_is_printed() {
    for (bench, from) in RECORDS {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = made_again(bench, from, full.into());
        let words = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{bench}: {words}");
        assert!(words.contains("standard output"), "{bench}: {words}");
    }
}

#[test]
fn records_of_others_are_called_what_they_are() {
    let [(_, ladder), (_, gemm), (_, accuracy)] = RECORDS;
    let sweep = "docs/measurements/2026-11-21-h200-sweep-f32.json";
    for (bench, file, what) in [
        ("gemm", ladder, "a record of `cargo bench --bench ladder`"),
        ("ladder", gemm, "a record of `cargo bench --bench gemm`"),
        ("ladder", accuracy, "the output of `regemm accuracy`"),
        ("accuracy", sweep, "the output of `regemm sweep`"),
    ] {
        let words = refusal(bench, &format!("--from {file}"));
        let expected = format!("{file}: is {what}, and none of the benchmark {bench}");
        assert!(words.contains(&expected), "{words}");
    }
    let words = refusal("gemm", &format!("--summary {gemm},{ladder}"));
    assert!(
        words.contains(&format!("{ladder}: is a record of `cargo bench --bench ladder`")),
        "{words}"
    );
}

#[test]
fn what_would_be_ignored_is_refused() {
    let [(_, ladder), (_, gemm), (_, accuracy)] = RECORDS;
    for (bench, arguments) in [
        ("gemm", format!("--from {gemm} --dtype f64")),
        ("gemm", format!("--from {gemm} --seed 7")),
        ("gemm", format!("--from {gemm} --commit abc")),
        ("gemm", format!("--from {gemm} --summary {gemm}")),
        ("gemm", format!("--summary {gemm} --record x")),
        ("gemm", format!("--summary {gemm} --skip-host")),
        ("ladder", format!("--from {ladder} --sizes 16")),
        ("accuracy", format!("--from {accuracy} --rows 16")),
    ] {
        let words = refusal(bench, &arguments);
        assert!(words.contains("cannot be used with"), "{bench} {arguments}: {words}");
    }
    let words = refusal("gemm", "--cases odd,between,batched --sizes 64");
    assert!(words.contains("--sizes is for squares, layouts, addend, epilogue"), "{words}");
    let words = refusal("gemm", "--cases squares --shapes 3x4x5");
    assert!(words.contains("--shapes is for rectangles, layers, tokens"), "{words}");
    assert!(refusal("gemm", "--sizes 0").contains("at least 1"));
}

#[test]
fn what_cannot_be_computed_is_refused_before_anything_is_measured() {
    for (arguments, what) in [
        ("--precision promoted", "f32 (precision promoted)"),
        ("--dtype f16 --precision split", "f16 (precision split)"),
        ("--dtype bf16 --precision promoted", "bf16 (precision promoted)"),
        ("--kernel pipelind", "pipelind"),
        ("--kernel warp_halves", "halves"),
        ("--dtype f64 --kernel tiled16_f32", "tiled16_f32"),
    ] {
        let words = refusal("gemm", arguments);
        assert!(words.contains(what), "{arguments}: {words}");
    }
    for arguments in [
        "--precision split --kernel warp_halves,pipelined,naive_f32",
        "--dtype bf16 --results f32 --precision promoted",
        "--dtype f16 --kernel warpgroup_pair",
    ] {
        assert!(without_a_gpu("gemm", arguments).starts_with(NOTHING_TO_MEASURE), "{arguments}");
    }
}

/// Benchmarks with a stand-in for the driver, which computes nothing, so that all results are wrong.
struct WithoutArithmetic {
    folder: TempDir,
}

impl WithoutArithmetic {
    fn new() -> WithoutArithmetic {
        let folder = tempfile::tempdir().unwrap();
        support::compile_fake(&folder.path().join("libcuda.so.1"), &[]);
        WithoutArithmetic { folder }
    }

    fn run(&self, bench: &str, settings: &[(&str, &str)], arguments: &str) -> Output {
        let mut command = benchmark(bench);
        command.args(arguments.split_whitespace()).envs(settings.iter().copied());
        command.env("LD_LIBRARY_PATH", self.folder.path());
        command.env("REGEMM_CACHE_DIR", self.folder.path().join("cache")).output().unwrap()
    }
}

/// Success is for a machine without a GPU alone: one that has it is to measure.
#[test]
fn a_gpu_that_cannot_be_used_is_a_failure() {
    let gpu = WithoutArithmetic::new();
    for bench in BENCHMARKS {
        let none = gpu.run(bench, &[("FAKE_CUDA_DEVICES", "0")], "");
        let text = String::from_utf8_lossy(&none.stdout);
        assert!(none.status.success(), "{bench}: {}", errors(&none));
        assert!(text.starts_with("There is nothing to measure: there is no device"), "{text}");
        // CUDA_ERROR_OUT_OF_MEMORY
        let broken = gpu.run(bench, &[("FAKE_CUDA_INIT", "2")], "");
        assert!(!broken.status.success(), "{bench}: {}", errors(&broken));
    }
}

/// What came before a failure is in the record: nobody measures it twice.
#[test]
fn what_was_measured_before_a_failure_is_kept() {
    let gpu = WithoutArithmetic::new();
    let settings = [("FAKE_CUDA_MEMORY", "200000000"), ("FAKE_CUDA_CAPABILITY", "8.9")];
    for (bench, arguments, list, count) in [
        // No results are right, so that there are no times; but there is a size.
        ("ladder", "--sizes 16,32768 --rounds 2", "/rounds", 1),
        ("accuracy", "--sizes 8,2147483647 --rows 4 --cols 4 --data normal", "/wrong", 1),
        ("gemm", "--cases squares --sizes 16,32 --skip-host", "/cases", 2),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("record");
        let arguments = format!("{arguments} --record {}", record.display());
        let output = gpu.run(bench, &settings, &arguments);
        let words = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{bench}: {words}");
        let text = std::fs::read_to_string(record.with_extension("json"));
        let text = text.unwrap_or_else(|error| panic!("{bench}: {error}: {words}"));
        let value: Value = serde_json::from_str(&text).unwrap();
        let kept = value.pointer(list).and_then(Value::as_array).map_or(0, Vec::len);
        assert!(kept >= count, "{bench}: {kept}: {words}");
        assert!(words.contains("wrong"), "{bench}: {words}");
    }
}
