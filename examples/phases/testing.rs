//! What tests do to what is printed.

/// The lines of a text, without borders and with single spaces.
pub fn lines(text: &str) -> Vec<String> {
    let words =
        |line: &str| line.replace(['│', '┆'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(words).collect()
}

/// That these lines are printed one after another, with others between them or not.
#[track_caller]
pub fn assert_printed(lines: &[String], expected: &[&str]) {
    let mut rest = lines.iter();
    for expected in expected {
        assert!(rest.any(|line| line == expected), "no line {expected:?} here in {lines:#?}");
    }
}
