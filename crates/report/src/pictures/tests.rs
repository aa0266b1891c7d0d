//! What the pictures hold, in both formats.

use super::*;
use crate::ladder::synthetic::record as ladder_record;
use crate::roofline::Point;
use crate::sweep::synthetic::{entry, record as sweep_record, timed};

fn a_sweep() -> sweep::Record {
    let mut impossible = entry((256, 128, 32), (4, 4), "k_innermost", "single");
    impossible.cannot_run = Some("2048 threads".into());
    let mut wrong = entry((64, 64, 32), (4, 8), "k_innermost", "single");
    wrong.wrong = Some("differs".into());
    sweep_record(vec![
        timed(entry((32, 32, 32), (2, 2), "standard", "single"), 1024, 0.34),
        timed(entry((64, 64, 32), (8, 8), "k_innermost", "single"), 1024, 28.26),
        timed(entry((64, 64, 32), (8, 8), "k_innermost", "async3"), 1024, 51.25),
        entry((64, 64, 64), (8, 8), "k_innermost", "async3"),
        timed(entry((1, 1024, 32), (1, 1), "standard", "direct"), 1024, 0.12),
        impossible,
        wrong,
    ])
}

fn a_roofline() -> Roofline {
    let point = |name: &str, intensity, attainable, attained| Point {
        name: name.into(),
        intensity,
        attained,
        attainable,
        on_tensor_cores: false,
    };
    Roofline {
        title: "NVIDIA Imaginary & sons".into(),
        peak_flops: 60e12,
        tensor_peak_flops: None,
        bandwidth: 5e12,
        shared_bandwidth: Some(30e12),
        points: vec![
            point("naive_f32", 0.25, 1.25e12, Some(5e12)),
            point("tiled16_f32", 4.0, 8e12, Some(6.8e12)),
            point("microkernel_f32", 16.0, 60e12, None),
            point("double_buffered_f32", 16.0, 60e12, Some(35e12)),
        ],
    }
}

/// The texts of a picture, after a check that it is well-formed.
#[track_caller]
fn texts(drawing: &Drawing<'_>) -> Vec<String> {
    let svg = drawing.svg().unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let root = document.root_element();
    assert_eq!(root.attribute("width"), Some(drawing.size().0.to_string().as_str()));
    let nodes = root.descendants().filter(|node| node.has_tag_name("text"));
    nodes.map(|node| node.text().unwrap_or_default().trim().to_owned()).collect()
}

#[track_caller]
fn assert_texts(drawing: &Drawing<'_>, expected: &[&str]) {
    let texts = texts(drawing);
    for text in expected {
        assert!(texts.iter().any(|found| found == text), "`{text}` is missing among {texts:?}");
    }
}

#[test]
fn the_ladder_names_every_kernel_size_and_line() {
    assert_texts(
        &ladder(&ladder_record()),
        &[
            "Matrix product in f32 on NVIDIA Imaginary",
            "naive_f32",
            "tiled16_f32",
            "cuBLASLt",
            "peak without tensor cores, 60.0",
            "TFLOP/s",
            "1024",
            "4096",
            "best 10.0",
            "0.25 of cuBLASLt",
            "0.20 of cuBLASLt",
        ],
    );
}

#[test]
fn bars_are_as_high_as_speeds() {
    let record = ladder_record();
    let svg = ladder(&record).svg().unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let color = style::step(0, 2);
    let fill = format!("#{:02X}{:02X}{:02X}", color.0, color.1, color.2);
    let heights: Vec<f64> = document
        .descendants()
        .filter(|node| node.has_tag_name("rect") && node.attribute("fill") == Some(&fill))
        .filter_map(|node| node.attribute("height")?.parse().ok())
        .collect();
    // The key of the legend, then one bar a size: 5 and 6 TFLOP/s.
    assert_eq!(heights.len(), 3, "{heights:?}");
    assert!((heights[2] / heights[1] - 6.0 / 5.0).abs() < 0.05, "{heights:?}");
}

