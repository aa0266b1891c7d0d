//! Errors over the depth, both axes logarithmic: a column of panels a kind of data, a row a measure, a curve a mode.

use super::legend::{self, Mark};
use super::style::{ACCENT, FAINT, GRID, INK, LABEL, LIMIT, SMALL, TITLE, bold, step, text};
use super::{Area, Drawn};
use crate::accuracy::{CUBLAS_TF32, Measure, Record, UNIT_ROUNDOFF, is_vendor};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

pub(super) const SIZE: (u32, u32) = (920, 680);
const MARGIN: i32 = 14;
const TITLE_HEIGHT: i32 = 30;
/// Room for the names of the kinds of data.
const HEADING: i32 = 26;
/// Room for the errors beside the panels of the first column, and for the name of the measure.
const AXIS: i32 = 62;
/// Room for the depths below a panel.
const BELOW: i32 = 34;
/// Room for the names of curves at their ends.
const NAMES: i32 = 102;
/// Least distances of these names from one another, and of depths.
const NAME: i32 = 14;
const DEPTH: i32 = 40;
/// Between a curve's end and its name.
const TO_NAME: i32 = 12;
/// Between an axis and a text.
const GAP: i32 = 6;
const STROKE: u32 = 2;
const RADIUS: i32 = 3;

/// What is drawn of a record.
pub(super) struct Curves<'a> {
    record: &'a Record,
    modes: Vec<&'a str>,
    /// Binary exponents of the depths.
    depths: Range<f64>,
}

/// The plane of one kind of data and measure.
struct Panel {
    x: Range<i32>,
    y: Range<i32>,
    /// Decimal exponents from bottom to top.
    errors: Range<f64>,
}

/// How a curve is drawn.
#[derive(Clone, Copy)]
struct Line {
    color: RGBColor,
    is_dashed: bool,
}

impl<'a> Curves<'a> {
    pub fn new(record: &'a Record) -> Self {
        let depths = record.points.iter().map(|point| (point.k.max(1) as f64).log2());
        Curves { record, modes: record.modes(), depths: span(depths, 0.0, 1.0) }
    }

    pub fn draw<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B> {
        let Record { dtype, rows, cols, provenance, .. } = self.record;
        let title =
            format!("Errors of products of {dtype}, {rows} x {cols} x K, on {}", provenance.device);
        area.draw_text(&title, &bold(TITLE, INK, HPos::Left, VPos::Top), (MARGIN, MARGIN))?;
        let ranges = Measure::ALL.map(|measure| self.errors(measure));
        let legend = legend::draw(area, (MARGIN, MARGIN + TITLE_HEIGHT), &self.keys(&ranges))?;

        let top = MARGIN + TITLE_HEIGHT + legend + HEADING;
        let height = (SIZE.1 as i32 - MARGIN - top) / Measure::ALL.len() as i32;
        let left = MARGIN + AXIS;
        let columns = self.record.data.len().max(1) as i32;
        let width = (SIZE.0 as i32 - MARGIN - left) / columns;
        for (row, (measure, errors)) in (0..).zip(Measure::ALL.into_iter().zip(ranges)) {
            let y = top + row * height..top + (row + 1) * height - BELOW;
            let name = text(LABEL, INK, HPos::Center, VPos::Top)
                .transform(FontTransform::Rotate270)
                .pos(Pos::new(HPos::Center, VPos::Top));
            area.draw_text(measure.name(), &name, (MARGIN, (y.start + y.end) / 2))?;
            for (column, data) in (0..).zip(&self.record.data) {
                let start = left + column * width;
                let x = start..start + width - NAMES;
                if row == 0 {
                    let words = format!("{}: {}", data.name, data.description);
                    let style = text(LABEL, INK, HPos::Left, VPos::Bottom);
                    area.draw_text(&words, &style, (x.start, y.start - GAP))?;
                }
                let panel = Panel { x, y: y.clone(), errors: errors.clone() };
                self.draw_axes(area, &panel, column == 0)?;
                self.draw_curves(area, &panel, &data.name, measure)?;
            }
        }
        Ok(())
    }

