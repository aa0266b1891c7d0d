//! The top level of a PTX text: header lines, variables, functions. Only as much of the grammar as splitting needs
//! (PTX ISA, sections 4 and 5).

use std::collections::BTreeSet;
use std::ops::Range;

use crate::error::Error;

/// A word (name, number, directive or instruction) or a single character of punctuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// Its text.
    pub text: &'a str,
    /// Its first byte in the whole text.
    pub start: usize,
}

/// The tokens of a text; comments and strings are passed over.
pub struct Tokens<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Tokens<'a> {
    /// All tokens from the first byte on.
    pub fn new(text: &'a str) -> Self {
        Tokens { text, position: 0 }
    }

    /// Moves to the first position at or after the current one that `found` accepts, or to the end.
    fn skip_to(&mut self, pattern: &str, keep_pattern: bool) {
        let rest = &self.text[self.position..];
        self.position += match rest.find(pattern) {
            Some(offset) if keep_pattern => offset,
            Some(offset) => offset + pattern.len(),
            None => rest.len(),
        };
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_$%.".contains(&byte) || !byte.is_ascii()
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let bytes = self.text.as_bytes();
        loop {
            let start = self.position;
            let rest = &bytes[start..];
            let first = *rest.first()?;
            if first.is_ascii_whitespace() {
                self.position += 1;
            } else if rest.starts_with(b"//") {
                self.skip_to("\n", true);
            } else if rest.starts_with(b"/*") {
                self.position += 2;
                self.skip_to("*/", false);
            } else if first == b'"' {
                self.position += 1;
                self.skip_to("\"", false);
            } else {
                let length = rest.iter().take_while(|&&byte| is_word(byte)).count().max(1);
                self.position += length;
                return Some(Token { text: &self.text[start..start + length], start });
            }
        }
    }
}

/// What a top-level item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A line of the header, or anything without a name: belongs to every module.
    Header,
    /// A kernel.
    Entry,
    /// A device function or its declaration.
    Function,
    /// A variable, or its declaration.
    Variable,
    /// Another name of a function.
    Alias,
}

/// A top-level item of a PTX text.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// What it is.
    pub kind: Kind,
    /// The names it declares.
    pub names: Vec<&'a str>,
    /// Every other name in it: what it may refer to.
    pub references: BTreeSet<&'a str>,
    /// Its bytes in the whole text.
    pub span: Range<usize>,
    /// Where its body begins (the position of `{`), for functions.
    pub body: Option<usize>,
}

/// Directives that end with their line.
const LINE_DIRECTIVES: [&str; 5] = [".version", ".target", ".address_size", ".file", ".pragma"];

/// The items of a text, in order.
pub fn items(text: &str) -> Result<Vec<Item<'_>>, Error> {
    let mut tokens = Tokens::new(text);
    let mut items = Vec::new();
    while let Some(first) = tokens.next() {
        let item = if LINE_DIRECTIVES.contains(&first.text) {
            tokens.position = first.start;
            tokens.skip_to("\n", true);
            Item {
                kind: Kind::Header,
                names: Vec::new(),
                references: BTreeSet::new(),
                span: first.start..tokens.position,
                body: None,
            }
        } else if first.text == ".section" {
            return Err(problem(text, first.start, "debug sections cannot be split by kernel"));
        } else {
            read_item(text, first, &mut tokens)?
        };
        items.push(item);
    }
    Ok(items)
}

/// Reads on to the end of an item: the `;` or, for a function with a body, the `}` at the top level.
fn read_item<'a>(
    text: &'a str,
    first: Token<'a>,
    tokens: &mut Tokens<'a>,
) -> Result<Item<'a>, Error> {
    let mut declared = Vec::new();
    let mut references = BTreeSet::new();
    let (mut entry, mut function, mut alias) = (false, false, false);
    let mut body = None;
    let mut depth = 0u32;
    // After `=` names are references until the next declarator.
    let mut initializer = false;

    let mut next = Some(first);
    while let Some(token) = next {
        let end = token.start + token.text.len();
        match token.text {
            ".entry" => entry = true,
            ".func" => function = true,
            ".alias" => alias = true,
            "(" | "[" | "{" => {
                if token.text == "{" && depth == 0 && (entry || function) {
                    body = Some(token.start);
                }
                depth += 1;
            }
            ")" | "]" | "}" => {
                depth = depth
                    .checked_sub(1)
                    .ok_or_else(|| problem(text, token.start, "a bracket closes nothing"))?;
            }
            "=" => initializer = true,
            "," if depth == 0 => initializer = false,
            word if is_name(word) => {
                // A function has one name, the first outside brackets; an alias names its target second.
                let several = !(entry || function || alias);
                if depth == 0 && !initializer && (several || declared.is_empty()) {
                    declared.push(word);
                } else {
                    references.insert(word);
                }
            }
            _ => {}
        }
        let ends_body = token.text == "}" && body.is_some();
        if depth == 0 && (token.text == ";" || ends_body) {
            let kind = match (entry, declared.is_empty()) {
                (true, false) => Kind::Entry,
                (true, true) => return Err(problem(text, first.start, "an entry has no name")),
                (false, true) => Kind::Header,
                _ if alias => Kind::Alias,
                _ if function => Kind::Function,
                _ => Kind::Variable,
            };
            return Ok(Item { kind, names: declared, references, span: first.start..end, body });
        }
        next = tokens.next();
    }
    Err(problem(text, first.start, "this item does not end"))
}

/// Whether a word is a name: not a number, a directive or a register.
fn is_name(word: &str) -> bool {
    word.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || b"_$".contains(&byte))
}

/// An error at a byte of the text.
pub fn problem(text: &str, position: usize, problem: impl Into<String>) -> Error {
    let line = text[..position].matches('\n').count() + 1;
    Error::Ptx { line, problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_comments_and_strings_do_not_count() {
        let text = ".version 7.0\n// { (\n.pragma \"{\";\n\
                    .entry k() /* } */ { .pragma \"}\"; // }\nret; }\n.global .b32 g;";
        let items = items(text).unwrap();
        let kinds: Vec<_> = items.iter().map(|item| item.kind).collect();
        assert_eq!(kinds, [Kind::Header, Kind::Header, Kind::Entry, Kind::Variable]);
        assert!(text[items[2].span.clone()].ends_with("ret; }"));
        assert_eq!(items[3].names, ["g"]);
    }

    #[test]
    fn names_of_variables_are_told_from_their_initializers() {
        let text = ".global .align 8 .b8 a[16] = {1, 2}, b;\n.const .u64 p = generic(a);";
        let items = items(text).unwrap();
        assert_eq!(items[0].names, ["a", "b"]);
        assert_eq!(items[1].names, ["p"]);
        assert!(items[1].references.contains("a"));
    }

    #[test]
    fn a_function_is_named_after_its_return_parameter() {
        let text = ".visible .func (.param .b32 result) f\n(\n.param .b64 x\n)\n.noreturn;";
        let items = items(text).unwrap();
        assert_eq!((items[0].kind, &*items[0].names), (Kind::Function, &["f"][..]));
        assert_eq!(items[0].body, None);
    }

    #[test]
    fn an_error_names_the_line() {
        let error = items(".version 7.0\n.entry k()\n{ ret;\n").unwrap_err();
        assert!(matches!(error, Error::Ptx { line: 2, .. }), "{error}");
        assert!(items(".global .b32 x };").is_err());
        assert!(items(".section .debug_info { }").is_err());
    }
}
