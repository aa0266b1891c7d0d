//! A sweep as a heat map: block tiles down, thread tiles across, a panel for each loop order and staging.
//!
//! Panels of a row share its block tiles: first the loop orders with single staging, then the stagings, then the loop
//! orders without shared memory.

use super::style::{ACCENT, FAINT, GRID, INK, LABEL, SMALL, TITLE, bold, scale, text, text_on};
use super::{Area, Drawn};
use crate::sweep::{Config, Entry, Record};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

const MARGIN: i32 = 14;
const TITLE_HEIGHT: i32 = 34;
const LEGEND_HEIGHT: i32 = 40;
const CELL: (i32, i32) = (44, 24);
/// Room for the names of block tiles.
const ROW_NAMES: i32 = 104;
/// Room for a panel's name and its thread tiles.
const PANEL_HEAD: i32 = 44;
const BETWEEN_PANELS: i32 = 26;
/// Panels beside one another take no more than this, unless one alone does.
const ROW_WIDTH: i32 = 950;
/// Distance of the lines that mark what cannot run.
const HATCH: i32 = 8;
/// The picture is no narrower, so that its title fits.
const LEAST_WIDTH: i32 = 640;

/// The speeds of one size, put in their places.
pub(super) struct HeatMap<'a> {
    record: &'a Record,
    size: usize,
    rows: Vec<Row<'a>>,
    fastest: Option<&'a Entry>,
}

/// Panels beside one another.
struct Row<'a> {
    block_tiles: Vec<String>,
    panels: Vec<Panel<'a>>,
}

/// One loop order and staging.
struct Panel<'a> {
    name: String,
    thread_tiles: Vec<String>,
    entries: Vec<&'a Entry>,
}

impl<'a> HeatMap<'a> {
    pub fn new(record: &'a Record, size: usize) -> Self {
        let mut kinds: Vec<(&str, &str)> = Vec::new();
        for Entry { config, .. } in &record.results {
            push_new(&mut kinds, (config.order.as_str(), config.staging.as_str()));
        }
        let (direct, staged): (Vec<_>, Vec<_>) =
            kinds.into_iter().partition(|(_, staging)| *staging == "direct");
        let (orders, stagings): (Vec<_>, Vec<_>) =
            staged.into_iter().partition(|(_, staging)| *staging == "single");
        let panels = |kinds: Vec<(&'a str, &'a str)>| {
            kinds.into_iter().map(|(order, staging)| Panel::new(record, order, staging)).collect()
        };
        let mut rows = Row::wrap(panels(orders));
        rows.extend(Row::wrap(panels(stagings)));
        rows.extend(Row::wrap(panels(direct)));
        let speed = |entry: &&Entry| entry.timing(size).map_or(0.0, |timing| timing.tflops);
        let fastest = record.results.iter().max_by(|a, b| speed(a).total_cmp(&speed(b)));
        HeatMap { record, size, rows, fastest }
    }

    pub fn size(&self) -> (u32, u32) {
        let width = self.rows.iter().map(Row::width).max().unwrap_or_default();
        let height: i32 = self.rows.iter().map(Row::height).sum();
        let width = (width + 2 * MARGIN).max(LEAST_WIDTH);
        (width as u32, (height + 2 * MARGIN + TITLE_HEIGHT + LEGEND_HEIGHT) as u32)
    }

    pub fn draw<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B> {
        let (n, dtype) = (self.size, &self.record.dtype);
        let device = &self.record.provenance.device;
        let title = format!("Sweep in {dtype} at {n} x {n} x {n} on {device}, TFLOP/s");
        area.draw_text(&title, &bold(TITLE, INK, HPos::Left, VPos::Top), (MARGIN, MARGIN))?;
        self.draw_legend(area, MARGIN + TITLE_HEIGHT)?;
        let mut top = MARGIN + TITLE_HEIGHT + LEGEND_HEIGHT;
        for row in &self.rows {
            self.draw_row(area, row, top)?;
            top += row.height();
        }
        Ok(())
    }

    fn draw_legend<B: DrawingBackend>(&self, area: &Area<B>, top: i32) -> Drawn<B> {
        const STEPS: i32 = 40;
        const STEP_WIDTH: i32 = 5;
        const HEIGHT: i32 = 16;
        let middle = top + HEIGHT / 2;
        let left_text = text(LABEL, INK, HPos::Left, VPos::Center);
        let mut x = MARGIN;
        area.draw_text("0", &left_text, (x, middle))?;
        x += 14;
        for step in 0..STEPS {
            let color = scale((f64::from(step) + 0.5) / f64::from(STEPS));
            // To the end of the scale each, so that no ground shows between them where a picture is scaled.
            let corners = [(x + step * STEP_WIDTH, top), (x + STEPS * STEP_WIDTH, top + HEIGHT)];
            area.draw(&Rectangle::new(corners, color.filled()))?;
        }
        x += STEPS * STEP_WIDTH + 6;
        let most = format!("{:.1} TFLOP/s", self.most());
        area.draw_text(&most, &left_text, (x, middle))?;
        x += area.estimate_text_size(&most, &left_text)?.0 as i32 + 26;
        frame(area, (x, top), (CELL.0 / 2, HEIGHT))?;
        area.draw_text("fastest", &left_text, (x + CELL.0 / 2 + 8, middle))?;
        x += CELL.0 / 2 + 8 + area.estimate_text_size("fastest", &left_text)?.0 as i32 + 26;
        hatch(area, (x, top), (CELL.0 / 2, HEIGHT))?;
        area.draw_text("cannot run", &left_text, (x + CELL.0 / 2 + 8, middle))
    }

