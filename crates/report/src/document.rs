//! JSON documents of the command and of the benchmarks, told apart by what they hold.

use crate::{accuracy, ladder, sweep, times, versus};
use serde::de::Error;
use serde_json::Value;

/// A document that a report can show.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    /// A record of the benchmark of the ladder.
    Ladder(ladder::Record),
    /// `regemm ladder --json` on a GPU.
    Climb(ladder::Climb),
    /// `regemm ladder --json` on the simulator, which counts and gives no times.
    Counts(Value),
    /// A record of the benchmark that puts the library beside the vendor's.
    Versus(versus::Record),
    /// `regemm sweep --json`.
    Sweep(sweep::Record),
    /// `regemm pipelining --json`.
    Pipelining(sweep::Record),
    /// A record of the benchmark of errors, or `regemm accuracy --json`.
    Accuracy(accuracy::Record),
    /// `regemm occupancy --json`.
    Occupancy(Value),
    /// `regemm traffic --json`.
    Traffic(Value),
    /// `regemm tune --json`, or the times that `regemm tune --output` keeps.
    Tune(Value),
}

/// Why a text is no document that a report can show.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is no JSON.
    #[error("is no JSON: {0}")]
    Syntax(#[source] serde_json::Error),
    /// It reports a failure instead of results.
    #[error("reports a failure instead of results: {0}")]
    Failure(String),
    /// It comes from a command that reports do not show.
    #[error("is the output of `regemm {0}`, which reports do not show; they show {SHOWN}")]
    OtherCommand(String),
    /// It is JSON of something else.
    #[error(
        "is neither the output of a subcommand with --json nor a record of a benchmark; reports show {SHOWN}"
    )]
    Unknown,
    /// It has the marks of a document, but misses something.
    #[error("is {kind}, but cannot be read: {why}")]
    Incomplete {
        /// What it seems to be.
        kind: &'static str,
        /// What is missing or of another type.
        #[source]
        why: serde_json::Error,
    },
}

/// What reports show, in words.
const SHOWN: &str = "ladder, sweep, pipelining, accuracy, occupancy, traffic and tune, and records of the benchmarks";