#[test]
fn a_ladder_without_vendor_or_peak_has_no_lines() {
    let mut record = ladder_record();
    record.peak = None;
    for round in &mut record.rounds {
        round.entries.retain(|entry| !entry.is_vendor());
    }
    let texts = texts(&ladder(&record));
    assert!(!texts.iter().any(|text| text.contains("cuBLASLt") || text.contains("peak")));
}

#[test]
fn the_heat_map_shows_every_speed_and_what_has_none() {
    assert_texts(
        &heat_map(&a_sweep(), 1024),
        &[
            "Sweep in f32 at 1024 x 1024 x 1024 on NVIDIA Imaginary, TFLOP/s",
            "standard (k outermost)",
            "k innermost",
            "async, 3 stages",
            "standard (k outermost), direct",
            "1x1024x32",
            "0.12",
            "32x32x32",
            "64x64x32",
            "256x128x32",
            "2x2",
            "8x8",
            "0.34",
            "28.3",
            "51.2",
            "51.2 TFLOP/s",
            "wrong",
            "-",
            "cannot run",
        ],
    );
}

#[test]
fn the_roofline_labels_every_point_and_roof() {
    assert_texts(
        &roofline(&a_roofline()),
        &[
            "NVIDIA Imaginary & sons",
            "naive_f32",
            "tiled16_f32",
            "microkernel_f32",
            "double_buffered_f32",
            "global memory 5.00 TB/s, peak 60.0 TFLOP/s",
            "attainable",
            "attainable, less for shared memory (30.0 TB/s)",
            "attained",
        ],
    );
}

/// The line of a kernel outside of tensor cores, and one above it.
#[test]
fn tensor_cores_have_a_roof_of_their_own() {
    let mut roofs = Roofline { tensor_peak_flops: Some(900e12), ..a_roofline() };
    let lines = |roofs: &Roofline| {
        let svg = roofline(roofs).svg().unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let nodes = document.root_element().descendants();
        let polylines = nodes.filter(|node| node.has_tag_name("polyline"));
        polylines.filter(|node| node.attribute("points").unwrap().split(' ').count() > 3).count()
    };
    let plain = lines(&roofs);
    roofs.points[3].on_tensor_cores = true;
    assert_eq!(lines(&roofs), plain + 1);
    let key = "global memory 5.00 TB/s, peak 60.0 TFLOP/s, peak of tensor cores 900.0 TFLOP/s";
    assert_texts(&roofline(&roofs), &[key]);
    roofs.points.iter_mut().for_each(|point| point.on_tensor_cores = true);
    assert_eq!(lines(&roofs), plain);
    assert_texts(
        &roofline(&roofs),
        &["global memory 5.00 TB/s, peak of tensor cores 900.0 TFLOP/s"],
    );
}

#[test]
fn empty_records_are_drawn_too() {
    let mut empty = ladder_record();
    empty.rounds.clear();
    assert!(texts(&ladder(&empty)).contains(&"TFLOP/s".to_owned()));
    let nothing = sweep_record(Vec::new());
    assert!(texts(&heat_map(&nothing, 1024)).iter().any(|text| text.starts_with("Sweep")));
    let bare = Roofline { points: Vec::new(), ..a_roofline() };
    assert!(texts(&roofline(&bare)).contains(&"attainable".to_owned()));
}

/// Colours of a PNG and how many pixels have each.
#[track_caller]
fn decode(drawing: &Drawing<'_>) -> std::collections::HashMap<[u8; 3], usize> {
    let file = drawing.png().unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let (width, height) = drawing.size();
    assert_eq!((info.width, info.height), (width * style::PNG_SCALE, height * style::PNG_SCALE));
    let mut colors = std::collections::HashMap::new();
    for pixel in pixels.chunks_exact(3) {
        *colors.entry([pixel[0], pixel[1], pixel[2]]).or_default() += 1;
    }
    colors
}

