//! Documents as sections of a report: what each shows, before anything is written.
//!
//! | file | what it holds |
//! |---|---|
//! | `ladder.rs` | the ladder, measured or counted |
//! | `sweep.rs` | a sweep, and the table of pipelining |
//! | `versus.rs` | the library beside the vendor's |
//! | `accuracy.rs` | errors by precision |
//! | `occupancy.rs` | resident blocks |
//! | `traffic.rs` | traffic and the roofline |
//! | `tune.rs` | the tuned choice |

mod accuracy;
mod ladder;
mod occupancy;
mod sweep;
mod traffic;
mod tune;
mod versus;

use crate::document::Document;
use crate::pictures::Drawing;
use crate::provenance::Provenance;
use crate::roofline::Roofline;
use crate::table::Table;
use crate::{
    accuracy as studies, ladder as ladders, pictures, sweep as sweeps, versus as contests,
};

/// A part of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Its name in links and names of files: letters, digits and hyphens; not unique among sections.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What the reader should know, a paragraph each.
    pub notes: Vec<String>,
    /// Its pictures.
    pub pictures: Vec<Picture>,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Lists with their headings.
    pub lists: Vec<(String, Vec<String>)>,
    /// Where, when and with what, as far as the document says; what it does not say is empty.
    pub provenance: Provenance,
}

/// A picture of a section.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Its name in names of files: letters, digits and hyphens.
    pub name: String,
    /// What it shows, for those who cannot see it and below it.
    pub caption: String,
    subject: Subject,
}

#[derive(Clone, Debug, PartialEq)]
enum Subject {
    Ladder(ladders::Record),
    HeatMap(sweeps::Record, usize),
    Roofline(Roofline),
    Accuracy(studies::Record),
    Versus(contests::Record),
}

impl Picture {
    /// The picture, ready to be drawn.
    pub fn drawing(&self) -> Drawing<'_> {
        match &self.subject {
            Subject::Ladder(record) => pictures::ladder(record),
            Subject::HeatMap(record, size) => pictures::heat_map(record, *size),
            Subject::Roofline(roofline) => pictures::roofline(roofline),
            Subject::Accuracy(record) => pictures::accuracy(record),
            Subject::Versus(record) => pictures::versus(record),
        }
    }
}

impl Section {
    /// What a report shows of a document.
    pub fn new(document: &Document) -> Section {
        match document {
            Document::Ladder(record) => ladder::measured(record),
            Document::Climb(climb) => ladder::climbed(climb),
            Document::Counts(document) => ladder::counted(document),
            Document::Versus(record) => versus::versus(record),
            Document::Sweep(record) => sweep::sweep(record),
            Document::Pipelining(record) => sweep::pipelining(record),
            Document::Accuracy(record) => accuracy::accuracy(record),
            Document::Occupancy(document) => occupancy::occupancy(document),
            Document::Traffic(document) => traffic::traffic(document),
            Document::Tune(document) => tune::tune(document),
        }
    }
}

/// A text as part of an identifier: lower case, and a hyphen for all that is neither a letter nor a digit.
fn slug(text: &str) -> String {
    let separated: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' })
        .collect();
    separated.split_whitespace().collect::<Vec<_>>().join("-")
}

/// Lists with their headings, without those that are empty.
fn lists<const N: usize>(lists: [(&str, Vec<String>); N]) -> Vec<(String, Vec<String>)> {
    let full = lists.into_iter().filter(|(_, lines)| !lines.is_empty());
    full.map(|(title, lines)| (title.to_owned(), lines)).collect()
}

/// A text in a JSON document; empty where it has none there.
fn text_at<'a>(document: &'a serde_json::Value, place: &str) -> &'a str {
    document.pointer(place).and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// The provenance of a document: what it calls so, else what it says of its device.
fn provenance(document: &serde_json::Value) -> Provenance {
    use serde_json::{Value, from_value};
    let named = document.get("provenance").and_then(|value| from_value(value.clone()).ok());
    named.unwrap_or_else(|| {
        let device = document.get("device").or_else(|| document.get("gpu"));
        let at = |place: &str| device.and_then(|device| device.pointer(place));
        let name = device.and_then(Value::as_str).or_else(|| at("/name").and_then(Value::as_str));
        let capability = at("/compute_capability").or_else(|| document.get("compute_capability"));
        Provenance {
            device: name.unwrap_or_default().to_owned(),
            multiprocessors: at("/multiprocessors")
                .and_then(Value::as_u64)
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or_default(),
            compute_capability: capability.and_then(|value| from_value(value.clone()).ok()),
            ..Provenance::default()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn slugs_hold_nothing_but_letters_digits_and_hyphens() {
        assert_eq!(slug("Sweep f32, 4096 (H200)"), "sweep-f32-4096-h200");
        assert_eq!(slug("../../etc/"), "etc");
    }

    #[test]
    fn devices_are_found_in_every_form() {
        let named = provenance(&json!({ "gpu": "NVIDIA A", "compute_capability": [8, 6] }));
        assert_eq!((named.device.as_str(), named.compute_capability), ("NVIDIA A", Some((8, 6))));
        let object = provenance(&json!({ "device": { "name": "NVIDIA B", "multiprocessors": 7 } }));
        assert_eq!((object.device.as_str(), object.multiprocessors), ("NVIDIA B", 7));
        let full =
            json!({ "provenance": { "date": "2026-01-31", "device": "C", "multiprocessors": 1 } });
        assert_eq!(provenance(&full).date, "2026-01-31");
        assert_eq!(provenance(&json!({})), Provenance::default());
    }
}
