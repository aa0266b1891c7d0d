//! Kernels below the roofs of a device, both axes logarithmic.

use super::labels::{self, Box};
use super::legend::{self, Mark, STROKE};
use super::style::{
    ACCENT, FAINT, GRID, INK, LABEL, LIMIT, SECOND_LIMIT, SMALL, TITLE, bold, text,
};
use super::{Area, Drawn};
use crate::roofline::{Point, Roofline};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use std::ops::Range;

pub(super) const SIZE: (u32, u32) = (920, 560);
const MARGIN: i32 = 14;
const TITLE_HEIGHT: i32 = 30;
const AXIS: u32 = 64;
const BELOW: u32 = 46;
const RADIUS: i32 = 5;
const TERA: f64 = 1e12;

/// Decimal exponents that both axes show.
struct Ranges {
    intensity: Range<f64>,
    speed: Range<f64>,
}

type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

pub(super) fn draw<B: DrawingBackend>(roofline: &Roofline, area: &Area<B>) -> Drawn<B> {
    let title = bold(TITLE, INK, HPos::Left, VPos::Top);
    area.draw_text(&roofline.title, &title, (MARGIN, MARGIN))?;
    let keys = keys(roofline);
    let legend_height = legend::draw(area, (MARGIN, MARGIN + TITLE_HEIGHT), &keys)?;
    let (_, chart_area) = area.split_vertically(MARGIN + TITLE_HEIGHT + legend_height);
    let ranges = Ranges::new(roofline);
    let mut chart = ChartBuilder::on(&chart_area)
        .margin(MARGIN)
        .x_label_area_size(BELOW)
        .y_label_area_size(AXIS)
        .build_cartesian_2d(ranges.intensity.clone(), ranges.speed.clone())?;
    draw_axes(&chart, area, &ranges)?;

    roof(&mut chart, &ranges, roofline)?;
    draw_points(roofline, &chart, area)
}

fn keys(roofline: &Roofline) -> Vec<(String, Mark)> {
    let bandwidth = roofline.bandwidth / TERA;
    let mut name = format!("global memory {bandwidth:.2} TB/s");
    for peak in roofline.peaks() {
        let of = if peak == roofline.peak_flops { "peak" } else { "peak of tensor cores" };
        name += &format!(", {of} {:.1} TFLOP/s", peak / TERA);
    }
    let mut keys = vec![(name, Mark::Line(LIMIT))];
    keys.push(("attainable".to_owned(), Mark::Ring(INK)));
    if roofline.points.iter().any(|point| roofline.is_held_back_on_chip(point)) {
        let bandwidth =
            roofline.shared_bandwidth.map(|shared| format!(" ({:.1} TB/s)", shared / TERA));
        let name = format!("attainable, less for shared memory{}", bandwidth.unwrap_or_default());
        keys.push((name, Mark::Ring(SECOND_LIMIT)));
    }
    if roofline.points.iter().any(|point| point.attained.is_some()) {
        keys.push(("attained".to_owned(), Mark::Disc(ACCENT)));
    }
    keys
}

impl Ranges {
    /// All points, the ridge of the roof, and a little more on each side.
    fn new(roofline: &Roofline) -> Self {
        const ROOM: f64 = 0.25;
        // The names stand to the right of their points.
        const ROOM_FOR_NAMES: f64 = 0.3;
        let peaks = roofline.peaks();
        let ridges = peaks.iter().map(|peak| peak / roofline.bandwidth);
        let intensities = roofline.points.iter().map(|point| point.intensity).chain(ridges);
        let speeds = roofline
            .points
            .iter()
            .flat_map(|point| [Some(point.attainable), point.attained].into_iter().flatten());
        let speeds = speeds.chain(peaks.iter().copied());
        let mut intensity = exponents(intensities, ROOM);
        intensity.end += ROOM_FOR_NAMES;
        Ranges { intensity, speed: exponents(speeds, ROOM) }
    }
}

/// The range of the decimal exponents of positive values, with room on both sides, and no narrower than two decades.
fn exponents(values: impl Iterator<Item = f64>, room: f64) -> Range<f64> {
    const LEAST: f64 = 2.0;
    let exponents = values.filter(|value| *value > 0.0).map(f64::log10);
    let (low, high) = exponents
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    if !(low.is_finite() && high.is_finite()) {
        return 0.0..LEAST;
    }
    (low - room).min(high + room - LEAST)..high + room
}

