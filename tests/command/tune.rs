//! `tune`, and `mul --explain`: where there is no GPU, and with a driver that computes nothing but has a clock by which
//! everything takes the same time.

use crate::harness::*;
use regemm::tuning::cache::Cache;
use regemm::tuning::{Entry, Key, Shape, Table, Time};
use regemm::{Dtype, Layouts, kernels};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn document_of(folder: &Path, line: &str) -> Value {
    serde_json::from_str(&succeed(folder, line)).unwrap()
}

/// Puts a table of an imaginary GPU into the folder's cache.
fn fill_cache(folder: &Path) -> Cache {
    let cache = Cache::at(cache_folder(folder));
    let key = Key {
        gpu: "NVIDIA Imaginary".into(),
        multiprocessors: 100,
        driver: "CUDA 13.0".into(),
        code: "c0de".into(),
        types: Dtype::F32.into(),
        layouts: Layouts::NN,
    };
    let mut table = Table::new(Dtype::F32);
    let times = vec![Time { kernel: kernels::find("naive_f32").unwrap(), seconds: 1e-3 }];
    table.insert(Entry { shape: Shape::packed(Dtype::F32, 512, 512, 512), times });
    cache.merge(&key, &table).unwrap();
    cache
}

#[test]
fn the_simulator_cannot_be_tuned() {
    let folder = tempfile::tempdir().unwrap();
    fail(folder.path(), "tune --device sim", DEVICE, &["simulator"]);
    for line in ["tune --sizes 64", "tune --check 64"] {
        fail(folder.path(), line, DEVICE, &["no NVIDIA driver", "simulator counts work"]);
    }
    let output = folder.path().join("table.json");
    fail(folder.path(), "tune --output table.json", DEVICE, &["simulator"]);
    assert!(!output.exists());
}

#[test]
fn explain_names_the_rule_on_the_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let said = succeed(folder.path(), "tune --explain 4096,3x5x7 --device sim");
    for part in ["4096 x 4096 x 4096 f32", "3 x 5 x 7 f32, rows unaligned", "naive_f32", "by rule"]
    {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    assert!(said.contains("by rule, as always on the simulator"), "{said}");
    let document =
        document_of(folder.path(), "tune --explain 512 --dtype f32,f64 --device sim --json");
    let explanations = document["explanations"].as_array().unwrap();
    assert_eq!(explanations.len(), 2);
    for (explanation, dtype) in explanations.iter().zip(["f32", "f64"]) {
        assert_eq!((&explanation["dtype"], &explanation["tuned"]), (&dtype.into(), &false.into()));
        let ranking = explanation["ranking"].as_array().unwrap();
        assert_eq!(ranking[0]["kernel"], explanation["kernel"], "the chosen one comes first");
        assert!(ranking.len() > 4);
        for candidate in ranking {
            assert!(candidate["expected_seconds"].is_null(), "no times without a GPU");
            assert!(candidate["kernel"].as_str().unwrap().ends_with(dtype));
        }
        let mut places: Vec<_> =
            ranking.iter().map(|candidate| candidate["rank_by_rule"].as_u64().unwrap()).collect();
        places.sort_unstable();
        assert_eq!(places, (1..=ranking.len() as u64).collect::<Vec<_>>());
    }
}

