//! What modules there are, and that each is one entry for its target.

use crate::module::{ARCHS, TEXTS, all_modules, embedded, kernels_with_entries, words};
use regemm::ptx_modules;
use std::collections::BTreeSet;

/// All PTX together stays below this many bytes. What it costs is the time to build the library: a megabyte takes the
/// compiler some ten seconds. A table that grows by a few kernels fits; one whose kernels all grow does not.
const TEXT_LIMIT: usize = 107_300_000;

/// All PTX together, packed as it is embedded, stays below this many bytes: every program that uses the library carries
/// it.
const EMBEDDED_LIMIT: usize = 19_300_000;

/// What of all PTX is embedded at most. That much more than it is means that something else was packed, or nothing.
const PACKED_TO: f64 = 0.25;

/// Catches a kernel that was compiled for fewer architectures or twice, a module that belongs to no row of the table,
/// and PTX that grows out of bounds (an epilogue that is copied for every sum, say).
#[test]
fn every_kernel_has_one_module_for_each_architecture() {
    assert_eq!(all_modules().len(), kernels_with_entries().count() * ARCHS.len());
    assert_eq!(ptx_modules().len(), embedded().len(), "a module belongs to no row of a table");
    let text: usize = TEXTS.iter().map(|(_, text)| text.len()).sum();
    let embedded: usize = ptx_modules().iter().map(|module| module.packed.len()).sum();
    println!("{text} bytes of PTX, embedded as {embedded}");
    assert!(text < TEXT_LIMIT, "{text} bytes of PTX, the limit is {TEXT_LIMIT}");
    assert!(embedded < EMBEDDED_LIMIT, "{embedded} bytes embedded, the limit is {EMBEDDED_LIMIT}");
    assert!((embedded as f64) < text as f64 * PACKED_TO, "{embedded} bytes embedded of {text}");
}

/// Catches modules that are split wrongly (a second entry, a function left behind) or made for another target, and a
/// parameter that the device's compiler lays out otherwise than the host's.
#[test]
fn a_module_is_one_entry_for_its_target() {
    for module in embedded() {
        let (name, entry, text) = (module.name(), module.entry.name, module.text);
        let directive = |wanted: &str| {
            let lines = module.lines().map(str::trim);
            let mut found: Vec<_> = lines.filter_map(|line| line.strip_prefix(wanted)).collect();
            assert_eq!(found.len(), 1, "{name}: {wanted} is given once");
            found.remove(0).trim()
        };
        assert_eq!(directive(".target"), module.ptx.arch, "{name}");
        let (major, minor) = module.ptx.isa;
        assert_eq!(directive(".version"), format!("{major}.{minor}"), "{name}");
        assert_eq!(directive(".address_size"), "64", "{name}");
        assert_eq!(directive(".visible .entry"), format!("{entry}("), "{name}");
        let entries = module.words().filter(|&word| word == ".entry").count();
        assert_eq!(entries, 1, "{name}");

        let parameters = module.entry.parameters;
        for (index, parameter) in parameters.iter().enumerate() {
            let (align, size) = (parameter.align, parameter.size);
            let declared = match size {
                4 => format!(".param .u32 {entry}_param_{index}"),
                8 => format!(".param .u64 {entry}_param_{index}"),
                _ => format!(".param .align {align} .b8 {entry}_param_{index}[{size}]"),
            };
            assert!(text.contains(&declared), "{name}: no {declared}");
        }
        let declared = module.words().filter(|&word| word == ".param").count();
        assert_eq!(declared, parameters.len(), "{name}");
    }
    // Maps of all matrices together, and which of C and D count, come after the parameters of all kernels.
    for kernel in kernels_with_entries() {
        let expected = if kernel.boxes.is_some() { 3 } else { 1 };
        assert_eq!(kernel.entry.parameters.len(), expected, "{}", kernel.name);
    }
}

