//! Everything that is written to standard output: text, or one JSON document.

use super::exit::Failure;
use super::interrupt;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use regemm::Counters;
pub use regemm_report::table::{count, percent};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Standard output.
pub struct Output {
    json: bool,
    document_written: bool,
    /// The reader has gone, as after `regemm info | head -1`. That is no failure: there is nobody left to tell.
    closed: bool,
}

impl Output {
    /// Text, or JSON.
    pub fn new(json: bool) -> Self {
        Output { json, document_written: false, closed: false }
    }

    /// Whether text is asked for.
    pub fn is_text(&self) -> bool {
        !self.json
    }

    /// Whether a JSON document was written, or text is all that will be.
    pub fn has_document(&self) -> bool {
        self.document_written || !self.json
    }

    /// Writes a paragraph of text; nothing where JSON is asked for.
    pub fn text(&mut self, text: impl std::fmt::Display) -> Result<(), Failure> {
        if self.json { Ok(()) } else { self.write(&format!("{text}\n")) }
    }

    /// Writes the JSON document; nothing where text is asked for.
    pub fn document(&mut self, document: &impl Serialize) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| Failure::StandardOutput(error.into()))?;
        self.document_written = true;
        interrupt::document_begins();
        self.write(&format!("{text}\n"))
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            other => other.map_err(Failure::StandardOutput),
        }
    }
}

/// A table with a heading. The first column holds names, all others numbers.
pub fn table(heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header(heading.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// So many of something.
pub fn many(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A time in the unit that suits it.
pub fn seconds(value: f64) -> String {
    if value >= 1.0 {
        format!("{value:.3} s")
    } else if value >= 1e-3 {
        format!("{:.3} ms", value * 1e3)
    } else {
        format!("{:.2} us", value * 1e6)
    }
}

/// A size in the binary unit that suits it.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut scaled = value as f64;
    let mut unit = "B";
    for next in UNITS {
        if scaled < 1024.0 {
            break;
        }
        (scaled, unit) = (scaled / 1024.0, next);
    }
    let decimals = usize::from(scaled.fract() != 0.0);
    format!("{scaled:.decimals$} {unit}")
}

/// What may be missing: `-` then.
pub fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Multiply-adds of all kinds: one at a time, and on tensor cores.
pub fn multiply_adds(counters: &Counters) -> u64 {
    counters.fma + counters.tensor_fma
}

/// Counters as a JSON object.
pub fn counters_json(counters: &Counters) -> Value {
    let fields = counters.fields().into_iter();
    Value::Object(
        fields.map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [0, 999, 1000, 16_777_216].map(count),
            ["0", "999", "1,000", "16,777,216"].map(String::from)
        );
        assert_eq!(
            [2.5, 0.0125, 3e-6].map(seconds),
            ["2.500 s", "12.500 ms", "3.00 us"].map(String::from)
        );
        assert_eq!(
            [512, 1024, 1536, 1 << 32].map(bytes),
            ["512 B", "1 KiB", "1.5 KiB", "4 GiB"].map(String::from)
        );
    }
}