    fn draw_row<B: DrawingBackend>(&self, area: &Area<B>, row: &Row<'_>, top: i32) -> Drawn<B> {
        let names = text(LABEL, INK, HPos::Right, VPos::Center);
        let cells = top + PANEL_HEAD;
        for (index, block_tile) in row.block_tiles.iter().enumerate() {
            let y = cells + CELL.1 * index as i32 + CELL.1 / 2;
            area.draw_text(block_tile, &names, (MARGIN + ROW_NAMES - 8, y))?;
        }
        let mut left = MARGIN + ROW_NAMES;
        for panel in &row.panels {
            let name = bold(LABEL, INK, HPos::Left, VPos::Top);
            area.draw_text(&panel.name, &name, (left, top))?;
            for (index, thread_tile) in panel.thread_tiles.iter().enumerate() {
                let x = left + CELL.0 * index as i32 + CELL.0 / 2;
                let style = text(SMALL, INK, HPos::Center, VPos::Bottom);
                area.draw_text(thread_tile, &style, (x, cells - 4))?;
            }
            let corner = |entry: &Entry| {
                let position = |names: &[String], name: String| {
                    names.iter().position(|known| *known == name).unwrap_or_default() as i32
                };
                let column = position(&panel.thread_tiles, entry.config.thread_tile());
                let row = position(&row.block_tiles, entry.config.block_tile());
                (left + CELL.0 * column, cells + CELL.1 * row)
            };
            for entry in &panel.entries {
                self.draw_cell(area, entry, corner(entry))?;
            }
            // On top of its neighbours.
            if let Some(fastest) = panel
                .entries
                .iter()
                .find(|entry| self.fastest.is_some_and(|fastest| std::ptr::eq(**entry, fastest)))
            {
                frame(area, corner(fastest), CELL)?;
            }
            left += panel.width() + BETWEEN_PANELS;
        }
        Ok(())
    }

    /// The highest speed in TFLOP/s; 0 where nothing was measured.
    fn most(&self) -> f64 {
        let timing = self.fastest.and_then(|entry| entry.timing(self.size));
        timing.map_or(0.0, |timing| timing.tflops)
    }

    fn draw_cell<B: DrawingBackend>(
        &self,
        area: &Area<B>,
        entry: &Entry,
        (x, y): (i32, i32),
    ) -> Drawn<B> {
        let center = (x + CELL.0 / 2, y + CELL.1 / 2);
        if let Some(timing) = entry.timing(self.size) {
            let color = scale(timing.tflops / self.most());
            // A line of the ground stays between neighbours.
            let corners = [(x, y), (x + CELL.0 - 1, y + CELL.1 - 1)];
            area.draw(&Rectangle::new(corners, color.filled()))?;
            let style = text(SMALL, text_on(color), HPos::Center, VPos::Center);
            area.draw_text(&speed(timing.tflops), &style, center)
        } else if entry.wrong.is_some() {
            area.draw_text("wrong", &text(SMALL, INK, HPos::Center, VPos::Center), center)
        } else if entry.cannot_run.is_some() {
            hatch(area, (x, y), (CELL.0 - 1, CELL.1 - 1))
        } else {
            // Not measured yet.
            area.draw_text("-", &text(SMALL, FAINT, HPos::Center, VPos::Center), center)
        }
    }
}

impl<'a> Row<'a> {
    /// Panels in rows that are not too wide.
    fn wrap(panels: Vec<Panel<'a>>) -> Vec<Self> {
        let mut rows: Vec<Row<'a>> = Vec::new();
        for panel in panels {
            match rows.last_mut() {
                Some(row) if row.width() + BETWEEN_PANELS + panel.width() <= ROW_WIDTH => {
                    row.panels.push(panel);
                }
                _ => rows.push(Row { block_tiles: Vec::new(), panels: vec![panel] }),
            }
        }
        for row in &mut rows {
            let mut tiles: Vec<(u32, u32, u32)> = Vec::new();
            for Entry { config, .. } in row.panels.iter().flat_map(|panel| &panel.entries) {
                push_new(&mut tiles, (config.bm, config.bn, config.bk));
            }
            tiles.sort_by_key(|&(bm, bn, bk)| (bm * bn, bm, bk));
            row.block_tiles = tiles.iter().map(|(bm, bn, bk)| format!("{bm}x{bn}x{bk}")).collect();
        }
        rows
    }

