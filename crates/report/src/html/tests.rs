//! What a page holds.

use super::*;
use crate::document::Document;
use crate::ladder::synthetic::record as ladder_record;
use crate::sweep::synthetic::{entry, record as sweep_record, timed};
use scraper::{Html, Selector};
use serde_json::json;

fn documents() -> Vec<(String, Section)> {
    let mut impossible = entry((256, 128, 32), (4, 4), "k_innermost", "single");
    impossible.cannot_run = Some("needs 2048 threads, <b>more</b> than 1024".into());
    let sweep = sweep_record(vec![
        timed(entry((64, 64, 32), (8, 8), "k_innermost", "single"), 1024, 28.26),
        timed(entry((64, 64, 32), (8, 8), "k_innermost", "async3"), 1024, 51.25),
        impossible,
    ]);
    let traffic = json!({
        "m": 256, "n": 256, "k": 128, "dtype": "f32", "gpu": { "name": "NVIDIA Imaginary" },
        "kernels": [{ "kernel": "naive_f32", "counted": { "global_load_bytes": 123_456_789 } }],
        "roofline": { "title": "R", "peak_flops": 60e12, "bandwidth": 5e12, "points": [] },
    });
    let documents = [
        ("ladder.json", Document::Ladder(ladder_record())),
        ("again.json", Document::Ladder(ladder_record())),
        ("sweep.json", Document::Sweep(sweep)),
        ("traffic.json", Document::Traffic(traffic)),
    ];
    documents.map(|(file, document)| (file.to_owned(), Section::new(&document))).into()
}

fn count(html: &Html, selector: &str) -> usize {
    html.select(&Selector::parse(selector).unwrap()).count()
}

#[test]
fn the_page_has_no_errors_and_one_section_a_document() {
    let text = page("Everything measured", &documents()).unwrap();
    let html = Html::parse_document(&text);
    assert_eq!(html.errors, Vec::<String>::new());
    assert_eq!(count(&html, "main > section"), 5, "four documents and the provenance");
    assert_eq!(count(&html, "figure svg"), 4, "two ladders, a heat map, a roofline");
    assert_eq!(count(&html, "nav a"), 5);
    assert_eq!(count(&html, "h1"), 1);
}

#[test]
fn every_link_leads_to_one_place() {
    let html = Html::parse_document(&page("Report", &documents()).unwrap());
    for link in html.select(&Selector::parse("a").unwrap()) {
        let target = link.value().attr("href").unwrap();
        assert_eq!(count(&html, target), 1, "{target}");
    }
}

#[test]
fn every_number_of_every_table_is_there() {
    let documents = documents();
    let html = Html::parse_document(&page("Report", &documents).unwrap());
    let cells: Vec<String> = html
        .select(&Selector::parse("td, th").unwrap())
        .map(|cell| cell.text().collect())
        .collect();
    let tables = documents.iter().flat_map(|(_, section)| &section.tables);
    let mut checked = 0;
    for cell in tables.flat_map(|table| table.rows.iter().chain([&table.heading])).flatten() {
        assert!(cells.contains(cell), "`{cell}` is missing");
        checked += 1;
    }
    assert!(checked > 50, "only {checked} cells");
    assert!(cells.contains(&"123,456,789".to_owned()));
}

#[test]
fn provenance_names_the_files_and_what_is_known() {
    let html = Html::parse_document(&page("Report", &documents()).unwrap());
    let rows: Vec<String> = html
        .select(&Selector::parse("#provenance tbody tr").unwrap())
        .map(|row| row.text().collect::<Vec<_>>().join("|"))
        .collect();
    assert_eq!(rows[0], "ladder.json|NVIDIA Imaginary|2026-01-31|0.1.0|abc1234|580.1|10|-");
    assert_eq!(rows[3], "traffic.json|NVIDIA Imaginary|-|-|-|-|-|-");
}

#[test]
fn text_of_documents_is_no_markup() {
    let text = page("a < b & c", &documents()).unwrap();
    let html = Html::parse_document(&text);
    assert_eq!(count(&html, "b"), 0);
    assert!(text.contains("&lt;b&gt;more&lt;/b&gt;"));
    let title = html.select(&Selector::parse("title").unwrap()).next().unwrap();
    assert_eq!(title.text().collect::<String>(), "a < b & c");
}

#[test]
fn the_page_needs_nothing_else() {
    let text = page("Report", &documents()).unwrap();
    // The name space of SVG is a name and no address.
    let rest = text.replace("http://www.w3.org/2000/svg", "");
    for outside in ["<script", "<link", "src=", "@import", "url(", "http"] {
        assert!(!rest.contains(outside), "{outside}");
    }
}

#[test]
fn pictures_take_their_neutral_colours_from_the_page() {
    let text = page("Report", &documents()).unwrap();
    assert!(text.contains("svg [fill=\"#1F2328\"] { fill: var(--ink) }"));
    assert!(text.contains("prefers-color-scheme: dark"));
}
