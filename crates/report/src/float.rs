//! Floats of documents. JSON has no NaN and no infinities: what compares results writes them as strings, and records as
//! null.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

/// How numbers that are none in JSON are written.
const NOT_FINITE: [(&str, f64); 3] =
    [("NaN", f64::NAN), ("inf", f64::INFINITY), ("-inf", f64::NEG_INFINITY)];

/// A float, finite or not; none where the value is something else.
pub(crate) fn of(value: &Value) -> Option<f64> {
    let named = |text: &str| NOT_FINITE.iter().find(|(name, _)| *name == text);
    match value {
        Value::String(text) => named(text).map(|&(_, float)| float),
        other => other.as_f64(),
    }
}

/// Reads a float, finite or not; null is NaN.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(f64::NAN),
        value => of(&value).ok_or_else(|| de::Error::custom(format!("{value} is no number"))),
    }
}

/// What a float is that is missing.
pub(crate) fn missing() -> f64 {
    f64::NAN
}

#[cfg(test)]
mod tests {
    use crate::{ladder, sweep, versus};
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    #[track_caller]
    fn from_its_file<T: Serialize + DeserializeOwned>(value: T) -> T {
        serde_json::from_str(&serde_json::to_string(&value).unwrap()).unwrap()
    }

    #[test]
    fn records_with_errors_that_are_no_numbers_load() {
        let relative_error = f64::NAN;
        let entry = ladder::synthetic::record().rounds.remove(0).entries.remove(0);
        let entry = from_its_file(ladder::Entry { relative_error, ..entry });
        assert!(entry.relative_error.is_nan() && entry.milliseconds > 0.0);
        let entry = versus::synthetic::record().cases.remove(0).entries.remove(0);
        let entry = from_its_file(versus::Entry { relative_error, ..entry });
        assert!(entry.relative_error.is_nan() && entry.microseconds > 0.0);
        let timing = from_its_file(sweep::Timing { relative_error, ..Default::default() });
        assert!(timing.relative_error.is_nan());
        let counts = from_its_file(sweep::Counts { relative_error, ..Default::default() });
        assert!(counts.relative_error.is_nan());
    }
}
