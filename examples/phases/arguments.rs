//! What several subcommands take.

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Reads one of some numbers.
pub fn one_of<const N: usize>(numbers: [&'static str; N]) -> impl TypedValueParser<Value = u32> {
    PossibleValuesParser::new(numbers).map(|text| text.parse().expect("all of them are numbers"))
}
