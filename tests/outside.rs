//! Programs outside of this workspace that use the library. Each is built by a cargo of its own, so these tests need
//! the one that runs them: they fail where they are started in another way than by `cargo test`.
//!
//! Both programs are built in the target folder of this workspace, so that only the first run takes long, and they get
//! the PTX of the library's kernels that lies there: its source and compiler are the same. That cuda_builder works
//! outside shows the example, which has kernels of its own. They use the versions of this workspace's lock file, which
//! the outer build has downloaded: nothing is fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What a user is told to add. The tests below do exactly that, so that text and truth cannot part.
const INSTRUCTIONS: &str = include_str!("../docs/use-as-a-dependency.md");

/// How the instructions call a checkout of this repository.
const CHECKOUT: &str = "\"../regemm";

/// The code blocks of a language in the instructions, with this checkout in them.
fn instructions(language: &str) -> Vec<String> {
    let blocks = INSTRUCTIONS.split("```").skip(1).step_by(2);
    let blocks = blocks.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'));
    blocks.map(|block| block.replace(CHECKOUT, &format!("\"{ROOT}"))).collect()
}

/// Whether cargo or the user set a variable for this workspace alone, so that a build elsewhere would not have it.
/// `CUDA_LIBRARY_PATH` is the one that matters: with it the instructions could not fail.
fn is_of_this_workspace(name: &str) -> bool {
    let cuda = ["CUDA_LIBRARY_PATH", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"];
    let families = ["CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS"];
    let of_the_machine = ["CARGO_HOME", "CARGO_BUILD_JOBS"];
    let networks = ["CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_"];
    cuda.contains(&name)
        || families.iter().any(|family| name.starts_with(family))
            && !of_the_machine.contains(&name)
            && !networks.iter().any(|family| name.starts_with(family))
}

/// Builds and runs the program of a package as its user would, and gives what it printed.
fn cargo_run(package: &Path) -> String {
    let cargo = std::env::var_os("CARGO").expect(
        "this test builds packages with the cargo that runs it: start it with `cargo test`",
    );
    use_versions_of_this_workspace(package);
    let mut command = Command::new(cargo);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_this_workspace) {
            command.env_remove(name);
        }
    }
    command
        .current_dir(package)
        .arg("run")
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap())
        .env("CARGO_NET_OFFLINE", "true")
        // Smaller and sooner done; nobody debugs these programs.
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .env("CARGO_INCREMENTAL", "false");
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?} in {}: {status}\n{stdout}\n{stderr}", package.display());
    // Cargo's summary of a package's warnings, which it repeats when nothing is compiled.
    assert!(
        !stderr.contains(" generated "),
        "the package or regemm compile with warnings:\n{stderr}"
    );
    stdout.into_owned()
}

/// Copies the workspace's lock file to a package that has none of this age. Cargo takes out what the package does not
/// need; doing so again without need would make the package's kernels stale.
fn use_versions_of_this_workspace(package: &Path) {
    let written = |lock: &Path| fs::metadata(lock).and_then(|file| file.modified()).ok();
    let (ours, theirs) = (Path::new(ROOT).join("Cargo.lock"), package.join("Cargo.lock"));
    if written(&theirs) <= written(&ours) {
        fs::write(theirs, fs::read(ours).unwrap()).unwrap();
    }
}

/// The instructions are complete: a package that does what they say, and nothing else, builds and multiplies.
#[test]
fn a_package_with_what_the_instructions_say_multiplies_matrices() {
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path();
    for above in package.ancestors() {
        let config = above.join(".cargo/config.toml");
        assert!(!config.exists(), "{} would hide what is missing", config.display());
    }
    let toml = instructions("toml");
    let [dependency, config, profiles] = &toml[..] else {
        panic!("three blocks of TOML: {toml:?}")
    };
    assert!(dependency.contains(ROOT) && config.contains(ROOT), "{toml:?}");
    fs::create_dir_all(package.join("src")).unwrap();
    fs::create_dir_all(package.join(".cargo")).unwrap();
    let manifest = include_str!("outside/Cargo.toml.in");
    fs::write(package.join("Cargo.toml"), manifest.to_owned() + dependency + profiles).unwrap();
    fs::write(package.join(".cargo/config.toml"), config).unwrap();
    fs::write(package.join("src/main.rs"), include_str!("outside/product.rs")).unwrap();

    assert_eq!(cargo_run(package), "[58.0, 64.0, 139.0, 154.0]\n");
}

/// Where the folder of the instructions is not at hand, the one that they tell to make is the same.
#[test]
fn the_folder_to_make_oneself_is_the_one_of_this_repository() {
    let folder = tempfile::tempdir().unwrap();
    let [script] = &instructions("sh")[..] else { panic!("one block of shell commands") };
    let status = Command::new("sh").args(["-euc", script]).current_dir(&folder).status().unwrap();
    assert!(status.success(), "{script}");

    // What is beside it is for Windows, where all of it is copied.
    let ours = Path::new(ROOT).join("crates/cuda_driver/link/lib64");
    assert_eq!(files(&folder.path().join("cuda/lib64")), files(&ours));
}

/// The files below a folder, by their paths in it, with what they hold.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files
                    .push((path.strip_prefix(folder).unwrap().to_owned(), fs::read(path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// The example of an epilogue of one's own builds, and all its kernels give what a plain computation gives.
#[test]
fn the_example_of_an_epilogue_of_ones_own_runs() {
    let printed = cargo_run(&Path::new(ROOT).join("examples/custom_epilogue"));
    let lines: Vec<_> = printed.lines().collect();
    let kernels = ["tiled_f32", "microkernel_f32", "warp_specialised_f32", "warpgroup_bf16"];
    assert_eq!(lines.len(), kernels.len(), "a line for each kernel: {printed}");
    for (line, kernel) in lines.iter().zip(kernels) {
        let right = format!("scaled_residual_{kernel}: 100 x 70 elements are right");
        // On a GPU that is no Hopper the last two cannot run, and say so.
        let needs_hopper = kernel.starts_with("warp");
        let is_left_out = needs_hopper && line.contains("has compute capability");
        assert!(line.starts_with(&right) || is_left_out, "{printed}");
    }
}
