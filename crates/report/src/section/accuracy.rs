//! An error study as a section: the curves, then the numbers.

use super::{Picture, Section, Subject, slug};
use crate::accuracy::Record;
use crate::accuracy::tables::CELLS;

/// The picture, the tables, and what is missing.
pub(super) fn accuracy(record: &Record) -> Section {
    let device = &record.provenance.device;
    let id = slug(&format!("accuracy {}", record.dtype));
    let mut notes = vec![format!("Products of {}. {CELLS}", record.subject())];
    notes.extend(record.remarks().into_iter().map(|remark| format!("{remark}.")));
    Section {
        title: format!("Errors by precision on {device}"),
        notes,
        pictures: vec![Picture {
            name: id.clone(),
            caption: format!(
                "Errors of products of {} on {device} by depth, a curve a precision; in norm above, the largest componentwise \
                 ones below",
                record.dtype
            ),
            subject: Subject::Accuracy(record.clone()),
        }],
        tables: record.tables(),
        provenance: record.provenance.clone(),
        id,
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::synthetic::record;

    #[test]
    fn a_study_has_its_picture_its_tables_and_what_is_missing() {
        let mut record = record();
        record.leave_out("other", "needs another GPU");
        let section = accuracy(&record);
        assert_eq!((section.id.as_str(), section.pictures.len()), ("accuracy-f32", 1));
        assert_eq!(section.tables, record.tables());
        assert!(section.notes.iter().any(|note| note == "without other: needs another GPU."));
    }
}
