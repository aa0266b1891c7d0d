//! Ratios to the vendor's best as bars around a line at one: a row a case, below one another by group.

use super::legend::{self, Mark};
use super::style::{ACCENT, FAINT, GRID, INK, LABEL, PAPER, SMALL, TITLE, bold, step, text};
use super::{Area, Drawn};
use crate::versus::{Group, GroupSummary, Measured, REGEMM, Record, SQUARES_THAT_COUNT};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

const WIDTH: u32 = 920;
const MARGIN: i32 = 14;
const TITLE_HEIGHT: i32 = 30;
const LEGEND_HEIGHT: i32 = 26;
/// Height of the numbers above the rows.
const AXIS: i32 = 22;
const ROW: i32 = 22;
const BAR: i32 = 14;
/// Room between groups, the group's name in it.
const HEADING: i32 = 30;
/// Where the bars begin and end.
const LEFT: i32 = 190;
const RIGHT: i32 = WIDTH as i32 - 170;
/// Between a bar or a row's end and the text beside it.
const GAP: i32 = 6;
/// A ring at the ratio in short bursts, and a disc at that in long turns with its halo.
const RING: i32 = 5;
const DISC: (i32, i32) = (4, 6);
/// The axis shows at least these ratios, and never less or more than the others.
const SHOWN: (f64, f64) = (0.9, 1.1);
const MOST: (f64, f64) = (0.0, 2.0);
/// Distances of the lines that help to read a value: the first that leaves no more than so many.
const STEPS: [f64; 4] = [0.05, 0.1, 0.2, 0.5];
const MOST_LINES: f64 = 12.0;

/// The groups that are drawn, each with its cases and what they come to.
fn groups(record: &Record) -> Vec<(GroupSummary<'_>, Vec<(&Measured, f64)>)> {
    let cases = |group: Group| {
        let of_group = record.cases.iter().filter(move |measured| measured.case.group == group);
        of_group.filter_map(|measured| Some((measured, measured.ratio()?))).collect()
    };
    record.summaries().into_iter().map(|summary| (summary.clone(), cases(summary.group))).collect()
}