#[test]
fn explain_says_what_is_repacked() {
    let folder = tempfile::tempdir().unwrap();
    let line = "tune --explain 2047,2048,2040x2047x2048 --dtype bf16 --device sim";
    let said = succeed(folder.path(), line);
    for part in ["\nA and B are repacked first", "\nB is repacked first"] {
        assert_eq!(said.matches(part).count(), 1, "`{part}` in:\n{said}");
    }
    let document = document_of(folder.path(), &format!("{line} --json"));
    let repacked = |index: usize| document["explanations"][index]["repacked"].to_string();
    assert_eq!([repacked(0), repacked(1), repacked(2)], [r#"["A","B"]"#, "[]", r#"["B"]"#]);
}

#[test]
fn explain_takes_a_gpu_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let document = document_of(folder.path(), "tune --explain 4096 --gpu t4 --json");
    assert_eq!(document["gpu"], "Tesla T4");
    let explanation = &document["explanations"][0];
    // Nothing is shipped for it, and a T4 has no asynchronous copies.
    assert_eq!(explanation["tuned"], false);
    assert_eq!(explanation["kernel"], "double_buffered_f32");
    let said = succeed(folder.path(), "tune --explain 4096 --gpu h200");
    assert!(said.starts_with("NVIDIA H200"), "{said}");
    fail(folder.path(), "tune --explain 4096 --gpu h2oo", USAGE, &["h2oo", "h200"]);
}

#[test]
fn explain_says_how_large_tiles_are_that_fit() {
    let folder = tempfile::tempdir().unwrap();
    let line = "tune --explain 1536 --dtype bf16 --gpu h200";
    let document = document_of(folder.path(), &format!("{line} --json"));
    let ranking = document["explanations"][0]["ranking"].as_array().unwrap();
    let tile = |kernel| {
        let found = ranking.iter().find(|candidate| candidate["kernel"] == kernel);
        found.unwrap()["tile"].to_string()
    };
    // Of row-major factors they fit in height: 11 rows of 12 tiles are a whole round.
    assert_eq!(tile("warpgroup_fitted_bf16"), "[144,128]");
    assert_eq!(tile("warpgroup_bf16"), "[128,256]");
    let said = succeed(folder.path(), line);
    let of_tiles = said.lines().find(|line| line.contains("│ warpgroup_fitted_bf16")).unwrap();
    assert!(of_tiles.contains("144 x 128"), "{said}");
}

/// Results of another type than factors have times of their own, of kernels that have no twin for short ones among
/// them.
#[test]
fn results_of_f32_are_chosen_by_times_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    for gpu in ["h100", "h200"] {
        let whose = "shipped for this GPU";
        let line = format!("tune --explain 1000,4096 --dtype bf16_f32 --gpu {gpu} --json");
        let document = document_of(folder.path(), &line);
        let explanations = document["explanations"].as_array().unwrap();
        assert_eq!(explanations.len(), 2);
        for explanation in explanations {
            assert_eq!(explanation["dtype"], "bf16_f32");
            let why = explanation["why"].as_str().unwrap();
            assert!(why.contains(whose) && !why.contains("twin"), "{why}");
            let chosen = &explanation["ranking"][0];
            assert_eq!(chosen["kernel"], explanation["kernel"]);
            assert!(chosen["kernel"].as_str().unwrap().ends_with("_bf16_f32"), "{chosen}");
            assert!(chosen["expected_seconds"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn show_lists_tables_and_clear_removes_them() {
    let folder = tempfile::tempdir().unwrap();
    let before = document_of(folder.path(), "tune --show --json");
    let shipped = before["tables"].as_array().unwrap().len();
    let file = fill_cache(folder.path()).file("NVIDIA Imaginary");
    let document = document_of(folder.path(), "tune --show --json");
    let tables = document["tables"].as_array().unwrap();
    assert_eq!(tables.len(), shipped + 1);
    let table = tables.last().unwrap();
    assert_eq!((&table["gpu"], &table["source"]), (&"NVIDIA Imaginary".into(), &"measured".into()));
    assert_eq!((&table["shapes"], &table["used"]), (&1.into(), &false.into()));
    let said = succeed(folder.path(), "tune --show");
    assert!(said.contains("NVIDIA Imaginary") && said.contains("CUDA 13.0"), "{said}");

    let said = succeed(folder.path(), "tune --clear");
    assert!(said.contains(file.to_str().unwrap()) && !file.exists(), "{said}");
    assert!(succeed(folder.path(), "tune --clear").contains("nothing"));
    let after = document_of(folder.path(), "tune --show --json");
    assert_eq!(after["tables"], before["tables"]);
}

/// Names of folders are bytes.
#[test]
fn tables_may_be_in_a_folder_whose_name_is_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = fill_cache(folder.path()).file("NVIDIA Imaginary");
    let odd = folder.path().join(OsStr::from_bytes(b"c\xff"));
    fs::rename(path.parent().unwrap(), &odd).unwrap();
    for (what, words) in [("--show", "NVIDIA Imaginary"), ("--clear", "c\u{fffd}")] {
        let mut command = regemm(folder.path());
        command.env("REGEMM_CACHE_DIR", &odd).args(["tune", what, "--device", "sim"]);
        let output = command.output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(SUCCESS), "{what}: {errors}");
        assert!(text(&output.stdout).contains(words), "{what}: {}", text(&output.stdout));
    }
}

#[test]
fn a_damaged_cache_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = fill_cache(folder.path()).file("NVIDIA Imaginary");
    let good = fs::read_to_string(&file).unwrap();
    for damaged in [&good[..good.len() / 2], "", &good.replace("\"format\": 1", "\"format\": 7")] {
        fs::write(&file, damaged).unwrap();
        let output = run(folder.path(), "tune --show --json");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(SUCCESS), "{stderr}");
        assert!(stderr.contains("warning") && stderr.contains("nvidia-imaginary"), "{stderr}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["damaged"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn nothing_is_written_unless_it_is_measured() {
    let folder = sample();
    for tuning in ["rule", "table", "first-use"] {
        let output = regemm(folder.path())
            .args(["mul", "a.npy", "b.npy", "-o", "d.npy", "--force", "--device", "sim"])
            .env("REGEMM_TUNING", tuning)
            .output()
            .unwrap();
        assert_eq!(text(&output.stderr), "");
        let said = text(&output.stdout);
        assert_eq!(said.contains("simulator gives no times"), tuning == "first-use", "{said}");
    }
    succeed(folder.path(), "tune --explain 64");
    succeed(folder.path(), "tune --show");
    succeed(folder.path(), "tune --clear");
    assert!(!cache_folder(folder.path()).exists());
}

#[test]
fn an_unknown_way_of_tuning_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let explain = |tuning: &str| {
        let mut command = regemm(folder.path());
        command.args(["tune", "--explain", "64", "--json"]).env("REGEMM_TUNING", tuning);
        command.output().unwrap()
    };
    let output = explain("always");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(SUCCESS), "{stderr}");
    for part in ["regemm: warning: REGEMM_TUNING", "always", "first-use"] {
        assert!(stderr.contains(part), "`{part}` is missing in: {stderr}");
    }
    for tuning in ["rule", "table", "first-use"] {
        let document: Value = serde_json::from_slice(&explain(tuning).stdout).unwrap();
        assert_eq!(document["policy"], tuning);
    }
}

#[test]
fn what_tune_does_is_one_thing_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    for line in [
        "tune --show --clear",
        "tune --explain 64 --check 64",
        "tune --show --sizes 64",
        "tune --clear --output x.json",
        "tune --clear --dtype bf16",
        "tune --clear --layouts nt",
        "tune --show --dtype bf16",
        "tune --show --layouts nt",
        "tune --show --reps 3",
        "tune --explain 64 --seed 3",
        "tune --explain 64 --gpu t4 --device sim",
        "tune --gpu h200",
        "tune --force",
        "tune --merge",
        "tune --output x.json --merge --force",
        "tune --explain 0",
        "tune --explain 4294967296",
        "tune --reps 0",
        "tune --dtype f8",
    ] {
        let output = run(folder.path(), line);
        assert_eq!(output.status.code(), Some(USAGE), "regemm {line}: {}", text(&output.stderr));
    }
}

