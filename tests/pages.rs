//! What pages for people point to is there.

use std::fs;
use std::path::{Path, PathBuf};

/// All pages but records of measurements, of which there are many, written by the benchmarks.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let others = ["README.md", "docs/measurements/README.md", "examples/custom_epilogue/README.md"];
    docs.chain(others.map(|page| root.join(page))).collect()
}

/// The targets of a page's links, without those to other hosts.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let links = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    links.filter(|target| !target.contains("://"))
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut links = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for target in targets(&text) {
            links += 1;
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            assert!(path.exists(), "{}: there is no {target}", page.display());
            if !heading.is_empty() {
                let text = fs::read_to_string(&path).unwrap();
                let found =
                    text.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
                assert!(found, "{}: there is no heading {target}", page.display());
            }
        }
    }
    assert!(links > 200, "{links}");
}

/// What a heading is called in links, as code hosts have it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
