//! A report as one HTML page that needs nothing else: no script, no other file, no network.
//!
//! | file | what it holds |
//! |---|---|
//! | `style.css` | how the page looks on screens of any width, light and dark, and on paper |

#[cfg(test)]
mod tests;

use crate::pictures::{PictureError, style};
use crate::section::{Picture, Section};
use crate::table::{Table, or_dash};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Cells of more characters are sentences, which may be broken into lines.
const WORDS: usize = 40;

const STYLE: &str = include_str!("html/style.css");

/// The page.
///
/// # Errors
/// [`PictureError`] where a picture cannot be drawn.
pub fn page(title: &str, documents: &[(String, Section)]) -> Result<String, PictureError> {
    let ids = unique_ids(documents);
    let mut sections = Vec::new();
    for ((_, part), id) in documents.iter().zip(&ids) {
        sections.push(section(part, id)?);
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(picture_colors())) }
            }
            body {
                header {
                    h1 { (title) }
                    nav {
                        ul {
                            @for ((_, section), id) in documents.iter().zip(&ids) {
                                li { a href={ "#" (id) } { (section.title) } }
                            }
                            li { a href="#provenance" { "Provenance" } }
                        }
                    }
                }
                main {
                    @for section in &sections { (section) }
                    section id="provenance" {
                        h2 { "Provenance" }
                        (table(&provenance(documents)))
                    }
                }
            }
        }
    };
    Ok(page.into_string())
}

/// The names of sections as parts of links, each once.
fn unique_ids(documents: &[(String, Section)]) -> Vec<String> {
    let ids: Vec<&str> = documents.iter().map(|(_, section)| section.id.as_str()).collect();
    unique(&ids)
}

/// Names, each once: a number goes behind those that were there before.
pub fn unique(names: &[&str]) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for name in names {
        let mut candidate = (*name).to_owned();
        let mut number = 2;
        while taken.contains(&candidate) {
            candidate = format!("{name}-{number}");
            number += 1;
        }
        taken.push(candidate);
    }
    taken
}

fn section(section: &Section, id: &str) -> Result<Markup, PictureError> {
    let pictures: Vec<Markup> = section.pictures.iter().map(picture).collect::<Result<_, _>>()?;
    Ok(html! {
        section id=(id) {
            h2 { (section.title) }
            @for note in &section.notes { p { (note) } }
            @for picture in &pictures { (picture) }
            div.tables {
                @for part in &section.tables {
                    div {
                        h3 { (part.title) }
                        (table(part))
                    }
                }
            }
            @for (title, lines) in &section.lists {
                h3 { (title) }
                ul.lines { @for line in lines { li { (line) } } }
            }
        }
    })
}

fn picture(picture: &Picture) -> Result<Markup, PictureError> {
    let svg = picture.drawing().svg()?;
    Ok(html! {
        figure {
            div.wide role="img" aria-label=(picture.caption) { (PreEscaped(svg)) }
            figcaption { (picture.caption) "." }
        }
    })
}

fn table(table: &Table) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label=(table.title) {
            table {
                thead { tr { @for heading in &table.heading { th scope="col" { (heading) } } } }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" { (cell) } } @else { td.words[cell.chars().count() > WORDS] { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Where, when and with what each document was made.
fn provenance(documents: &[(String, Section)]) -> Table {
    let heading =
        ["file", "device", "date", "regemm", "commit", "driver", "multiprocessors", "clocks"];
    let mut table = Table::new("Provenance", heading);
    let known = |text: &str| or_dash(Some(text).filter(|text| !text.is_empty()));
    for (file, section) in documents {
        let from = &section.provenance;
        let count = Some(from.multiprocessors).filter(|&count| count > 0);
        table.rows.push(vec![
            file.clone(),
            known(&from.device),
            known(&from.date),
            known(&from.version),
            or_dash(from.commit.as_ref()),
            or_dash(from.driver.as_ref()),
            or_dash(count),
            or_dash(from.clocks.as_ref()),
        ]);
    }
    table
}

/// Rules that give the neutral colours of pictures to the page, which has others where it is dark.
fn picture_colors() -> String {
    let neutral = [
        (style::PAPER, "--paper"),
        (style::INK, "--ink"),
        (style::FAINT, "--faint"),
        (style::GRID, "--grid"),
    ];
    let rule = |(color, name): (plotters::style::RGBColor, &str)| {
        let hex = format!("#{:02X}{:02X}{:02X}", color.0, color.1, color.2);
        let fill = format!("svg [fill=\"{hex}\"] {{ fill: var({name}) }}\n");
        fill + &format!("svg [stroke=\"{hex}\"] {{ stroke: var({name}) }}\n")
    };
    neutral.map(rule).concat()
}
