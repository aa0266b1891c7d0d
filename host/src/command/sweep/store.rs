//! The file that a sweep is kept in: written whole after each pass, so that an interrupted sweep can be continued.

use crate::command::exit::Failure;
use crate::command::save::Destination;
use regemm_report::document::Document;
use regemm_report::sweep::{Entry, Record};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the file is written within a long pass.
const INTERVAL: Duration = Duration::from_secs(5);

/// Where records go, if anywhere.
pub struct Store {
    path: Option<PathBuf>,
    saved: Instant,
}

impl Store {
    /// A store at a path, or one that keeps nothing. What is wrong with the place shows now.
    ///
    /// # Errors
    /// The file exists and may not be overwritten, or cannot be written.
    pub fn new(path: Option<&Path>, overwrite: bool) -> Result<Store, Failure> {
        if let Some(path) = path {
            drop(Destination::new(path, overwrite, &[])?);
        }
        Ok(Store { path: path.map(Path::to_owned), saved: Instant::now() })
    }

    /// Writes the record in place of the one before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&mut self, record: &Record) -> Result<(), Failure> {
        if let Some(path) = &self.path {
            Destination::new(path, true, &[])?.save_json(record)?;
        }
        self.saved = Instant::now();
        Ok(())
    }

    /// Writes the record if that has not happened for a while.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save_if_due(&mut self, record: &Record) -> Result<(), Failure> {
        if self.saved.elapsed() >= INTERVAL { self.save(record) } else { Ok(()) }
    }

    /// What became of the record, for a message.
    pub fn describe(&self) -> String {
        match &self.path {
            Some(path) => {
                format!("what was measured is in {}; continue with --resume", path.display())
            }
            None => "only what was measured is reported; with --output it can be continued".into(),
        }
    }
}

/// The record in a file; none where there is no file.
///
/// # Errors
/// The file cannot be read, or is no record of a sweep.
pub fn load(path: &Path) -> Result<Option<Record>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| Failure::file(path, format!("cannot be read: {error}")))?,
    };
    let other = |what: String| Failure::file(path, format!("is no record of a sweep: it {what}"));
    match Document::parse(&text) {
        // One of a single tile is another sweep, which is said with all that differs.
        Ok(Document::Sweep(record) | Document::Pipelining(record)) => Ok(Some(record)),
        Ok(document) => Err(other(format!("is {}", document.description()))),
        Err(error) => Err(other(error.to_string())),
    }
}

/// Takes over the results of an earlier record of the same sweep.
///
/// # Errors
/// It is of another sweep: what differs.
pub fn continue_from(record: &mut Record, earlier: Record, path: &Path) -> Result<(), Failure> {
    let differences = differences(&earlier, record);
    if !differences.is_empty() {
        return Err(Failure::file(
            path,
            format!(
                "cannot be continued: {}; give the same options, or name another output",
                differences.join("; ")
            ),
        ));
    }
    record.provenance = earlier.provenance;
    record.complete = earlier.complete;
    record.library = earlier.library;
    record.effort = earlier.effort;
    if record.complete {
        // Nothing is compiled any more, so that only the file knows what the device made of the kernels.
        record.results = earlier.results;
        return Ok(());
    }
    for (entry, known) in record.results.iter_mut().zip(earlier.results) {
        let Entry { timings, counts, wrong, .. } = known;
        (entry.timings, entry.counts, entry.wrong) = (timings, counts, wrong);
    }
    Ok(())
}

