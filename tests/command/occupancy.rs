//! `occupancy`, without a GPU.

use crate::harness::*;
use crate::support::{Driver, in_child};
use regemm::Layouts;
use regemm::kernels::Types;
use serde_json::Value;
use std::process::Command;

fn json(line: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    serde_json::from_str(&succeed(folder.path(), &format!("{line} --json"))).unwrap()
}

fn said(line: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    succeed(folder.path(), line)
}

#[track_caller]
fn contains(line: &str, parts: &[&str]) {
    let said = said(line);
    for part in parts {
        assert!(said.contains(part), "regemm {line}: `{part}` is missing in:\n{said}");
    }
}

/// The first example of the help: 16,384 registers for 1,536 threads in blocks of 512.
#[test]
fn ten_registers_fit_and_eleven_lose_a_block() {
    let line = "occupancy --threads 512 --max-threads 1536 --register-file 16384 --no-granularity";
    contains(
        &format!("{line} --registers 10"),
        &[
            "3 resident blocks, 48 of 48 warps (100.0 %), limited by threads and registers",
            "with 11 registers: 2 resident blocks, 32 of 48 warps (66.7 %), limited by registers",
            "fewer blocks from 11 registers on",
            "used: 15,360 of 16,384 registers",
        ],
    );
    let document = json(&format!("{line} --registers 11"));
    let block = &document["block"];
    assert_eq!(
        (&block["occupancy"]["blocks"], &block["occupancy"]["warps"]),
        (&2.into(), &32.into())
    );
    assert_eq!(block["one_fewer_register"]["blocks"], 3);
    assert_eq!(block["more_blocks_up_to_registers"], 10);
    assert_eq!(document["limits"]["registers"], 16_384);
}

/// The second example of the help: 2 KiB and 5 KiB of shared memory a block, out of 16 KiB.
#[test]
fn blocks_share_sixteen_kilobytes() {
    let line = "occupancy --threads 256 --max-threads 1536 --max-blocks 8 --shared-memory 16KiB --no-granularity";
    contains(
        &format!("{line} --shared 2KiB"),
        &[
            "6 resident blocks, 48 of 48 warps (100.0 %), limited by threads\n",
            "room for blocks: 6 by threads, - by registers, 8 by shared memory, 8 slots",
            "12 KiB of 16 KiB shared memory",
            "registers left out of account",
        ],
    );
    contains(&format!("{line} --shared 5KiB"), &["3 resident blocks", "limited by shared memory"]);
    let same = |size: &str| json(&format!("{line} --shared {size}"))["block"].take();
    assert_eq!(same("5KiB"), same("5120"));
}

#[test]
fn every_kernel_has_a_row_on_every_gpu() {
    for gpu in regemm::gpus::known() {
        for dtype in Types::ALL.map(Types::name) {
            let document = json(&format!("occupancy --gpu {} --dtype {dtype}", gpu.id));
            assert_eq!(document["gpu"], gpu.name);
            let kernels = document["kernels"].as_array().unwrap();
            let table = regemm::kernels::of_all_precisions();
            let row_major =
                table.clone().filter(|k| Types::of(k).name() == dtype && k.layouts == Layouts::NN);
            assert_eq!(kernels.len(), row_major.count());
            for kernel in kernels {
                if let Some(why) = kernel["occupancy"]["cannot_launch"].as_str() {
                    if why.starts_with("it needs ") {
                        let has_all = gpu.capability == (9, 0);
                        assert!(!has_all && kernel["registers"].is_null(), "{}: {kernel}", gpu.id);
                        continue;
                    }
                    assert!(why.contains("shared memory"), "{}: {kernel}", gpu.id);
                    // Those with producers are for Hopper, whose blocks may have more than all others'.
                    let hopper = kernel["shared_bytes"].as_u64() > Some(101_376);
                    assert!(
                        gpu.id == "t4" || hopper,
                        "only Turing's blocks have so little: {kernel}"
                    );
                    continue;
                }
                let share = kernel["occupancy"]["share"].as_f64().unwrap();
                assert!(share > 0.0 && share <= 1.0, "{}: {kernel}", gpu.id);
                assert!(!kernel["occupancy"]["limited_by"].as_array().unwrap().is_empty());
                assert!(kernel["registers"].as_u64() >= Some(16), "{}: {kernel}", gpu.id);
                assert!(kernel["one_more_register"]["blocks"].is_u64());
                assert!(kernel["driver_blocks"].is_null(), "there is no driver");
            }
        }
    }
}