/// Catches launch bounds that got lost on the way from the attribute to the entry (ptxas would then take as many
/// registers as it likes), that disagree with the table, or that ptxas would ignore because a multiprocessor cannot
/// hold so many blocks.
#[test]
fn launch_bounds_are_those_of_the_table() {
    for kernel in kernels_with_entries() {
        assert_eq!(kernel.entry.max_threads, Some(kernel.threads()), "{}", kernel.name);
        assert_eq!(kernel.entry.cluster, kernel.cluster, "{}", kernel.name);
    }
    for module in embedded() {
        let name = module.name();
        let (_, entry) = module.text.split_once(".visible .entry").unwrap();
        let (header, _) = entry.split_once("\n{").unwrap();
        let bound = |directive: &str| {
            let values = header.lines().filter_map(|line| line.strip_prefix(directive));
            values.map(|value| value.trim().parse::<u32>().unwrap()).collect::<Vec<_>>()
        };
        let threads = module.entry.max_threads.unwrap();
        assert_eq!(bound(".maxntid"), [threads], "{name}");
        let asked_for = module.entry.min_blocks.unwrap();
        let blocks = asked_for.min(module.resident_threads / threads);
        assert_eq!(bound(".minnctapersm"), [blocks], "{name}");
        let cluster = header.lines().find_map(|line| line.strip_prefix(".reqnctapercluster "));
        let blocks = module.entry.cluster;
        let expected = (blocks > 1 && module.can_run()).then(|| format!("{blocks}, 1, 1"));
        assert_eq!(cluster, expected.as_deref(), "{name}");
    }
}

/// Catches sums or operands that live in local memory because something indexes them at run time, functions that were
/// not inlined, and panic paths, which are bounds checks that the compiler could not prove away.
#[test]
fn there_is_no_local_memory_no_call_and_no_trap() {
    for module in embedded().iter().filter(|module| module.can_run()) {
        for word in module.words() {
            let mut parts = word.split('.');
            let opcode = parts.next().unwrap_or_default();
            let is_panic = ["call", "trap"].contains(&opcode) || parts.clone().any(|p| p == "func");
            let is_local = opcode == "alloca" || parts.any(|part| part == "local");
            assert!(!is_local && !is_panic, "{}: {word}", module.name());
        }
    }
}

/// Catches a kernel that would go on where its instructions are missing, and with something else in their place.
#[test]
fn where_its_instructions_are_missing_a_kernel_only_traps() {
    let mut trapping = 0;
    for module in embedded().iter().filter(|module| !module.can_run()) {
        let (_, body) = module.text.split_once("\n{").unwrap();
        let found: Vec<_> = body.lines().flat_map(words).collect();
        assert_eq!(found, ["trap", "exit"], "{}", module.name());
        trapping += 1;
    }
    assert!(trapping > 0, "all kernels run everywhere: then there is nothing to refuse");
}

/// Catches kernels that are launched while others end and do not wait for them. Older targets have no such launches.
#[test]
fn kernels_that_start_early_wait() {
    for module in embedded().iter().filter(|module| module.can_run()) {
        let waits = module.words().any(|word| word == "griddepcontrol.wait");
        let early = module.entry.early_start && module.ptx.arch == "sm_90a";
        assert_eq!(waits, early, "{}", module.name());
    }
}

/// Catches generic accesses in any module: which accesses a kernel of the table has [other
/// tests](crate::accesses::every_access_names_its_state_space) say.
#[test]
fn no_access_is_generic() {
    let mut spaces = BTreeSet::new();
    for module in embedded() {
        let accesses = module.words().filter(|word| {
            ["ld.", "st.", "atom.", "red."].iter().any(|opcode| word.starts_with(opcode))
        });
        for access in accesses {
            let space = access.split('.').find(|part| {
                ["param", "global", "shared", "shared::cta", "shared::cluster"].contains(part)
            });
            let space = space.unwrap_or_else(|| panic!("{}: {access}", module.name()));
            spaces.insert(space);
        }
    }
    assert!(spaces.is_superset(&BTreeSet::from(["param", "global", "shared"])), "{spaces:?}");
}
