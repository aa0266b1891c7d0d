//! Writes families of rows out: what `regemm_kernels::gemm_kernels!` does before it makes kernels of its rows.

use proc_macro2::{Delimiter, Group, Ident, Spacing, TokenStream, TokenTree};

/// Writes the rows of a family out, and hands all rows to a macro.
///
/// The input is `{ path to the crate } { path to the macro } { what comes before the rows } { rows }`. A row ends with
/// a semicolon. One whose name holds `{L}` is four, of the layouts `Nn`, `Nt`, `Tn` and `Tt` of that crate; one that
/// ends in `for T in [a, b]` is one for each of those types, which `{T}` in its name stands for. So `name{L}_{T} =
/// Kernel<T, 8, L>, .., for T in [f16, bf16];` is eight rows, `name_f16`, `name_nt_f16` and so on, by type and then by
/// layout. `L` and `T` are replaced wherever they stand alone, and names made of them in the rest of the row as in its
/// own. A row that ends in `entry = name` with the name of its own loses that: so one of a family may be the one whose
/// entry the others share.
#[proc_macro]
pub fn families(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    match write_out(input.into()) {
        Ok(rows) => rows.into(),
        Err(Problem(span, text)) => {
            let message = proc_macro2::Literal::string(&text);
            let error: TokenStream = "::core::compile_error!".parse().expect("a path");
            let argument = Group::new(Delimiter::Brace, TokenTree::from(message).into());
            let located = error.into_iter().chain([TokenTree::from(argument)]).map(|mut token| {
                token.set_span(span);
                token
            });
            located.collect::<TokenStream>().into()
        }
    }
}

/// What is wrong with the input, and where.
#[derive(Debug)]
struct Problem(proc_macro2::Span, String);

/// Layouts and what names call them; row-major ones have no name.
const LAYOUTS: [(&str, &str); 4] = [("Nn", ""), ("Nt", "_nt"), ("Tn", "_tn"), ("Tt", "_tt")];

/// The letter that stands for layouts, and that for types.
const LAYOUT: &str = "L";
const TYPE: &str = "T";

fn write_out(input: TokenStream) -> Result<TokenStream, Problem> {
    let mut parts = input.into_iter();
    let mut part = || match parts.next() {
        Some(TokenTree::Group(group)) => Ok(group.stream()),
        other => {
            Err(problem(other.as_ref(), "expected `{ crate } { macro } { heading } { rows }`"))
        }
    };
    let (home, target, mut written, rows) = (part()?, part()?, part()?, part()?);
    for row in split(rows, ';') {
        written.extend(family(&row, &home)?);
    }
    let rows = TokenTree::from(Group::new(Delimiter::Brace, written));
    Ok(target.into_iter().chain([rows]).collect())
}

/// The rows of a family, or the row that is none.
fn family(row: &[TokenTree], home: &TokenStream) -> Result<TokenStream, Problem> {
    let (row, types) = types_of(row)?;
    let has =
        |letter: &str| row.iter().any(|token| placeholder(token).is_some_and(|l| l == letter));
    if let (true, None) = (has(TYPE), &types) {
        return Err(problem(row.first(), "`{T}` needs `for T in [..]` at the row's end"));
    }
    let layouts = if has(LAYOUT) { &LAYOUTS[..] } else { &LAYOUTS[..1] };
    let mut written = TokenStream::new();
    for t in types.map_or(vec![None], |types| types.into_iter().map(Some).collect()) {
        for (layout, infix) in layouts {
            let value = |letter: &str| match letter {
                LAYOUT if has(LAYOUT) => {
                    let path = format!("::layout::{layout}").parse::<TokenStream>();
                    let path = home.clone().into_iter().chain(path.expect("a path"));
                    Some(((*infix).to_owned(), path.collect()))
                }
                TYPE => t.as_ref().map(|t| (t.to_string(), TokenTree::from(t.clone()).into())),
                _ => None,
            };
            written.extend(with_entry(replaced(row, &value)?));
            written.extend(";".parse::<TokenStream>());
        }
    }
    Ok(written)
}

