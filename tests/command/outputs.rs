//! Nothing half-written stays behind.

use crate::harness::*;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn output_that_exists_is_kept_without_force() {
    let folder = sample();
    fs::write(folder.path().join("d.npy"), "precious").unwrap();
    fail(folder.path(), "mul a.npy b.npy -o d.npy", FILE, &["d.npy", "exists", "--force"]);
    assert_eq!(fs::read(folder.path().join("d.npy")).unwrap(), b"precious");
    succeed(folder.path(), "mul a.npy b.npy -o d.npy --force");
    assert_eq!(d(&folder), [4.0, -1.0, 10.0, -1.0]);
}

#[test]
fn output_that_exists_survives_every_failure() {
    let folder = sample();
    fs::write(folder.path().join("d.npy"), "precious").unwrap();
    fail(folder.path(), "mul a.npy a.npy -o d.npy --force", FILE, &["a.npy"]);
    fail(folder.path(), "mul a.npy none.npy -o d.npy --force", FILE, &["none.npy"]);
    fail(folder.path(), "mul a.npy b.npy -o d.npy --force --device cuda:0", DEVICE, &["driver"]);
    fail(folder.path(), "mul a.npy b.npy -o d.npy --force --kernel nope", USAGE, &["nope"]);
    assert_eq!(fs::read(folder.path().join("d.npy")).unwrap(), b"precious");
}

#[test]
fn output_may_replace_an_input_only_when_forced() {
    let folder = sample();
    write_f32(folder.path(), "c.npy", "(2, 2)", &[1.0; 4]);
    fail(folder.path(), "mul a.npy b.npy -o ./a.npy", FILE, &["a.npy", "is an input", "--force"]);
    succeed(folder.path(), "mul a.npy b.npy --c c.npy -o c.npy --force");
    let sums = read_f32(&folder.path().join("c.npy"), "(2, 2)");
    assert_eq!(sums, [5.0, 0.0, 11.0, 0.0]);
}

#[test]
fn output_needs_a_folder_that_can_be_written() {
    let folder = sample();
    fail(folder.path(), "mul a.npy b.npy -o no/d.npy", FILE, &["no/d.npy", "no does not exist"]);
    fail(folder.path(), "mul a.npy b.npy -o .", FILE, &["is a folder"]);
    fail(folder.path(), "mul a.npy b.npy -o a.npy/d.npy", FILE, &["a.npy/d.npy"]);
    // /proc refuses new files even to the superuser.
    fail(folder.path(), "mul a.npy b.npy -o /proc/d.npy", FILE, &["/proc/d.npy", "/proc"]);
}

#[test]
fn output_through_a_link_replaces_what_is_behind_it() {
    let folder = sample();
    let elsewhere = tempfile::tempdir().unwrap();
    let behind = elsewhere.path().join("behind.npy");
    fs::write(&behind, "old").unwrap();
    std::os::unix::fs::symlink(&behind, folder.path().join("d.npy")).unwrap();
    fail(folder.path(), "mul a.npy b.npy -o d.npy", FILE, &["exists"]);
    succeed(folder.path(), "mul a.npy b.npy -o d.npy --force");
    assert!(folder.path().join("d.npy").is_symlink());
    assert_eq!(read_f32(&behind, "(2, 2)"), [4.0, -1.0, 10.0, -1.0]);
    assert_eq!(listing(elsewhere.path()).len(), 1);
}

#[test]
fn output_through_a_link_to_nothing_makes_what_it_leads_to() {
    let folder = sample();
    let at = folder.path();
    fs::create_dir(at.join("in")).unwrap();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, at.join(name)).unwrap();
    link("in/link.npy", "d.npy");
    link("../behind.npy", "in/link.npy");
    for force in ["", "--force"] {
        succeed(at, &format!("mul a.npy b.npy -o d.npy {force}"));
        assert!(at.join("d.npy").is_symlink() && at.join("in/link.npy").is_symlink());
        assert_eq!(read_f32(&at.join("behind.npy"), "(2, 2)"), [4.0, -1.0, 10.0, -1.0]);
        fs::remove_file(at.join("behind.npy")).unwrap();
    }
    link("no/d.npy", "nowhere.npy");
    fail(at, "mul a.npy b.npy -o nowhere.npy", FILE, &["nowhere.npy", "no does not exist"]);
    link("circle.npy", "circle.npy");
    fail(at, "mul a.npy b.npy -o circle.npy --force", FILE, &["circle.npy: cannot be written"]);
    let two = "traffic --size 16 --kernels naive --svg d.npy --png in/link.npy";
    fail(at, two, USAGE, &["one file for two outputs"]);
}

