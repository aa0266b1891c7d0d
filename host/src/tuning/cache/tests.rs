use super::*;
use crate::kernels::{find, twin};
use crate::tuning::table::tests::entry;
use regemm_kernels::element::Dtype;

fn key(gpu: &str, driver: &str) -> Key {
    let (gpu, driver, code) = (gpu.into(), driver.into(), "c0de".into());
    let (types, layouts) = (Dtype::F32.into(), Layouts::NN);
    Key { gpu, multiprocessors: 132, driver, code, types, layouts }
}

fn table(sizes: &[u32]) -> Table {
    table_of((Dtype::F32, Layouts::NN), sizes)
}

fn table_of((dtype, layouts): (Dtype, Layouts), sizes: &[u32]) -> Table {
    let mut table = Table::in_layouts(dtype, layouts);
    let naive = find(&format!("naive_{dtype}")).unwrap();
    let naive = twin(naive, layouts).unwrap().name;
    for &size in sizes {
        table.insert(entry((size, size, size), &[(naive, 1.0 + f64::from(size))]));
    }
    table
}

fn sizes(cache: &Cache, key: &Key) -> Vec<u32> {
    let table = cache.load(key).unwrap();
    table.map_or(Vec::new(), |table| table.entries().map(|entry| entry.shape.m).collect())
}

#[test]
fn what_is_merged_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    // The folder need not exist.
    let cache = Cache::at(folder.path().join("a/b"));
    let key = key("NVIDIA H200", "13.0");
    assert!(cache.load(&key).unwrap().is_none());
    let file = cache.merge(&key, &table(&[64, 256])).unwrap();
    assert_eq!(file, cache.file("NVIDIA H200"));
    assert_eq!(file.file_name().unwrap(), "nvidia-h200.v1.json");
    cache.merge(&key, &table(&[128, 256])).unwrap();
    assert_eq!(sizes(&cache, &key), [64, 128, 256]);
    let contents = cache.contents().unwrap();
    assert_eq!(contents.len(), 1);
    let cached = &contents[0].tables.as_ref().unwrap()[0];
    assert_eq!((&cached.key, cached.table.len()), (&key, 3));
    assert!(cached.changed > 1_600_000_000, "seconds since 1970");
    // Only the file and its lock are left behind.
    assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 2);
}

#[test]
fn keys_are_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let keys = [
        key("NVIDIA H200", "13.0"),
        key("NVIDIA H200", "13.1"),
        key("NVIDIA H100", "13.0"),
        // The same file, but not the same GPU.
        key("nvidia (H100)", "13.0"),
        Key { code: "0ther".into(), ..key("NVIDIA H200", "13.0") },
        Key { multiprocessors: 66, ..key("NVIDIA H200", "13.0") },
        Key { types: Dtype::F64.into(), ..key("NVIDIA H200", "13.0") },
        Key { layouts: Layouts::NT, ..key("NVIDIA H200", "13.0") },
    ];
    for (size, key) in (100..).zip(&keys) {
        cache.merge(key, &table_of((key.types.factors, key.layouts), &[size])).unwrap();
    }
    for (size, key) in (100..).zip(&keys) {
        assert_eq!(sizes(&cache, key), [size], "{key}");
    }
}

#[test]
fn old_drivers_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    for driver in 0..10 {
        cache.merge(&key("NVIDIA H200", &driver.to_string()), &table(&[64])).unwrap();
    }
    assert_eq!(sizes(&cache, &key("NVIDIA H200", "9")), [64], "the newest is always kept");
    let kept = cache.contents().unwrap().remove(0).tables.unwrap().len();
    assert!(kept <= KEPT, "{kept}");
}