    /// Decimal exponents of all errors of a measure.
    fn errors(&self, measure: Measure) -> Range<f64> {
        const ROOM: f64 = 0.2;
        let errors = self.record.points.iter().map(|point| measure.of(point));
        span(errors.filter(|error| *error > 0.0).map(f64::log10), ROOM, 1.0)
    }

    fn keys(&self, ranges: &[Range<f64>]) -> Vec<(String, Mark)> {
        let mark = |&mode: &&str| match self.line(mode) {
            Line { color, is_dashed: false } => Mark::Line(color),
            Line { color, is_dashed: true } => Mark::Dashes(color),
        };
        let mut keys: Vec<_> =
            self.modes.iter().map(|mode| ((*mode).to_owned(), mark(mode))).collect();
        if ranges.iter().any(|range| range.contains(&UNIT_ROUNDOFF.log10())) {
            keys.push(("2^-24, one rounding to f32".to_owned(), Mark::Dashes(LIMIT)));
        }
        keys
    }

    fn line(&self, mode: &str) -> Line {
        if is_vendor(mode) {
            return Line { color: ACCENT, is_dashed: mode == CUBLAS_TF32 };
        }
        let own = self.modes.iter().filter(|mode| !is_vendor(mode));
        let index = own.clone().position(|own| *own == mode).unwrap_or_default();
        Line { color: step(index, own.count()), is_dashed: false }
    }

    fn draw_axes<B: DrawingBackend>(
        &self,
        area: &Area<B>,
        panel: &Panel,
        is_first: bool,
    ) -> Drawn<B> {
        let Panel { x, y, .. } = panel;
        for exponent in self.ticks(x.len() as i32) {
            let at = self.x(panel, f64::from(exponent));
            area.draw(&PathElement::new([(at, y.start), (at, y.end)], GRID))?;
            let style = text(SMALL, INK, HPos::Center, VPos::Top);
            area.draw_text(&(1_u64 << exponent).to_string(), &style, (at, y.end + GAP))?;
        }
        for (exponent, name) in errors_with_names(&panel.errors) {
            let at = panel.y(exponent);
            area.draw(&PathElement::new([(x.start, at), (x.end, at)], GRID))?;
            if is_first {
                let style = text(SMALL, INK, HPos::Right, VPos::Center);
                area.draw_text(&name, &style, (x.start - GAP, at))?;
            }
        }
        if panel.errors.contains(&UNIT_ROUNDOFF.log10()) {
            legend::dashes(area, (x.start, x.end), panel.y(UNIT_ROUNDOFF.log10()), LIMIT)?;
        }
        let axes = [(x.start, y.start), (x.start, y.end), (x.end, y.end)];
        area.draw(&PathElement::new(axes, FAINT))?;
        let style = text(SMALL, FAINT, HPos::Left, VPos::Top);
        area.draw_text("K", &style, (x.end + DEPTH / 2 + GAP, y.end + GAP))
    }

    /// Binary exponents of depths with a name: as many as have room.
    fn ticks(&self, width: i32) -> impl Iterator<Item = u32> {
        let Range { start, end } = self.depths;
        let most = f64::from((width / DEPTH).max(1));
        let step = ((end - start) / most).ceil().max(1.0) as usize;
        (start.ceil() as u32..=end.floor() as u32).step_by(step)
    }

    fn x(&self, panel: &Panel, exponent: f64) -> i32 {
        let Range { start, end } = self.depths;
        let share = (exponent - start) / (end - start);
        // The first and the last point do not lie on the frame.
        let (left, width) = (panel.x.start + 2 * RADIUS, panel.x.len() as i32 - 4 * RADIUS);
        left + (share * f64::from(width)).round() as i32
    }

