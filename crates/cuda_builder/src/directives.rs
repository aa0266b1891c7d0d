//! Launch bounds: from comments in the assembly to directives of the entry.
//!
//! Rust has no attribute for `.maxntid` and its like. `#[kernel]` therefore leaves a line
//! `// cuda_builder: <entry> <directive>` in the assembly, and this module moves the directive to where PTX wants it,
//! between the parameter list of the entry and its body (PTX ISA, section 11.4).
//!
//! `.reqnctapercluster 1` is left out: it would be a cluster of one block, and one that targets without clusters do not
//! know.
//!
//! `.param <index> .align <bytes>` is no directive of PTX: it aligns that parameter of the entry, which Rust cannot
//! either.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::items::{Kind, items, problem};

/// What a line of ours begins with.
const PREFIX: &str = "// cuda_builder: ";

/// What an order to align a parameter begins with.
const PARAMETER: &str = ".param ";

/// The size of the cluster that launches need not ask for, and what says that blocks are in clusters at all.
const CLUSTER: &str = ".reqnctapercluster ";
const IN_CLUSTERS: &str = ".explicitcluster";

/// The alignment of a variable.
const ALIGN: &str = ".align";

/// Comments that LLVM writes around each piece of inline assembly: a twelfth of the text of kernels that are made of
/// it.
const ASM_MARKS: [&str; 2] = ["// begin inline asm", "// end inline asm"];

/// The lines of ours in a text.
pub fn lines(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.lines().filter(|line| line.trim().starts_with(PREFIX))
}

/// The text with every directive moved to its entry, and our comment lines and [`ASM_MARKS`] removed.
pub fn apply(ptx: &str) -> Result<String, Error> {
    let mut wanted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut without_comments = String::with_capacity(ptx.len());
    let mut position = 0;
    for line in ptx.split_inclusive('\n') {
        match line.trim().strip_prefix(PREFIX) {
            Some(text) => {
                let (entry, directive) = parse(text).ok_or_else(|| {
                    problem(ptx, position, format!("expected `{PREFIX}<entry> .<directive>`"))
                })?;
                wanted.entry(entry).or_default().push(directive);
            }
            None if ASM_MARKS.contains(&line.trim()) => {}
            None => without_comments.push_str(line),
        }
        position += line.len();
    }

    let mut result = String::with_capacity(ptx.len());
    let mut copied = 0;
    for item in items(&without_comments)? {
        let (Kind::Entry, Some(body)) = (item.kind, item.body) else { continue };
        let Some(directives) = wanted.remove(item.names[0]) else { continue };
        let name = item.names[0];
        let mut header = without_comments[copied..body].to_owned();
        for directive in directives {
            if let Some(blocks) = directive.strip_prefix(CLUSTER) {
                if blocks.trim() != "1" {
                    header.push_str(&format!("{IN_CLUSTERS}\n{directive}, 1, 1\n"));
                }
                continue;
            }
            match directive.strip_prefix(PARAMETER) {
                Some(text) => {
                    header = align_parameter(&header, name, text).ok_or_else(|| {
                        problem(&without_comments, body, format!("{name} has no {directive}"))
                    })?;
                }
                None => {
                    header.push_str(directive);
                    header.push('\n');
                }
            }
        }
        result.push_str(&header);
        copied = body;
    }
    result.push_str(&without_comments[copied..]);

    match wanted.keys().next() {
        Some(entry) => {
            Err(problem(ptx, 0, format!("launch bounds for {entry}, which is no entry")))
        }
        None => Ok(result),
    }
}

/// Entry and directive of a line after its prefix. A directive is a word with a dot and its values: anything that could
/// end the header of the entry is refused.
fn parse(text: &str) -> Option<(&str, &str)> {
    let (entry, directive) = text.trim().split_once(' ')?;
    let directive = directive.trim();
    let sound = directive.starts_with('.') && !directive.contains(['{', '}', ';', '(', ')', '/']);
    sound.then_some((entry, directive))
}