#[test]
fn mul_explains_its_kernel() {
    let folder = sample();
    let said = succeed(folder.path(), "mul a.npy b.npy -o d.npy --device sim --explain");
    for part in ["kernel   naive_f32: D is tiny", "rank by rule", "double_buffered_f32"] {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    let line = "mul a.npy b.npy -o d.npy --force --device sim --explain --kernel tiled16 --json";
    let document = document_of(folder.path(), line);
    assert_eq!(document["kernel"], "tiled16_f32");
    assert_eq!(document["why"], "the kernel that was asked for");
    assert_eq!(document["explanation"]["kernel"], "naive_f32", "what would have been chosen");
    let plain = document_of(folder.path(), "mul a.npy b.npy -o d.npy --force --device sim --json");
    assert!(plain["explanation"].is_null());
}

fn on_fake_gpu(folder: &Path, line: &str) -> Value {
    let output = with_fake_gpu(folder).args(line.split_whitespace()).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(SUCCESS), "regemm {line}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn what_is_tuned_is_chosen_by_from_then_on() {
    let folder = sample();
    let explain = || on_fake_gpu(folder.path(), "tune --explain 64,72,2048 --json");
    assert!(explain()["explanations"].as_array().unwrap().iter().all(|e| e["tuned"] == false));

    let document = on_fake_gpu(folder.path(), "tune --sizes 64,2x2x3 --reps 3 --json");
    let file = Cache::at(cache_folder(folder.path())).file("Fake GPU");
    assert_eq!((&document["complete"], &document["file"]), (&true.into(), &file.to_str().into()));
    let entries = document["tables"][0]["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    let of_type = kernels::kernels_for(Dtype::F32, Layouts::NN);
    let kernels = of_type.filter(|kernel| kernel.needs.met_by(CAPABILITY)).count();
    for entry in entries {
        let seconds = entry["seconds"].as_object().unwrap();
        assert_eq!(seconds.len(), kernels);
        assert!(seconds.values().all(|seconds| *seconds == 1.5e-3), "what the driver's clock says");
    }

    let explanations = explain();
    let tuned: Vec<_> = explanations["explanations"].as_array().unwrap().iter().collect();
    assert_eq!(tuned[0]["ranking"][0]["expected_seconds"], 1.5e-3);
    assert!(tuned[0]["why"].as_str().unwrap().contains("this very shape"), "{explanations}");
    assert!(tuned[1]["why"].as_str().unwrap().contains("nearest 64 x 64 x 64"), "{explanations}");
    assert_eq!(tuned[2]["tuned"], false, "too far away");
    let mul = on_fake_gpu(folder.path(), "mul a.npy b.npy -o d.npy --json");
    assert!(mul["why"].as_str().unwrap().contains("measured times"), "{mul}");
    let shown = on_fake_gpu(folder.path(), "tune --show --json");
    let table = shown["tables"].as_array().unwrap().last().unwrap();
    assert_eq!((&table["used"], &table["shapes"]), (&true.into(), &2.into()));
    let check = on_fake_gpu(folder.path(), "tune --check 64,100 --reps 3 --json");
    assert_eq!((&check["checked"], &check["close"]), (&2.into(), &2.into()));
    assert_eq!(check["complete"], true);
    assert_eq!(
        (&check["results"][0]["tuned_on"], &check["results"][1]["tuned_on"]),
        (&true.into(), &false.into())
    );

    on_fake_gpu(folder.path(), "tune --clear --json");
    assert!(!file.exists());
    assert_eq!(explain()["explanations"][0]["tuned"], false);
}

/// They would be measured for nothing.
#[test]
fn layouts_without_times_in_nn_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let warns = |line: &str, capability: &str| {
        let mut tune = with_fake_gpu(folder.path());
        let line = format!("tune --sizes 64 --reps 1 {line}");
        let tune = tune.args(line.split_whitespace()).env("FAKE_CUDA_CAPABILITY", capability);
        let output = tune.output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(SUCCESS), "{line}: {errors}");
        let warning = "warning: nothing of f64 was measured in nn on this GPU";
        errors.contains(warning) && errors.contains("--layouts nn")
    };
    assert!(warns("--dtype f64 --layouts nt", "8.0"));
    assert!(warns("--dtype f64 --layouts nt,tn", "8.0"), "times in nt are no help");
    assert!(!warns("--dtype f64 --layouts nt --output table.json", "8.0"));
    // The library brings times for Hopper.
    assert!(!warns("--dtype f64 --layouts nt", "9.0"));
    assert!(!warns("--dtype f64 --layouts tn,nn", "8.0"));
    assert!(!warns("--dtype f64 --layouts nt", "8.0"));
}

