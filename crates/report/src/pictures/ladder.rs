//! The ladder as bars: a group a size, a bar a kernel in the order of the ladder, the vendor's library and the peak as
//! lines.

use super::legend::{self, Mark, STROKE};
use super::style::{ACCENT, FAINT, GRID, INK, LABEL, LIMIT, SMALL, TITLE, bold, step, text};
use super::{Area, Drawn};
use crate::ladder::{Record, Round, VENDOR};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

pub(super) const SIZE: (u32, u32) = (920, 500);
const MARGIN: i32 = 14;
const TITLE_HEIGHT: i32 = 30;
/// Room for the numbers beside the axis.
const AXIS: u32 = 58;
/// Room for the sizes below the groups, and what the fastest kernel reaches there.
const BELOW: u32 = 60;
/// Distances of the lines there from the axis.
const SIZE_LINE: i32 = 6;
const BEST_LINE: i32 = 25;
const SHARE_LINE: i32 = 42;
/// Room between two groups, in bars.
const GAP: f64 = 1.2;
/// Room above the highest value, relative to it.
const HEADROOM: f64 = 1.06;
/// Room between two bars, in bars.
const BETWEEN: f64 = 0.06;

pub(super) fn draw<B: DrawingBackend>(record: &Record, area: &Area<B>) -> Drawn<B> {
    let title = format!("Matrix product in {} on {}", record.dtype, record.provenance.device);
    area.draw_text(&title, &bold(TITLE, INK, HPos::Left, VPos::Top), (MARGIN, MARGIN))?;
    let legend_height = legend::draw(area, (MARGIN, MARGIN + TITLE_HEIGHT), &keys(record))?;
    let (_, chart_area) = area.split_vertically(MARGIN + TITLE_HEIGHT + legend_height);

    let bars = names(record).len();
    let group = bars as f64 + GAP;
    let right = group * record.rounds.len().max(1) as f64;
    let fastest = record.rounds.iter().flat_map(|round| &round.entries).map(|entry| entry.tflops);
    let top = record.peak.into_iter().chain(fastest).fold(f64::MIN_POSITIVE, f64::max) * HEADROOM;
    let mut chart = ChartBuilder::on(&chart_area)
        .margin(MARGIN)
        .x_label_area_size(BELOW)
        .y_label_area_size(AXIS)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(FAINT)
        .label_style(text(LABEL, INK, HPos::Left, VPos::Top))
        .axis_desc_style(text(LABEL, INK, HPos::Left, VPos::Top))
        .y_label_formatter(&|value| value.to_string())
        .y_desc("TFLOP/s")
        .draw()?;

    for (index, round) in record.rounds.iter().enumerate() {
        let left = group * index as f64 + GAP / 2.0;
        for (bar, name) in names(record).iter().enumerate() {
            let Some(entry) = round.rungs().find(|entry| entry.name == *name) else { continue };
            let (from, to) = (left + bar as f64 + BETWEEN, left + (bar + 1) as f64 - BETWEEN);
            let rectangle = [(from, 0.0), (to, entry.tflops)];
            chart.draw_series([Rectangle::new(rectangle, step(bar, bars).filled())])?;
        }
        if let Some(speed) = round.vendor_tflops() {
            let ends = [(left - GAP / 4.0, speed), (left + bars as f64 + GAP / 4.0, speed)];
            chart.draw_series([PathElement::new(ends, ACCENT.stroke_width(STROKE))])?;
        }
        let (x, y) = chart.backend_coord(&(left + bars as f64 / 2.0, 0.0));
        let heading = bold(LABEL, INK, HPos::Center, VPos::Top);
        area.draw_text(&round.label(), &heading, (x, y + SIZE_LINE))?;
        let small = text(SMALL, INK, HPos::Center, VPos::Top);
        for (line, words) in [BEST_LINE, SHARE_LINE].into_iter().zip(best(round)) {
            let room =
                chart.backend_coord(&(left + group, 0.0)).0 - chart.backend_coord(&(left, 0.0)).0;
            if area.estimate_text_size(&words, &small)?.0 as i32 <= room {
                area.draw_text(&words, &small, (x, y + line))?;
            }
        }
    }
    if let Some(peak) = record.peak {
        let (from, y) = chart.backend_coord(&(0.0, peak));
        let (to, _) = chart.backend_coord(&(right, peak));
        legend::dashes(area, (from, to), y, LIMIT)?;
    }
    Ok(())
}

/// The kernels, without what they are compared with.
fn names(record: &Record) -> Vec<&str> {
    let is_kernel = |name: &&str| {
        let mut rungs = record.rounds.iter().flat_map(Round::rungs);
        rungs.any(|entry| entry.name == *name)
    };
    record.contenders().into_iter().filter(is_kernel).collect()
}

fn keys(record: &Record) -> Vec<(String, Mark)> {
    let names = names(record);
    let bars = names.iter().enumerate();
    let mut keys: Vec<_> =
        bars.map(|(bar, name)| ((*name).to_owned(), Mark::Bar(step(bar, names.len())))).collect();
    if record.rounds.iter().any(|round| round.vendor_tflops().is_some()) {
        keys.push((VENDOR.to_owned(), Mark::Line(ACCENT)));
    }
    if let Some(peak) = record.peak {
        keys.push((format!("peak without tensor cores, {peak:.1}"), Mark::Dashes(LIMIT)));
    }
    keys
}

/// What the fastest kernel reaches: `best 51.2`, `1.00 of cuBLASLt`.
fn best(round: &Round) -> Vec<String> {
    let Some(fastest) = round.fastest() else { return Vec::new() };
    let mut lines = vec![format!("best {:.1}", fastest.tflops)];
    if let Some(vendor) = round.vendor_tflops() {
        lines.push(format!("{:.2} of {VENDOR}", fastest.tflops / vendor));
    }
    lines
}