    fn draw_curves<B: DrawingBackend>(
        &self,
        area: &Area<B>,
        panel: &Panel,
        data: &str,
        measure: Measure,
    ) -> Drawn<B> {
        let depths = self.record.depths(data);
        let mut ends = Vec::new();
        for mode in &self.modes {
            let points = depths.iter().filter_map(|&k| self.record.point(data, mode, k));
            // What is exact has no place on such an axis.
            let places: Vec<(i32, i32)> = points
                .filter(|point| measure.of(point) > 0.0)
                .map(|point| {
                    let x = self.x(panel, (point.k.max(1) as f64).log2());
                    (x, panel.y(measure.of(point).log10()))
                })
                .collect();
            let Line { color, is_dashed } = self.line(mode);
            let stroke = color.stroke_width(STROKE);
            if is_dashed {
                let dash = legend::DASH;
                area.draw(&DashedPathElement::new(places.clone(), dash, dash * 2 / 3, stroke))?;
            } else {
                area.draw(&PathElement::new(places.clone(), stroke))?;
            }
            for &place in &places {
                area.draw(&Circle::new(place, RADIUS, color.filled()))?;
            }
            ends.extend(places.last().map(|&end| (end, *mode, color)));
        }
        ends.sort_by_key(|&((_, y), ..)| y);
        let heights: Vec<i32> = ends.iter().map(|&((_, y), ..)| y).collect();
        for (&((x, y), mode, color), name_y) in ends.iter().zip(spread(&heights, &panel.y)) {
            let name_x = panel.x.end + TO_NAME;
            let leader = [(x + RADIUS + 1, y), (name_x - 2, name_y)];
            area.draw(&PathElement::new(leader, color.stroke_width(1)))?;
            let style = text(SMALL, INK, HPos::Left, VPos::Center);
            area.draw_text(mode, &style, (name_x, name_y))?;
        }
        Ok(())
    }
}

impl Panel {
    fn y(&self, exponent: f64) -> i32 {
        let Range { start, end } = self.errors;
        let share = (exponent - start) / (end - start);
        self.y.end - (share * self.y.len() as f64).round() as i32
    }
}

/// The range of some values with room on both sides, no narrower than `least`.
fn span(values: impl Iterator<Item = f64>, room: f64, least: f64) -> Range<f64> {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    if low > high {
        return 0.0..least;
    }
    let missing = (least - (high - low) - 2.0 * room).max(0.0) / 2.0;
    low - room - missing..high + room + missing
}

/// Errors with a line, by their decimal exponents: every power of ten, and where there are few of these twice and five
/// times it.
fn errors_with_names(exponents: &Range<f64>) -> Vec<(f64, String)> {
    const FEW: f64 = 2.0;
    let digits: &[u32] = if exponents.end - exponents.start < FEW { &[1, 2, 5] } else { &[1] };
    let decades = exponents.start.floor() as i32..=exponents.end.ceil() as i32;
    let values = decades.flat_map(|decade| {
        digits.iter().map(move |&digit| {
            (f64::from(decade) + f64::from(digit).log10(), format!("{digit}e{decade}"))
        })
    });
    values.filter(|(exponent, _)| exponents.contains(exponent)).collect()
}

/// Heights for names, as near to theirs as can be without covering one another; both in ascending order.
fn spread(heights: &[i32], frame: &Range<i32>) -> Vec<i32> {
    let mut places = heights.to_vec();
    let mut least = frame.start;
    for place in &mut places {
        *place = (*place).max(least);
        least = *place + NAME;
    }
    let mut most = frame.end;
    for place in places.iter_mut().rev() {
        *place = (*place).min(most);
        most = *place - NAME;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_distance_and_stay_in_the_frame() {
        let places = spread(&[10, 11, 50, 99, 100], &(0..100));
        assert_eq!(places, [10, 24, 50, 86, 100]);
        assert_eq!(spread(&[7], &(0..100)), [7]);
    }

    #[test]
    fn ranges_hold_all_values() {
        assert_eq!(span([2.0, 5.0].into_iter(), 0.5, 1.0), 1.5..5.5);
        assert_eq!(span([3.0].into_iter(), 0.0, 1.0), 2.5..3.5);
        assert_eq!(span([f64::INFINITY].into_iter(), 0.5, 1.0), 0.0..1.0);
    }

    #[test]
    fn few_decades_have_more_lines() {
        let names = |range| errors_with_names(&range).into_iter().map(|(_, name)| name);
        assert_eq!(names(-7.1..-6.1).collect::<Vec<_>>(), ["1e-7", "2e-7", "5e-7"]);
        assert_eq!(names(-8.5..-5.5).collect::<Vec<_>>(), ["1e-8", "1e-7", "1e-6"]);
    }
}
