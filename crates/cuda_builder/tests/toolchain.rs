//! Looking for a toolchain among made-up compilers in temporary folders.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cuda_builder::Error;
use cuda_builder::toolchain::{MINIMUM_RELEASE, Search, TOOLCHAIN_VARIABLE};
use tempfile::TempDir;

/// A sysroot whose `rustc` is a script that answers like a compiler of some release.
fn sysroot(folder: &Path, release: &str, has_source: bool) -> PathBuf {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n'--print sysroot') echo '{}' ;;\n\
         *) echo 'rustc {release} (made up)'; echo 'release: {release}' ;;\nesac\n",
        folder.display()
    );
    for program in ["rustc", "cargo"] {
        let path = bin.join(program);
        fs::write(&path, &script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    if has_source {
        let source = folder.join("lib/rustlib/src/rust/library/core/src");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("lib.rs"), "").unwrap();
    }
    folder.to_path_buf()
}

/// The release and the packages stand in texts and in a script, too.
#[test]
fn all_say_the_same_of_what_is_needed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let (major, minor) = MINIMUM_RELEASE;
    for (path, text) in [
        ("setup.sh", format!("\nreadonly minimum_minor={minor}\n")),
        ("Cargo.toml", format!("\nrust-version = \"{major}.{minor}\"\n")),
        ("README.md", format!("Rust {major}.{minor} or newer")),
        ("docs/use-as-a-dependency.md", format!("Rust {major}.{minor} or newer")),
        ("crates/cuda_builder/src/lib.rs", format!("rustc {major}.{minor} or newer")),
    ] {
        assert!(read(path).contains(&text), "{text:?} in {path}");
    }
    let script = read("setup.sh");
    let packages = script.split_once("debian_packages=(").unwrap().1.split_once(')').unwrap().0;
    let message = Search::default().find().unwrap_err().to_string();
    assert!(message.contains(&format!("apt-get install {packages}\n")), "{message}");
}

fn temporary() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn without_any_toolchain_the_message_gives_both_remedies() {
    let empty = temporary();
    let search = Search { system: vec![empty.path().to_path_buf()], ..Search::default() };
    let error = search.find().unwrap_err();
    assert!(matches!(&error, Error::NoToolchain(rejected) if rejected.is_empty()));
    let message = error.to_string();
    assert!(message.contains("rustup component add rust-src"), "{message}");
    assert!(message.contains("apt-get install rustc-web cargo-web rust-web-src"), "{message}");
    assert!(message.contains("./setup.sh") && message.contains(TOOLCHAIN_VARIABLE), "{message}");
    assert_eq!(format!("{error:?}"), message, "a build script prints the error with Debug");
}

#[test]
fn the_message_says_what_each_toolchain_lacks() {
    let (building, system) = (temporary(), temporary());
    let building = sysroot(building.path(), "1.95.0", false);
    let system = sysroot(system.path(), "1.70.0", true);
    let search = Search {
        building: Some(building.join("bin/rustc")),
        system: vec![system.join("bin")],
        ..Search::default()
    };
    let message = search.find().unwrap_err().to_string();
    let source = building.join("lib/rustlib/src/rust/library");
    assert!(message.contains(&format!("{} is not installed", source.display())), "{message}");
    assert!(message.contains("its release is 1.70.0, older than 1.95"), "{message}");
}

#[test]
fn the_explicit_toolchain_wins_over_all_others() {
    let (explicit, building) = (temporary(), temporary());
    let explicit = sysroot(explicit.path(), "1.97.0-nightly", true);
    let building = sysroot(building.path(), "1.96.0", true);
    let search = Search {
        explicit: Some(explicit.clone()),
        building: Some(building.join("bin/rustc")),
        system: Vec::new(),
    };
    let found = search.find().unwrap();
    assert_eq!(found.rustc, explicit.join("bin/rustc"));
    assert_eq!(found.cargo, explicit.join("bin/cargo"));
}

#[test]
fn an_explicit_toolchain_that_cannot_do_it_is_an_error_even_where_another_can() {
    let (explicit, building) = (temporary(), temporary());
    let explicit = sysroot(explicit.path(), "1.96.0", false);
    let building = sysroot(building.path(), "1.96.0", true);
    let search = Search {
        explicit: Some(explicit.clone()),
        building: Some(building.join("bin/rustc")),
        system: Vec::new(),
    };
    let error = search.find().unwrap_err();
    assert!(matches!(error, Error::ExplicitToolchain(_)));
    let message = error.to_string();
    assert!(message.contains(TOOLCHAIN_VARIABLE), "{message}");
    assert!(message.contains(&explicit.display().to_string()), "{message}");
    assert!(message.contains("rustup component add rust-src"), "{message}");
}

#[test]
fn the_toolchain_that_builds_comes_before_the_system() {
    let (building, system) = (temporary(), temporary());
    let building = sysroot(building.path(), "1.96.0", true);
    let system = sysroot(system.path(), "1.96.0", true);
    let mut search = Search {
        building: Some(building.join("bin/rustc")),
        system: vec![system.join("bin")],
        ..Search::default()
    };
    assert_eq!(search.find().unwrap().rustc, building.join("bin/rustc"));
    fs::remove_dir_all(building.join("lib")).unwrap();
    assert_eq!(search.find().unwrap().rustc, system.join("bin/rustc"));
    search.building = Some(building.join("bin/no-such-program"));
    assert_eq!(search.find().unwrap().rustc, system.join("bin/rustc"));
}

#[test]
fn proxies_of_rustup_are_passed_over() {
    let (proxies, system) = (temporary(), temporary());
    let proxies = sysroot(proxies.path(), "1.96.0", true);
    fs::write(proxies.join("bin/rustup"), "").unwrap();
    let system = sysroot(system.path(), "1.96.0", true);
    let search =
        Search { system: vec![proxies.join("bin"), system.join("bin")], ..Search::default() };
    assert_eq!(search.find().unwrap().rustc, system.join("bin/rustc"));
}

/// A program that cargo did not start knows of no toolchain that they stand for.
#[test]
fn proxies_of_rustup_alone_are_told() {
    let folder = temporary();
    let proxies = sysroot(folder.path(), "1.96.0", true);
    fs::write(proxies.join("bin/rustup"), "").unwrap();
    let mut search = Search { system: vec![proxies.join("bin")], ..Search::default() };
    let message = search.find().unwrap_err().to_string();
    let rustc = proxies.join("bin/rustc").display().to_string();
    let told = message.lines().find(|line| line.contains(&rustc)).expect("the proxy in the list");
    assert!(told.contains("rustup") && told.contains("with cargo"), "{message}");
    assert!(told.contains(TOOLCHAIN_VARIABLE), "{message}");

    // Under cargo there is nothing to say of them.
    let building = temporary();
    let building = sysroot(building.path(), "1.96.0", false);
    search.building = Some(building.join("bin/rustc"));
    let message = search.find().unwrap_err().to_string();
    assert!(!message.contains(&rustc), "{message}");
}

#[test]
fn a_toolchain_without_cargo_is_passed_over() {
    let folder = temporary();
    let root = sysroot(folder.path(), "1.96.0", true);
    fs::remove_file(root.join("bin/cargo")).unwrap();
    let message = Search { system: vec![root.join("bin")], ..Search::default() }.find();
    let message = message.unwrap_err().to_string();
    assert!(
        message.contains(&format!("{} is not installed", root.join("bin/cargo").display())),
        "{message}"
    );
}
