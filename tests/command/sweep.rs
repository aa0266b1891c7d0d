//! `sweep` and `pipelining`.
//!
//! Their kernels are only part of builds with the feature `sweep`; what is tested depends on the build.

use crate::harness::*;

#[test]
fn both_are_in_the_help_of_every_build() {
    let folder = tempfile::tempdir().unwrap();
    let said = succeed(folder.path(), "--help");
    assert!(said.contains("sweep") && said.contains("pipelining"), "{said}");
    let said = succeed(folder.path(), "sweep --help");
    for part in ["k_after_threads", "--features sweep", "--resume", "Examples"] {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    let said = succeed(folder.path(), "pipelining --help");
    assert!(said.contains("64x128x16") && said.contains("--features sweep"), "{said}");
}

#[test]
fn wrong_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = [
        "sweep --resume",
        "sweep --sizes 0",
        "sweep --tile 64x64",
        "sweep --thread-tile 8",
        "sweep --order fastest",
        "sweep --staging async5",
        "sweep --reps 0",
        "pipelining --tile 8x8",
    ];
    for line in wrong {
        let output = run(folder.path(), line);
        assert_eq!(output.status.code(), Some(USAGE), "regemm {line}");
    }
}

#[cfg(not(feature = "sweep"))]
#[test]
fn a_build_without_the_kernels_says_how_to_get_them() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["sweep", "pipelining"] {
        let how = format!("cargo run --release --features sweep -- {command}");
        fail(folder.path(), &format!("{command} --device sim"), USAGE, &[&how]);
    }
    fail(folder.path(), "sweep --device sim --output s.json", USAGE, &["--features sweep"]);
}

#[cfg(feature = "sweep")]
mod with_kernels {
    use super::*;
    use serde_json::Value;
    use std::fs;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    /// Three loop orders of one tile with shared memory and without, and the other stagings.
    const FEW: &str = "sweep --device sim --sizes 64 --tile 64x64x32 --thread-tile 8x8";

    fn json(text: &str) -> Value {
        serde_json::from_str(text).expect("JSON")
    }

    fn read(folder: &Path, name: &str) -> Value {
        json(&fs::read_to_string(folder.join(name)).expect("the file is there"))
    }

    #[test]
    fn the_simulator_counts_and_gives_no_times() {
        let folder = tempfile::tempdir().unwrap();
        let said = succeed(folder.path(), FEW);
        for part in [
            "By loop order (direct, ",
            "By loop order (single, ",
            "By thread tile (k_innermost, single)",
            "By staging",
            "By shared memory",
            "The best 10 on 64",
            "k_after_threads",
            "64: 64x64x32 8x8 k_innermost",
            "fewest bytes of global memory",
        ] {
            assert!(said.contains(part), "`{part}` is missing in:\n{said}");
        }
        assert!(!said.contains("FLOP/s") && !said.contains(" ms"), "no times:\n{said}");
    }