#[test]
fn pngs_hold_text_and_data() {
    let (ladder_record, sweep_record, roofs) = (ladder_record(), a_sweep(), a_roofline());
    let drawings = [
        (ladder(&ladder_record), style::step(1, 2)),
        (heat_map(&sweep_record, 1024), style::scale(1.0)),
        (roofline(&roofs), style::LIMIT),
    ];
    for (drawing, data) in drawings {
        let colors = decode(&drawing);
        for color in [style::PAPER, style::INK, data] {
            let count = colors.get(&[color.0, color.1, color.2]).copied().unwrap_or_default();
            assert!(count > 500, "{count} pixels of {color:?}");
        }
    }
}

#[test]
fn ratios_have_a_row_a_case_and_a_mean_a_group() {
    assert_texts(
        &versus(&crate::versus::synthetic::record()),
        &[
            "Speed in f32 relative to the vendor's best on NVIDIA Imaginary",
            "squares (the mean is that of 512 to 8192)",
            "in short bursts (mean 1.100)",
            "in long turns (mean 0.950)",
            "mean 1.000",
            "256",
            "512",
            "4096",
            "4096 NT",
            "1 x 8192 x 8192",
            "0.800   55.0 TFLOP/s",
            // With the epilogue, as what it is compared with.
            "1.080   54.4 TFLOP/s",
            "1.00",
        ],
    );
}

#[test]
fn ratios_of_nothing_are_a_picture_too() {
    let mut record = crate::versus::synthetic::record();
    record.cases.clear();
    assert_texts(&versus(&record), &["regemm is faster"]);
}

#[test]
fn errors_have_a_panel_a_kind_of_data_and_a_name_a_curve() {
    let record = crate::accuracy::synthetic::record();
    let drawing = accuracy(&record);
    assert_texts(
        &drawing,
        &[
            "Errors of products of f32, 128 x 96 x K, on NVIDIA Imaginary",
            "normal: mean 0, variance 1",
            "wide: of many magnitudes",
            "error in norm",
            "componentwise error",
            "64",
            "4096",
            "1e-6",
            "2^-24, one rounding to f32",
        ],
    );
    // In the legend, and at the end of each of four curves.
    for mode in record.modes() {
        let count = texts(&drawing).iter().filter(|text| *text == mode).count();
        assert_eq!(count, 5, "{mode}");
    }
    let mut empty = record.clone();
    empty.points.clear();
    assert_texts(&accuracy(&empty), &["normal: mean 0, variance 1"]);
}

#[test]
fn curves_rise_with_the_logarithm_of_the_error() {
    // From 64 to 4096 errors in norm grow 64 times, componentwise ones not at all.
    let svg = accuracy(&crate::accuracy::synthetic::record()).svg().unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let color = style::step(0, 2);
    let fill = format!("#{:02X}{:02X}{:02X}", color.0, color.1, color.2);
    let circles = document
        .descendants()
        .filter(|node| node.has_tag_name("circle") && node.attribute("fill") == Some(&fill));
    let heights: Vec<f64> = circles.filter_map(|node| node.attribute("cy")?.parse().ok()).collect();
    let [first, last, ..] = heights[..] else { panic!("{heights:?}") };
    assert_eq!(heights, [first, last, first, last, heights[4], heights[4], heights[4], heights[4]]);
    let labels: Vec<f64> = ["1e-6", "1e-5"]
        .iter()
        .map(|name| {
            let mut texts = document.descendants().filter(|node| node.has_tag_name("text"));
            let label = texts.find(|node| node.text().is_some_and(|text| text.trim() == *name));
            label.and_then(|node| node.attribute("y")?.parse().ok()).expect(name)
        })
        .collect();
    let decade = labels[0] - labels[1];
    assert!(((first - last) / decade - 64_f64.log10()).abs() < 0.05, "{heights:?}, {labels:?}");
}
