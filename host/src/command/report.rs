//! `regemm report`: what other subcommands have measured, as one page.

use super::exit::Failure;
use super::load::{cannot_open, no_hyphen};
use super::output::Output;
use super::save::{Destination, check_distinct};
use regemm_report::document::Document;
use regemm_report::html;
use regemm_report::section::{Picture, Section};
use serde_json::json;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Make one HTML page, and pictures, of what other subcommands print with --json and of records of the benchmarks
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// JSON of ladder, sweep, pipelining, accuracy, occupancy, traffic or tune, and records of the benchmarks
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the page to this file
    #[arg(long, short, value_name = "FILE", required_unless_present = "pictures")]
    output: Option<PathBuf>,
    /// Write every picture to this folder, as SVG and as PNG
    #[arg(long, value_name = "FOLDER")]
    pictures: Option<PathBuf>,
    /// The heading of the page
    #[arg(long, value_name = "TEXT", default_value = "Measurements of regemm")]
    title: String,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

const HELP: &str = "\
The page needs nothing else: no script, no other file, no network. It follows the browser's light or dark scheme and \
can be printed. Every file becomes a section, in the order in which they are named; what they are is told from what \
they hold.

Examples:
  regemm report docs/measurements/2026-11-21-h200-ladder-f32.json --output report.html
  regemm report docs/measurements/2026-11-26-h200-gemm-f16.json --output gemm.html
  regemm ladder --json > ladder.json && regemm traffic --json > traffic.json
  regemm report ladder.json traffic.json sweep.json --output report.html --pictures pictures";

/// Runs the subcommand.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let mut documents = Vec::new();
    let mut sections = Vec::new();
    for path in &arguments.files {
        let document = read(path)?;
        documents.push(json!({ "file": path.display().to_string(), "kind": document.kind() }));
        let name = path.file_name().unwrap_or(path.as_os_str());
        sections.push((name.to_string_lossy().into_owned(), Section::new(&document)));
    }
    let mut files = Vec::new();
    if let Some(path) = &arguments.output {
        let page = html::page(&arguments.title, &sections);
        let page = page.map_err(|error| Failure::file(path, error))?;
        files.push((path.clone(), page.into_bytes()));
    }
    let mut without = Vec::new();
    if let Some(folder) = &arguments.pictures {
        let drawn = pictures(folder, &sections)?;
        let undrawn = sections.iter().zip(&arguments.files);
        let undrawn = undrawn.filter(|((_, section), _)| section.pictures.is_empty());
        without.extend(undrawn.map(|(_, path)| path.display().to_string()));
        if drawn.is_empty() && files.is_empty() {
            let why = format!("{}; name a page by --output", no_pictures(&without));
            return Err(Failure::Usage(why));
        }
        if !drawn.is_empty() {
            fs::create_dir_all(folder)
                .map_err(|error| Failure::file(folder, cannot_make(&error)))?;
        }
        files.extend(drawn);
    }
    write(&files, arguments)?;

    let written: Vec<String> = files.iter().map(|(path, _)| path.display().to_string()).collect();
    output.document(&json!({
        "command": "report",
        "documents": documents,
        "written": written,
        "without_picture": without,
    }))?;
    for ((_, section), path) in sections.iter().zip(&arguments.files) {
        output.text(format_args!("{}: {}", path.display(), section.title))?;
    }
    written.iter().try_for_each(|path| output.text(format_args!("wrote {path}")))?;
    if without.is_empty() { Ok(()) } else { output.text(no_pictures(&without)) }
}

/// That nothing is drawn of these files.
fn no_pictures(files: &[String]) -> String {
    format!("there is no picture of {}", files.join(", "))
}

fn cannot_make(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "is no folder; name another one".into()
        }
        _ => format!("cannot be made: {error}"),
    }
}

const NO_TEXT: &str = "is no text, so no JSON, which other subcommands print with --json";

/// The text of a file. What Windows PowerShell redirects to one is UTF-16 behind a byte order mark.
fn decoded(bytes: Vec<u8>) -> Option<String> {
    let unit: fn([u8; 2]) -> u16 = match bytes.get(..2) {
        Some(b"\xff\xfe") => u16::from_le_bytes,
        Some(b"\xfe\xff") => u16::from_be_bytes,
        _ => return String::from_utf8(bytes).ok(),
    };
    let (units, []) = bytes[2..].as_chunks() else { return None };
    String::from_utf16(&units.iter().map(|&bytes| unit(bytes)).collect::<Vec<_>>()).ok()
}

/// Reads what another subcommand has printed, or a record.
pub fn read(path: &Path) -> Result<Document, Failure> {
    if path == Path::new("-") {
        return Err(no_hyphen());
    }
    let bytes = fs::read(path).map_err(|error| Failure::file(path, cannot_open(&error)))?;
    let text = decoded(bytes).ok_or_else(|| Failure::file(path, NO_TEXT))?;
    Document::parse(&text).map_err(|error| Failure::file(path, error))
}

/// Every picture in both formats, with its path.
fn pictures(
    folder: &Path,
    sections: &[(String, Section)],
) -> Result<Vec<(PathBuf, Vec<u8>)>, Failure> {
    let pictures: Vec<&Picture> =
        sections.iter().flat_map(|(_, section)| &section.pictures).collect();
    let names: Vec<&str> = pictures.iter().map(|picture| picture.name.as_str()).collect();
    let mut files = Vec::new();
    for (picture, name) in pictures.iter().zip(html::unique(&names)) {
        let drawing = picture.drawing();
        let [svg, png] = ["svg", "png"].map(|ending| folder.join(format!("{name}.{ending}")));
        let drawn = drawing.svg().map_err(|error| Failure::file(&svg, error))?;
        files.push((svg, drawn.into_bytes()));
        let drawn = drawing.png().map_err(|error| Failure::file(&png, error))?;
        files.push((png, drawn));
    }
    Ok(files)
}

/// Writes all files once it is clear that each can be written.
fn write(files: &[(PathBuf, Vec<u8>)], arguments: &Arguments) -> Result<(), Failure> {
    check_distinct(files.iter().map(|(path, _)| path.as_path()))?;
    let inputs: Vec<&Path> = arguments.files.iter().map(PathBuf::as_path).collect();
    let destinations = files
        .iter()
        .map(|(path, _)| Destination::new(path, arguments.force, &inputs))
        .collect::<Result<Vec<_>, _>>()?;
    let pairs = destinations.into_iter().zip(files);
    pairs.into_iter().try_for_each(|(destination, (_, bytes))| destination.save_bytes(bytes))
}