/// What makes two records ones of different sweeps, in words.
fn differences(earlier: &Record, now: &Record) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |what: &str, earlier: String, now: String| {
        if earlier != now {
            differences.push(format!("{what} was {earlier} and is {now}"));
        }
    };
    let list =
        |sizes: &[usize]| sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let driver = |record: &Record| record.provenance.driver.clone().unwrap_or("unknown".into());
    compare("the command", earlier.command.clone(), now.command.clone());
    compare("the device", earlier.provenance.device.clone(), now.provenance.device.clone());
    compare("the driver", driver(earlier), driver(now));
    compare("the version", earlier.provenance.version.clone(), now.provenance.version.clone());
    // All that is known of the programs is where the sources were when each ran: other sources may be other kernels.
    if let (Some(earlier), Some(now)) = (&earlier.provenance.commit, &now.provenance.commit) {
        compare("the commit of the sources", earlier.clone(), now.clone());
    }
    compare("the element type", earlier.dtype.clone(), now.dtype.clone());
    compare("--sizes", list(&earlier.sizes), list(&now.sizes));
    compare("--seed", earlier.seed.to_string(), now.seed.to_string());
    compare("--reps", earlier.reps.to_string(), now.reps.to_string());
    let names = |record: &Record| {
        record.results.iter().map(|entry| entry.kernel.clone()).collect::<Vec<_>>()
    };
    if names(earlier) != names(now) {
        let (earlier, now) = (earlier.results.len(), now.results.len());
        differences
            .push(format!("the configurations are others ({earlier} in the file, {now} picked)"));
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use regemm_report::sweep::Timing;

    fn record() -> Record {
        let entry = |name: &str| Entry { kernel: name.into(), ..Entry::default() };
        let mut record = Record {
            command: "sweep".into(),
            sizes: vec![64, 128],
            seed: 1,
            reps: 20,
            results: vec![entry("a"), entry("b")],
            ..Record::default()
        };
        record.provenance.device = "GPU".into();
        record
    }

    #[test]
    fn a_record_is_written_whole_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweep.json");
        assert_eq!(load(&path).unwrap(), None, "no file is no record");
        let mut store = Store::new(Some(&path), false).unwrap();
        assert!(!path.exists(), "nothing is written before there is something");
        let mut record = record();
        record.results[0].timings.push(Timing { size: 64, samples: 3, ..Timing::default() });
        store.save(&record).unwrap();
        record.complete = true;
        store.save(&record).unwrap();
        assert_eq!(load(&path).unwrap(), Some(record));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else stays");
    }

    #[test]
    fn an_existing_file_is_not_replaced_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweep.json");
        std::fs::write(&path, "mine").unwrap();
        assert!(matches!(Store::new(Some(&path), false), Err(Failure::File { .. })));
        assert!(Store::new(Some(&path), true).is_ok());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        let failure = load(&path).unwrap_err();
        assert!(failure.to_string().contains("no record of a sweep: it is no JSON"), "{failure}");
    }

    #[test]
    fn a_file_of_something_else_is_called_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counts.json");
        let counts = r#"{"command": "ladder", "dtype": "f32", "results": [],
            "device": {"name": "simulator", "multiprocessors": 1}}"#;
        std::fs::write(&path, counts).unwrap();
        let failure = load(&path).unwrap_err().to_string();
        assert!(
            failure.ends_with("no record of a sweep: it is the output of `regemm ladder`"),
            "{failure}"
        );
    }

    #[test]
    fn a_store_without_a_path_keeps_nothing() {
        let mut store = Store::new(None, false).unwrap();
        store.save(&record()).unwrap();
        assert!(store.describe().contains("--output"));
    }

    #[test]
    fn results_are_taken_over_and_nothing_else() {
        let mut earlier = record();
        earlier.results[1].timings.push(Timing { size: 64, samples: 3, ..Timing::default() });
        earlier.results[0].wrong = Some("64: 2 elements".into());
        earlier.provenance.date = "2026-01-31".into();
        let mut now = record();
        now.results[1].registers = Some(40);
        continue_from(&mut now, earlier.clone(), Path::new("sweep.json")).unwrap();
        assert_eq!(now.results[1].timings, earlier.results[1].timings);
        assert_eq!(now.results[1].registers, Some(40));
        assert_eq!(now.results[0].wrong, earlier.results[0].wrong);
        assert_eq!(now.provenance.date, "2026-01-31");
    }

    #[test]
    fn a_sweep_that_is_complete_is_taken_over_whole() {
        let mut earlier = record();
        earlier.complete = true;
        earlier.results[0].cannot_run = Some("too many threads".into());
        let compiled = &mut earlier.results[1];
        (compiled.registers, compiled.local_bytes) = (Some(40), Some(8));
        compiled.resident_blocks = Some(2);
        let mut now = record();
        continue_from(&mut now, earlier.clone(), Path::new("sweep.json")).unwrap();
        assert_eq!(now, earlier);
    }

    #[test]
    fn another_sweep_is_not_continued_and_the_difference_is_named() {
        type Change = fn(&mut Record);
        let changes: [(Change, &str); 7] = [
            (|record| record.seed = 2, "--seed was 2 and is 1"),
            (|record| record.sizes = vec![64], "--sizes was 64 and is 64,128"),
            (|record| record.reps = 5, "--reps was 5 and is 20"),
            (|record| record.provenance.device = "CPU".into(), "the device was CPU and is GPU"),
            (|record| record.command = "pipelining".into(), "the command was pipelining"),
            (|record| record.results.truncate(1), "1 in the file, 2 picked"),
            (|record| record.provenance.driver = Some("1.0".into()), "the driver was 1.0"),
        ];
        for (change, words) in changes {
            let mut earlier = record();
            change(&mut earlier);
            let failure =
                continue_from(&mut record(), earlier, Path::new("sweep.json")).unwrap_err();
            assert!(failure.to_string().contains(words), "`{words}` is missing in: {failure}");
        }
        // A commit that one of them does not know is no difference.
        let mut earlier = record();
        earlier.provenance.commit = Some("abc1234".into());
        let mut now = record();
        assert!(continue_from(&mut now, earlier.clone(), Path::new("sweep.json")).is_ok());
        let mut now = record();
        now.provenance.commit = Some("def5678".into());
        let failure = continue_from(&mut now, earlier, Path::new("sweep.json")).unwrap_err();
        let words = "the commit of the sources was abc1234 and is def5678";
        assert!(failure.to_string().contains(words), "{failure}");
    }
}
