//! The library beside the vendor's as a section: ratios in a picture, then the tables.

use super::{Picture, Section, Subject, lists, slug};
use crate::table::percent;
use crate::versus::{CLOSE, Measured, Record};

/// The picture where there is something to compare with, the tables, and what is missing.
pub(super) fn versus(record: &Record) -> Section {
    let Record { provenance, dtype, .. } = record;
    let device = &provenance.device;
    let mut notes = vec![
        "What the library chooses by itself, beside the faster of the vendor's libraries: above 1 it is faster, below 1 \
         slower. Speeds are medians of samples taken in turn, on random data; every result is verified first, and a \
         wrong one has no speed."
            .to_owned(),
    ];
    notes.extend(record.libraries.iter().map(|library| format!("{library}.")));
    notes.extend(record.without.iter().map(|missing| format!("Not measured: {missing}.")));
    if let Some(accuracy) = record.accuracy() {
        let (largest, case) = accuracy.largest;
        notes.push(format!(
            "The error in norm is no larger than the vendor's in {} of {} cases, within {} of it in {}, and at most {largest:.2} \
             times as large ({}).",
            accuracy.no_larger,
            accuracy.count,
            percent(CLOSE),
            accuracy.close,
            case.label()
        ));
    }
    let id = slug(&format!("gemm {dtype}"));
    let has_ratios = record.cases.iter().any(|measured| measured.ratio().is_some());
    let picture = has_ratios.then(|| Picture {
        name: id.clone(),
        caption: format!(
            "Speed in {dtype} on {device} relative to the vendor's best, case by case"
        ),
        subject: Subject::Versus(record.clone()),
    });
    Section {
        title: format!("Beside the vendor's library in {dtype} on {device}"),
        notes,
        pictures: picture.into_iter().collect(),
        tables: record.tables(),
        lists: lists([
            ("Wrong results", without_speed(record, true)),
            ("Not computed", without_speed(record, false)),
        ]),
        provenance: provenance.clone(),
        id,
    }
}

/// Who has no speed in which case, a line each: because the result was wrong, or because there was none.
fn without_speed(record: &Record, wrong: bool) -> Vec<String> {
    let cases = record.cases.iter();
    let lines = cases.flat_map(|Measured { case, unsupported, .. }| {
        let missing = unsupported.iter().filter(move |missing| missing.wrong == wrong);
        missing.map(move |missing| format!("{} on {}: {}", missing.name, case.label(), missing.why))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versus::synthetic::record;

    #[test]
    fn a_record_has_its_picture_its_tables_and_what_is_missing() {
        let record = record();
        let section = versus(&record);
        assert_eq!((section.id.as_str(), section.pictures.len()), ("gemm-f32", 1));
        assert_eq!(section.tables, record.tables());
        assert!(section.pictures[0].drawing().svg().unwrap().starts_with("<svg"));
        let has = |part: &str| section.notes.iter().any(|note| note.contains(part));
        assert!(has("Not measured: libother: not found."), "{:?}", section.notes);
        assert!(has("cuBLASLt 13.1.0, best of 16."), "{:?}", section.notes);
    }

    #[test]
    fn what_has_no_speed_is_told() {
        let mut record = record();
        let lines = |record: &Record| versus(record).lists;
        let lacks = vec!["regemm on 64 of 256: no batches".to_owned()];
        assert_eq!(lines(&record), [("Not computed".to_owned(), lacks)]);
        let missing = record.cases.iter_mut().flat_map(|measured| &mut measured.unsupported);
        for missing in missing {
            (missing.why, missing.wrong) = ("wrong result of tiled16_f32".into(), true);
        }
        let wrong = vec!["regemm on 64 of 256: wrong result of tiled16_f32".to_owned()];
        assert_eq!(lines(&record), [("Wrong results".to_owned(), wrong)]);
    }

    #[test]
    fn without_the_vendor_there_are_speeds_and_no_picture() {
        let mut record = record();
        for case in &mut record.cases {
            case.entries.retain(|entry| !entry.is_of_vendor());
        }
        let section = versus(&record);
        assert!(section.pictures.is_empty() && !section.tables.is_empty());
    }
}
