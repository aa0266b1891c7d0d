//! `traffic`.

use crate::harness::*;
use serde_json::Value;
use std::fs;

fn document(line: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    serde_json::from_str(&succeed(folder.path(), line)).unwrap()
}

#[test]
fn tiles_of_sixteen_read_sixteen_times_less() {
    let folder = tempfile::tempdir().unwrap();
    let said = succeed(folder.path(), "traffic --size 64 --kernels naive,tiled16");
    for part in ["64 x 64 x 64", "2,097,152", "131,072", "16.00 x", "tiled16_f32", "NVIDIA H200"] {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    for part in ["global memory", "shared memory", "L1 cache"] {
        assert!(said.contains(part), "nothing is held back by `{part}` in:\n{said}");
    }
    assert!(!said.contains('\u{2260}'), "a formula differs:\n{said}");
}

#[test]
fn counts_and_formulas_agree_for_every_type_and_odd_sizes() {
    for dtype in ["f32", "f64", "f16", "bf16"] {
        for size in ["64", "33x70x19"] {
            let document = document(&format!("traffic --size {size} --dtype {dtype} --json"));
            assert_eq!(document["counted_on"], "simulator");
            let kernels = document["kernels"].as_array().unwrap();
            assert!(kernels.len() >= 5);
            for kernel in kernels {
                assert_eq!(kernel["agrees"], true, "{kernel}");
                let sectors = "global_store_sectors";
                for (quantity, counted) in kernel["counted"].as_object().unwrap() {
                    let approximate = kernel["approximate"] == *quantity && quantity == sectors;
                    assert!(approximate || kernel["formula"][quantity] == *counted, "{kernel}");
                }
            }
        }
    }
}

#[test]
fn formulas_alone_take_no_time() {
    let formulas = document("traffic --formulas --size 8192 --json");
    assert!(formulas["counted_on"].is_null());
    let naive = &formulas["kernels"][0];
    assert!(naive["counted"].is_null() && naive["agrees"].is_null());
    assert_eq!(naive["formula"]["global_load_bytes"], 8 * 8192_u64.pow(3));
    let counted = document("traffic --size 64 --json");
    let worked_out = document("traffic --formulas --size 64 --json");
    for (counted, worked_out) in
        counted["kernels"].as_array().unwrap().iter().zip(worked_out["kernels"].as_array().unwrap())
    {
        assert_eq!(counted["roofline"], worked_out["roofline"]);
    }
}

#[test]
fn the_gpu_decides_what_holds_a_kernel_back() {
    let bound = |gpu: &str| {
        let line = format!("traffic --formulas --size 1024 --kernels tiled16 --gpu {gpu} --json");
        let document = document(&line);
        let kernel = &document["kernels"][0];
        let share = kernel["share_of_peak"].as_f64().unwrap();
        assert!(share > 0.0 && share < 0.13, "{kernel}");
        (document["gpu"]["name"].clone(), kernel["roofline"]["without_caches"]["bound"].clone())
    };
    assert_eq!(bound("h200"), ("NVIDIA H200".into(), "shared_memory".into()));
    assert_eq!(bound("rtx4090"), ("NVIDIA GeForce RTX 4090".into(), "global_memory".into()));
}

/// Every kernel that `occupancy` cannot launch there, and no other.
#[test]
fn what_a_gpu_cannot_launch_has_no_speed() {
    for options in [
        "--gpu t4 --dtype bf16",
        "--gpu t4 --dtype f64",
        "--gpu t4",
        "--gpu a10 --dtype f64",
        "--gpu rtx4090 --dtype f64",
    ] {
        let launches = document(&format!("occupancy {options} --json"));
        let traffic = document(&format!("traffic --formulas --size 1024 {options} --json"));
        let kernels = traffic["kernels"].as_array().unwrap();
        let mut refused = 0;
        for kernel in kernels {
            let all = launches["kernels"].as_array().unwrap();
            let launch = all.iter().find(|launch| launch["kernel"] == kernel["kernel"]).unwrap();
            let runs = launch["occupancy"]["cannot_launch"].is_null();
            refused += usize::from(!runs);
            assert_eq!(kernel["without_speed"].is_null(), runs, "{options}: {kernel}");
            for caches in ["without_caches", "with_perfect_caches"] {
                assert_eq!(kernel["roofline"][caches].is_object(), runs, "{options}: {kernel}");
            }
            for share in ["share_of_peak", "share_of_peak_with_perfect_caches"] {
                assert_eq!(kernel[share].is_f64(), runs, "{options}: {kernel}");
            }
        }
        assert!(refused > 0, "{options}");
        let points = traffic["roofline"]["points"].as_array().unwrap();
        assert_eq!(points.len(), kernels.len() - refused, "{options}");
    }
    let folder = tempfile::tempdir().unwrap();
    for (options, why) in [
        ("--kernels decoupled_f32", "[1] a block cannot have 99392 bytes of shared memory"),
        ("--kernels tensor_core_bf16 --dtype bf16", "[1] it needs "),
    ] {
        let line = format!("traffic --formulas --size 4096 --gpu t4 {options}");
        let said = succeed(folder.path(), &line);
        assert!(said.contains("cannot be launched [1]") && said.contains(why), "{said}");
    }
}

const RECORD: &str = r#"{"date": "2026-01-31", "commit": "abc1234", "gpu": "NVIDIA L4", "multiprocessors": 58,
    "driver": "550.1", "clocks": "2040 MHz", "dtype": "f16", "peak": 30.3,
    "rounds": [{"size": 512, "vendor": null, "without_vendor": "none here", "entries": [
        {"name": "naive_f16", "milliseconds": 0.1, "tflops": 1.25, "spread": 0.01, "samples": 20, "relative_error": 0.0}
    ]}]}"#;

