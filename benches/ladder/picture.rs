//! The ladder as a picture: a group of bars a size, one bar a rung, the vendor's library and the peak as lines.

use crate::record::{Entry, Record, Round};
use plotters::prelude::*;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 480;
const FONT: &str = "sans-serif";
/// Room between two groups, in bars.
const GAP: f64 = 1.0;

const RUNGS: [RGBColor; 8] = [
    RGBColor(0xc6, 0xdb, 0xef),
    RGBColor(0x9e, 0xca, 0xe1),
    RGBColor(0x6b, 0xae, 0xd6),
    RGBColor(0x42, 0x92, 0xc6),
    RGBColor(0x21, 0x71, 0xb5),
    RGBColor(0x08, 0x51, 0x9c),
    RGBColor(0x08, 0x30, 0x6b),
    RGBColor(0x04, 0x18, 0x35),
];
const VENDOR: RGBColor = RGBColor(0x76, 0xb9, 0x00);
const PEAK: RGBColor = RGBColor(0x99, 0x99, 0x99);

/// The record as SVG.
pub fn draw(record: &Record) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    draw_on(record, SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)))?;
    Ok(svg)
}

fn rungs(round: &Round) -> impl Iterator<Item = &Entry> {
    round.entries.iter().filter(|entry| !entry.is_vendor())
}

fn draw_on(record: &Record, backend: SVGBackend<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let bars = record.rounds.first().map_or(0, |round| rungs(round).count());
    let group = bars as f64 + GAP;
    let fastest = record.rounds.iter().flat_map(|round| &round.entries).map(|entry| entry.tflops);
    let top = record.peak.into_iter().chain(fastest).fold(1.0, f64::max) * 1.05;

    let root = backend.into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("Matrix product in {} on an {}", record.dtype, record.gpu);
    let mut chart = ChartBuilder::on(&root)
        .caption(title, (FONT, 20))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..group * record.rounds.len() as f64, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(WHITE)
        .y_desc("TFLOP/s")
        .draw()?;

    for rung in 0..bars {
        let color = RUNGS[rung % RUNGS.len()];
        let name = rungs(&record.rounds[0]).nth(rung).map_or(String::new(), |e| e.name.clone());
        let rectangles = record.rounds.iter().enumerate().filter_map(|(index, round)| {
            let left = group * index as f64 + GAP / 2.0 + rung as f64;
            let height = rungs(round).nth(rung)?.tflops;
            Some(Rectangle::new([(left + 0.05, 0.0), (left + 0.95, height)], color.filled()))
        });
        chart
            .draw_series(rectangles)?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled()));
    }

    let vendor_lines = record.rounds.iter().enumerate().filter_map(|(index, round)| {
        let left = group * index as f64 + GAP / 4.0;
        let right = group * (index + 1) as f64 - GAP / 4.0;
        let speed = round.vendor_tflops()?;
        Some(PathElement::new([(left, speed), (right, speed)], VENDOR.stroke_width(3)))
    });
    chart
        .draw_series(vendor_lines)?
        .label("cuBLASLt")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 12, y)], VENDOR.stroke_width(3)));
    if let Some(peak) = record.peak {
        let right = group * record.rounds.len() as f64;
        chart
            .draw_series([PathElement::new([(0.0, peak), (right, peak)], PEAK.stroke_width(2))])?
            .label("peak")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 12, y)], PEAK.stroke_width(2)));
    }
    // The size under each group.
    for (index, round) in record.rounds.iter().enumerate() {
        let middle = group * (index as f64 + 0.5);
        let (x, y) = chart.backend_coord(&(middle, 0.0));
        let style =
            TextStyle::from((FONT, 15).into_font()).pos(plotters::style::text_anchor::Pos::new(
                plotters::style::text_anchor::HPos::Center,
                plotters::style::text_anchor::VPos::Top,
            ));
        root.draw_text(&round.size.to_string(), &style, (x, y + 8))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font((FONT, 14))
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    root.present()?;
    Ok(())
}
