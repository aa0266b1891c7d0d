//! A table as plain text cells, for whoever prints it.

use std::fmt::Write;

/// A table: the first column holds names, all others numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What the table shows.
    pub title: String,
    /// The heading of each column.
    pub heading: Vec<String>,
    /// The rows, each as long as the heading.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new<H: Into<String>>(
        title: impl Into<String>,
        heading: impl IntoIterator<Item = H>,
    ) -> Self {
        let heading = heading.into_iter().map(Into::into).collect();
        Table { title: title.into(), heading, rows: Vec::new() }
    }

    /// The title as a second-level heading, and the table in Markdown with numbers at the right.
    pub fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n", self.title);
        let numbers = self.heading.len().saturating_sub(1);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} |", self.heading.join(" | "));
        let _ = writeln!(text, "|---|{}", "---:|".repeat(numbers));
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }
}

/// What may be missing: `-` then.
pub fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A count with thousands separated, such as `16,777,216`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_aligns_names_left_and_numbers_right() {
        let mut table = Table::new("Speed", ["tile", "mean", "best"]);
        table.rows.push(["8x8", "1.0", "2.0"].map(String::from).to_vec());
        assert_eq!(
            table.markdown(),
            "## Speed\n\n| tile | mean | best |\n|---|---:|---:|\n| 8x8 | 1.0 | 2.0 |\n"
        );
    }
}