fn draw_axes<B: DrawingBackend>(chart: &Chart<'_, B>, area: &Area<B>, ranges: &Ranges) -> Drawn<B> {
    let Box { left, top, right, bottom } = frame(chart);
    for (value, name) in ticks(&ranges.intensity, 1.0) {
        let (x, _) = chart.backend_coord(&(value, ranges.speed.start));
        area.draw(&PathElement::new([(x, top), (x, bottom)], GRID))?;
        area.draw_text(&name, &text(LABEL, INK, HPos::Center, VPos::Top), (x, bottom + 6))?;
    }
    for (value, name) in ticks(&ranges.speed, TERA) {
        let (_, y) = chart.backend_coord(&(ranges.intensity.start, value));
        area.draw(&PathElement::new([(left, y), (right, y)], GRID))?;
        area.draw_text(&name, &text(LABEL, INK, HPos::Right, VPos::Center), (left - 6, y))?;
    }
    area.draw(&PathElement::new([(left, top), (left, bottom), (right, bottom)], FAINT))?;
    let across = text(LABEL, INK, HPos::Center, VPos::Bottom);
    let middle = (left + right) / 2;
    let name = "arithmetic intensity in FLOP for a byte from global memory";
    area.draw_text(name, &across, (middle, bottom + BELOW as i32 - 2))?;
    let down = across
        .transform(FontTransform::Rotate270)
        .pos(plotters::style::text_anchor::Pos::new(HPos::Center, VPos::Top));
    area.draw_text("TFLOP/s", &down, (MARGIN, (top + bottom) / 2))
}

/// 1, 2 and 5 of every decade: their exponents, and their names in a unit.
fn ticks(exponents: &Range<f64>, unit: f64) -> Vec<(f64, String)> {
    let decades = exponents.start.floor() as i32..=exponents.end.ceil() as i32;
    let values = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|x| x * 10f64.powi(decade)));
    let shown = values.filter(|value| exponents.contains(&value.log10()));
    // Rounding to three digits takes away what the power of ten is off.
    let name = |value: f64| {
        let digits = (2 - value.log10().floor() as i32).max(0) as usize;
        let fixed = format!("{value:.digits$}");
        match fixed.split_once('.') {
            Some(_) => fixed.trim_end_matches('0').trim_end_matches('.').to_owned(),
            None => fixed,
        }
    };
    shown.map(|value| (value.log10(), name(value / unit))).collect()
}

/// The roof: it rises with the bandwidth of global memory to the peak and stays there, one for each peak.
fn roof<B: DrawingBackend>(
    chart: &mut Chart<'_, B>,
    ranges: &Ranges,
    roofline: &Roofline,
) -> Drawn<B> {
    let (left, right) = (ranges.intensity.start, ranges.intensity.end);
    let slope = roofline.bandwidth.log10();
    let lowest = (ranges.speed.start - slope).max(left);
    for peak in levels(roofline) {
        let ridge = (peak - slope).clamp(lowest, right);
        let at = |x: f64| (x, (x + slope).min(peak));
        let line = [at(lowest), at(ridge), at(right)];
        chart.draw_series([PathElement::new(line, LIMIT.stroke_width(STROKE))])?;
    }
    Ok(())
}

/// The exponents of the peaks; one beyond the picture where none is known.
fn levels(roofline: &Roofline) -> Vec<f64> {
    let levels: Vec<f64> = roofline.peaks().into_iter().map(f64::log10).collect();
    if levels.is_empty() { vec![f64::INFINITY] } else { levels }
}

fn draw_points<B: DrawingBackend>(
    roofline: &Roofline,
    chart: &Chart<'_, B>,
    area: &Area<B>,
) -> Drawn<B> {
    let pixel =
        |intensity: f64, speed: f64| chart.backend_coord(&(intensity.log10(), speed.log10()));
    let mut drawable: Vec<&Point> = roofline
        .points
        .iter()
        .filter(|point| point.intensity > 0.0 && point.attainable > 0.0)
        .collect();
    // From above, so that labels of points close together lie in their order.
    drawable.sort_by(|a, b| speed(b).total_cmp(&speed(a)));
    let mut taken = roof_boxes(roofline, chart);
    for point in &drawable {
        let ring = pixel(point.intensity, point.attainable);
        taken.push(Box::around(ring, RADIUS + 2));
        if let Some(attained) = attained(point) {
            let disc = pixel(point.intensity, attained);
            taken.push(Box::around(disc, RADIUS + 2));
            taken.push(Box::spanning(ring, disc));
            area.draw(&PathElement::new([ring, disc], FAINT))?;
            area.draw(&Circle::new(disc, RADIUS, ACCENT.filled()))?;
        }
        let held_back = roofline.is_held_back_on_chip(point);
        let color = if held_back { SECOND_LIMIT } else { INK };
        area.draw(&Circle::new(ring, RADIUS, color.stroke_width(2)))?;
    }
    draw_labels(&drawable, chart, area, taken)
}

