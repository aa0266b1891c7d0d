//! `ladder`, `verify` and `info`.

use crate::harness::*;
use serde_json::Value;
use std::collections::HashSet;
use std::time::Duration;

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
            let counted = |name: &str| kernel["counters"][name].as_u64().unwrap();
            assert!(counted("fma") + counted("tensor_fma") >= 5 * 33 * 70);
        }
    }
}

/// There is no room for the second size.
#[test]
fn ladder_keeps_what_came_before_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let line = "ladder --device sim --sizes 16,2147483647 --kernels naive --json";
    let output = run(folder.path(), line);
    assert_eq!(output.status.code(), Some(DEVICE), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = document["results"].as_array().unwrap();
    assert_eq!((results.len(), &results[0]["m"]), (1, &Value::from(16)));
    let why = document["stopped"].as_str().unwrap();
    assert!(text(&output.stderr).contains(why), "{why}");
    // Of a run that has nothing to show the failure is all there is.
    let output = run(folder.path(), &line.replace("16,", ""));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["error"]["exit_code"], DEVICE);
}

#[test]
fn what_is_named_twice_is_run_once() {
    let folder = tempfile::tempdir().unwrap();
    let line = "ladder --device sim --kernels naive,tiled16,naive_f32 --sizes 16,8,16 --json";
    let document: Value = serde_json::from_str(&succeed(folder.path(), line)).unwrap();
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 2, "two sizes");
    let kernels = results[0]["kernels"].as_array().unwrap().iter();
    let names: Vec<_> = kernels.map(|kernel| kernel["kernel"].as_str().unwrap()).collect();
    assert_eq!(names, ["naive_f32", "tiled16_f32"]);

    let line = "verify --device sim --seed 3 --cases 1 --json --kernels naive";
    let once = succeed(folder.path(), &format!("{line} --dtype f32"));
    assert_eq!(succeed(folder.path(), &format!("{line},naive_f32 --dtype f32,f32")), once);
    let line = "traffic --formulas --size 64 --kernels naive";
    assert_eq!(succeed(folder.path(), &format!("{line},naive")), succeed(folder.path(), line));
}

/// By a driver that computes nothing, so that no kernel is right, and the processor is.
#[test]
fn ladder_has_the_processor_for_comparison() {
    let folder = tempfile::tempdir().unwrap();
    for (dtype, layouts, computed) in [
        ("f32", "nn", "f32"),
        ("f64", "tn", "f64"),
        ("f16", "nt", "f32"),
        ("bf16_f32", "tt", "f32"),
    ] {
        let line =
            format!("ladder --cpu --sizes 30x20x70 --dtype {dtype} --layouts {layouts} --json");
        let output = with_fake_gpu(folder.path()).args(line.split_whitespace()).output().unwrap();
        assert_eq!(output.status.code(), Some(VERIFICATION), "{}", text(&output.stderr));
        let text = text(&output.stdout);
        let document = serde_json::Deserializer::from_str(&text).into_iter::<Value>().next();
        let cpu = &document.unwrap().unwrap()["results"][0]["cpu"];
        assert_eq!((&cpu["dtype"], &cpu["verification"]["pass"]), (&computed.into(), &true.into()));
        let [seconds, gflops] = ["seconds", "gflops"].map(|it| cpu[it].as_f64().unwrap());
        assert!((gflops * seconds * 1e9 - 84_000.0).abs() < 1.0, "{cpu}");
    }
    let line = "ladder --cpu --sizes 16 --kernels naive";
    let output = with_fake_gpu(folder.path()).args(line.split_whitespace()).output().unwrap();
    let said = text(&output.stdout);
    assert!(said.contains("processor, f32") && said.contains("to the row above"), "{said}");
    let refused = "ladder --cpu --device sim --sizes 16";
    fail(folder.path(), refused, USAGE, &["the simulator gives none"]);
}