/// The header of an entry with one of its aggregate parameters aligned as `text` says: `<index> .align <bytes>`.
fn align_parameter(header: &str, entry: &str, text: &str) -> Option<String> {
    let (index, bytes) = text.split_once(ALIGN)?;
    let bytes: u32 = bytes.trim().parse().ok()?;
    let declared = header.find(&format!(" {entry}_param_{}[", index.trim()))?;
    let start = header[..declared].rfind(ALIGN)? + ALIGN.len();
    let old = header[start..declared].trim_start().split(' ').next()?;
    let end = start + header[start..declared].find(old)? + old.len();
    old.parse::<u32>().ok()?;
    Some(format!("{} {bytes}{}", &header[..start], &header[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = ".version 7.0\n.target sm_80\n.address_size 64\n";

    #[test]
    fn clusters_of_more_than_one_block() {
        let line = |blocks: u32| format!("// cuda_builder: k .reqnctapercluster {blocks}\n");
        let entry = ".entry k() { ret; }\n";
        let result = apply(&format!("{HEADER}{}{entry}", line(2))).unwrap();
        let directives = ".explicitcluster\n.reqnctapercluster 2, 1, 1\n";
        assert!(result.contains(directives), "{result}");
        let alone = apply(&format!("{HEADER}{}{entry}", line(1))).unwrap();
        assert_eq!(alone, format!("{HEADER}{entry}"));
    }

    #[test]
    fn directives_go_between_parameters_and_body() {
        let ptx = format!(
            "{HEADER}// cuda_builder: k .maxntid 256\n// cuda_builder: k .minnctapersm 2\n\
             .visible .entry k(\n\t.param .align 8 .b8 k_param_0[16],\n\t.param .b32 k_param_1\n)\n{{\n\tret;\n}}\n"
        );
        let expected = format!(
            "{HEADER}.visible .entry k(\n\t.param .align 8 .b8 k_param_0[16],\n\t.param .b32 k_param_1\n)\n\
             .maxntid 256\n.minnctapersm 2\n{{\n\tret;\n}}\n"
        );
        assert_eq!(apply(&ptx).unwrap(), expected);
    }

    #[test]
    fn a_parameter_is_aligned() {
        let entry = |align: u32| {
            format!(
                ".visible .entry k(\n\t.param .align 8 .b8 k_param_0[128],\n\t.param .align {align} .b8 k_param_1[128]\n)\n{{\n\tret;\n}}\n"
            )
        };
        let ptx = format!("{HEADER}// cuda_builder: k .param 1 .align 64\n{}", entry(8));
        assert_eq!(apply(&ptx).unwrap(), HEADER.to_owned() + &entry(64));
        for wrong in [".param 2 .align 64", ".param 1 .align", ".param 1 .align x", ".param 1"] {
            let ptx = format!("{HEADER}// cuda_builder: k {wrong}\n{}", entry(8));
            assert!(apply(&ptx).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_entry_gets_its_own_and_a_name_that_begins_alike_does_not() {
        let ptx = format!(
            "{HEADER}// cuda_builder: k2 .maxntid 64\n.entry k() {{ ret; }}\n.entry k2() {{ ret; }}\n"
        );
        let result = apply(&ptx).unwrap();
        assert!(result.contains(".entry k() { ret; }"), "{result}");
        assert!(result.contains(".entry k2() .maxntid 64\n{ ret; }"), "{result}");
    }

    #[test]
    fn the_place_of_the_comment_does_not_matter() {
        let ptx = format!("{HEADER}.entry k() {{\n// cuda_builder: k .maxnreg 32\nret; }}\n");
        assert!(apply(&ptx).unwrap().contains(".entry k() .maxnreg 32\n{\nret; }"));
    }

    #[test]
    fn a_text_without_our_comments_stays_as_it_is() {
        let ptx = format!("{HEADER}// cuda_builder is not addressed\n.entry k() {{ ret; }}\n");
        assert_eq!(apply(&ptx).unwrap(), ptx);
    }

    #[test]
    fn bounds_of_an_unknown_entry_and_broken_lines_are_errors() {
        for line in ["nobody .maxntid 1", "k maxntid 1", "k", "k .maxntid 1; ret"] {
            let ptx = format!("{HEADER}.entry k() {{ ret; }}\n// cuda_builder: {line}\n");
            assert!(apply(&ptx).is_err(), "{line}");
        }
    }
}
