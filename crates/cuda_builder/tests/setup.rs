//! `setup.sh` with stand-ins for the programs that it asks, where it would install something.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// What apt says where it is not to remove what conflicts.
const CONFLICT: &str = "Reading package lists...\nThe following packages will be REMOVED:\n  cargo rustc\n\
                        The following NEW packages will be installed:\n  rustc-web\nE: remove is disabled.\n";

/// What the script says, with this version of the compiler in apt's package sources and this answer to the order to
/// install it, and that order. The system is a Debian without a compiler, whatever this one is.
fn setup(candidate: &str, answer: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, script: &str| {
        fs::write(path(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    write("rustc", "echo /no/such/sysroot");
    write("rustup", "echo no network; exit 1");
    write("sudo", "exec \"$@\"");
    write(
        "apt-cache",
        &format!("echo 'rustc-web:\n  Installed: (none)\n  Candidate: {candidate}'"),
    );
    fs::write(path("answer"), answer).unwrap();
    let order =
        "[ \"$1\" = update ] && exit 0\ncd \"${0%/*}\"\necho \"$@\" >order\ncat answer\nexit 100";
    write("apt-get", order);
    fs::create_dir_all(path("system/etc")).unwrap();
    fs::write(path("system/etc/debian_version"), "13.0\n").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../setup.sh");
    let output = Command::new("bash")
        .arg(script)
        .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
        .env_remove("CUDA_BUILDER_TOOLCHAIN")
        .env("SETUP_SYSTEM_ROOT", path("system"))
        .output()
        .unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let order = fs::read_to_string(path("order")).unwrap_or_default();
    (said, order)
}

#[test]
fn what_is_too_old_is_not_installed() {
    for (candidate, told) in
        [("1.85.0+dfsg3-1~deb12u3", "rustc-web 1.85.0"), ("(none)", "rustc-web not at all")]
    {
        let (said, order) = setup(candidate, "");
        assert!(said.contains(told) && said.contains("1.95 is needed"), "{said}");
        assert_eq!(order, "");
    }
}

#[test]
fn nothing_is_removed_for_what_is_installed() {
    let (said, order) = setup("1.96.0+dfsg1-1", CONFLICT);
    assert!(order.contains("install") && order.contains("--no-remove"), "{order}");
    assert!(said.contains("would have to remove") && said.contains("  cargo rustc\n"), "{said}");
}
