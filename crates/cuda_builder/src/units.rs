//! One PTX text of those of several codegen units.
//!
//! rustc divides a crate into units, compiles them at the same time, and writes a text for each. What one refers to in
//! another is `.extern` there and `.visible` here (PTX ISA, section 11.6); a text that is loaded by itself has to
//! declare it before its use and to define it once. What has no linkage belongs to its unit alone, and another may have
//! something else of the same name.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::directives;
use crate::error::Error;
use crate::items::{Item, Kind, Tokens, items};

/// Who knows the names that an item declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linkage {
    /// All units. It is defined in another one, or by nobody.
    Extern,
    /// All units. It is defined here, and where it is `.weak` maybe in others as well.
    Shared,
    /// This unit.
    Internal,
}

impl Linkage {
    fn of(item: &str) -> Self {
        match first_word(item) {
            ".extern" => Linkage::Extern,
            ".visible" | ".weak" | ".common" => Linkage::Shared,
            _ => Linkage::Internal,
        }
    }
}

/// The word that says the linkage of an item, where it has one.
fn first_word(item: &str) -> &str {
    item.split_whitespace().next().unwrap_or_default()
}

/// The joined text, as it comes into being.
#[derive(Default)]
struct Joined {
    /// Version and target, our lines, and declarations of functions.
    first: String,
    /// With the names that they declare, and other names in them.
    variables: Vec<(String, Vec<String>, BTreeSet<String>)>,
    /// What has a body.
    bodies: String,
    /// What is there once.
    there: BTreeSet<String>,
}

impl Joined {
    /// Whether this is the first time.
    fn is_first(&mut self, of: &str) -> bool {
        self.there.insert(of.to_owned())
    }

    /// Writes a variable behind those that it refers to, unless it has been written.
    fn write_variable(&self, index: usize, written: &mut BTreeSet<usize>, to: &mut String) {
        if !written.insert(index) {
            return;
        }
        let (text, _, references) = &self.variables[index];
        for (before, (_, names, _)) in self.variables.iter().enumerate() {
            if names.iter().any(|name| references.contains(name)) {
                self.write_variable(before, written, to);
            }
        }
        to.push_str(text);
        to.push('\n');
    }

    fn finish(self) -> String {
        let mut text = self.first.clone();
        let mut written = BTreeSet::new();
        for index in 0..self.variables.len() {
            self.write_variable(index, &mut written, &mut text);
        }
        text + &self.bodies
    }
}

/// One text of those of all units of a compilation.
pub fn join(units: &[String]) -> Result<String, Error> {
    if let [unit] = units {
        return Ok(unit.clone());
    }
    let parsed = units.iter().map(|unit| items(unit)).collect::<Result<Vec<_>, _>>()?;
    let of_units = || units.iter().zip(&parsed);
    let definitions = of_units()
        .flat_map(|(unit, items)| items.iter().map(move |item| (text_of(unit, item), item)))
        .filter(|(text, item)| Linkage::of(text) == Linkage::Shared && is_definition(item));
    // With the linkage of the first definition, which is the one that is written.
    let mut shared = BTreeMap::new();
    for (text, item) in definitions {
        for &name in &item.names {
            shared.entry(name).or_insert_with(|| first_word(text));
        }
    }

    let mut joined = Joined::default();
    let mut taken = shared.keys().map(|name| valid(name)).collect();
    for (unit, items) in of_units() {
        let renamed = new_names(unit, items, &mut taken);
        for item in items {
            let text = text_of(unit, item);
            let linkage = Linkage::of(text);
            let is_elsewhere = linkage == Linkage::Extern
                && item.names.iter().all(|name| shared.contains_key(name));
            let mut text = with_names(text, &renamed);
            match item.kind {
                Kind::Variable if is_elsewhere => {}
                Kind::Variable => {
                    if joined.is_first(&text) {
                        let name = |name: &&str| with_names(name, &renamed).into_owned();
                        let names = item.names.iter().map(name).collect();
                        let references = item.references.iter().map(name).collect();
                        joined.variables.push((text.into_owned(), names, references));
                    }
                }
                Kind::Function if item.body.is_none() => {
                    if is_elsewhere {
                        // Declared as what it is, since its definition follows.
                        text = text.replacen(".extern", shared[item.names[0]], 1).into();
                    }
                    if joined.is_first(&text) {
                        joined.first += &text;
                        joined.first.push('\n');
                    }
                }
                Kind::Header => {
                    if joined.is_first(&text) {
                        joined.first += &text;
                        joined.first.push('\n');
                    }
                }
                Kind::Entry | Kind::Function | Kind::Alias => {
                    let is_shared = linkage == Linkage::Shared;
                    if !is_shared || joined.is_first(item.names[0]) {
                        joined.bodies += &text;
                        joined.bodies.push('\n');
                    }
                }
            }
        }
        for line in directives::lines(unit) {
            joined.first += line;
            joined.first.push('\n');
        }
    }
    Ok(joined.finish())
}