#[test]
fn output_to_a_full_disk_fails_and_leaves_nothing() {
    let folder = sample();
    fail(folder.path(), "mul a.npy b.npy -o /dev/full", FILE, &["/dev/full", "No space left"]);
    // A limit on the size of files stops a write in its middle, as a full disk does.
    write_f32(folder.path(), "tall.npy", "(1000, 1)", &[1.0; 1000]);
    write_f32(folder.path(), "wide.npy", "(1, 1000)", &[1.0; 1000]);
    let before = listing(folder.path());
    let output = Command::new("sh")
        .arg("-c")
        .arg(r#"ulimit -f 100; exec "$0" mul tall.npy wide.npy -o d.npy"#)
        .arg(env!("CARGO_BIN_EXE_regemm"))
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(FILE), "{stderr}");
    assert!(stderr.contains("d.npy: cannot be written") && stderr.contains("ulimit"), "{stderr}");
    assert_eq!(listing(folder.path()), before);
}

#[test]
fn output_may_be_a_device() {
    let folder = sample();
    succeed(folder.path(), "mul a.npy b.npy -o /dev/null");
    use std::os::unix::fs::FileTypeExt;
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

/// Measuring takes minutes on a GPU, and what it gave is not lost with the file.
#[test]
fn what_was_measured_is_printed_where_a_file_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let accuracy = "accuracy --device sim --sizes 16 --size 8 --precisions exact";
    let traffic = "traffic --size 16 --kernels naive";
    for (line, file, words) in [
        (accuracy, "--output", "normal"),
        (accuracy, "--svg", "normal"),
        (accuracy, "--png", "normal"),
        (traffic, "--svg", "naive_f32"),
        (traffic, "--png", "naive_f32"),
    ] {
        for json in ["", "--json"] {
            let line = format!("{line} {file} /dev/full {json}");
            let output = run(folder.path(), &line);
            let (said, errors) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.code(), Some(FILE), "{line}: {errors}");
            assert!(errors.contains("/dev/full: cannot be written: No space left"), "{errors}");
            assert!(said.contains(words), "{line}: {said}");
        }
    }
}

/// What the command says goes there.
#[test]
fn output_is_not_standard_output() {
    let folder = sample();
    let at = folder.path();
    let words = ["standard output takes what the command says", "name a file", "mkfifo"];
    fail(at, "mul a.npy b.npy -o /dev/stdout", USAGE, &words);
    fail(at, "traffic --size 16 --kernels naive --svg /proc/self/fd/1", USAGE, &words);
    for name in ["/dev/stdout", "said.txt"] {
        let said = fs::File::create(at.join("said.txt")).unwrap();
        let mut command = regemm(at);
        command.args(["mul", "a.npy", "b.npy", "--force", "-o", name]).stdout(said);
        let output = command.output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(USAGE), "{name}: {errors}");
        assert!(errors.contains(words[0]), "{name}: {errors}");
    }
    let mut command = regemm(at);
    command.args(["mul", "a.npy", "b.npy", "-o", "/dev/null"]).stdout(Stdio::null());
    assert!(command.status().unwrap().success(), "which keeps neither");
}

/// A pipe with a name takes D alone.
#[test]
fn output_may_be_a_pipe_with_a_name() {
    let folder = sample();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = regemm(folder.path());
    command.args(["mul", "a.npy", "b.npy", "-o", "pipe"]).stdout(Stdio::null());
    let mut writer = command.spawn().unwrap();
    succeed(folder.path(), "mul pipe b.npy -o d.npy --transpose-b");
    assert!(writer.wait().unwrap().success());
    let d = read_f32(&folder.path().join("d.npy"), "(2, 3)");
    assert_eq!(d, [4.0, -1.0, 5.0, 10.0, -1.0, 11.0]);
}

