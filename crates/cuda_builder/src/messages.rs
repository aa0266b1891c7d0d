//! What the inner cargo tells besides PTX: the warnings of the compiler, the environment variables that were read on
//! the way, and packages that may have read any of their files.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The ending of dependency files (makefile syntax), which cargo leaves beside its artifacts, one for each crate that
/// it was asked for, and rustc beside its own.
pub const DEPENDENCIES: &str = "d";

/// What a line about a variable begins with in a dependency file of rustc.
const READ_BY_CRATE: &str = "# env-dep:";

/// What a line about a variable begins with in what a build script prints, and has done for long.
const READ_BY_SCRIPT: [&str; 2] = ["cargo::rerun-if-env-changed=", "cargo:rerun-if-env-changed="];

/// What lines of a build script begin with by which it says itself when it is to run again.
const RUN_AGAIN: [&str; 2] = ["cargo::rerun-if-", "cargo:rerun-if-"];

/// What cargo's names of packages begin with that lie in a folder, and so may change.
const IN_FOLDER: &str = "path+";

/// What was read besides sources.
#[derive(Default)]
pub struct Told {
    /// The environment variables that crates of a build and their build scripts read.
    pub variables: BTreeSet<String>,
    /// The manifests of packages whose build script does not say what it reads: to cargo that is any of their files.
    pub packages: BTreeSet<PathBuf>,
}

/// What counts of cargo's messages.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Message {
    /// Of an artifact.
    filenames: Vec<PathBuf>,
    /// Of an artifact.
    manifest_path: Option<PathBuf>,
    /// Of a package.
    package_id: String,
    /// Of a build script that has run.
    out_dir: Option<PathBuf>,
}

/// The warnings of rustc about lines of source files, a line each. What it has to say about options of ours has no such
/// line.
pub fn warnings(stderr: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut message = None;
    for line in stderr.lines() {
        if let Some(text) = line.strip_prefix("warning: ") {
            message = Some(text);
        } else if let Some(place) = line.trim_start().strip_prefix("--> ") {
            warnings.extend(message.take().map(|text| format!("{place}: {text}")));
        } else if line.is_empty() {
            message = None;
        }
    }
    warnings
}

/// What crates of a build and their build scripts read. `stdout` has cargo's messages about them, a line of JSON each;
/// `files` are dependency files of others.
pub fn read(stdout: &str, mut files: Vec<PathBuf>) -> Result<Told, Error> {
    let mut manifests = BTreeMap::new();
    let mut scripts = Vec::new();
    // What is no message is of somebody else, such as a wrapper of the compiler.
    for Message { filenames, manifest_path, package_id, out_dir } in
        stdout.lines().filter_map(|line| serde_json::from_str(line).ok())
    {
        for artifact in filenames {
            files.extend(of_artifact(&artifact)?);
        }
        // What a script prints lies beside the folder for what it writes.
        let output = out_dir.map(|folder| folder.with_file_name("output"));
        scripts.extend(output.map(|output| (output, package_id.clone())));
        manifests.extend(manifest_path.map(|manifest| (package_id, manifest)));
    }
    let mut told = Told::default();
    for path in files.iter().filter(|path| path.exists()) {
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        let read = text.lines().filter_map(|line| line.strip_prefix(READ_BY_CRATE));
        let names = read.map(|text| text.split('=').next().unwrap_or_default().to_owned());
        told.variables.extend(names);
    }
    for (path, package) in scripts.iter().filter(|(path, _)| path.exists()) {
        let text = std::fs::read(path).map_err(Error::io(path))?;
        let text = String::from_utf8_lossy(&text);
        let read = |line: &str| {
            READ_BY_SCRIPT.iter().find_map(|of| Some(line.strip_prefix(of)?.to_owned()))
        };
        told.variables.extend(text.lines().filter_map(read));
        let says = text.lines().any(|line| RUN_AGAIN.iter().any(|of| line.starts_with(of)));
        if !says && package.starts_with(IN_FOLDER) {
            told.packages.extend(manifests.get(package).cloned());
        }
    }
    Ok(told)
}

/// The dependency files of an artifact: of a library the one that has its name, of a build script what lies in the
/// folder that it has for itself.
fn of_artifact(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let folder = path.parent().unwrap_or(path);
    if folder.file_name() != Some(OsStr::new("deps")) {
        return files(folder, DEPENDENCIES);
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let names = [name.strip_prefix("lib").unwrap_or(&name), &name];
    Ok(names.map(|name| folder.join(format!("{name}.{DEPENDENCIES}"))).into())
}

/// The files in a folder whose names end so, in order.
pub fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    if folder.exists() {
        for file in std::fs::read_dir(folder).map_err(Error::io(folder))? {
            let path = file.map_err(Error::io(folder))?.path();
            if path.extension() == Some(OsStr::new(ending)) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_about_source_files_are_a_line_each() {
        let stderr = "warning: unstable feature specified for `-Ctarget-feature`: `ptx71`\n  |\n  = note: not stable\n\n\
                      warning: unused variable: `a`\n --> src/lib.rs:7:9\n  |\n7 |     let a = 1;\n  |         ^ help\n\n\
                      warning: 1 warning emitted\n\nnote: something\n  --> src/lib.rs:1:1\n";
        assert_eq!(warnings(stderr), ["src/lib.rs:7:9: unused variable: `a`"]);
    }

    #[test]
    fn messages_are_told_from_all_else() {
        let json = r#"{"reason":"x","env":[["A","\"filenames\":[\"x\"]"]],"filenames":["/a b","C:\\d"],"out_dir":"/o"}"#;
        let Message { filenames, out_dir, .. } = serde_json::from_str(json).unwrap();
        assert_eq!(filenames, [Path::new("/a b"), Path::new("C:\\d")]);
        assert_eq!(out_dir.as_deref(), Some(Path::new("/o")));
        let other: Message = serde_json::from_str(r#"{"reason":"build-finished"}"#).unwrap();
        assert!(other.filenames.is_empty() && other.out_dir.is_none());
        let told = read("no message\n{\n", Vec::new()).unwrap();
        assert!(told.variables.is_empty() && told.packages.is_empty());
    }

    #[test]
    fn any_file_counts_where_a_script_of_a_folder_names_none() {
        let folder = tempfile::tempdir().unwrap();
        let mut stdout = String::new();
        for (name, source, printed) in [
            ("silent", "path", "cargo:rustc-cfg=x\n"),
            ("file", "path", "cargo::rerun-if-changed=a\n"),
            ("variable", "path", "x\ncargo:rerun-if-env-changed=A\n"),
            ("fetched", "registry", ""),
        ] {
            let out_dir = folder.path().join(name).join("out");
            std::fs::create_dir_all(&out_dir).unwrap();
            std::fs::write(out_dir.with_file_name("output"), printed).unwrap();
            let id = format!("{source}+file:///{name}#1.0.0");
            for message in [
                serde_json::json!({"package_id": id, "manifest_path": format!("/{name}/Cargo.toml")}),
                serde_json::json!({"package_id": id, "out_dir": out_dir}),
            ] {
                stdout += &format!("{message}\n");
            }
        }
        let told = read(&stdout, Vec::new()).unwrap();
        assert_eq!(
            told.packages.into_iter().collect::<Vec<_>>(),
            [Path::new("/silent/Cargo.toml")]
        );
    }
}