/// Times in other layouts are of kernels for these, and count beside those of row-major factors alone.
#[test]
fn layouts_are_tuned_by_name() {
    let folder = sample();
    let why = |layouts: &str| {
        let line = format!("tune --explain 64 --layouts {layouts} --json");
        let document = on_fake_gpu(folder.path(), &line);
        let explanation = &document["explanations"][0];
        assert_eq!(explanation["layouts"], layouts);
        explanation["why"].as_str().unwrap().to_owned()
    };
    let document =
        on_fake_gpu(folder.path(), "tune --sizes 64,24x40x56 --layouts nt --reps 1 --json");
    assert_eq!(document["tables"][0]["layouts"], "nt");
    assert_eq!(document["tables"][0]["entries"].as_array().unwrap().len(), 2);
    let seconds = document["tables"][0]["entries"][0]["seconds"].as_object().unwrap();
    assert!(seconds.len() > 3 && seconds.keys().all(|name| name.contains("_nt_")), "{seconds:?}");
    assert!(why("nt").contains("by rule"), "times of twins are missing");

    on_fake_gpu(folder.path(), "tune --sizes 64 --layouts nn --reps 1 --json");
    let (own, twin) = (why("nt"), why("tn"));
    assert!(own.contains("this very shape") && !own.contains("twin"), "{own}");
    assert!(twin.contains("the twin of"), "{twin}");
    let shown = on_fake_gpu(folder.path(), "tune --show --json");
    let tables = shown["tables"].as_array().unwrap().iter();
    let own = tables.filter(|table| table["gpu"] == "Fake GPU");
    let own = Vec::from_iter(own.map(|table| (table["layouts"].clone(), table["used"].clone())));
    assert_eq!(own, [("nt".into(), true.into()), ("nn".into(), true.into())]);
    let check = on_fake_gpu(folder.path(), "tune --check 64 --layouts nn,nt --reps 1 --json");
    let results = check["results"].as_array().unwrap().iter();
    let tuned_on = Vec::from_iter(results.map(|one| (&one["layouts"], &one["tuned_on"])));
    assert_eq!(tuned_on, [(&"nn".into(), &true.into()), (&"nt".into(), &true.into())]);
}