/// The later would replace the earlier.
#[test]
fn outputs_are_different_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("in")).unwrap();
    let accuracy = "accuracy --device sim --sizes 16 --size 8 --precisions exact";
    let words = ["x.svg", "one file for two outputs", "name another"];
    for force in ["", "--force"] {
        let traffic = format!("traffic --size 16 --kernels naive --svg x.svg --png x.svg {force}");
        fail(at, &traffic, USAGE, &words);
        fail(at, &format!("{accuracy} -o x.svg --png in/../x.svg {force}"), USAGE, &words);
    }
    fs::write(at.join("x.svg"), "mine").unwrap();
    std::os::unix::fs::symlink("x.svg", at.join("link")).unwrap();
    fail(at, &format!("{accuracy} --svg link --png ./x.svg --force"), USAGE, &words);
    assert_eq!(fs::read(at.join("x.svg")).unwrap(), b"mine");
    // What is no file can take both.
    succeed(at, &format!("{accuracy} --svg /dev/null --png /dev/null"));
}

/// Names of files are bytes; what is shown of one that is no text has marks in place of what cannot be shown.
#[test]
fn output_may_have_a_name_that_is_no_text() {
    let folder = sample();
    let name = OsStr::from_bytes(b"d\xff.npy");
    for json in [None, Some("--json")] {
        let mut command = regemm(folder.path());
        command.args(["mul", "a.npy", "b.npy", "--device", "sim", "--force"]).args(json);
        let output = command.arg("-o").arg(name).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(SUCCESS), "{json:?}: {errors}");
        assert!(text(&output.stdout).contains("d\u{fffd}.npy"), "{json:?}");
        assert!(folder.path().join(name).exists());
    }
}

#[test]
fn output_has_the_permissions_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = sample();
    succeed(folder.path(), "mul a.npy b.npy -o d.npy");
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("d.npy"), mode("a.npy"));
}

/// Starts a product of a `size x size` matrix with itself into `d.npy`, and waits until the unfinished file is there.
fn start_product(folder: &Path, size: usize) -> Child {
    write_f32(folder, "x.npy", &format!("({size}, {size})"), &vec![1.0; size * size]);
    start(folder, "mul x.npy x.npy -o d.npy --device sim", 2)
}

/// Starts a command line and waits until there are so many files.
fn start(folder: &Path, line: &str, files: usize) -> Child {
    let mut child = regemm(folder)
        .args(line.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while listing(folder).len() < files {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        assert!(start.elapsed() < Duration::from_secs(60), "no unfinished file appeared");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

#[test]
fn output_of_an_interrupted_run_is_removed() {
    for signal in ["INT", "TERM"] {
        let folder = tempfile::tempdir().unwrap();
        // Many seconds of work.
        let mut child = start_product(folder.path(), 1500);
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(INTERRUPTED));
        assert_eq!(listing(folder.path()).len(), 1, "SIG{signal} left something behind");
    }
}

/// Whatever the subcommand, and however many files it is about to write, if there is nothing to write yet.
#[test]
fn outputs_of_an_interrupted_run_are_all_removed() {
    // Many seconds of work each, the first product of `accuracy` alone some.
    let accuracy = "accuracy --device sim --size 512 --sizes 8192 --precisions exact";
    for (line, files) in [
        (&*format!("{accuracy} --output a.json --svg a.svg --png a.png"), 3),
        ("traffic --size 512 --svg t.svg --png t.png", 2),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = start(folder.path(), line, files);
        let pid = child.id().to_string();
        let interrupt = || {
            assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
        };
        interrupt();
        // `accuracy` ends after its step by itself, and at once if it is told so twice.
        std::thread::sleep(Duration::from_millis(200));
        if child.try_wait().unwrap().is_none() {
            interrupt();
        }
        assert_eq!(child.wait().unwrap().code(), Some(INTERRUPTED), "{line}");
        assert_eq!(listing(folder.path()), [], "{line}");
    }
}

#[test]
fn output_that_appears_meanwhile_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let child = start_product(folder.path(), 500);
    fs::write(folder.path().join("d.npy"), "precious").unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(FILE), "{stderr}");
    assert!(stderr.contains("d.npy: was created by someone else"), "{stderr}");
    assert_eq!(fs::read(folder.path().join("d.npy")).unwrap(), b"precious");
    assert_eq!(listing(folder.path()).len(), 2);
}
