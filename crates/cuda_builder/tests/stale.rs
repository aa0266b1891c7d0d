//! When kernels are compiled again, and when what is kept of them is taken.

mod common;
mod script;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use common::{KERNELS, folder_in_target, kernel_crate};
use script::{build, counting, is_script, lines};

/// The PTX for `sm_80` that is kept of the crate in a folder.
fn kept_files(folder: &Path) -> Vec<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let files = fs::read_dir(target.join("cuda_builder/sm_80")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let records = files.filter(|file| file.extension().is_some_and(|ending| ending == "inputs"));
    let manifest = format!("{}\n", folder.join("kernels/Cargo.toml").display());
    let is_own =
        |record: &PathBuf| fs::read_to_string(record).is_ok_and(|text| text.contains(&manifest));
    records.filter(is_own).map(|record| record.with_extension("ptx")).collect()
}

/// When it was written; none where none is kept.
fn kept(folder: &Path) -> Option<SystemTime> {
    let written = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    kept_files(folder).into_iter().map(written).max()
}

/// A kernel crate of this name in a folder of its own. Cargo would take what it has built of another of the same name.
fn crate_named(name: &str, source: &str) -> PathBuf {
    let folder = folder_in_target(name);
    kernel_crate(&folder, source);
    let manifest = fs::read_to_string(folder.join("kernels/Cargo.toml")).unwrap();
    write(&folder, "Cargo.toml", &manifest.replace("tiny-kernels", name));
    folder
}

/// Writes a file of the kernel crate in a folder.
fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join("kernels").join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A number that is another in each run, for sources of which nothing is to be kept.
fn now() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos()
}

/// Whether a path, or a folder that it lies in, is among those whose change runs the build script again.
fn is_watched(printed: &str, path: &Path) -> bool {
    let watched = lines(printed, "cargo:rerun-if-changed");
    watched.into_iter().any(|watched| path.starts_with(watched))
}

