//! What `--explain` says of each kernel: true of that kernel, and short enough for a terminal.

use crate::harness::*;
use std::path::Path;

/// The cells of a kernel's row.
fn row(said: &str, kernel: &str) -> Vec<String> {
    let is_it = |line: &&str| line.split_whitespace().nth(1) == Some(kernel);
    let line =
        said.lines().find(is_it).unwrap_or_else(|| panic!("{kernel} is missing in:\n{said}"));
    line.trim_matches('│')
        .split("  ")
        .map(str::trim)
        .filter(|x| !x.is_empty())
        .map(str::to_owned)
        .collect()
}

fn reason(said: &str, kernel: &str) -> String {
    row(said, kernel).pop().unwrap().trim_end_matches('│').trim().to_owned()
}

fn explained(folder: &Path, line: &str) -> String {
    succeed(folder, &format!("tune --explain {line}"))
}

#[test]
fn reasons_are_true_of_the_kernel_that_they_stand_beside() {
    let folder = tempfile::tempdir().unwrap();
    let said = explained(folder.path(), "4096 --gpu rtx4090");
    assert_eq!(reason(&said, "naive_f32"), "it loads both factors anew for every multiply-add");
    let highest = "the highest rung whose tiles keep the device busy";
    assert_eq!(reason(&said, "decoupled_f32"), highest, "{said}");
    assert_eq!(said.matches(highest).count(), 2, "as the choice and in its row alone:\n{said}");
    assert_eq!(reason(&said, "tiled16_f32"), "its tiles keep the device busy", "{said}");
    // Turing runs rungs above the one that is chosen, and they have as many tiles.
    let said = explained(folder.path(), "4096 --gpu t4");
    let highest = "the highest rung without cp.async that keeps the device busy";
    assert_eq!(reason(&said, "double_buffered_f32"), highest, "{said}");
    assert_eq!(reason(&said, "microkernel_f32"), "its tiles keep the device busy", "{said}");
    // What speaks against a kernel is no reason to choose it.
    let said = explained(folder.path(), "2048 --gpu t4 --dtype bf16_f32");
    let alone = "no kernel that can run here has tiles for this D";
    assert_eq!(reason(&said, "naive_bf16_f32"), alone, "{said}");
    assert!(!said.contains("loads both factors"), "{said}");
    let said = explained(folder.path(), "200 --gpu rtx4090");
    assert_eq!(reason(&said, "pipelined_f32"), "it has too few tiles for the device", "{said}");
    // One tile keeps nothing busy.
    let said = explained(folder.path(), "20x20x4000 --gpu h200 --dtype bf16_f32");
    assert!(!said.contains("highest rung whose tiles"), "{said}");
}

/// The simulator has so few multiprocessors that one tile is enough for each rung.
#[test]
fn a_kernel_without_tensor_cores_is_not_said_to_be_fast_on_them() {
    let folder = sample();
    let line = "mul a.npy b.npy -o d.npy --device sim --explain";
    let said = succeed(folder.path(), line);
    assert!(!said.contains("a few tiles on tensor cores"), "{said}");
}

#[test]
fn a_product_that_is_promoted_is_not_said_to_keep_a_device_busy() {
    let folder = sample();
    let line = "mul a.npy b.npy -o d.npy --device sim --as bf16 --results f32 --precision promoted --explain";
    let said = succeed(folder.path(), line);
    assert!(!said.contains("busy"), "{said}");
    assert!(said.contains("on tensor cores"), "{said}");
    assert_eq!(reason(&said, "naive_bf16_f32"), "cannot: does not take sums over to f32");
}

#[test]
fn tables_of_kernels_that_cannot_run_fit_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let said = explained(folder.path(), "4096 --gpu rtx4090 --dtype f16");
    let why = reason(&said, "warpgroup_f16");
    assert_eq!(why, "cannot: needs compute capability 9.0 alone");
    let widest = said.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 140, "{widest} columns:\n{said}");
    for part in ["expected time", "chosen = 1", "rank by rule", "why there"] {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    let line = "--gpu rtx4090 --dtype f16 --json";
    let document = explained(folder.path(), &format!("4096 {line}"));
    assert!(document.contains("matrix instructions of warpgroups"), "in full:\n{document}");
}