/// The names, those of points close together below one another with lines to their points.
fn draw_labels<B: DrawingBackend>(
    points: &[&Point],
    chart: &Chart<'_, B>,
    area: &Area<B>,
    mut taken: Vec<Box>,
) -> Drawn<B> {
    const LINE: i32 = 16;
    const TO_TEXT: i32 = 3;
    let pixels: Vec<_> = points
        .iter()
        .map(|point| chart.backend_coord(&(point.intensity.log10(), speed(point).log10())))
        .collect();
    let style = text(SMALL, INK, HPos::Left, VPos::Center);
    for cluster in labels::clusters(&pixels) {
        let several = cluster.len() > 1;
        let mut width = 0;
        for &index in &cluster {
            width = width.max(area.estimate_text_size(&points[index].name, &style)?.0 as i32);
        }
        let around = cluster.iter().map(|&index| pixels[index]);
        let anchor = around.reduce(|a, b| (a.0.max(b.0), (a.1 + b.1) / 2)).unwrap_or_default();
        let size = (width, LINE * cluster.len() as i32);
        // A name nearer to another point than to its own would be read as that point's.
        let others = (0..pixels.len()).filter(|index| !cluster.contains(index));
        let clear: Vec<Box> = others
            .map(|other| Box::around(pixels[other], 2 * labels::NEAREST))
            .chain(taken.iter().copied())
            .collect();
        let block = labels::place(anchor, size, several, &frame(chart), &clear);
        for (line, &index) in cluster.iter().enumerate() {
            let middle = block.top + LINE * line as i32 + LINE / 2;
            let label = Box { top: middle - LINE / 2, bottom: middle + LINE / 2, ..block };
            let is_left = label.right <= pixels[index].0;
            let (x, side) =
                if is_left { (label.right, HPos::Right) } else { (label.left, HPos::Left) };
            let style = text(SMALL, INK, side, VPos::Center);
            area.draw_text(&points[index].name, &style, (x, middle))?;
            let before_text = if is_left { x + TO_TEXT } else { x - TO_TEXT };
            let end = if several { (before_text, middle) } else { label.nearest(pixels[index]) };
            if several || !label.meets(&Box::around(pixels[index], labels::NEAREST + 1)) {
                area.draw(&PathElement::new([pixels[index], end], FAINT))?;
            }
        }
        taken.push(block);
    }
    Ok(())
}

fn speed(point: &Point) -> f64 {
    attained(point).unwrap_or(point.attainable)
}

fn attained(point: &Point) -> Option<f64> {
    point.attained.filter(|attained| *attained > 0.0)
}

/// Small boxes along the roof, so that no label lies on it.
fn roof_boxes<B: DrawingBackend>(roofline: &Roofline, chart: &Chart<'_, B>) -> Vec<Box> {
    const STEPS: u32 = 120;
    const HALF: i32 = 4;
    let Range { start, end } = chart.x_range();
    let slope = roofline.bandwidth.log10();
    let at = |peak: f64, step: u32| {
        let x = start + (end - start) * f64::from(step) / f64::from(STEPS);
        Box::around(chart.backend_coord(&(x, (x + slope).min(peak))), HALF)
    };
    let along = |peak| (0..=STEPS).map(move |step| at(peak, step));
    levels(roofline).into_iter().flat_map(along).collect()
}

/// The plane between the axes.
fn frame<B: DrawingBackend>(chart: &Chart<'_, B>) -> Box {
    let (x, y) = chart.plotting_area().get_pixel_range();
    Box { left: x.start, top: y.start, right: x.end, bottom: y.end }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_short_names() {
        let names = |range, unit| ticks(&range, unit).into_iter().map(|(_, name)| name);
        let small: Vec<_> = names(-1.1..1.1, 1.0).collect();
        assert_eq!(small, ["0.1", "0.2", "0.5", "1", "2", "5", "10"]);
        let large: Vec<_> = names(11.9..14.1, TERA).collect();
        assert_eq!(large, ["1", "2", "5", "10", "20", "50", "100"]);
    }

    #[test]
    fn axes_show_every_value() {
        assert_eq!(exponents([10.0, 1000.0, 0.0].into_iter(), 0.5), 0.5..3.5);
        assert_eq!(exponents([100.0].into_iter(), 0.0), 0.0..2.0);
        assert_eq!(exponents([].into_iter(), 0.5), 0.0..2.0);
    }
}