#[test]
fn measured_speeds_stand_beside_the_roofline_of_their_gpu() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ladder.json"), RECORD).unwrap();
    let line = "traffic --formulas --size 512 --dtype f16 --measured ladder.json";
    let said = succeed(folder.path(), line);
    for part in ["NVIDIA L4", "measured", "1,250", "4.1 %"] {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    let document: Value =
        serde_json::from_str(&succeed(folder.path(), &format!("{line} --json"))).unwrap();
    assert_eq!(document["roofline"]["points"][0]["attained"], 1.25e12);
    assert!(document["roofline"]["points"][1]["attained"].is_null());

    let fails = |line: &str, code: i32, words: &[&str]| fail(folder.path(), line, code, words);
    fails("traffic --formulas --measured ladder.json", FILE, &["ladder.json", "--dtype f16"]);
    let other_size = "traffic --formulas --dtype f16 --measured ladder.json";
    fails(other_size, FILE, &["256 x 256 x 256", "512x512x512"]);
    fails("traffic --formulas --measured no.json", FILE, &["no.json", "no such file"]);
    // The simulator's ladder has no speeds.
    let counts = succeed(folder.path(), "ladder --device sim --sizes 16 --kernels naive --json");
    fs::write(folder.path().join("counts.json"), counts).unwrap();
    let line = "traffic --formulas --size 16 --measured counts.json";
    fails(line, FILE, &["counts.json", "no speeds"]);
}

#[test]
fn speeds_of_another_gpu_are_not_passed_off_as_those_of_the_roofline() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let line = "traffic --formulas --size 512 --dtype f16 --kernels naive --measured ladder.json";
    fs::write(at.join("ladder.json"), RECORD.replace("NVIDIA L4", "NVIDIA Whatever")).unwrap();
    fail(at, line, FILE, &["ladder.json", "NVIDIA Whatever", "--gpu"]);
    for device in ["NVIDIA Whatever", "NVIDIA L4"] {
        fs::write(at.join("ladder.json"), RECORD.replace("NVIDIA L4", device)).unwrap();
        let line = format!("{line} --gpu t4 --force --svg roofline.svg");
        let said = succeed(at, &line);
        assert!(said.contains("Roofline of Tesla T4"), "{said}");
        assert!(said.contains(&format!("those of another device: {device}")), "{said}");
        assert_eq!(said.matches("of peak").count(), 2, "no share of another peak:\n{said}");
        let svg = fs::read_to_string(at.join("roofline.svg")).unwrap();
        assert!(svg.contains(&format!("measured on {device}")), "{svg}");
        let json = succeed(at, &format!("{line} --json"));
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["measured_on"], device);
        fs::write(at.join("traffic.json"), json).unwrap();
        succeed(at, "report traffic.json -o page.html --force");
        let page = fs::read_to_string(at.join("page.html")).unwrap();
        assert!(page.contains(&format!("Measured speeds are those of {device}.")), "{page}");
    }
    // By any name of the same GPU.
    let said = succeed(at, &format!("{line} --gpu l4"));
    assert!(!said.contains("another device") && said.contains("4.1 %"), "{said}");
}

#[test]
fn the_roofline_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let line = "traffic --formulas --size 512 --svg roofline.svg --png roofline.png";
    succeed(folder.path(), line);
    let svg = fs::read_to_string(folder.path().join("roofline.svg")).unwrap();
    assert!(svg.contains("<svg") && svg.contains("microkernel_f32"), "{svg}");
    let png = fs::read(folder.path().join("roofline.png")).unwrap();
    assert_eq!(&png[..4], b"\x89PNG");
    // Before anything is computed.
    fail(folder.path(), line, FILE, &["roofline.svg", "--force"]);
    succeed(folder.path(), &format!("{line} --force"));
}

#[test]
fn what_is_not_known_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fail(folder.path(), "traffic --gpu h20", USAGE, &["h20", "h200"]);
    fail(folder.path(), "traffic --kernels naive_f64", USAGE, &["naive_f64", "f32"]);
    fail(folder.path(), "traffic --formulas --size 2000000000", USAGE, &["64 bits"]);
}
