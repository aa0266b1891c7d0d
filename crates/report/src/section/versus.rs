//! The library beside the vendor's as a section: ratios in a picture, then the tables.

use super::{Picture, Section, Subject, slug};
use crate::table::percent;
use crate::versus::{CLOSE, Record};

/// The picture where there is something to compare with, the tables, and what is missing.
pub(super) fn versus(record: &Record) -> Section {
    let Record { provenance, dtype, .. } = record;
    let device = &provenance.device;
    let mut notes = vec![
        "What the library chooses by itself, beside the faster of the vendor's libraries: above 1 it is faster, below 1 \
         slower. Speeds are medians of samples taken in turn, on random data; every result is verified first."
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
        provenance: provenance.clone(),
        id,
        ..Section::default()
    }
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
    fn without_the_vendor_there_are_speeds_and_no_picture() {
        let mut record = record();
        for case in &mut record.cases {
            case.entries.retain(|entry| !entry.is_of_vendor());
        }
        let section = versus(&record);
        assert!(section.pictures.is_empty() && !section.tables.is_empty());
    }
}