/// Says that a text is Unicode, and is no part of it.
const BYTE_ORDER_MARK: char = '\u{feff}';

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// [`DocumentError`], whose words go behind the name of the file.
    pub fn parse(text: &str) -> Result<Document, DocumentError> {
        // Some shells and editors begin a file with one.
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let value: Value = serde_json::from_str(text).map_err(DocumentError::Syntax)?;
        if let Some(message) = value.pointer("/error/message").and_then(Value::as_str) {
            return Err(DocumentError::Failure(message.to_owned()));
        }
        match value.get("command").map(|command| command.as_str().unwrap_or_default()) {
            Some("ladder") => ladder_run(value),
            Some("sweep") => read("a sweep", value).map(Document::Sweep),
            Some("pipelining") => read("a pipelining table", value).map(Document::Pipelining),
            Some(accuracy::COMMAND) => read("an error study", value).map(Document::Accuracy),
            Some("occupancy") => shown(
                "the output of `regemm occupancy`",
                value,
                &[&["kernels"], &["block"]],
                Document::Occupancy,
            ),
            Some("traffic") => shown(
                "the output of `regemm traffic`",
                value,
                &[&["kernels", "roofline"]],
                Document::Traffic,
            ),
            Some("tune") if value.get("removed").is_some() => {
                Err(DocumentError::OtherCommand("tune --clear".to_owned()))
            }
            Some("tune") => shown(
                "the output of `regemm tune`",
                value,
                &[&["results"], &["explanations"], &["tables"]],
                Document::Tune,
            ),
            Some(other) => Err(DocumentError::OtherCommand(other.to_owned())),
            None if value.get("rounds").is_some() => {
                read("a record of the ladder", value).map(Document::Ladder)
            }
            None if value.get("cases").is_some() => {
                read("a record beside the vendor's library", value).map(Document::Versus)
            }
            None if value.get("format").is_some() && value.get("tables").is_some() => {
                let tables: times::Tables = read("a table of measured times", value)?;
                Ok(Document::Tune(tables.as_printed()))
            }
            None => Err(DocumentError::Unknown),
        }
    }

    /// What it is, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Document::Ladder(_) | Document::Climb(_) | Document::Counts(_) => "ladder",
            Document::Versus(_) => "gemm",
            Document::Sweep(_) => "sweep",
            Document::Pipelining(_) => "pipelining",
            Document::Accuracy(_) => accuracy::COMMAND,
            Document::Occupancy(_) => "occupancy",
            Document::Traffic(_) => "traffic",
            Document::Tune(_) => "tune",
        }
    }

    /// What it is, for whoever needs another one.
    pub fn description(&self) -> String {
        match self {
            Document::Ladder(_) | Document::Versus(_) => {
                format!("a record of `cargo bench --bench {}`", self.kind())
            }
            _ => format!("the output of `regemm {}`", self.kind()),
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(
    kind: &'static str,
    value: Value,
) -> Result<T, DocumentError> {
    serde_json::from_value(value).map_err(|why| DocumentError::Incomplete { kind, why })
}

/// A document that is kept as it is, if it has all that one of these groups names: what its section shows.
fn shown(
    kind: &'static str,
    value: Value,
    groups: &[&[&str]],
    document: fn(Value) -> Document,
) -> Result<Document, DocumentError> {
    let has = |name: &&str| value.get(name).is_some_and(|part| part.is_array() || part.is_object());
    if groups.iter().any(|group| group.iter().all(has)) {
        return Ok(document(value));
    }
    let groups: Vec<String> = groups.iter().map(|group| group.join(" and ")).collect();
    let why = serde_json::Error::custom(format!("it has no {}", groups.join(" or ")));
    Err(DocumentError::Incomplete { kind, why })
}

/// `regemm ladder --json`: counts if it is of the simulator, else times.
fn ladder_run(value: Value) -> Result<Document, DocumentError> {
    let run: ladder::command::Run = read("the output of `regemm ladder`", value.clone())?;
    Ok(if run.is_of_simulator() { Document::Counts(value) } else { Document::Climb(run.climb()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refusal(text: &str) -> String {
        Document::parse(text).expect_err("is no document").to_string()
    }

    #[test]
    fn documents_are_told_apart_by_what_they_hold() {
        let ladder = serde_json::to_string(&ladder::synthetic::record()).unwrap();
        assert_eq!(
            Document::parse(&ladder).unwrap(),
            Document::Ladder(ladder::synthetic::record())
        );
        let mut record = sweep::synthetic::record(Vec::new());
        let text = |record: &sweep::Record| serde_json::to_string(record).unwrap();
        assert_eq!(Document::parse(&text(&record)).unwrap(), Document::Sweep(record.clone()));
        record.command = "pipelining".into();
        assert_eq!(Document::parse(&text(&record)).unwrap(), Document::Pipelining(record));
        let study = accuracy::synthetic::record();
        let text = serde_json::to_string(&study).unwrap();
        assert_eq!(Document::parse(&text).unwrap(), Document::Accuracy(study));
        let contest = versus::synthetic::record();
        let text = serde_json::to_string(&contest).unwrap();
        assert_eq!(Document::parse(&text).unwrap(), Document::Versus(contest));
        for (kind, parts) in [
            ("occupancy", r#""kernels": []"#),
            ("occupancy", r#""block": {}"#),
            ("traffic", r#""kernels": [], "roofline": {}"#),
            ("tune", r#""results": []"#),
            ("tune", r#""explanations": []"#),
            ("tune", r#""tables": []"#),
        ] {
            let document =
                Document::parse(&format!(r#"{{"command": "{kind}", {parts}}}"#)).unwrap();
            assert_eq!(document.kind(), kind);
            assert_eq!(document.description(), format!("the output of `regemm {kind}`"));
        }
        let ladder = Document::Ladder(ladder::synthetic::record());
        assert_eq!(ladder.description(), "a record of `cargo bench --bench ladder`");
    }

    /// Windows PowerShell begins what it redirects with one.
    #[test]
    fn a_byte_order_mark_is_no_part_of_a_document() {
        let text = r#"{"command": "tune", "tables": []}"#;
        assert_eq!(Document::parse(&format!("\u{feff}{text}")).unwrap().kind(), "tune");
    }

    #[test]
    fn what_is_no_document_is_refused_in_words() {
        assert!(refusal("{").starts_with("is no JSON: "));
        assert!(refusal(r#"{"x": 1}"#).contains("reports show ladder, sweep"));
        assert!(refusal("[1]").contains("is neither"));
        assert!(refusal(r#"{"command": "info"}"#).contains("`regemm info`"));
        assert!(refusal(r#"{"command": 7}"#).contains("reports do not show"));
        assert!(refusal(r#"{"error": {"message": "no GPU"}}"#).ends_with("results: no GPU"));
        assert!(refusal(r#"{"command": "sweep"}"#).starts_with("is a sweep, but cannot be read"));
        let words = refusal(r#"{"command": "accuracy"}"#);
        assert!(words.starts_with("is an error study, but"), "{words}");
        for (text, words) in [
            (r#"{"command": "occupancy"}"#, "it has no kernels or block"),
            (r#"{"command": "traffic", "kernels": []}"#, "it has no kernels and roofline"),
            (r#"{"command": "tune", "tables": 7}"#, "it has no results or explanations or tables"),
            (
                r#"{"command": "tune", "removed": []}"#,
                "`regemm tune --clear`, which reports do not",
            ),
        ] {
            let refused = refusal(text);
            assert!(refused.contains(words), "{refused}");
        }
        assert!(refusal(r#"{"rounds": []}"#).starts_with("is a record of the ladder, but"));
        let words = refusal(r#"{"format": 1, "tables": [7]}"#);
        assert!(words.starts_with("is a table of measured times, but"), "{words}");
        assert!(refusal(r#"{"cases": []}"#).starts_with("is a record beside the vendor's library"));
        for text in ["{", r#"{"rounds": []}"#] {
            let error = Document::parse(text).unwrap_err();
            assert!(std::error::Error::source(&error).is_some(), "{error}");
        }
    }
}