/// A GPU that is no Hopper has fewer kernels, and what it has is shown.
#[test]
fn ladder_and_info_show_what_a_gpu_can_run_and_say_what_not() {
    let folder = tempfile::tempdir().unwrap();
    let shared = [("7.0", "98304"), ("7.5", "65536"), ("8.9", "101376"), ("12.0", "101376")];
    let on_gpu = |capability: &str, driver: &str, line: &str| {
        let mut command = with_fake_gpu(folder.path());
        command.env("FAKE_CUDA_CAPABILITY", capability).env("FAKE_CUDA_VERSION", driver);
        if let Some((_, bytes)) = shared.iter().find(|(other, _)| *other == capability) {
            command.env("FAKE_CUDA_SHARED", bytes);
        }
        let output = command.args(line.split_whitespace()).output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    for (capability, driver, dtype, left_out) in [
        ("7.5", "13000", "f32", "warpgroups that hand registers over"),
        ("7.5", "13000", "f16", "tensor cores for f16"),
        ("8.9", "13000", "bf16", "matrix instructions of warpgroups"),
        ("12.0", "13000", "f64", "clusters of blocks"),
        ("9.0", "11080", "bf16", "a driver for CUDA 12.0"),
    ] {
        let (code, said, error) =
            on_gpu(capability, driver, &format!("ladder --sizes 24 --dtype {dtype}"));
        // By a driver that computes nothing, so that no kernel is right.
        assert_eq!(code, Some(VERIFICATION), "{capability} {dtype}: {error}");
        assert!(said.contains(&format!("naive_{dtype}")) && said.contains(left_out), "{said}");
        let (code, said, error) = on_gpu(capability, driver, &format!("info --dtype {dtype}"));
        assert_eq!(code, Some(SUCCESS), "{capability} {dtype}: {error}");
        assert!(said.contains("cannot run here") && said.contains(left_out), "{said}");
        assert!(!said.contains("is compiled for"), "{said}");
    }
    let listed = "info --dtype f32,f64,f16,bf16,f16_f32,bf16_f32";
    for (line, most) in [("info", 60), (listed, 1200)] {
        let (_, said, _) = on_gpu("8.9", "13000", line);
        let reasons = said.lines().filter(|line| line.contains("cannot run:")).count();
        assert_eq!(reasons, 4, "one for each thing that is needed: {said}");
        assert!(said.contains("more shared memory a block than the 99 KiB"), "{said}");
        assert!(said.lines().count() < most, "a reason for each kernel: {}", said.lines().count());
    }
    let (_, said, _) = on_gpu("8.9", "13000", "info");
    let all = regemm::kernels::of_all_precisions().count();
    assert!(said.contains(&format!(" of {all} kernels run here")), "{said}");
    // Whoever names one wants that one.
    let (code, _, error) = on_gpu("8.9", "13000", "ladder --kernels warpgroup --dtype f16");
    assert_eq!(code, Some(DEVICE), "{error}");
}

/// Nothing that runs is no success.
#[test]
fn a_gpu_that_runs_no_kernel_is_an_error_and_said_to_be_too_old() {
    let folder = tempfile::tempdir().unwrap();
    for line in ["ladder --sizes 16", "tune --sizes 16 --reps 1", "accuracy --sizes 16"] {
        for (capability, driver, why) in
            [("7.0", "13000", "has compute capability 7.0"), ("7.5", "9020", "update the driver")]
        {
            let mut command = with_fake_gpu(folder.path());
            command.env("FAKE_CUDA_CAPABILITY", capability).env("FAKE_CUDA_VERSION", driver);
            let output = command.args(line.split_whitespace()).output().unwrap();
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(DEVICE), "{capability} {line}: {error}");
            assert!(error.contains(why), "{capability} {line}: {error}");
        }
    }
}