    fn width(&self) -> i32 {
        let panels: i32 = self.panels.iter().map(Panel::width).sum();
        ROW_NAMES + panels + BETWEEN_PANELS * (self.panels.len() as i32 - 1)
    }

    fn height(&self) -> i32 {
        PANEL_HEAD + CELL.1 * self.block_tiles.len() as i32 + BETWEEN_PANELS
    }
}

impl<'a> Panel<'a> {
    fn new(record: &'a Record, order: &str, staging: &str) -> Self {
        let is_here = |config: &Config| config.order == order && config.staging == staging;
        let entries: Vec<_> =
            record.results.iter().filter(|entry| is_here(&entry.config)).collect();
        let mut tiles: Vec<(u32, u32)> = Vec::new();
        for Entry { config, .. } in &entries {
            push_new(&mut tiles, (config.tm, config.tn));
        }
        tiles.sort_by_key(|&(tm, tn)| (tm * tn, tm));
        let thread_tiles = tiles.iter().map(|(tm, tn)| format!("{tm}x{tn}")).collect();
        Panel { name: panel_name(order, staging), thread_tiles, entries }
    }

    fn width(&self) -> i32 {
        /// The name of a panel fits.
        const LEAST: i32 = 176;
        const CHARACTER: i32 = 7;
        let name = LEAST.max(CHARACTER * self.name.len() as i32);
        (CELL.0 * self.thread_tiles.len() as i32).max(name)
    }
}

fn push_new<T: PartialEq>(known: &mut Vec<T>, value: T) {
    if !known.contains(&value) {
        known.push(value);
    }
}

/// A loop order and a staging in words. Other names stand as they are.
fn panel_name(order: &str, staging: &str) -> String {
    let order_name = match order {
        "standard" => "standard (k outermost)",
        "k_after_threads" => "k after threads",
        "k_innermost" => "k innermost",
        other => other,
    };
    let stages = match staging {
        "single" => return order_name.to_owned(),
        "direct" => return format!("{order_name}, direct"),
        "double" => "double buffer",
        "async2" => "async, 2 stages",
        "async3" => "async, 3 stages",
        "async4" => "async, 4 stages",
        other => other,
    };
    match order {
        "k_innermost" => stages.to_owned(),
        _ => format!("{order_name}, {stages}"),
    }
}

/// A speed in three digits where there is room for no more.
fn speed(tflops: f64) -> String {
    match tflops {
        ..10.0 => format!("{tflops:.2}"),
        10.0..100.0 => format!("{tflops:.1}"),
        _ => format!("{tflops:.0}"),
    }
}

/// A frame inside a cell, of bars: corners of lines differ between backends.
fn frame<B: DrawingBackend>(area: &Area<B>, (x, y): (i32, i32), size: (i32, i32)) -> Drawn<B> {
    const WIDTH: i32 = 3;
    let (right, bottom) = (x + size.0 - 1, y + size.1 - 1);
    let bars = [
        [(x, y), (right, y + WIDTH)],
        [(x, bottom - WIDTH), (right, bottom)],
        [(x, y), (x + WIDTH, bottom)],
        [(right - WIDTH, y), (right, bottom)],
    ];
    bars.into_iter().try_for_each(|bar| area.draw(&Rectangle::new(bar, ACCENT.filled())))
}

/// A cell that cannot run: grey with slanted lines.
fn hatch<B: DrawingBackend>(area: &Area<B>, (x, y): (i32, i32), size: (i32, i32)) -> Drawn<B> {
    area.draw(&Rectangle::new([(x, y), (x + size.0, y + size.1)], GRID.filled()))?;
    // Each line begins at the left or the upper side and ends at the lower or the right one.
    let mut start = HATCH / 2;
    while start < size.0 + size.1 {
        let upper = (start.min(size.0), (start - size.0).max(0));
        let lower = ((start - size.1).max(0), start.min(size.1));
        let line = [(x + upper.0, y + upper.1), (x + lower.0, y + lower.1)];
        area.draw(&PathElement::new(line, FAINT.stroke_width(1)))?;
        start += HATCH;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_fit_their_cells() {
        assert_eq!([0.12, 9.876, 51.24, 689.6].map(speed), ["0.12", "9.88", "51.2", "690"]);
    }

    #[test]
    fn known_orders_and_stagings_have_names() {
        assert_eq!(panel_name("standard", "single"), "standard (k outermost)");
        assert_eq!(panel_name("k_innermost", "async3"), "async, 3 stages");
        assert_eq!(panel_name("k_innermost", "direct"), "k innermost, direct");
        assert_eq!(panel_name("diagonal", "triple"), "diagonal, triple");
    }
}