/// Those that are there are all of one second.
#[test]
fn of_tables_of_one_second_as_many_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let drivers = Vec::from_iter((0..KEPT).map(|driver| driver.to_string()));
    for driver in &drivers {
        cache.merge(&key("NVIDIA H200", driver), &table(&[64])).unwrap();
    }
    let file = cache.file("NVIDIA H200");
    let mut document = read(&file).unwrap();
    document.tables.iter_mut().for_each(|stored| stored.changed = 1_700_000_000);
    write(&file, &document).unwrap();
    cache.merge(&key("NVIDIA H200", "new"), &table(&[64])).unwrap();
    let kept = cache.contents().unwrap().remove(0).tables.unwrap();
    let kept = Vec::from_iter(kept.iter().map(|cached| cached.key.driver.as_str()));
    assert_eq!(kept, [&["1", "2", "3"][..], &["new"]].concat());
}

#[test]
fn what_is_damaged_is_an_error_and_then_put_aside() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let key = key("NVIDIA H200", "13.0");
    let file = cache.merge(&key, &table(&[64])).unwrap();
    let damaged = "{ \"format\": 1, ";
    fs::write(&file, damaged).unwrap();
    let error = cache.load(&key).unwrap_err();
    assert!(matches!(error, CacheError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("nvidia-h200"), "{error}");
    assert!(cache.contents().unwrap()[0].tables.is_err());
    cache.merge(&key, &table(&[128])).unwrap();
    assert_eq!(sizes(&cache, &key), [128]);
    let aside = folder.path().join("nvidia-h200.v1.json.damaged");
    assert_eq!(fs::read_to_string(aside).unwrap(), damaged);
    assert_eq!(cache.contents().unwrap().len(), 1, "it is none of the cache's any more");
}

/// Types and layouts of another version of this library.
#[test]
fn tables_of_other_types_and_layouts_are_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let key = key("NVIDIA H200", "13.0");
    let of_layouts = Key { layouts: Layouts::NT, ..key.clone() };
    cache.merge(&of_layouts, &table_of((Dtype::F32, Layouts::NT), &[64])).unwrap();
    let file = cache.merge(&Key { types: Dtype::F64.into(), ..key.clone() }, &{
        table_of((Dtype::F64, Layouts::NN), &[32])
    });
    let file = file.unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let later = text.replace("\"f64\"", "\"e4m3\"").replace("\"nt\"", "\"blocked\"");
    fs::write(&file, &later).unwrap();
    assert!(cache.load(&of_layouts).unwrap().is_none());
    cache.merge(&key, &table(&[128])).unwrap();
    assert_eq!(sizes(&cache, &key), [128]);
    let tables = |text: &str| {
        let document: serde_json::Value = serde_json::from_str(text).unwrap();
        let tables = document["tables"].as_array().unwrap().clone();
        let others =
            |table: &serde_json::Value| table["dtype"] == "e4m3" || table["layouts"] == "blocked";
        Vec::from_iter(tables.into_iter().filter(others))
    };
    let kept = tables(&fs::read_to_string(&file).unwrap());
    assert_eq!((kept.len(), kept), (2, tables(&later)));
}

/// Another version of this library has kernels of its own, and may note what this one knows nothing of.
#[test]
fn tables_of_others_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let (ours, theirs) =
        (key("NVIDIA H200", "13.0"), Key { code: "0ther".into(), ..key("NVIDIA H200", "13.0") });
    let file = cache.merge(&theirs, &table(&[64])).unwrap();
    let before = fs::read_to_string(&file).unwrap();
    let later = before
        .replace("naive_f32", "later_f32")
        .replace("\"changed\"", "\"note\":[1,{\"a\":null}],\"changed\"")
        .replace("\"aligned\"", "\"clock\":1980.5,\"aligned\"");
    assert_ne!(later, before);
    let table_of = |text: &str| {
        let document: serde_json::Value = serde_json::from_str(text).unwrap();
        let tables = document["tables"].as_array().unwrap();
        tables.iter().find(|table| table["code"] == "0ther").unwrap().clone()
    };
    fs::write(&file, &later).unwrap();
    for size in [64, 128] {
        cache.merge(&ours, &table(&[size])).unwrap();
        let after = fs::read_to_string(&file).unwrap();
        assert_eq!(table_of(&after), table_of(&later));
    }
    assert_eq!(sizes(&cache, &ours), [64, 128]);
    // A line an entry, as all tables have.
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 9);
}