/// The driver has two GPUs, of which the second cannot be opened.
#[test]
fn info_shows_the_gpus_that_can_be_opened_and_why_others_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let info = |line: &str, init: &str| {
        let mut command = with_fake_gpu(folder.path());
        command.env("FAKE_CUDA_DEVICES", "2").env("FAKE_CUDA_INIT", init);
        let output = command.args(line.split_whitespace()).output().unwrap();
        assert_eq!(output.status.code(), Some(SUCCESS), "{line}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let said = info("info --kernels naive", "0");
    assert!(said.contains("cuda:0: Fake GPU"), "{said}");
    assert!(said.contains("cuda:1: cannot be opened: cuDevicePrimaryCtxRetain"), "{said}");
    let document: Value = serde_json::from_str(&info("info --kernels naive --json", "0")).unwrap();
    let devices = document["devices"].as_array().unwrap();
    assert!(devices[1]["cannot_be_opened"].is_string() && devices[0]["name"] == "Fake GPU");
    let said = info("info --kernels naive --device sim", "999");
    assert!(said.contains("No GPU: cuInit") && said.contains("sim: SIMT simulator"), "{said}");
}

/// Who tries the command for the first time waits no longer, with so many processors.
const QUICK: Duration = Duration::from_secs(10);
const PROCESSORS: u32 = 2;

/// By the time that processors work for it, since other tests need them, too: their number is what it would keep busy.
#[test]
fn ladder_at_256_is_quick() {
    let folder = tempfile::tempdir().unwrap();
    let mut times = Vec::new();
    // What others do to caches meanwhile takes time, but hardly as much each time.
    while times.len() < 3 && times.last().is_none_or(|&time| time >= PROCESSORS * QUICK) {
        times.push(processor_time(folder.path(), "ladder --device sim"));
    }
    println!("{times:?}");
    assert!(times.last().is_some_and(|&time| time < PROCESSORS * QUICK), "{times:?}");
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
        // In some layouts each.
        let naive = |kernel: &&Value| {
            kernel["kernel"].as_str().unwrap().starts_with("naive") && kernel["dtype"] == dtype
        };
        kernels.iter().filter(naive).map(|kernel| kernel["cases"].as_u64().unwrap()).sum()
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

/// Each precision has kernels of its own, by whose promise they are judged.
#[test]
fn verify_runs_kernels_of_other_precisions() {
    let folder = tempfile::tempdir().unwrap();
    let kernels = |options: &str| {
        let line = format!("verify --device sim --seed 3 --max-size 40 --json {options}");
        let document: Value = serde_json::from_str(&succeed(folder.path(), &line)).unwrap();
        assert_eq!(document["pass"], true, "{document}");
        let kernels = document["kernels"].as_array().unwrap();
        assert!(kernels.iter().all(|kernel| kernel["dtype"] == "f32"), "{document}");
        let names = kernels.iter().map(|kernel| kernel["kernel"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    for (precision, kernel) in [("split", "halves"), ("tf32", "tf32"), ("fast", "rounded")] {
        let names = kernels(&format!("--precision {precision} --cases 8"));
        assert!(names.iter().any(|name| name.starts_with(kernel)), "{names:?}");
        assert!(names.iter().any(|name| name.contains("_t")), "in other layouts too: {names:?}");
        let exact = |name: &String| regemm::kernels::find(name).is_ok();
        assert!(!names.iter().any(exact), "{names:?}");
    }
    let names = kernels("--precision split --kernel warp_halves --case 5");
    assert!(names.len() == 1 && names[0].starts_with("warp_halves"), "{names:?}");
    let check = |line: &str, words: &[&str]| fail(folder.path(), line, USAGE, words);
    check("verify --device sim --kernel halves", &["halves", "ask for that precision too"]);
    check("verify --device sim --precision tf32 --kernel halves", &["precision split"]);
    check("verify --device sim --precision split --kernel naive", &["naive_f32", "exact"]);
    check("verify --device sim --precision split --dtype f16", &["split", "f32"]);
    check("verify --device sim --precision promoted --dtype f32,bf16", &["promoted", "bf16_f32"]);
    let line = "verify --device sim --precision promoted --kernel warpgroup_f16_f32";
    check(line, &["warpgroup_f16_f32", "leave out --precision"]);
}

#[test]
fn verify_runs_kernels_that_take_sums_over() {
    let folder = tempfile::tempdir().unwrap();
    let line = "verify --device sim --seed 5 --cases 3 --max-size 700 --precision promoted --json";
    let document: Value = serde_json::from_str(&succeed(folder.path(), line)).unwrap();
    assert_eq!((&document["pass"], &document["precision"]), (&true.into(), &"promoted".into()));
    let kernels = document["kernels"].as_array().unwrap();
    assert!(!kernels.is_empty());
    for kernel in kernels {
        let name = kernel["kernel"].as_str().unwrap();
        let summation = regemm::kernels::find(name).unwrap().summation;
        assert_eq!(summation, regemm::Summation::Promoted, "{name}");
    }
}

#[test]
fn info_lists_devices_and_kernels_without_a_driver() {
    let folder = tempfile::tempdir().unwrap();
    // Devices are what most look for, and stand before their terminal scrolls.
    let short = succeed(folder.path(), "info --device sim");
    assert!(short.contains("sim: SIMT simulator") && short.lines().count() < 60, "{short}");
    let all = format!("{} kernels in all", regemm::kernels::of_all_precisions().count());
    for part in [&*all, "--dtype f32", "--kernels tiled", "warpgroup", "bf16_f32"] {
        assert!(short.contains(part), "`{part}` is missing in:\n{short}");
    }
    let said = succeed(folder.path(), "info --device sim --dtype f32,f16,bf16");
    let tiled = said.lines().find(|line| line.contains(" tiled16_f32 ")).unwrap();
    assert!(tiled.contains(" 2 KiB "), "as `occupancy` has it: {tiled}");
    let kernels =
        ["naive_f32", "double_buffered_bf16", "halves_f32", "tf32_nt_f32", "rounded_tt_f32"];
    for part in kernels.into_iter().chain(["sim: SIMT simulator", "128 x 128 x 8"]) {
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
    let layouts = |name: &str| {
        let kernel = kernels.iter().find(|kernel| kernel["name"] == name);
        kernel.unwrap()["layouts"].clone()
    };
    assert_eq!(["naive_f32", "tf32_nt_f32", "rounded_tt_f32"].map(layouts), ["nn", "nt", "tt"]);
    let row = |name: &str| {
        let is_it = |line: &&str| line.contains(&format!(" {name} "));
        said.lines().find(is_it).unwrap().to_owned()
    };
    let transposed = row("tf32_nt_f32");
    assert!(transposed.contains(" nt ") && said.contains("layouts"), "{transposed}");
    let together = [
        ("ping_pong_bf16", " 384, 2 tiles in turns "),
        ("warpgroup_pair_bf16", " 384, clusters of 2 "),
        ("warpgroup_abreast64_nt_f16", " 384, clusters of 2 abreast "),
        ("warpgroup_f16", " 384 "),
    ];
    for (name, threads) in together {
        assert!(row(name).contains(threads), "{}", row(name));
    }
    let turns = |name: &str| {
        let kernel = kernels.iter().find(|kernel| kernel["name"] == name).unwrap();
        (kernel["turns"].as_u64(), kernel["producers"].as_u64(), kernel["depth_groups"].as_u64())
    };
    assert_eq!(turns("ping_pong_bf16"), (Some(2), Some(128), Some(1)));
    assert_eq!(turns("split_warpgroup64_bf16").0, Some(1));
    let names: HashSet<_> = kernels.iter().map(|kernel| kernel["name"].as_str()).collect();
    let all = regemm::kernels::of_all_precisions().count();
    assert_eq!((kernels.len(), names.len()), (all, all), "each once");
}
