use super::*;
use crate::tuning::table::tests::entry;
use regemm_kernels::element::Dtype;

fn document() -> Document {
    let mut table = Table::new(Dtype::F32);
    table.insert(entry((128, 256, 512), &[("naive_f32", 12.3456), ("tiled16_f32", 7.0)]));
    table.insert(entry((1, 1023, 77), &[("tiled16_f32", 3.5)]));
    let key = Key {
        gpu: "NVIDIA \"quoted\"".into(),
        multiprocessors: 132,
        driver: "CUDA 13.0".into(),
        code: "0123456789abcdef".into(),
        types: Dtype::F32.into(),
        layouts: Layouts::NN,
    };
    Document { tables: vec![Stored::new(key, 7, table)], ..Document::default() }
}

#[test]
fn round_trip() {
    let text = document().encode().unwrap();
    let again = Document::decode(&text).unwrap();
    assert_eq!(again.encode().unwrap(), text);
    let stored = &again.tables[0];
    assert_eq!((&stored.key, stored.changed), (&document().tables[0].key, 7));
    assert_eq!(stored.table.len(), 2);
    let entry = stored.table.get(Shape::packed(Dtype::F32, 128, 256, 512)).unwrap();
    assert!((entry.seconds(kernels().first().unwrap()).unwrap() - 12.346e-6).abs() < 1e-12);
    let odd = stored.table.get(Shape::packed(Dtype::F32, 1, 1023, 77)).unwrap();
    assert_eq!((odd.times.len(), odd.shape.aligned), (1, false));
}

#[test]
fn no_tables_are_a_document_too() {
    let text = Document::default().encode().unwrap();
    assert!(Document::decode(&text).unwrap().tables.is_empty());
    let mut empty = document();
    empty.tables[0].table = Table::new(Dtype::F32);
    let again = Document::decode(&empty.encode().unwrap()).unwrap();
    assert!(again.tables[0].table.is_empty());
}

#[test]
fn damage_is_named() {
    let good = document().encode().unwrap();
    let damaged = |from: &str, to: &str| {
        assert!(good.contains(from), "{good}");
        Document::decode(&good.replace(from, to)).unwrap_err().to_string()
    };
    for cut in [0, 1, good.len() / 2, good.len() - 3] {
        let error = Document::decode(&good[..cut]).unwrap_err();
        assert!(matches!(error, Damage::Json(_)), "{error}");
    }
    assert!(damaged("\"format\": 1", "\"format\": 2").contains("format 2"));
    assert!(damaged("12.346", "-12.346").contains("-12.346"));
    assert!(damaged("12.346", "0").contains("0 us"));
    assert!(damaged("12.346,", "").contains("128 x 256 x 512"));
    assert!(damaged("\"shape\"", "\"form\"").contains("shape"));
}

/// Another version of this library may have types and layouts that this one does not have.
#[test]
fn tables_of_other_types_and_layouts_stay_as_they_are() {
    let good = document().encode().unwrap();
    for (from, to) in [("\"f32\"", "\"f31\""), ("\"nn\"", "\"nm\"")] {
        let text = good.replace(from, to);
        assert_ne!(good, text);
        let document = Document::decode(&text).unwrap();
        assert_eq!((document.tables.len(), document.others.len()), (0, 1));
        assert_eq!(document.encode().unwrap(), text);
        let error = merge_shorter(&good, &text).unwrap_err().to_string();
        assert!(error.contains(to.trim_matches('"')), "{error}");
        let merged = Document::decode(&merge_shorter(&text, &good).unwrap()).unwrap();
        assert_eq!((merged.tables.len(), merged.others.len()), (1, 1));
    }
}

#[test]
fn kernels_with_another_tile_are_unknown() {
    let good = document().encode().unwrap();
    let text = good.replace("[16,16,16,1,1,1]", "[16,16,32,1,1,1]");
    assert_ne!(good, text);
    let stored = &Document::decode(&text).unwrap().tables[0];
    assert_eq!(stored.unknown, ["tiled16_f32"]);
    assert_eq!(stored.table.len(), 1, "an entry with no known kernel is none");
}