fn text_of<'a>(unit: &'a str, item: &Item<'_>) -> &'a str {
    &unit[item.span.clone()]
}

/// Whether an item is more than the declaration of a function.
fn is_definition(item: &Item<'_>) -> bool {
    item.kind != Kind::Function || item.body.is_some()
}

/// New names for what a unit declares: of what belongs to it alone those that are `taken`, of which there are more
/// after this, and of what others know those that PTX does not take.
fn new_names<'a>(
    unit: &str,
    items: &[Item<'a>],
    taken: &mut BTreeSet<String>,
) -> BTreeMap<&'a str, String> {
    let mut renamed = BTreeMap::new();
    for item in items {
        let is_internal = Linkage::of(text_of(unit, item)) == Linkage::Internal;
        for &name in &item.names {
            if !is_internal {
                renamed.insert(name, valid(name));
            } else if item.kind != Kind::Entry && !renamed.contains_key(name) {
                let free = (1..).map(|i| format!("{name}_${i}"));
                let mut free = std::iter::once(name.to_owned()).chain(free);
                let free = free.find(|name| !taken.contains(name));
                let free = free.expect("there is always another number");
                taken.insert(free.clone());
                renamed.insert(name, free);
            }
        }
    }
    renamed.retain(|old, new| old != new);
    renamed
}

/// The name of what several units know. LLVM puts dots into some, which PTX has only at the beginning of directives
/// (section 4.4, "Identifiers"), and leaves them where another unit may know the name.
fn valid(name: &str) -> String {
    name.replace('.', "_$_")
}

