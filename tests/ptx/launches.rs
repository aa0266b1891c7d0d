//! The launches before and behind a product.

use crate::module::{ARCHS, module_of, words};
use regemm_kernels::table::{REDUCERS, REPACKER, ROUNDER, SPLITTER, TRANSPOSER};

/// Every reducer for every architecture: one entry, no local memory, and wide loads of which many are in flight,
/// because they come one after another with nothing between that waits for them.
#[test]
fn reducers_load_many_vectors_together() {
    const TOGETHER: usize = 16;
    for reducer in REDUCERS {
        for (arch, _) in ARCHS {
            let name = format!("{} for {arch}", reducer.name);
            let (_, text) = module_of(reducer.name, arch);
            let code = text.lines().flat_map(words);
            let accesses: Vec<_> = code
                .filter(|word| word.starts_with("ld.global") || word.starts_with("add.rn.f32"))
                .collect();
            let vectors = |run: &&[&str]| run[0].ends_with(".v4.b32");
            let longest = accesses.chunk_by(|a, b| a == b).filter(vectors).map(<[_]>::len).max();
            assert!(longest.is_some_and(|longest| longest >= TOGETHER), "{name}: {longest:?}");
            assert!(!text.contains(".local"), "{name}");
        }
    }
}

/// The repacker for every architecture: no local memory, and the wide loads of all its vectors before the first wide
/// store, so that they are in flight together.
#[test]
fn the_repacker_loads_all_its_vectors_together() {
    const VECTORS: usize = 4;
    for (arch, _) in ARCHS {
        let (_, text) = module_of(REPACKER.name, arch);
        let code: Vec<_> = text.lines().flat_map(words).collect();
        let at = |access: &str| {
            let wide = format!("{access}.global.v4.b32");
            let places = code.iter().enumerate().filter(|(_, word)| **word == wide);
            places.map(|(place, _)| place).collect::<Vec<_>>()
        };
        let (loads, stores) = (at("ld"), at("st"));
        // Each vector of a row lies in two.
        assert_eq!((loads.len(), stores.len()), (2 * VECTORS, VECTORS), "{arch}");
        assert!(loads.iter().max() < stores.iter().min(), "{arch}");
        assert!(!text.contains(".local"), "{arch}");
    }
}

/// The transposer for every architecture: the loads of a square, whole or element by element, before its stores, and a
/// register for each element.
#[test]
fn the_transposer_loads_a_square_together() {
    for (arch, _) in ARCHS {
        let (_, text) = module_of(TRANSPOSER.name, arch);
        let code: Vec<_> = text.lines().flat_map(words).collect();
        let at = |access: &str| {
            let places = code.iter().enumerate().filter(|(_, word)| **word == access);
            places.map(|(place, _)| place).collect::<Vec<_>>()
        };
        let [whole, single, stores] =
            ["ld.global.v4.b32", "ld.global.b32", "st.global.v4.b32"].map(at);
        assert_eq!((whole.len(), single.len(), stores.len()), (4, 16, 4), "{arch}");
        assert!(whole.iter().chain(&single).max() < stores.iter().min(), "{arch}");
        assert!(!text.contains(".local"), "{arch}");
    }
}

/// Catches loads of the launch that splits which wait for one another, and arrays that lie in local memory.
#[test]
fn the_splitter_loads_all_its_vectors_together() {
    for (arch, _) in ARCHS {
        for (entry, halves) in [(SPLITTER, 2), (ROUNDER, 1)] {
            let (_, text) = module_of(entry.name, arch);
            let code: Vec<_> = text.lines().flat_map(words).collect();
            let count = |wanted: &str| code.iter().filter(|word| **word == wanted).count();
            // Four in each of the two passes along lines, of which the second stores as many of each half.
            assert_eq!(count("ld.global.v4.b32"), 2 * 4, "{}, {arch}", entry.name);
            let stores = ["st.global.b64", "st.global.v2.b32", "st.global.v4.b16"].map(count);
            assert_eq!(stores.into_iter().sum::<usize>(), halves * 4, "{}, {arch}", entry.name);
            assert!(!text.contains(".local"), "{}, {arch}", entry.name);
        }
    }
}
