//! Verifications in words and in JSON.

use super::output::{count, many};
use regemm::verify::Verification;
use serde_json::{Value, json};

/// A verification in one line. Where no element of the result is finite there is no error to state.
pub fn describe(verification: &Verification) -> String {
    let comparison = &verification.comparison;
    let mut text = many(comparison.elements as u64, "element");
    if comparison.finite < comparison.elements && comparison.finite > 0 {
        text += &format!(", {} of them finite", count(comparison.finite as u64));
    }
    text += ": ";
    if comparison.has_error() {
        text += &format!(
            "worst error {:.3} of its bound, relative error in norm {:.2e}",
            comparison.max_ratio, comparison.relative_norm_error
        );
    } else {
        text += "none of them is a finite number, so there is no error to state";
    }
    if let Some(freivalds) = &verification.freivalds {
        text += &format!(
            "; whole product by {} random vectors: worst residual {:.3} of its tolerance",
            freivalds.vectors, freivalds.max_ratio
        );
    }
    if comparison.undecided > 0 {
        text += &format!(
            "; {} undecided because sums may overflow",
            many(comparison.undecided as u64, "element")
        );
    }
    if comparison.mismatches > 0 {
        text += &format!("; {} WRONG", count(comparison.mismatches as u64));
        if let Some(worst) = &comparison.worst {
            text += &format!(", worst {worst}");
        }
    }
    if let Some(freivalds) = verification.freivalds.as_ref().filter(|test| !test.pass()) {
        text += &format!("; {}", many(freivalds.failed_rows as u64, "WRONG row"));
    }
    text
}

/// A verification as a JSON object, its verdict included. Errors that cannot be stated are null.
pub fn verification_json(verification: &Verification) -> Value {
    let mut object = json!(verification);
    if !verification.comparison.has_error() {
        for error in ["max_ratio", "relative_norm_error"] {
            object["comparison"][error] = Value::Null;
        }
    }
    object["pass"] = verification.pass().into();
    object
}