/// A folder that is named by a build script, as cargo admits it.
#[test]
fn a_folder_that_a_build_script_names() {
    if is_script() {
        return;
    }
    let folder = crate_named("folder", &counting("number(env!(\"VALUE\"))"));
    write(&folder, "data/deep/value", "7001");
    write(
        &folder,
        "build.rs",
        "fn main() {
            println!(\"cargo::rerun-if-changed=data\");
            let value = std::fs::read_to_string(\"data/deep/value\").unwrap();
            println!(\"cargo::rustc-env=VALUE={value}\");
        }",
    );
    let build = || build("a_folder_that_a_build_script_names", &folder, &[]);
    let (printed, count) = build();
    assert!(count.contains("7001"), "{count}");
    assert!(is_watched(&printed, &folder.join("kernels/data/deep/value")), "{printed}");
    let first = kept(&folder);
    assert!(first.is_some(), "it is kept");
    build();
    assert_eq!(kept(&folder), first, "nothing is compiled again");
    write(&folder, "data/deep/value", "7002");
    assert!(build().1.contains("7002"));
}

/// Where a build script names nothing all files of its package count, as for cargo; also a new one.
#[test]
fn what_a_build_script_reads_without_naming_it() {
    if is_script() {
        return;
    }
    let folder = crate_named("unnamed", &counting("number(env!(\"VALUE\")) + part::VALUE"));
    let manifest = fs::read_to_string(folder.join("kernels/Cargo.toml")).unwrap();
    write(&folder, "Cargo.toml", &(manifest + "[dependencies]\npart = { path = \"part\" }\n"));
    write(&folder, "part/Cargo.toml", "[package]\nname = \"part\"\nedition = \"2024\"\n");
    write(&folder, "part/src/lib.rs", "#![no_std]\npub const VALUE: u32 = 0;\n");
    let script = "fn main() {
        let value = |path: &str| std::fs::read_to_string(path).unwrap_or(\"1000\".into());
        println!(\"cargo:rustc-env=VALUE={}{}\", value(\"params.txt\"), value(\"data/more\"));
    }";
    write(&folder, "build.rs", script);
    write(&folder, "params.txt", "5");
    write(&folder, "data/other", "");
    let build = || build("what_a_build_script_reads_without_naming_it", &folder, &[]);
    let (printed, count) = build();
    assert!(count.contains("51000"), "{count}");
    for path in ["params.txt", "data/more"] {
        assert!(is_watched(&printed, &folder.join("kernels").join(path)), "{path} in {printed}");
    }
    let first = kept(&folder);
    assert!(first.is_some(), "it is kept");
    build();
    assert_eq!(kept(&folder), first, "nothing is compiled again");
    write(&folder, "params.txt", "6");
    assert!(build().1.contains("61000"));
    write(&folder, "data/more", "2000");
    assert!(build().1.contains("62000"));
}

/// What a build script writes to its `OUT_DIR` follows from what it reads.
#[test]
fn sources_that_a_build_script_writes() {
    if is_script() {
        return;
    }
    let include = "include!(concat!(env!(\"OUT_DIR\"), \"/value.rs\"))";
    let folder = crate_named("generated", &counting(include));
    write(
        &folder,
        "build.rs",
        "fn main() {
            println!(\"cargo::rerun-if-changed=value.txt\");
            let out = std::path::PathBuf::from(std::env::var_os(\"OUT_DIR\").unwrap());
            std::fs::copy(\"value.txt\", out.join(\"value.rs\")).unwrap();
        }",
    );
    write(&folder, "value.txt", "8001");
    let build = || build("sources_that_a_build_script_writes", &folder, &[]);
    let (printed, count) = build();
    assert!(count.contains("8001"), "{count}");
    assert!(!printed.contains("value.rs"), "{printed}");
    let read = lines(&printed, "cargo:rerun-if-env-changed");
    assert!(!read.contains(&"OUT_DIR"), "what cargo sets itself in {printed}");
    let first = kept(&folder);
    assert!(first.is_some(), "it is kept");
    build();
    assert_eq!(kept(&folder), first, "nothing is compiled again");
    write(&folder, "value.txt", "8002");
    assert!(build().1.contains("8002"));
}

/// What cargo tells the build script of the program is nothing that kernels should know.
#[test]
fn the_profile_of_the_program_does_not_reach_kernels() {
    if is_script() {
        return;
    }
    let names = ["OUT_DIR", "TARGET", "HOST", "NUM_JOBS", "OPT_LEVEL", "PROFILE", "DEBUG"];
    let set = names.map(|name| format!("option_env!(\"{name}\").is_some() as u32"));
    let folder = crate_named("profile", &counting(&format!("640000 + {}", set.join(" + "))));
    let test = "the_profile_of_the_program_does_not_reach_kernels";
    let (printed, count) = build(test, &folder, &names.map(|name| (name, "1")));
    assert!(count.contains("640000"), "{count}");
    let read = lines(&printed, "cargo:rerun-if-env-changed");
    assert!(!names.iter().any(|name| read.contains(name)), "{printed}");
}

/// Cargo may be told to name files in dependency files from a folder.
#[test]
fn dependency_files_may_have_a_base_for_others() {
    if is_script() {
        return;
    }
    let folder = crate_named("base", KERNELS);
    write(&folder, ".cargo/config.toml", "[build]\ndep-info-basedir = \".\"\n");
    let build = || build("dependency_files_may_have_a_base_for_others", &folder, &[]);
    let (printed, _) = build();
    assert!(is_watched(&printed, &folder.join("kernels/src/lib.rs")), "{printed}");
    let first = kept(&folder);
    assert!(first.is_some(), "it is kept");
    build();
    assert_eq!(kept(&folder), first, "nothing is compiled again");
}

/// After a power failure the record may be whole and the PTX not.
#[test]
fn kept_ptx_that_is_cut_off_is_made_anew() {
    if is_script() {
        return;
    }
    let folder = crate_named("cut_off", KERNELS);
    let build = || build("kept_ptx_that_is_cut_off_is_made_anew", &folder, &[]);
    build();
    let broken = kept_files(&folder);
    assert!(!broken.is_empty());
    for path in broken {
        let ptx = fs::read(&path).unwrap();
        fs::write(path, &ptx[..ptx.len() / 2]).unwrap();
    }
    assert!(build().1.contains("111111"));
}

/// A linker that the program's user has set serves build scripts of kernel crates as well.
#[cfg(unix)]
#[test]
fn the_linker_of_the_host_is_the_users() {
    use std::os::unix::fs::PermissionsExt;

    if is_script() {
        return;
    }
    let test = "the_linker_of_the_host_is_the_users";
    let cargo = std::process::Command::new(env!("CARGO")).arg("-vV").output().unwrap();
    let cargo = String::from_utf8(cargo.stdout).unwrap();
    let host = cargo.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let variable = format!("CARGO_TARGET_{}_LINKER", host.to_uppercase().replace('-', "_"));
    for (i, name) in [&*variable, "RUSTC_LINKER"].into_iter().enumerate() {
        let folder = crate_named(&format!("linker{i}"), KERNELS);
        write(&folder, "build.rs", &format!("fn main() {{ println!(\"{}\"); }}", now()));
        let (linker, used) = (folder.join("linker"), folder.join("used"));
        fs::write(&linker, format!("#!/bin/sh\ntouch '{}'\nexec cc \"$@\"\n", used.display()))
            .unwrap();
        fs::set_permissions(&linker, fs::Permissions::from_mode(0o755)).unwrap();
        let linker = linker.to_str().unwrap();
        build(test, &folder, &[(name, linker), ("HOST", host), ("TARGET", host)]);
        assert!(used.exists(), "{name}");
    }
}

/// A build for several architectures, whose build scripts wait for each other.
#[test]
fn architectures_are_compiled_at_once() {
    if is_script() {
        return;
    }
    let folder = crate_named("at_once", &format!("{KERNELS}\n// {}\n", now()));
    write(
        &folder,
        "build.rs",
        "fn main() {
            let out = std::env::var(\"OUT_DIR\").unwrap();
            let arch = out.split('/').find(|part| part.starts_with(\"sm_\")).unwrap();
            std::fs::create_dir_all(\"../begun\").unwrap();
            std::fs::write(format!(\"../begun/{arch}\"), \"\").unwrap();
            for _ in 0..600 {
                if std::fs::read_dir(\"../begun\").unwrap().count() == 2 {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            panic!(\"the other has not begun\");
        }",
    );
    let (_, count) = build("architectures_are_compiled_at_once", &folder, &[("NUM_JOBS", "2")]);
    assert!(count.contains("111111"));
}