#[test]
fn a_file_that_cannot_be_read_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let key = key("NVIDIA H200", "13.0");
    // A folder in its place, which not even root can read as a file.
    fs::create_dir(cache.file(&key.gpu)).unwrap();
    for error in [cache.merge(&key, &table(&[64])).map(drop), cache.prepare(&key.gpu)] {
        let error = error.unwrap_err();
        assert!(matches!(error, CacheError::Read { .. }), "{error}");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    // A file in the place of the folder, which not even root can write to.
    let cache = Cache::at(&file);
    for error in [cache.merge(&key("G", "1"), &table(&[64])).map(drop), cache.prepare("G")] {
        let error = error.unwrap_err();
        assert!(matches!(error, CacheError::Write { .. }), "{error}");
        assert!(error.to_string().contains("cannot be written"), "{error}");
    }
}

#[test]
fn a_place_that_is_prepared_has_what_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("a/b"));
    cache.prepare("G").unwrap();
    // The lock alone.
    assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1);
    fs::write(cache.file("G"), "damaged").unwrap();
    cache.prepare("G").unwrap();
    assert_eq!(fs::read_to_string(cache.file("G")).unwrap(), "damaged");
    assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 2);
}

#[test]
fn clearing_removes_the_files_of_one_gpu_or_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    assert_eq!(cache.clear(None).unwrap(), [""; 0].map(PathBuf::from));
    for gpu in ["A", "B", "C"] {
        cache.merge(&key(gpu, "1"), &table(&[64])).unwrap();
    }
    fs::write(folder.path().join("notes.json"), "not ours").unwrap();
    assert_eq!(cache.clear(Some("B")).unwrap(), [cache.file("B")]);
    assert_eq!(cache.clear(Some("B")).unwrap().len(), 0);
    assert_eq!(cache.clear(None).unwrap(), [cache.file("A"), cache.file("C")]);
    assert!(folder.path().join("notes.json").exists());
}

#[test]
fn clearing_waits_for_who_is_about_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    cache.merge(&key("G", "1"), &table(&[64])).unwrap();
    let lock = cache.lock("G").unwrap();
    std::thread::scope(|scope| {
        let cleared = scope.spawn(|| cache.clear(Some("G")).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!cleared.is_finished() && cache.file("G").exists());
        drop(lock);
        assert_eq!(cleared.join().unwrap(), [cache.file("G")]);
    });
}

#[test]
fn a_signal_does_not_end_a_wait() {
    let mut outcomes =
        [Ok(()), Err(io::ErrorKind::Interrupted), Err(io::ErrorKind::Interrupted)].to_vec();
    let mut wait = || outcomes.pop().unwrap().map_err(io::Error::from);
    uninterrupted(&mut wait).unwrap();
    assert!(outcomes.is_empty());
    let other = uninterrupted(|| Err(io::ErrorKind::Unsupported.into())).unwrap_err();
    assert_eq!(other.kind(), io::ErrorKind::Unsupported);
}

#[test]
fn threads_that_write_at_once_lose_nothing() {
    const WRITERS: u32 = 8;
    const EACH: u32 = 6;
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let key = key("NVIDIA H200", "13.0");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (cache, key) = (&cache, &key);
            scope.spawn(move || {
                for i in 0..EACH {
                    // A class of its own for every entry.
                    let mut table = Table::new(Dtype::F32);
                    let shape = (1 << writer, 1 << i, 1);
                    table.insert(entry(shape, &[("naive_f32", 1.0)]));
                    cache.merge(key, &table).unwrap();
                    // Whoever reads meanwhile sees a complete file.
                    assert!(cache.load(key).unwrap().is_some());
                }
            });
        }
    });
    assert_eq!(cache.load(&key).unwrap().unwrap().len() as u32, WRITERS * EACH);
}
