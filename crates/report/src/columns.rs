//! Tables out of JSON: a row an object, a column a place in it.

use crate::float;
use crate::table::{Table, or_dash};
use crate::table::{count, percent};
use serde_json::Value;

/// A column: what stands above it, where its values are, and how they are shown.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    /// The heading.
    pub heading: &'static str,
    /// JSON pointers (RFC 6901) of the value; the first that leads somewhere counts.
    pub places: &'static [&'static str],
    /// How the value is shown.
    pub show: fn(&Value) -> Option<String>,
}

/// A column of values in one place.
pub(crate) const fn column(
    heading: &'static str,
    places: &'static [&'static str],
    show: fn(&Value) -> Option<String>,
) -> Column {
    Column { heading, places, show }
}

/// A table with a row for each object. Columns without a value in any of them are left out, and so is the table if none
/// but the first has values.
pub(crate) fn table(title: &str, columns: &[Column], objects: &[Value]) -> Option<Table> {
    let cell = |column: &Column, object: &Value| {
        let found = column.places.iter().filter_map(|place| object.pointer(place));
        found.filter(|value| !value.is_null()).find_map(|value| (column.show)(value))
    };
    let is_used = |column: &&Column| objects.iter().any(|object| cell(column, object).is_some());
    let used: Vec<&Column> = columns.iter().filter(is_used).collect();
    if used.len() < 2 {
        return None;
    }
    let mut table = Table::new(title, used.iter().map(|column| column.heading));
    for object in objects {
        table.rows.push(used.iter().map(|column| or_dash(cell(column, object))).collect());
    }
    Some(table)
}

/// A table of everything in the objects: a column for each value, named after its place.
pub(crate) fn every(title: &str, objects: &[Value]) -> Option<Table> {
    let mut headings: Vec<String> = Vec::new();
    let flat: Vec<Vec<(String, String)>> = objects.iter().map(flatten).collect();
    for (name, _) in flat.iter().flatten() {
        if !headings.contains(name) {
            headings.push(name.clone());
        }
    }
    if headings.is_empty() {
        return None;
    }
    let mut table = Table::new(title, headings.clone());
    for object in &flat {
        let cell = |heading: &String| {
            or_dash(object.iter().find(|(name, _)| name == heading).map(|(_, value)| value))
        };
        table.rows.push(headings.iter().map(cell).collect());
    }
    Some(table)
}

/// The values of an object and of the objects within, each with its names.
fn flatten(object: &Value) -> Vec<(String, String)> {
    let fields = object.as_object().into_iter().flatten();
    let one = |(name, value): (&String, &Value)| {
        let name = name.replace('_', " ");
        match value {
            Value::Object(_) => {
                let inner = flatten(value).into_iter();
                inner.map(|(below, value)| (format!("{name} {below}"), value)).collect()
            }
            Value::Null => Vec::new(),
            other => text(other).map(|value| (name, value)).into_iter().collect(),
        }
    };
    fields.flat_map(one).collect()
}

/// The objects of an array in a document; none where it has no such array.
pub(crate) fn objects<'a>(document: &'a Value, place: &str) -> &'a [Value] {
    document.pointer(place).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Text as it is; what is no text as JSON.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(if *flag { "yes" } else { "no" }.to_owned()),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(text).collect();
            Some(items.join(", ").replace('_', " "))
        }
        other => Some(other.to_string()),
    }
}

/// A whole number with thousands separated.
pub(crate) fn whole(value: &Value) -> Option<String> {
    value.as_u64().map(count)
}

/// A share as a percentage.
pub(crate) fn share(value: &Value) -> Option<String> {
    value.as_f64().map(percent)
}

/// A number with three decimals.
pub(crate) fn decimals(value: &Value) -> Option<String> {
    value.as_f64().map(|value| format!("{value:.3}"))
}

/// A factor: `2.00 x`.
pub(crate) fn factor(value: &Value) -> Option<String> {
    value.as_f64().map(|value| format!("{value:.2} x"))
}

/// A small number in scientific notation, or what is no number there.
pub(crate) fn scientific(value: &Value) -> Option<String> {
    float::of(value).map(|value| format!("{value:.1e}"))
}

/// Operations a second as GFLOP/s.
pub(crate) fn giga(value: &Value) -> Option<String> {
    const GIGA: f64 = 1e9;
    value.as_f64().map(|value| count((value / GIGA).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_take_the_first_place_that_leads_somewhere() {
        let columns = [
            column("kernel", &["/kernel"], text),
            column("loads", &["/counted/loads", "/formula/loads"], whole),
            column("never there", &["/nowhere"], whole),
        ];
        let rows = [
            json!({ "kernel": "naive", "counted": { "loads": 1234 }, "formula": { "loads": 5 } }),
            json!({ "kernel": "tiled", "counted": null, "formula": { "loads": 7 } }),
            json!({ "kernel": "other" }),
        ];
        let table = table("Loads", &columns, &rows).unwrap();
        assert_eq!(table.heading, ["kernel", "loads"]);
        assert_eq!(table.rows, [["naive", "1,234"], ["tiled", "7"], ["other", "-"]]);
        assert_eq!(super::table("Nothing", &columns[1..], &rows[2..]), None);
    }

    #[test]
    fn values_of_each_kind() {
        assert_eq!(text(&json!(["shared_memory", "threads"])).unwrap(), "shared memory, threads");
        assert_eq!(text(&json!(true)).unwrap(), "yes");
        assert_eq!(share(&json!(0.125)).unwrap(), "12.5 %");
        assert_eq!(giga(&json!(66.9e12)).unwrap(), "66,900");
        assert_eq!(factor(&json!(16)).unwrap(), "16.00 x");
        assert_eq!(scientific(&json!(0.00031)).unwrap(), "3.1e-4");
        assert_eq!(scientific(&json!("NaN")).unwrap(), "NaN");
        assert_eq!(scientific(&json!("none")), None);
        assert_eq!((whole(&json!("x")), decimals(&json!(1))), (None, Some("1.000".into())));
    }

    #[test]
    fn everything_has_a_column() {
        let table =
            every("All", &[json!({ "a_b": 1, "c": { "d": "x" } }), json!({ "e": null })]).unwrap();
        assert_eq!(table.heading, ["a b", "c d"]);
        assert_eq!(table.rows, [["1", "x"], ["-", "-"]]);
        assert_eq!(every("None", &[json!(1), json!({})]), None);
    }
}
