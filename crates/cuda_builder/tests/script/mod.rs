//! A test that runs itself as a build script, with an environment of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{KERNELS, text};

/// The kernels, of which `count` gives what this expression does. `number` reads a text.
pub fn counting(expression: &str) -> String {
    let count = format!("{{ {expression} }}");
    KERNELS.replace("222_222", "2").replace("111_111", &count)
        + "const fn number(text: &str) -> u32 {
            let (mut i, mut number) = (0, 0);
            while i < text.len() {
                number = 10 * number + (text.as_bytes()[i] - b'0') as u32;
                i += 1;
            }
            number
        }"
}

/// The folder that a build script is to work in.
const FOLDER: &str = "CUDA_BUILDER_TEST_FOLDER";

/// Builds the crate in a folder as a build script with these variables, and gives what it printed and the PTX of
/// `count`.
pub fn build(test: &str, folder: &Path, variables: &[(&str, &str)]) -> (String, String) {
    let mut script = Command::new(std::env::current_exe().unwrap());
    script.args(["--exact", test, "--nocapture"]).env(FOLDER, folder);
    let output = script.envs(variables.iter().copied()).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    (printed, fs::read_to_string(folder.join("count")).unwrap())
}

/// What the build script does, where this process is one.
pub fn is_script() -> bool {
    let Some(folder) = std::env::var_os(FOLDER) else { return false };
    let folder = Path::new(&folder);
    // The harness has begun a line.
    println!();
    let builder = cuda_builder::CudaBuilder::new(folder.join("kernels"));
    let modules = builder.out_dir(folder.join("out")).archs(["sm_75", "sm_80"]).build().unwrap();
    fs::write(folder.join("count"), text(&modules, "sm_80", "count")).unwrap();
    true
}

/// The lines that tell cargo something.
pub fn lines<'a>(printed: &'a str, of: &str) -> Vec<&'a str> {
    printed.lines().filter_map(|line| line.strip_prefix(of)?.strip_prefix('=')).collect()
}
