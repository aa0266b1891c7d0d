//! What pages for people point to is there.

use std::collections::HashSet;
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

/// Modules that all kernels use, and nobody needs to have read.
const OF_ALL_KERNELS: [&str; 3] = ["element", "epilogue", "layout"];

#[test]
fn what_a_rung_uses_is_to_be_read_before_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels-gpu/src");
    let page = fs::read_to_string(source.join("../../docs/reading-the-kernels.md")).unwrap();
    let linked =
        |text| targets(text).filter_map(|target| target.strip_prefix("../kernels-gpu/src/"));
    let file_of = |module: &str| format!("{}.rs", module.replace("::", "/"));
    let mut read: HashSet<_> = OF_ALL_KERNELS.map(file_of).into();
    let mut rungs = 0;
    for line in page.lines().take_while(|line| !line.starts_with("## See")) {
        read.extend(linked(line).map(str::to_owned));
        // A row is a number, the rung, what is to be read before it, and more.
        let Some(rung) =
            line.strip_prefix("| ").and_then(|row| linked(row.split('|').nth(1)?).next())
        else {
            continue;
        };
        rungs += 1;
        // What lies in a folder of the rung's own is part of it.
        let own = rung.strip_suffix(".rs").unwrap();
        let text = fs::read_to_string(source.join(rung)).unwrap();
        for used in text.lines().filter_map(|line| line.strip_prefix("use crate::")) {
            // What a constant is says its name.
            if used.rsplit("::").next().unwrap().chars().all(|c| !c.is_lowercase()) {
                continue;
            }
            let names: Vec<_> = used.split([';', '{']).next().unwrap().split("::").collect();
            let modules = (1..=names.len()).rev().map(|len| file_of(&names[..len].join("::")));
            let module = modules.into_iter().find(|file| source.join(file).exists()).unwrap();
            let is_known = read.contains(&module) || Path::new(&module).starts_with(own);
            assert!(is_known, "{rung} uses {module}, which is not to be read before it");
        }
    }
    assert!(rungs > 10, "{rungs}");
}

/// What a heading is called in links, as code hosts have it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
