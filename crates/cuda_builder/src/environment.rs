//! What the inner cargo gets of the environment of the outer one.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use crate::toolchain::hide_other_compilers;

/// What cargo tells a build script of its own package, besides what [`is_inherited`] knows. Kernels would see them,
/// and the same PTX is for all profiles.
const OF_SCRIPT: [&str; 7] =
    ["OUT_DIR", "TARGET", "HOST", "NUM_JOBS", "OPT_LEVEL", "PROFILE", "DEBUG"];

/// Removes what cargo tells a build script about the package being built, and keeps the user's own settings.
pub fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if is_inherited(&name) {
            command.env_remove(&name);
        }
    }
    for name in OF_SCRIPT {
        command.env_remove(name);
    }
    hide_other_compilers(command);
    if let Some((name, linker)) = host_linker(|name| std::env::var_os(name)) {
        command.env(name, linker);
    }
}

/// Whether a variable is cargo's business: that it is read makes nothing stale.
pub fn is_of_cargo(name: &str) -> bool {
    is_inherited(OsStr::new(name)) || OF_SCRIPT.contains(&name)
}

/// Whether a variable describes the outer build and would mislead the inner one.
fn is_inherited(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    // CARGO_MAKEFLAGS hands on the outer cargo's job tokens, so that both together keep to its `--jobs`.
    let settings = ["CARGO_HOME", "CARGO_MAKEFLAGS"];
    let families = ["CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_"];
    let outer = ["CARGO", "__CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS", "RUSTUP_TOOLCHAIN"];
    // Build scripts and macros of the inner build are linked for this machine, too.
    let is_linker = name.starts_with("CARGO_TARGET_") && name.ends_with("_LINKER");
    outer.iter().any(|prefix| name.starts_with(prefix))
        && !settings.contains(&&*name)
        && !families.iter().any(|family| name.starts_with(family))
        && !is_linker
}

/// The setting by which cargo takes the linker that the outer one links with for this machine, where its user has set
/// one in a configuration file, which the inner one does not read.
fn host_linker(variable: impl Fn(&str) -> Option<OsString>) -> Option<(String, OsString)> {
    let host = variable("HOST").filter(|host| variable("TARGET").as_ref() == Some(host))?;
    let host = host.to_str()?.to_uppercase().replace(['-', '.'], "_");
    let name = format!("CARGO_TARGET_{host}_LINKER");
    if variable(&name).is_some() {
        return None;
    }
    Some((name, variable("RUSTC_LINKER")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_describes_the_outer_build_is_removed() {
        for name in [
            "CARGO",
            "CARGO_PKG_NAME",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
            "CARGO_BUILD_TARGET",
            "CARGO_FEATURE_X",
            "RUSTC",
            "RUSTC_WRAPPER",
            "RUSTFLAGS",
            "RUSTUP_TOOLCHAIN",
        ] {
            assert!(is_inherited(OsStr::new(name)), "{name}");
        }
        for name in [
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "CARGO_MAKEFLAGS",
            "RUSTUP_HOME",
            "PATH",
            "HOME",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER",
        ] {
            assert!(!is_inherited(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn the_linker_of_the_outer_build_is_for_programs_of_this_machine() {
        let linker = |set: &[(&str, &str)]| {
            let of = |name: &str| set.iter().find(|(of, _)| *of == name);
            host_linker(|name| of(name).map(|(_, value)| value.into()))
        };
        let host = [("HOST", "a-b"), ("TARGET", "a-b"), ("RUSTC_LINKER", "clang")];
        assert_eq!(linker(&host), Some(("CARGO_TARGET_A_B_LINKER".into(), "clang".into())));
        let other = [("HOST", "a-b"), ("TARGET", "c-d"), ("RUSTC_LINKER", "clang")];
        assert_eq!(linker(&other), None);
        assert_eq!(linker(&host[..2]), None);
        assert_eq!(linker(&[&host[..], &[("CARGO_TARGET_A_B_LINKER", "gcc")]].concat()), None);
    }
}