pub(super) fn size(record: &Record) -> (u32, u32) {
    let rows = |(_, cases): &(GroupSummary<'_>, Vec<_>)| HEADING + ROW * cases.len() as i32;
    let body: i32 = groups(record).iter().map(rows).sum();
    let height = MARGIN + TITLE_HEIGHT + LEGEND_HEIGHT + AXIS + body + MARGIN;
    (WIDTH, height as u32)
}

pub(super) fn draw<B: DrawingBackend>(record: &Record, area: &Area<B>) -> Drawn<B> {
    let device = &record.provenance.device;
    let title = format!("Speed in {} relative to the vendor's best on {device}", record.dtype);
    area.draw_text(&title, &bold(TITLE, INK, HPos::Left, VPos::Top), (MARGIN, MARGIN))?;
    let mut keys = vec![
        (format!("{REGEMM} is faster"), Mark::Bar(faster())),
        ("the vendor is faster".to_owned(), Mark::Bar(ACCENT)),
    ];
    if let Some([bursts, _]) = record.burst_summary() {
        keys.push((format!("in short bursts (mean {:.3})", bursts.mean), Mark::Ring(INK)));
    }
    if let Some([turns, _]) = record.turn_summary() {
        keys.push((format!("in long turns (mean {:.3})", turns.mean), Mark::Disc(INK)));
    }
    legend::draw(area, (MARGIN, MARGIN + TITLE_HEIGHT), &keys)?;

    let groups = groups(record);
    let cases = || groups.iter().flat_map(|(_, cases)| cases);
    let of_bursts = cases().filter_map(|(measured, _)| measured.burst_ratio());
    let of_turns = cases().filter_map(|(measured, _)| measured.turn_ratio());
    let scale = Scale::of(cases().map(|(_, ratio)| *ratio).chain(of_bursts).chain(of_turns));
    let top = MARGIN + TITLE_HEIGHT + LEGEND_HEIGHT + AXIS;
    let bottom = size(record).1 as i32 - MARGIN;
    let small = text(SMALL, FAINT, HPos::Center, VPos::Bottom);
    for value in scale.lines() {
        let x = scale.x(value);
        let ends = [(x, top), (x, bottom)];
        area.draw(&PathElement::new(ends, GRID.stroke_width(1)))?;
        area.draw_text(&format!("{value:.2}"), &small, (x, top - GAP / 2))?;
    }

    let one = scale.x(1.0);
    let mut y = top;
    for (summary, cases) in &groups {
        let heading = bold(LABEL, INK, HPos::Left, VPos::Center);
        let middle = y + HEADING / 2;
        let mut name = summary.group.name().to_owned();
        if summary.count < cases.len() {
            let (first, last) = SQUARES_THAT_COUNT.into_inner();
            name += &format!(" (the mean is that of {first} to {last})");
        }
        area.draw_text(&name, &heading, (MARGIN, middle))?;
        let mean = format!("mean {:.3}", summary.mean);
        area.draw_text(&mean, &heading, (RIGHT + GAP, middle))?;
        y += HEADING;
        for (measured, ratio) in cases {
            let middle = y + ROW / 2;
            let label = text(SMALL, INK, HPos::Right, VPos::Center);
            area.draw_text(&measured.case.label(), &label, (LEFT - GAP, middle))?;
            let end = scale.x(*ratio);
            let corners = [(one.min(end), middle - BAR / 2), (one.max(end), middle + BAR / 2)];
            let color = if *ratio < 1.0 { ACCENT } else { faster() };
            area.draw(&Rectangle::new(corners, color.filled()))?;
            if let Some(ratio) = measured.burst_ratio() {
                let center = (scale.x(ratio), middle);
                area.draw(&Circle::new(center, RING, PAPER.filled()))?;
                area.draw(&Circle::new(center, RING, INK.stroke_width(2)))?;
            }
            if let Some(ratio) = measured.turn_ratio() {
                let center = (scale.x(ratio), middle);
                area.draw(&Circle::new(center, DISC.1, PAPER.filled()))?;
                area.draw(&Circle::new(center, DISC.0, INK.filled()))?;
            }
            let speed = measured.ours().map_or(0.0, |entry| entry.tflops);
            let words = format!("{ratio:.3}   {speed:.1} TFLOP/s");
            let numbers = text(SMALL, INK, HPos::Left, VPos::Center);
            area.draw_text(&words, &numbers, (RIGHT + GAP, middle))?;
            y += ROW;
        }
    }
    area.draw(&PathElement::new([(one, top), (one, bottom)], INK.stroke_width(2)))
}

/// The colour of bars above one.
fn faster() -> RGBColor {
    const PLACE: (usize, usize) = (1, 3);
    step(PLACE.0, PLACE.1)
}

/// Ratios as places.
struct Scale {
    from: f64,
    to: f64,
}

impl Scale {
    /// Over all ratios, rounded outwards to a line.
    fn of(ratios: impl Iterator<Item = f64>) -> Scale {
        let (least, most) =
            ratios.fold(SHOWN, |(least, most), ratio| (ratio.min(least), ratio.max(most)));
        let mut scale = Scale { from: least.max(MOST.0), to: most.min(MOST.1) };
        let step = scale.step();
        scale.from = (scale.from / step).floor() * step;
        scale.to = (scale.to / step).ceil() * step;
        scale
    }

    fn step(&self) -> f64 {
        let fits = |step: &f64| (self.to - self.from) / step <= MOST_LINES;
        STEPS.into_iter().find(fits).unwrap_or(STEPS[STEPS.len() - 1])
    }

    /// The values with a line.
    fn lines(&self) -> impl Iterator<Item = f64> {
        let (step, from) = (self.step(), self.from);
        let count = ((self.to - from) / step).round() as usize;
        (0..=count).map(move |line| from + step * line as f64)
    }

    /// Ratios outside of the axis end at its ends.
    fn x(&self, ratio: f64) -> i32 {
        let share = (ratio.clamp(self.from, self.to) - self.from) / (self.to - self.from);
        LEFT + (share * f64::from(RIGHT - LEFT)).round() as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_spans_all_ratios_and_one() {
        let scale = Scale::of([0.72, 1.3].into_iter());
        assert!(scale.from <= 0.72 && scale.from > 0.6 && scale.to >= 1.3 && scale.to < 1.45);
        assert_eq!((scale.x(scale.from), scale.x(scale.to)), (LEFT, RIGHT));
        assert!(scale.lines().any(|value| (value - 1.0).abs() < 1e-9), "a line at one");
        let scale = Scale::of([1.0, 17.0].into_iter());
        assert_eq!(scale.x(17.0), RIGHT, "what is far outside ends at the edge");
        assert!(scale.lines().count() < 20);
    }
}
