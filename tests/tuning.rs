//! The cache of measured times with several processes at once.

use regemm::tuning::cache::Cache;
use regemm::tuning::{Entry, Key, Shape, Table, Time};
use regemm::{Dtype, Layouts, kernels};
use std::path::PathBuf;
use std::process::Command;

/// Where a process that this test has started is told what to do: the folder and its number.
const FOLDER: &str = "REGEMM_TEST_WRITER_FOLDER";
const NUMBER: &str = "REGEMM_TEST_WRITER_NUMBER";

const WRITERS: u32 = 4;
const EACH: u32 = 12;

fn key() -> Key {
    Key {
        gpu: "NVIDIA Imaginary".into(),
        multiprocessors: 100,
        driver: "1.0".into(),
        code: "c0de".into(),
        types: Dtype::F32.into(),
        layouts: Layouts::NN,
    }
}

/// What one of the processes does: adds entries of classes that nobody else adds, one at a time.
fn write_entries(folder: PathBuf, number: u32) {
    let cache = Cache::at(folder);
    for i in 0..EACH {
        let mut table = Table::new(Dtype::F32);
        let times = vec![Time { kernel: &kernels::kernels()[0], seconds: 1e-3 }];
        let shape = Shape::packed(Dtype::F32, 1 << number, 1 << i, 4);
        table.insert(Entry { shape, times });
        cache.merge(&key(), &table).unwrap();
    }
}

#[test]
fn processes_that_write_at_once_lose_nothing() {
    if let (Some(folder), Ok(number)) = (std::env::var_os(FOLDER), std::env::var(NUMBER)) {
        write_entries(folder.into(), number.parse().unwrap());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let start = |number: u32| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes_that_write_at_once_lose_nothing"])
            .env(FOLDER, folder.path())
            .env(NUMBER, number.to_string())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut writers: Vec<_> = (0..WRITERS).map(start).collect();
    let cache = Cache::at(folder.path());
    // Reading takes no lock, and what is read is always complete.
    while writers.iter_mut().any(|writer| writer.try_wait().unwrap().is_none()) {
        cache.load(&key()).unwrap();
    }
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let table = cache.load(&key()).unwrap().unwrap();
    assert_eq!(table.len() as u32, WRITERS * EACH);
    // The file and its lock; nothing unfinished.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