#[test]
fn kernels_of_precisions_have_names_like_others() {
    let document = json("occupancy --gpu h200 --kernels tf32,halves64_nt_f32,tiled16");
    let names: Vec<_> =
        document["kernels"].as_array().unwrap().iter().map(|kernel| &kernel["kernel"]).collect();
    assert_eq!(names, ["tf32_f32", "halves64_nt_f32", "tiled16_f32"]);
}

/// The stand-in for a driver gives every kernel 32 registers and as many blocks as there are threads for. That is wrong
/// where shared memory has room for fewer.
#[test]
fn an_answer_of_the_driver_that_differs_is_a_failure() {
    let name = "occupancy::an_answer_of_the_driver_that_differs_is_a_failure";
    in_child(name, Driver::Fake, &[], |_| {
        let occupancy = |kernel: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_regemm"));
            command.args(["occupancy", "--device", "cuda:0", "--kernels", kernel]).output().unwrap()
        };
        let agrees = occupancy("naive");
        assert_eq!(agrees.status.code(), Some(SUCCESS), "{}", text(&agrees.stderr));
        for part in ["Fake GPU", "driver's blocks", "as the driver compiled"] {
            assert!(text(&agrees.stdout).contains(part), "{}", text(&agrees.stdout));
        }
        let differs = occupancy("pipelined");
        assert_eq!(differs.status.code(), Some(VERIFICATION), "{}", text(&differs.stderr));
        let why = text(&differs.stderr);
        assert!(why.contains("pipelined_f32: 6 resident blocks, but the driver says 16"), "{why}");
    });
}

/// What does not fit into the blocks of a GPU cannot be loaded there, and is a row like all others.
#[test]
fn kernels_that_do_not_fit_a_gpu_are_said_to() {
    let name = "occupancy::kernels_that_do_not_fit_a_gpu_are_said_to";
    in_child(name, Driver::Fake, &[("FAKE_CUDA_SHARED", "65536")], |_| {
        let on_gpu = |line: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_regemm"));
            let line = format!("{line} --device cuda:0");
            let output = command.args(line.split_whitespace()).output().unwrap();
            assert_eq!(output.status.code(), Some(SUCCESS), "{line}: {}", text(&output.stderr));
            text(&output.stdout)
        };
        let line = "occupancy --dtype bf16 --kernels naive,warpgroup";
        let said = on_gpu(line);
        let row = said.lines().find(|row| row.contains("warpgroup_bf16")).unwrap();
        assert!(row.contains("cannot be launched [1]"), "{said}");
        let reason = said.lines().find(|line| line.starts_with("[1] ")).unwrap();
        assert!(reason.contains("65536"), "{said}");
        let document: Value = serde_json::from_str(&on_gpu(&format!("{line} --json"))).unwrap();
        let [fits, large] = [0, 1].map(|place| &document["kernels"][place]);
        assert_eq!(fits["registers"], 32);
        assert!(large["registers"].is_null() && large["local_bytes"].is_null(), "{large}");
        assert!(large["occupancy"]["cannot_launch"].is_string(), "{large}");

        let said = on_gpu("info --dtype bf16");
        let row = said.lines().find(|row| row.contains("warpgroup_bf16 ")).unwrap();
        assert!(row.contains("cannot run here"), "{said}");
        let document: Value = serde_json::from_str(&on_gpu("info --json")).unwrap();
        let kernels = document["kernels"].as_array().unwrap();
        assert_eq!(kernels.len(), regemm::kernels::of_all_precisions().count());
        for kernel in kernels {
            assert!(kernel["report"].is_object() != kernel["cannot_run"].is_string(), "{kernel}");
        }
        let named = |name: &str| kernels.iter().find(|kernel| kernel["name"] == name).unwrap();
        assert!(named("warpgroup_bf16")["cannot_run"].as_str().unwrap().contains("shared memory"));
        assert!(named("naive_f32")["cannot_run"].is_null());
    });
}