#[test]
fn a_newer_document_is_merged_by_gpu_and_types() {
    let later = |types: Dtype, names: &[(&str, f64)]| {
        let mut table = Table::new(types);
        table.insert(entry((128, 256, 512), names));
        let key = Key {
            driver: "CUDA 13.1".into(),
            types: types.into(),
            ..document().tables[0].key.clone()
        };
        Document { tables: vec![Stored::new(key, 9, table)], ..Document::default() }
            .encode()
            .unwrap()
    };
    let known = document().encode().unwrap();
    let times = [("naive_f32", 12.0), ("tiled16_f32", 8.0)];
    let text = merge_shorter(&known, &later(Dtype::F32, &times)).unwrap();
    let text = merge_shorter(&text, &later(Dtype::F64, &[("naive_f64", 5.0)])).unwrap();
    let tables = Document::decode(&text).unwrap().tables;
    assert_eq!(tables.len(), 2);
    assert_eq!((tables[0].key.driver.as_str(), tables[0].changed), ("CUDA 13.1", 9));
    assert_eq!((tables[0].table.len(), tables[1].table.len()), (2, 1));
    let entry = tables[0].table.get(Shape::packed(Dtype::F32, 128, 256, 512)).unwrap();
    let micros = Vec::from_iter(entry.times.iter().map(|time| (time.seconds * 1e6).round()));
    assert_eq!(micros, [12.0, 7.0]);
    assert!(merge_shorter(&known, "{").is_err() && merge_shorter("{", &known).is_err());
}

/// Documents of earlier versions are of row-major factors and do not say so.
#[test]
fn tables_are_of_layouts() {
    let (wide, layouts) = (Types::same(Dtype::Bf16), Layouts::NT);
    let mut table = Table::in_layouts(wide, layouts);
    table.insert(entry((256, 256, 256), &[("warpgroup_nt_bf16", 9.0)]));
    let key = Key { types: wide, layouts, ..document().tables[0].key.clone() };
    let text = Document { tables: vec![Stored::new(key, 7, table)], ..Document::default() }
        .encode()
        .unwrap();
    let stored = &Document::decode(&text).unwrap().tables[0];
    assert_eq!((stored.key.layouts, stored.table.layouts()), (layouts, layouts));
    assert_eq!(stored.table.len(), 1);
    let unnamed = text.replace("\"layouts\":\"nt\",", "");
    assert_ne!(unnamed, text);
    let stored = &Document::decode(&unnamed).unwrap().tables[0];
    assert_eq!(
        (stored.key.layouts, stored.unknown.len()),
        (Layouts::NN, 1),
        "its kernel is another"
    );
    let merged = merge_shorter(&unnamed, &text).unwrap();
    assert_eq!(Document::decode(&merged).unwrap().tables.len(), 2, "tables of their own");
}

#[test]
fn kernels_of_the_same_factors_with_other_results_are_unknown() {
    let wide = Types { factors: Dtype::Bf16, results: Dtype::F32 };
    let mut table = Table::new(wide);
    table.insert(entry((256, 256, 256), &[("warpgroup_bf16_f32", 9.0)]));
    let key = Key { types: wide, ..document().tables[0].key.clone() };
    let text = Document { tables: vec![Stored::new(key, 7, table)], ..Document::default() }
        .encode()
        .unwrap();
    let stored = &Document::decode(&text).unwrap().tables[0];
    assert_eq!((stored.key.types, stored.table.types(), stored.table.len()), (wide, wide, 1));
    let text = text.replace("warpgroup_bf16_f32", "warpgroup_bf16");
    assert_eq!(Document::decode(&text).unwrap().tables[0].unknown, ["warpgroup_bf16"]);
}