/// A row without `, entry = name` at its end, if that is its own name.
fn with_entry(row: TokenStream) -> TokenStream {
    let tokens: Vec<_> = row.into_iter().collect();
    let words: Vec<_> = tokens.iter().map(ToString::to_string).collect();
    let kept = match &words[..] {
        [name, .., comma, entry, equals, of]
            if (&comma[..], &entry[..], &equals[..]) == (",", "entry", "=") && of == name =>
        {
            tokens.len() - 4
        }
        _ => tokens.len(),
    };
    tokens.into_iter().take(kept).collect()
}

/// Divides the row from `for T in [..]` at its end.
fn types_of(row: &[TokenTree]) -> Result<(&[TokenTree], Option<Vec<Ident>>), Problem> {
    let is = |token: Option<&TokenTree>, word: &str| token.is_some_and(|t| t.to_string() == word);
    let Some(at) = row.iter().position(|token| is(Some(token), "for")) else {
        return Ok((row, None));
    };
    let [comma, rest @ ..] = &row[at.saturating_sub(1)..] else { unreachable!("`for` is there") };
    let [_, letter, word, TokenTree::Group(list)] = rest else {
        return Err(problem(row.get(at), "expected `, for T in [..]` at the row's end"));
    };
    if !is(Some(comma), ",") || !is(Some(letter), TYPE) || !is(Some(word), "in") {
        return Err(problem(row.get(at), "expected `, for T in [..]` at the row's end"));
    }
    let types = split(list.stream(), ',').into_iter().map(|tokens| match &tokens[..] {
        [TokenTree::Ident(name)] => Ok(name.clone()),
        _ => Err(problem(tokens.first(), "expected the name of a type")),
    });
    Ok((&row[..at - 1], Some(types.collect::<Result<_, _>>()?)))
}

/// The tokens with all letters replaced by what `value` gives for them: a part of a name, and what stands in types.
fn replaced(
    tokens: &[TokenTree],
    value: &impl Fn(&str) -> Option<(String, TokenStream)>,
) -> Result<TokenStream, Problem> {
    let mut written = TokenStream::new();
    let mut rest = tokens;
    while let [token, after @ ..] = rest {
        rest = after;
        match token {
            TokenTree::Ident(name) if after.first().and_then(placeholder).is_some() => {
                let mut text = name.to_string();
                while let [token, after @ ..] = rest {
                    match (token, placeholder(token)) {
                        (_, Some(letter)) => {
                            let part = value(&letter);
                            text +=
                                &part.ok_or_else(|| problem(Some(token), "nothing to put here"))?.0;
                        }
                        (TokenTree::Ident(more), None) if more.to_string().starts_with('_') => {
                            text += &more.to_string();
                        }
                        _ => break,
                    }
                    rest = after;
                }
                written.extend([TokenTree::from(Ident::new(&text, name.span()))]);
            }
            TokenTree::Ident(name) => match value(&name.to_string()) {
                Some((_, tokens)) => written.extend(tokens),
                None => written.extend([token.clone()]),
            },
            TokenTree::Group(group) => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                let mut group = Group::new(group.delimiter(), replaced(&inner, value)?);
                group.set_span(token.span());
                written.extend([TokenTree::from(group)]);
            }
            _ => written.extend([token.clone()]),
        }
    }
    Ok(written)
}

/// The letter of `{L}` or `{T}`.
fn placeholder(token: &TokenTree) -> Option<String> {
    let TokenTree::Group(group) = token else { return None };
    if group.delimiter() != Delimiter::Brace {
        return None;
    }
    let mut inner = group.stream().into_iter();
    match (inner.next(), inner.next()) {
        (Some(TokenTree::Ident(letter)), None) => {
            Some(letter.to_string()).filter(|letter| [LAYOUT, TYPE].contains(&letter.as_str()))
        }
        _ => None,
    }
}