/// Without a GPU it is an H200's, and says so.
#[test]
fn without_a_gpu_it_is_that_of_an_h200() {
    let default = said("occupancy --kernels tiled16,naive");
    assert_eq!(default, said("occupancy --gpu h200 --kernels tiled16,naive"));
    assert_eq!(default, said("occupancy --device sim --kernels tiled16,naive"));
    for part in ["NVIDIA H200, compute capability 9.0", "2,048 threads", "Registers as recorded"] {
        assert!(default.contains(part), "{default}");
    }
    let order = ["tiled16_f32", "naive_f32"].map(|name| default.find(name).unwrap());
    assert!(order[0] < order[1], "in the order asked for:\n{default}");
}

#[test]
fn what_cannot_be_launched_is_said_with_the_reason() {
    contains(
        "occupancy --gpu h100 --threads 1024 --registers 65",
        &["cannot be launched", "73728", "65536", "more blocks with up to 64 registers"],
    );
    contains("occupancy --threads 1025", &["cannot be launched", "1025", "1024"]);
    let document = json("occupancy --threads 32 --shared 1000KiB");
    let reason = document["block"]["occupancy"]["cannot_launch"].as_str().unwrap();
    assert!(reason.contains("shared memory"), "{reason}");
}

/// For an architecture that lacks what a kernel needs its entry is compiled to the end of a launch: four registers,
/// which say nothing.
#[test]
fn what_an_architecture_lacks_is_said_instead_of_what_its_stub_takes() {
    for (gpu, dtype, kernel, reason) in [
        ("t4", "f16", "tensor_core", "needs tensor cores for f16"),
        ("rtx4090", "f64", "cluster_split96", "needs tensor cores for f64, and clusters"),
        ("a100-40gb", "bf16", "warpgroup", "needs matrix instructions of warpgroups"),
    ] {
        let line = format!("occupancy --gpu {gpu} --dtype {dtype} --kernels naive,{kernel}");
        contains(&line, &["cannot be launched", reason]);
        let kernels = &json(&line)["kernels"];
        assert!(kernels[0]["occupancy"]["share"].is_number(), "{kernels}");
        let lacks = &kernels[1];
        assert!(lacks["registers"].is_null() && lacks["local_bytes"].is_null(), "{lacks}");
        assert!(lacks["occupancy"]["cannot_launch"].as_str().unwrap().contains(reason), "{lacks}");
        let more = &lacks["one_more_register"];
        assert_eq!(
            (&more["blocks"], &more["cannot_launch"]),
            (&0.into(), &lacks["occupancy"]["cannot_launch"])
        );
        for step in
            ["one_fewer_register", "fewer_blocks_from_registers", "more_blocks_up_to_registers"]
        {
            assert!(lacks[step].is_null(), "{lacks}");
        }
    }
}

/// Reasons are as long as sentences are, and many kernels have the same.
#[test]
fn reasons_make_no_row_longer() {
    let width = |said: &str| {
        let rows = said.lines().filter(|line| line.starts_with('│'));
        rows.map(|line| line.chars().count()).max().unwrap()
    };
    let (all, some) = (said("occupancy --gpu t4"), said("occupancy --gpu t4 --kernels split_k"));
    // Of a GPU that can launch all of them.
    assert!(width(&all) <= width(&said("occupancy --gpu h200")), "{all}");
    let notes = all.lines().filter(|line| line.starts_with('['));
    assert!((2..10).contains(&notes.count()), "{all}");
    assert_eq!(some.matches("cannot be launched [1]").count(), 2, "{some}");
}

#[test]
fn wrong_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let check = |line, words: &[&str]| fail(folder.path(), line, USAGE, words);
    check("occupancy --gpu h20", &["no GPU `h20`", "did you mean h200"]);
    check("occupancy --gpu zzz", &["known are t4", "rtx5090"]);
    check("occupancy --kernels nothing", &["nothing"]);
    for line in [
        "occupancy --registers 10",
        "occupancy --max-threads 10",
        "occupancy --threads 32 --kernels naive",
        "occupancy --gpu h200 --device sim",
        "occupancy --threads 32 --shared 2MiB",
        "occupancy --threads 32 --shared 99999999KiB",
    ] {
        let output = run(folder.path(), line);
        assert_eq!(output.status.code(), Some(USAGE), "regemm {line}");
        assert!(text(&output.stderr).starts_with("error: "), "regemm {line}");
    }
}