/// A text with other names.
fn with_names<'a>(text: &'a str, names: &BTreeMap<&str, String>) -> Cow<'a, str> {
    if names.is_empty() {
        return text.into();
    }
    let mut changed = String::new();
    let mut copied = 0;
    for token in Tokens::new(text) {
        if let Some(name) = names.get(token.text) {
            changed += &text[copied..token.start];
            changed += name;
            copied = token.start + token.text.len();
        }
    }
    if copied == 0 { text.into() } else { (changed + &text[copied..]).into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::split;

    const HEADER: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n";

    fn joined(units: &[&str]) -> String {
        join(&units.iter().map(|unit| format!("{HEADER}{unit}")).collect::<Vec<_>>()).unwrap()
    }

    /// The modules of the joined text.
    fn modules(units: &[&str]) -> BTreeMap<String, String> {
        split(&joined(units)).unwrap().into_iter().collect()
    }

    /// Where the first and only of these is.
    fn place(text: &str, of: &str) -> usize {
        assert_eq!(text.matches(of).count(), 1, "{of} in\n{text}");
        text.find(of).unwrap()
    }

    #[test]
    fn one_unit_is_what_it_was() {
        let unit = "// a comment\n.entry k() { ret; }\n".to_owned();
        assert_eq!(join(std::slice::from_ref(&unit)).unwrap(), unit);
    }

    #[test]
    fn all_units_are_there_under_one_header() {
        let modules =
            modules(&[".entry a() { ret; }", "", "\n.extern .func unused();\n.entry b() { ret; }"]);
        for name in ["a", "b"] {
            assert_eq!(modules[name], format!("{HEADER}.entry {name}() {{ ret; }}\n"));
        }
    }

    #[test]
    fn what_another_unit_defines_is_declared_before_its_use_and_defined_once() {
        let uses = ".extern .func f();\n.extern .global .b8 g[4];\n.entry {} { mov.b64 %rd1, g; call.uni f, (); }";
        let [a, b] = ["a()", "b()"].map(|name| uses.replace("{}", name));
        let defines =
            ".extern .global .u64 h;\n.visible .global .u64 g = h;\n.visible .func f() { ret; }";
        let h = ".visible .global .u64 h;";
        for units in [[&*a, &*b, defines, h], [h, defines, &*b, &*a]] {
            for (name, module) in modules(&units) {
                assert!(!module.contains(".extern"), "{module}");
                let order =
                    [".visible .func f();", ".u64 h;", ".u64 g = h;", &format!(".entry {name}()")];
                let order = order.map(|of| place(&module, of));
                assert!(order.is_sorted(), "{module}");
                place(&module, ".visible .func f() { ret; }");
            }
        }
    }

    #[test]
    fn what_nobody_defines_stays_outside_and_is_declared_once() {
        let units = ["a", "b"].map(|name| {
            format!(".extern .shared .b8 all[];\n.entry {name}() {{ mov.b32 %r1, all; }}")
        });
        let joined = joined(&[&units[0], &units[1]]);
        place(&joined, ".extern .shared .b8 all[];");
    }

    #[test]
    fn what_belongs_to_a_unit_stays_apart_from_others_of_its_name() {
        let unit = |entry: &str, value: u32| {
            format!(
                ".func helper();\n.global .b32 table = {value};\n.func helper() {{ mov.b32 %r1, table; }}\n\
                 .entry {entry}() {{ call.uni helper, (); // helper\n}}"
            )
        };
        let shared = ".visible .func helper_$1() { ret; }";
        let modules = modules(&[&unit("a", 1), shared, &unit("b", 2), &unit("c", 3)]);
        for (value, name) in [(1, "a"), (2, "b"), (3, "c")] {
            let module = &modules[name];
            assert_eq!(module.matches(".global").count(), 1, "{module}");
            assert!(module.contains(&format!("= {value};")), "{module}");
            assert_eq!(module.matches(".func").count(), 2, "{module}");
            let again = split(module).unwrap();
            assert_eq!(again[0].1, *module);
        }
        assert!(modules["a"].contains("call.uni helper, ();"), "{}", modules["a"]);
        assert!(modules["b"].contains("call.uni helper_$2, (); // helper\n"), "{}", modules["b"]);
    }

    #[test]
    fn names_that_ptx_does_not_take_are_others() {
        let defines = ".visible .global .b8 anon.1.llvm.2[4];\n.visible .global .u64 to = generic(anon.1.llvm.2);";
        let uses = ".extern .global .u64 to;\n.extern .global .b8 anon.1.llvm.2[4];\n\
                    .entry k() { ld.global.b64 %rd1, [to]; mov.b64 %rd2, anon.1.llvm.2; ret; }";
        let module = &modules(&[uses, defines])["k"];
        assert!(!module.contains("anon.1"), "{module}");
        assert!(module.contains("generic(anon_$_1_$_llvm_$_2);"), "{module}");
        assert!(module.contains("mov.b64 %rd2, anon_$_1_$_llvm_$_2;"), "{module}");
        place(module, ".global .b8 anon_$_1_$_llvm_$_2[4];");
    }

    #[test]
    fn what_is_weak_is_defined_once() {
        let unit =
            |name| format!(".weak .func w() {{ ret; }}\n.entry {name}() {{ call.uni w, (); }}");
        place(&joined(&[&unit("a"), &unit("b")]), ".weak .func w()");
    }

    /// ptxas refuses a function that is declared `.visible` and then defined `.weak`.
    #[test]
    fn what_another_unit_defines_weakly_is_declared_so() {
        let uses = ".extern .func w();\n.entry a() { call.uni w, (); }";
        let joined = joined(&[uses, ".weak .func w() { ret; }"]);
        place(&joined, ".weak .func w();");
        place(&joined, ".weak .func w() { ret; }");
        assert!(!joined.contains(".visible") && !joined.contains(".extern"), "{joined}");
    }

    #[test]
    fn launch_bounds_may_come_from_another_unit_than_the_entry() {
        let joined = joined(&[".entry k() { ret; }", "// cuda_builder: k .maxntid 32\n"]);
        let module = directives::apply(&joined).unwrap();
        assert!(module.contains(".entry k() .maxntid 32\n{ ret; }"), "{module}");
    }
}
