//! What a build tells the cargo that runs the build script.

mod common;
mod script;

use std::fs;

use common::{KERNELS, folder_in_target, kernel_crate};
use script::{build, counting, is_script, lines};

/// Variables that the kernel crate reads, its build script and a crate that it depends on.
#[test]
fn variables_that_a_crate_reads_make_its_modules_stale() {
    if is_script() {
        return;
    }
    let folder = folder_in_target("variables");
    let sum = "number(env!(\"OF_CRATE\")) + number(env!(\"BY_SCRIPT\")) + number(part::VALUE)";
    let source = counting(sum);
    kernel_crate(&folder, &source);
    let write = |path: &str, text: &str| {
        let path = folder.join("kernels").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let manifest = fs::read_to_string(folder.join("kernels/Cargo.toml")).unwrap();
    write("Cargo.toml", &(manifest + "[dependencies]\npart = { path = \"part\" }\n"));
    write("part/Cargo.toml", "[package]\nname = \"part\"\nedition = \"2024\"\n");
    let value = "match option_env!(\"OF_PART\") { Some(value) => value, None => \"0\" }";
    write("part/src/lib.rs", &format!("#![no_std]\npub const VALUE: &str = {value};\n"));
    write(
        "build.rs",
        "fn main() {
            println!(\"cargo:rerun-if-env-changed=OF_SCRIPT\");
            println!(\"cargo:rustc-env=BY_SCRIPT={}\", std::env::var(\"OF_SCRIPT\").unwrap());
        }",
    );
    let build = |variables: &[(&str, &str)]| {
        build("variables_that_a_crate_reads_make_its_modules_stale", &folder, variables)
    };

    let (printed, count) = build(&[("OF_CRATE", "100000"), ("OF_SCRIPT", "2000")]);
    assert!(count.contains("102000"), "{count}");
    let read = lines(&printed, "cargo:rerun-if-env-changed");
    for variable in ["OF_CRATE", "OF_SCRIPT", "OF_PART"] {
        assert!(read.contains(&variable), "{variable} in {printed}");
    }
    assert!(!read.contains(&"OUT_DIR"), "what cargo sets itself in {printed}");
    let (_, count) = build(&[("OF_CRATE", "200000"), ("OF_SCRIPT", "2000")]);
    assert!(count.contains("202000"), "{count}");
    let (_, count) = build(&[("OF_CRATE", "200000"), ("OF_SCRIPT", "3000")]);
    assert!(count.contains("203000"), "{count}");
    let variables = [("OF_CRATE", "200000"), ("OF_SCRIPT", "3000"), ("OF_PART", "44")];
    let (_, count) = build(&variables);
    assert!(count.contains("203044"), "{count}");

    // They are told again where nothing is compiled.
    let (again, count) = build(&variables);
    assert!(count.contains("203044"), "{count}");
    assert_eq!(lines(&again, "cargo:rerun-if-env-changed"), read);
}

#[test]
fn warnings_about_a_kernel_crate_are_told_once() {
    if is_script() {
        return;
    }
    let test = "warnings_about_a_kernel_crate_are_told_once";
    let folder = folder_in_target("warnings");
    kernel_crate(&folder, KERNELS);
    let (printed, _) = build(test, &folder, &[]);
    assert!(lines(&printed, "cargo:warning").is_empty(), "{printed}");
    kernel_crate(&folder, &format!("{KERNELS}\nfn nobody_calls_this() {{}}\n"));
    // Also where it is not compiled, since cargo forgets them when a build script runs again.
    for _ in 0..2 {
        let (printed, _) = build(test, &folder, &[]);
        let [warning] = lines(&printed, "cargo:warning")[..] else { panic!("{printed}") };
        assert!(warning.starts_with("src/lib.rs:"), "{warning}");
        assert!(warning.contains("`nobody_calls_this` is never used"), "{warning}");
    }
}
