//! Verifications in words and in JSON.

use super::output::count;
use regemm::verify::Verification;
use serde_json::{Value, json};

/// A verification in one line. Where no element of the result is finite there is no error to state.
pub fn describe(verification: &Verification, has_numbers: bool) -> String {
    let comparison = &verification.comparison;
    let mut text = format!("{} elements: ", count(comparison.elements as u64));
    if has_numbers {
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
            "; {} elements undecided because sums may overflow",
            count(comparison.undecided as u64)
        );
    }
    if comparison.mismatches > 0 {
        text += &format!("; {} WRONG", count(comparison.mismatches as u64));
        if let Some(worst) = &comparison.worst {
            text += &format!(", worst {worst}");
        }
    }
    if let Some(freivalds) = verification.freivalds.as_ref().filter(|test| !test.pass()) {
        text += &format!("; {} WRONG rows", count(freivalds.failed_rows as u64));
    }
    text
}

/// A verification as a JSON object, its verdict included.
pub fn verification_json(verification: &Verification) -> Value {
    let mut object = json!(verification);
    object["pass"] = verification.pass().into();
    object
}
