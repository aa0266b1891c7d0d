//! Tables and words that all of them print.

use crate::run::Run;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};

/// A table under its title, and how all columns but the first are aligned.
pub fn table(
    title: &str,
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
    others: CellAlignment,
) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(heading).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(others);
    }
    format!("{title}\n{table}\n")
}

pub fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

pub fn joined<T: ToString>(items: impl IntoIterator<Item = T>, between: &str) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(between)
}

/// A thread by row and column among those of its block: that of its part of the tile of D.
pub fn thread(run: &Run, index: usize) -> String {
    let tile = run.kernel.tile;
    let threads = (tile.bn / tile.tn) as usize;
    let (row, col) = (index / threads, index % threads);
    format!("({row},{col})")
}
