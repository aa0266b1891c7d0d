//! What all tests of this folder use.

use crate::support::compile_fake;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

pub const SUCCESS: i32 = 0;
pub const VERIFICATION: i32 = 1;
pub const USAGE: i32 = 2;
pub const FILE: i32 = 3;
pub const DEVICE: i32 = 4;
pub const INTERRUPTED: i32 = 130;

/// The command with no library path that could lead to a driver, in a folder of its own, with a cache of its own.
pub fn regemm(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regemm"));
    command.current_dir(folder).env("LD_LIBRARY_PATH", "").env("CUDA_VISIBLE_DEVICES", "");
    command.env("REGEMM_CACHE_DIR", cache_folder(folder));
    command.env_remove("REGEMM_TUNING").env_remove("RUST_LOG");
    command
}

/// Where the command keeps measured times that is run in this folder.
pub fn cache_folder(folder: &Path) -> PathBuf {
    folder.join("cache")
}

/// Runs a command line; words are separated by blanks.
pub fn run(folder: &Path, line: &str) -> Output {
    regemm(folder).args(line.split_whitespace()).output().expect("the command starts")
}

/// Compute capability of the GPU that is none: one for which no times are shipped.
pub const CAPABILITY: (u32, u32) = (8, 0);

/// The command with a driver that computes nothing.
pub fn with_fake_gpu(folder: &Path) -> Command {
    static LIBRARY: OnceLock<TempDir> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        compile_fake(&folder.path().join("libcuda.so.1"), &[]);
        folder
    });
    let mut command = regemm(folder);
    command
        .env("LD_LIBRARY_PATH", library.path())
        .env("FAKE_CUDA_MEMORY", "1000000000")
        .env("FAKE_CUDA_CAPABILITY", format!("{}.{}", CAPABILITY.0, CAPABILITY.1));
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[track_caller]
pub fn succeed(folder: &Path, line: &str) -> String {
    let output = run(folder, line);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(SUCCESS), "regemm {line}: {stderr}");
    text(&output.stdout)
}

/// Runs a command line that must succeed, and gives the time that processors worked for it, the system's included.
#[track_caller]
pub fn processor_time(folder: &Path, line: &str) -> Duration {
    let command = regemm(folder);
    let mut shell = Command::new("bash");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let timed = r#"TIMEFORMAT='%U %S'; time "$@" >&2"#;
    shell.env("LC_ALL", "C").current_dir(folder);
    shell.args(["-c", timed, "bash"]).arg(command.get_program());
    let output = shell.args(line.split_whitespace()).output().expect("there is a shell");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(SUCCESS), "regemm {line}: {said}");
    let seconds = said.lines().next_back().unwrap_or_default().split(' ').map(str::parse::<f64>);
    Duration::from_secs_f64(seconds.sum::<Result<_, _>>().expect(&said))
}

/// Runs a command line that must fail with this code, say one line on standard error that holds all these words, and
/// leave no new file behind.
#[track_caller]
pub fn fail(folder: &Path, line: &str, code: i32, words: &[&str]) {
    let before = listing(folder);
    let output = run(folder, line);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "regemm {line}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "regemm {line}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "regemm {line}: `{word}` is missing in: {stderr}");
    }
    assert_eq!(text(&output.stdout), "", "regemm {line}");
    assert_eq!(listing(folder), before, "regemm {line}");
}

/// Runs a command line and interrupts it as Ctrl-C does, once it has worked for a while.
pub fn interrupted(folder: &Path, line: &str) -> Output {
    interrupted_times(folder, line, 1)
}

fn interrupted_times(folder: &Path, line: &str, times: usize) -> Output {
    let child = regemm(folder)
        .args(line.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let pid = child.id().to_string();
    for _ in 0..times {
        std::thread::sleep(Duration::from_secs(2));
        // It may have ended.
        let _ = Command::new("kill").args(["-s", "INT", &pid]).output().unwrap();
    }
    child.wait_with_output().expect("the command ends")
}

/// The same, for work that ends its step first: interrupted twice.
pub fn interrupted_at_once(folder: &Path, line: &str) -> Output {
    interrupted_times(folder, line, 2)
}

/// Names and lengths of the files in a folder.
pub fn listing(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| (entry.path(), entry.metadata().map_or(0, |metadata| metadata.len())))
        .collect();
    files.sort();
    files
}

/// A .npy file of the given version: magic, header length, a header padded with blanks to 64 bytes, data.
pub fn npy(version: u8, descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let dict = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}");
    let prefix = if version == 1 { 10 } else { 12 };
    let length = (prefix + dict.len() + 1).next_multiple_of(64) - prefix;
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((length as u16).to_le_bytes()),
        _ => bytes.extend((length as u32).to_le_bytes()),
    }
    bytes.extend(format!("{dict:<width$}\n", width = length - 1).bytes());
    bytes.extend(data);
    bytes
}

pub fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Writes a little-endian float32 matrix in C order.
pub fn write_f32(folder: &Path, name: &str, shape: &str, values: &[f32]) {
    fs::write(folder.join(name), npy(1, "'<f4'", false, shape, &f32s(values))).expect("written");
}

/// A folder with A = [[1, 2, 3], [4, 5, 6]] and B = [[1, 0], [0, 1], [1, -1]], so that A B = [[4, -1], [10, -1]].
pub fn sample() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write_f32(folder.path(), "a.npy", "(2, 3)", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    write_f32(folder.path(), "b.npy", "(3, 2)", &[1.0, 0.0, 0.0, 1.0, 1.0, -1.0]);
    folder
}

/// Checks the header of a little-endian float32 matrix in C order and gives its elements.
pub fn read_f32(path: &Path, shape: &str) -> Vec<f32> {
    let bytes = fs::read(path).expect("the output exists");
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    // NumPy reads the shape with and without a comma at its end.
    let header = text(&bytes[10..10 + length]).replace(", )", ")");
    for part in ["'<f4'", "'fortran_order': False", &format!("'shape': {shape}")] {
        assert!(header.contains(part), "{header}");
    }
    bytes[10 + length..]
        .chunks(4)
        .map(|chunk| f32::from_le_bytes(chunk.try_into().expect("whole elements")))
        .collect()
}

/// The matrix in `d.npy`, which must be 2 x 2.
pub fn d(folder: &TempDir) -> Vec<f32> {
    read_f32(&folder.path().join("d.npy"), "(2, 2)")
}