    #[test]
    fn the_record_holds_the_counts_of_every_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let document = json(&succeed(folder.path(), &format!("{FEW} --json")));
        assert_eq!((&document["command"], &document["complete"]), (&"sweep".into(), &true.into()));
        assert!(document["peak_tflops"].is_null());
        let results = document["results"].as_array().unwrap();
        assert_eq!(results.len(), 10, "two stagings in three orders, four more in one");
        for entry in results {
            assert!(entry["timings"].as_array().unwrap().is_empty(), "{entry}");
            // One for each k of each element of D, and one in its epilogue.
            assert_eq!(entry["counts"][0]["fma"], 64 * 64 * (64 + 1), "{entry}");
        }
        let counted = |order: &str, staging: &str, what: &str| {
            let is_it = |entry: &&Value| {
                entry["config"]["order"] == order && entry["config"]["staging"] == staging
            };
            let entry = results.iter().find(is_it).unwrap();
            entry["counts"][0][what].as_u64().unwrap()
        };
        let bytes = |order: &str| counted(order, "single", "global_bytes");
        // A and B once, D once: one block tile covers the product.
        assert_eq!(bytes("k_innermost"), 3 * 64 * 64 * 4);
        // With every k but the first D is read, and it is written with every k and at the end.
        assert_eq!(bytes("standard"), (2 + 63 + 65) * 64 * 64 * 4);
        // Each of 64 threads loads 8 elements of A and of B for each k, from global memory alone.
        let direct = |what: &str| counted("k_innermost", "direct", what);
        assert_eq!(direct("global_bytes"), (64 * 64 * (8 + 8) + 64 * 64) * 4);
        assert_eq!((direct("shared_wavefronts"), direct("barriers")), (0, 0));
        assert_eq!(document["library"].as_array().unwrap().len(), 1);
    }

    /// A block is a row of D; a wider row is several blocks.
    #[test]
    fn blocks_of_a_row_run_from_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let line =
            "sweep --device sim --sizes 160 --staging direct --tile 1x128x32,1x1024x32 --json";
        let document = json(&succeed(folder.path(), line));
        let results = document["results"].as_array().unwrap();
        assert_eq!(results.len(), 2 * 3, "two widths in three orders");
        for entry in results {
            assert_eq!(entry["config"]["tm"], 1, "{entry}");
            assert_eq!(entry["threads"], entry["config"]["bn"], "{entry}");
            assert_eq!(entry["counts"][0]["fma"], 160 * 160 * (160 + 1), "{entry}");
        }
    }

    #[test]
    fn files_are_written_and_a_finished_sweep_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("{FEW} --staging single --output s.json --csv s.csv --markdown s.md");
        let first = succeed(folder.path(), &line);
        assert_eq!(read(folder.path(), "s.json")["complete"], true);
        let csv = fs::read_to_string(folder.path().join("s.csv")).unwrap();
        let page = fs::read_to_string(folder.path().join("s.md")).unwrap();
        assert!(page.starts_with("# Sweep in f32: "), "{page}");
        assert!(page.contains("\n## By loop order"), "{page}");
        assert_eq!(csv.lines().count(), 1 + 3 + 1, "a heading, three orders, the library:\n{csv}");
        assert_eq!(listing(folder.path()).len(), 3, "nothing beside the three files");

        let output = run(folder.path(), &format!("{FEW} --staging single --csv /dev/full"));
        assert_eq!(output.status.code(), Some(FILE));
        assert_eq!(text(&output.stdout), first, "what was measured is printed all the same");

        fail(folder.path(), &line, FILE, &["s.json", "exists", "--force"]);
        assert_eq!(succeed(folder.path(), &format!("{line} --resume --force")), first);
        // What no kernel does stays in the record: none has been run again.
        let mut record = read(folder.path(), "s.json");
        record["results"][0]["counts"][0]["fma"] = 7.into();
        fs::write(folder.path().join("s.json"), record.to_string()).unwrap();
        let again = json(&succeed(folder.path(), &format!("{line} --resume --force --json")));
        assert_eq!(again["results"], record["results"]);
        succeed(folder.path(), &format!("{line} --force"));
    }

    #[test]
    fn files_are_different_ones() {
        let folder = tempfile::tempdir().unwrap();
        for files in ["--output x --csv x --force", "--csv x --markdown ./x"] {
            fail(folder.path(), &format!("{FEW} {files}"), USAGE, &["one file for two outputs"]);
        }
    }

    #[test]
    fn another_sweep_is_not_continued() {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("{FEW} --staging single --output s.json");
        succeed(folder.path(), &line);
        let other = format!("{line} --resume --seed 2");
        fail(folder.path(), &other, FILE, &["s.json", "--seed was 1 and is 2"]);
        let other = format!("{line} --resume --order standard");
        fail(folder.path(), &other, FILE, &["configurations", "3 in the file, 1 picked"]);
        fs::write(folder.path().join("s.json"), "{").unwrap();
        fail(folder.path(), &format!("{line} --resume"), FILE, &["no record of a sweep"]);
        let counts = succeed(folder.path(), "ladder --device sim --sizes 8 --kernels naive --json");
        fs::write(folder.path().join("s.json"), counts).unwrap();
        let words = ["no record of a sweep", "the output of `regemm ladder`"];
        fail(folder.path(), &format!("{line} --resume"), FILE, &words);
    }

    #[test]
    fn what_cannot_run_is_listed_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let line = "sweep --device sim --sizes 32 --tile 256x128x32 --thread-tile 4x4,8x16";
        let said = succeed(folder.path(), line);
        let reason = "256x128x32 4x4 k_innermost single: 2048 threads";
        assert!(said.contains("Cannot run") && said.contains(reason), "{said}");
    }

    #[test]
    fn a_choice_of_nothing_says_what_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let line = "sweep --device sim --order standard --staging async2";
        fail(folder.path(), line, USAGE, &["no such configuration", "64x64x32"]);
    }

    /// Who continues a sweep has not said that other files may go.
    #[test]
    fn continuing_replaces_the_record_alone() {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("{FEW} --staging single --output s.json --resume");
        for (option, name) in [("--csv", "s.csv"), ("--markdown", "s.md")] {
            fs::write(folder.path().join(name), "precious").unwrap();
            let line = format!("{line} {option} {name}");
            fail(folder.path(), &line, FILE, &[name, "exists", "--force"]);
            assert_eq!(fs::read(folder.path().join(name)).unwrap(), b"precious");
            succeed(folder.path(), &format!("{line} --force"));
        }
    }

    /// There is no room for the second size.
    #[test]
    fn what_came_before_a_failure_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = FEW.replace("--sizes 64", "--sizes 64,2147483647");
        let line = format!("{sizes} --staging single --csv s.csv");
        let output = run(folder.path(), &line);
        assert_eq!(output.status.code(), Some(DEVICE), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("The best 3 on 64"), "{}", text(&output.stdout));
        assert!(fs::read_to_string(folder.path().join("s.csv")).unwrap().lines().count() > 3);
    }

    /// Ctrl-C in the middle: the record is there, and `--resume` makes it whole.
    #[test]
    fn an_interrupted_sweep_is_kept_and_continued() {
        let folder = tempfile::tempdir().unwrap();
        // Seconds of work, in steps of well below one.
        let line = "sweep --device sim --sizes 256 --order standard --output s.json";
        let mut child = regemm(folder.path())
            .args(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The file is there from the beginning, and what happens on Ctrl-C is settled before.
        let start = Instant::now();
        while !folder.path().join("s.json").exists() {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            assert!(start.elapsed() < Duration::from_secs(60), "no file appeared");
            std::thread::sleep(Duration::from_millis(1));
        }
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(INTERRUPTED));
        assert!(text(&output.stderr).contains("continue with --resume"));
        let kept = read(folder.path(), "s.json");
        assert_eq!(kept["complete"], false);
        let measured = |record: &Value| {
            let results = record["results"].as_array().unwrap().iter();
            results.map(|entry| entry["counts"].as_array().map_or(0, Vec::len)).sum::<usize>()
        };
        let before = measured(&kept);
        succeed(folder.path(), &format!("{line} --resume"));
        let whole = read(folder.path(), "s.json");
        assert_eq!(whole["complete"], true);
        assert!(measured(&whole) > before);
        assert_eq!(measured(&whole), whole["results"].as_array().unwrap().len());
    }

    #[test]
    fn pipelining_counts_on_the_simulator() {
        let folder = tempfile::tempdir().unwrap();
        let said = succeed(folder.path(), "pipelining --device sim --sizes 64");
        for part in [
            "basic: one stage",
            "double buffering through registers",
            "pipelined: 2 stages",
            "plus double buffering: 4 stages",
            "async copies",
        ] {
            assert!(said.contains(part), "`{part}` is missing in:\n{said}");
        }
        assert!(!said.contains("FLOP/s"), "no speeds:\n{said}");
        let document = json(&succeed(folder.path(), "pipelining --device sim --sizes 64 --json"));
        let count = |staging: &str, what: &str| {
            let of_staging = |entry: &&Value| entry["config"]["staging"] == staging;
            let entry = document["results"].as_array().unwrap().iter().find(of_staging).unwrap();
            entry["counts"][0][what].as_u64().unwrap()
        };
        assert_eq!(count("single", "async_copies"), 0);
        assert!(count("async2", "async_copies") > 0);
        assert!(count("async2", "barriers") < count("single", "barriers"));
        assert_eq!(count("async2", "global_bytes"), count("single", "global_bytes"));
    }

    #[test]
    fn pipelining_takes_another_tile() {
        let folder = tempfile::tempdir().unwrap();
        let line = "pipelining --device sim --sizes 32 --tile 64x64x32 --thread-tile 8x8";
        let said = succeed(folder.path(), line);
        assert!(said.contains("block tile 64x64x32, thread tile 8x8"), "{said}");
        let line = "pipelining --device sim --tile 32x32x32 --thread-tile 8x16";
        fail(folder.path(), line, USAGE, &["no such configuration"]);
    }
}