/// Times that are shipped for a GPU serve others of its architecture, until there are some of their own.
#[test]
fn gpus_of_a_known_architecture_take_its_times() {
    let folder = sample();
    let on_hopper = |line: &str| {
        let mut command = with_fake_gpu(folder.path());
        let command = command.args(line.split_whitespace()).env("FAKE_CUDA_CAPABILITY", "9.0");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(SUCCESS), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let why = || {
        let document = on_hopper("tune --explain 1024 --json");
        document["explanations"][0]["why"].as_str().unwrap().to_owned()
    };
    let shipped = why();
    for part in ["nearest 1024 x 1024 x 1024", "shipped for another GPU of this architecture"] {
        assert!(shipped.contains(part), "`{part}` is missing in: {shipped}");
    }
    on_hopper("tune --sizes 1024 --reps 1 --json");
    let measured = why();
    for part in ["this very shape", "measured on this GPU"] {
        assert!(measured.contains(part), "`{part}` is missing in: {measured}");
    }
}

#[test]
fn an_output_file_leaves_the_cache_alone() {
    let folder = tempfile::tempdir().unwrap();
    let line = "tune --sizes 64 --dtype f32,f64 --output table.json --json";
    on_fake_gpu(folder.path(), line);
    let text = fs::read_to_string(folder.path().join("table.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let dtypes: Vec<_> =
        document["tables"].as_array().unwrap().iter().map(|table| &table["dtype"]).collect();
    assert_eq!(dtypes, ["f32", "f64"]);
    assert!(!cache_folder(folder.path()).exists());
    let again = with_fake_gpu(folder.path()).args(line.split_whitespace()).output().unwrap();
    assert_eq!(again.status.code(), Some(FILE), "it exists");
    on_fake_gpu(folder.path(), "tune --sizes 65 --output table.json --merge --json");
    let text = fs::read_to_string(folder.path().join("table.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let tables = document["tables"].as_array().unwrap();
    let shapes =
        Vec::from_iter(tables.iter().map(|table| table["entries"].as_array().unwrap().len()));
    assert_eq!(shapes, [2, 1], "a shape more in f32");
    fs::write(folder.path().join("table.json"), "{").unwrap();
    let line = "tune --sizes 65 --output table.json --merge";
    let damaged = with_fake_gpu(folder.path()).args(line.split_whitespace()).output().unwrap();
    assert_eq!(damaged.status.code(), Some(FILE), "{}", String::from_utf8_lossy(&damaged.stderr));
}

#[test]
fn types_and_layouts_that_are_named_twice_are_measured_once() {
    let folder = tempfile::tempdir().unwrap();
    let twice = "--dtype f32,f64,f32 --layouts nn,nt,nn --json";
    let measured = [("f32", "nn"), ("f32", "nt"), ("f64", "nn"), ("f64", "nt")];
    let kinds = |tables: &Value| {
        let tables = tables.as_array().unwrap().iter();
        let name = |table: &Value, of: &str| table[of].as_str().unwrap().to_owned();
        Vec::from_iter(tables.map(|table| (name(table, "dtype"), name(table, "layouts"))))
    };
    let measured = measured.map(|(types, layouts)| (types.to_owned(), layouts.to_owned()));
    let line = format!("tune --sizes 64 --reps 1 --output table.json {twice}");
    assert_eq!(kinds(&on_fake_gpu(folder.path(), &line)["tables"]), measured);
    let line = format!("tune --check 64 --reps 1 {twice}");
    assert_eq!(kinds(&on_fake_gpu(folder.path(), &line)["results"]), measured);
    let line = format!("tune --explain 64 {twice}");
    assert_eq!(kinds(&on_fake_gpu(folder.path(), &line)["explanations"]), measured);
}

#[test]
fn first_use_measures_once() {
    let folder = sample();
    let mul = || {
        let mut command = with_fake_gpu(folder.path());
        command.env("REGEMM_TUNING", "first-use").env("FAKE_CUDA_LOG", folder.path().join("log"));
        let line = "mul a.npy b.npy -o d.npy --force --json";
        let output = command.args(line.split_whitespace()).output().unwrap();
        assert_eq!(output.status.code(), Some(SUCCESS), "{}", text(&output.stderr));
        let log = fs::read_to_string(folder.path().join("log")).unwrap();
        fs::remove_file(folder.path().join("log")).unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (document, log.lines().filter(|line| line.starts_with("launch")).count())
    };
    let (first, launches) = mul();
    assert!(first["why"].as_str().unwrap().contains("this very shape"), "{first}");
    assert!(launches > 20, "{launches}");
    let (second, launches) = mul();
    assert_eq!(second["why"], first["why"]);
    assert_eq!(launches, 2, "the product alone, and once more when its kernel is loaded");
}

/// Of factors in other layouts their own kernels are measured, too.
#[test]
fn first_use_measures_in_the_layouts_of_the_product() {
    let folder = sample();
    let mut command = with_fake_gpu(folder.path());
    let line = "mul b.npy a.npy --transpose-a --transpose-b -o d.npy --force --json";
    let command = command.args(line.split_whitespace()).env("REGEMM_TUNING", "first-use");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(SUCCESS), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let why = document["why"].as_str().unwrap();
    assert!(why.contains("this very shape") && !why.contains("twin"), "{why}");
    let shown = on_fake_gpu(folder.path(), "tune --show --json");
    let tables = shown["tables"].as_array().unwrap().iter();
    let own = tables.filter(|table| table["gpu"] == "Fake GPU");
    assert_eq!(Vec::from_iter(own.map(|table| &table["layouts"])), ["nn", "tt"]);
}

/// Of TN rows of vectors say nothing of K, along which those of a row-major A lie.
#[test]
fn first_use_measures_row_major_factors_that_there_can_be() {
    let folder = sample();
    write_f32(folder.path(), "a.npy", "(3, 8)", &[1.0; 24]);
    write_f32(folder.path(), "b.npy", "(3, 4)", &[1.0; 12]);
    let mut command = with_fake_gpu(folder.path());
    let line = "mul a.npy b.npy --transpose-a -o d.npy --json";
    let command = command.args(line.split_whitespace()).env("REGEMM_TUNING", "first-use");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(SUCCESS), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["why"].as_str().unwrap().contains("this very shape"), "{document}");
    let own = fs::read_dir(cache_folder(folder.path())).unwrap().map(|file| file.unwrap().path());
    let own = own.filter(|path| path.extension().is_some_and(|it| it == "json"));
    let cached: Value = serde_json::from_slice(&fs::read(own.last().unwrap()).unwrap()).unwrap();
    let shapes = cached["tables"].as_array().unwrap().iter().map(|table| {
        let entry = &table["entries"][0];
        json!([table["layouts"], entry["shape"], entry["aligned"]])
    });
    let expected = [json!(["nn", [8, 4, 4], true]), json!(["tn", [8, 4, 3], true])];
    assert_eq!(Vec::from_iter(shapes), expected);
}

#[test]
fn first_use_without_memory_is_a_warning_and_the_rule() {
    let folder = sample();
    let output = with_fake_gpu(folder.path())
        .args(["mul", "a.npy", "b.npy", "-o", "d.npy", "--json"])
        .env("REGEMM_TUNING", "first-use")
        .env("FAKE_CUDA_MEMORY", "10000")
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(SUCCESS), "{stderr}");
    assert!(stderr.contains("warning") && stderr.contains("was not measured"), "{stderr}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["why"].as_str().unwrap().contains("measuring failed"), "{document}");
}

#[test]
fn a_cache_that_cannot_be_written_is_a_warning_unless_tuning_was_asked_for() {
    let folder = sample();
    // A file in the place of the folder, which not even root can write into.
    fs::write(cache_folder(folder.path()), "").unwrap();
    let output = with_fake_gpu(folder.path())
        .args(["mul", "a.npy", "b.npy", "-o", "d.npy"])
        .env("REGEMM_TUNING", "first-use")
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(SUCCESS), "{stderr}");
    assert!(stderr.contains("warning: tuning cache") && stderr.contains("cannot be"), "{stderr}");
    assert!(text(&output.stdout).contains("this very shape"), "the times serve this process");
    let log = folder.path().join("log");
    let mut tune = with_fake_gpu(folder.path());
    let output = tune.args(["tune", "--sizes", "64"]).env("FAKE_CUDA_LOG", &log).output().unwrap();
    assert_eq!(output.status.code(), Some(FILE), "{}", text(&output.stderr));
    let log = fs::read_to_string(log).unwrap();
    assert!(!log.contains("launch"), "it was known before anything was measured: {log}");
}

/// A device that can be opened and has no room: what is wrong shows when all is measured.
#[test]
#[cfg(target_os = "linux")]
fn times_that_cannot_be_kept_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let tune = |more: &[&str]| {
        let mut tune = with_fake_gpu(folder.path());
        let tune = tune.args(["tune", "--sizes", "64", "--output", "/dev/full"]).args(more);
        let output = tune.output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(FILE), "{errors}");
        assert!(errors.contains("/dev/full: cannot be written"), "{errors}");
        text(&output.stdout)
    };
    let document: Value = serde_json::from_str(&tune(&["--json"])).unwrap();
    assert_eq!((&document["complete"], &document["file"]), (&true.into(), &Value::Null));
    assert_eq!(document["tables"][0]["entries"].as_array().unwrap().len(), 1);
    assert!(document["not_kept"].as_str().unwrap().contains("/dev/full"), "{document}");
    let said = tune(&[]);
    assert!(said.contains("f32, nn: 1 shapes measured") && !said.contains("wrote"), "{said}");
}

/// The second shape's matrices do not fit into the GPU's memory.
#[test]
fn a_check_that_fails_prints_those_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let check = |more: &str| {
        let line = format!("tune --check 64,20000,72 --reps 1 {more}");
        let output = with_fake_gpu(folder.path()).args(line.split_whitespace()).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(DEVICE), "{errors}");
        assert!(errors.contains("has no room"), "{errors}");
        text(&output.stdout)
    };
    let document: Value = serde_json::from_str(&check("--dtype f32,f64 --json")).unwrap();
    assert_eq!((&document["checked"], &document["complete"]), (&1.into(), &false.into()));
    assert_eq!(document["results"][0]["m"], 64);
    let said = check("");
    assert!(said.contains("1 of 1 within 1 % of the fastest"), "{said}");
}

#[test]
fn an_interruption_keeps_what_was_measured() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let folder = tempfile::tempdir().unwrap();
    let mut tune = with_fake_gpu(folder.path())
        .args(["tune", "--json"])
        .env("FAKE_CUDA_LOG", folder.path().join("log"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun =
        || fs::read_to_string(folder.path().join("log")).is_ok_and(|log| log.contains("launch"));
    let start = Instant::now();
    while !begun() {
        assert!(start.elapsed() < PATIENCE, "nothing was launched");
        assert!(tune.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    let interrupt = Command::new("kill").args(["-INT", &tune.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let output = tune.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(INTERRUPTED), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["complete"], false);
    let entries = document["tables"][0]["entries"].as_array().unwrap().len();
    assert!(entries > 0);
    let shown = on_fake_gpu(folder.path(), "tune --show --json");
    assert_eq!(shown["tables"].as_array().unwrap().last().unwrap()["shapes"], entries);
}