/// What lies between tokens of punctuation; nothing after the last one.
fn split(tokens: TokenStream, at: char) -> Vec<Vec<TokenTree>> {
    let mut parts = vec![Vec::new()];
    for token in tokens {
        match &token {
            TokenTree::Punct(mark) if mark.as_char() == at && mark.spacing() == Spacing::Alone => {
                parts.push(Vec::new());
            }
            _ => parts.last_mut().expect("there is always one").push(token),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn problem(token: Option<&TokenTree>, text: &str) -> Problem {
    Problem(token.map_or_else(proc_macro2::Span::call_site, TokenTree::span), text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &str) -> Result<String, String> {
        let input = format!("{{ home }} {{ target! }} {{ TABLE: }} {{ {rows} }}").parse().unwrap();
        write_out(input).map(|tokens| tokens.to_string()).map_err(|Problem(_, text)| text)
    }

    /// As tokens are written.
    fn plain(rows: &str) -> String {
        format!("target! {{ TABLE: {rows} }}").parse::<TokenStream>().unwrap().to_string()
    }

    #[test]
    fn a_row_without_letters_stays_as_it_is() {
        let row = "a_f32 = Kernel<f32, { 1 + 1 }>, min_blocks = 2;";
        assert_eq!(rows(row).unwrap(), plain(row));
    }

    #[test]
    fn layouts_are_part_of_names_and_types() {
        let written = rows("k{L}_f32 = K<L, 2>;").unwrap();
        let expected =
            [("k_f32", "Nn"), ("k_nt_f32", "Nt"), ("k_tn_f32", "Tn"), ("k_tt_f32", "Tt")]
                .map(|(name, layout)| format!("{name} = K<home::layout::{layout}, 2>;"));
        assert_eq!(written, plain(&expected.concat()));
    }

    #[test]
    fn types_come_before_layouts() {
        let written =
            rows("k{L}_{T}_x = K<T, L>, r = r_{T}, entry = k{L}_{T}, for T in [f16, bf16];");
        let mut expected = String::new();
        for t in ["f16", "bf16"] {
            for (layout, infix) in LAYOUTS {
                expected += &format!(
                    "k{infix}_{t}_x = K<{t}, home::layout::{layout}>, r = r_{t}, entry = k{infix}_{t};"
                );
            }
        }
        assert_eq!(written.unwrap(), plain(&expected));
    }

    #[test]
    fn one_of_a_family_has_the_entry_of_all() {
        let written = rows("k{L}_f32 = K<Tn, L>, factors = mapped, entry = k_tn_f32;").unwrap();
        let mut expected = String::new();
        for (layout, infix) in LAYOUTS {
            let entry = if infix == "_tn" { "" } else { ", entry = k_tn_f32" };
            expected +=
                &format!("k{infix}_f32 = K<Tn, home::layout::{layout}>, factors = mapped{entry};");
        }
        assert_eq!(written, plain(&expected));
    }

    #[test]
    fn types_alone_are_enough() {
        let written = rows("k_{T} = K<T>, for T in [f32, f64]; l = L;").unwrap();
        assert_eq!(written, plain("k_f32 = K<f32>; k_f64 = K<f64>; l = L;"));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(rows("k_{T} = K<T>;").unwrap_err().contains("for T in"));
        assert!(rows("k_{T} = K<T> for T in [f32];").unwrap_err().contains("row's end"));
        assert!(rows("k_{T} = K<T>, for U in [f32];").unwrap_err().contains("row's end"));
        assert!(rows("k_{T} = K<T>, for T in [a::b];").unwrap_err().contains("name of a type"));
        let input = "no groups".parse().unwrap();
        assert!(write_out(input).unwrap_err().1.contains("expected"));
    }
}
