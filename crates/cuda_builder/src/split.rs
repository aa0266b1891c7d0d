//! One PTX module a kernel.
//!
//! The driver compiles a module as a whole when it is loaded, so a module of all kernels would make the first launch
//! wait for every one of them. Each module gets the header, one entry, and what the entry reaches: device functions,
//! constants, shared variables.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::items::{Kind, items};

/// The modules of a PTX text, by the name of their entry and in the order of the text.
///
/// A global variable that several kernels use is copied into the module of each: they do not share its value.
pub fn split(ptx: &str) -> Result<Vec<(String, String)>, Error> {
    let items = items(ptx)?;
    let mut declarations: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        for name in &item.names {
            declarations.entry(name).or_default().push(index);
        }
    }

    let modules = items.iter().enumerate().filter(|(_, item)| item.kind == Kind::Entry).map(
        |(entry, item)| {
            let mut reached = BTreeSet::from([entry]);
            let mut open = vec![entry];
            while let Some(index) = open.pop() {
                let names = items[index].references.iter().chain(&items[index].names);
                for &next in names.filter_map(|name| declarations.get(name)).flatten() {
                    // An entry's name inside another kernel is only a name.
                    if items[next].kind != Kind::Entry && reached.insert(next) {
                        open.push(next);
                    }
                }
            }

            let mut module = String::new();
            for (index, item) in items.iter().enumerate() {
                if item.kind == Kind::Header || reached.contains(&index) {
                    module.push_str(&ptx[item.span.clone()]);
                    module.push('\n');
                }
            }
            (item.names[0].to_string(), module)
        },
    );
    Ok(modules.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two kernels that share a function, and own a constant, a shared and an undefined variable each or together.
    const TWO_KERNELS: &str = r#"//
// Generated
//
.version 8.0
.target sm_90a
.address_size 64

.extern .shared .align 1024 .b8 dynamic_shared[];
	// .globl	first
.func helper
()
.noreturn;
.func (.param .b32 r) unused(.param .b32 x) { ret; }
.global .align 4 .b8 table_$_1[8] = {0, 0, 0, 63, 0, 0, 0, 191};
.global .align 4 .b8 reached_through_helper[4];
.extern .func vprintf(.param .b64 format);

.visible .entry first(
	.param .b64 first_param_0
)
.maxntid 256
{
	.reg .b32 	%r<4>;
	.shared .align 16 .b8 tile[1024];
	mov.u32 %r1, dynamic_shared;
	mov.u32 %r2, tile;
	{ // callseq 0, 0 {
	call.uni helper, ();
	} // callseq 0 }
	ret;
}
.visible .entry second(
	.param .b64 second_param_0
)
{
	.reg .b64 	%rd<4>;
	// table in a comment: unused
	mov.b64 %rd1, table_$_1;
	call.uni helper, ();
	ret;
}
.func helper()
.noreturn
{
	mov.b64 %rd1, reached_through_helper;
	trap;
}
"#;

    fn modules() -> BTreeMap<String, String> {
        split(TWO_KERNELS).unwrap().into_iter().collect()
    }

    #[test]
    fn one_module_an_entry_in_the_order_of_the_text() {
        let names: Vec<_> = split(TWO_KERNELS).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["first", "second"]);
        for (name, module) in modules() {
            assert_eq!(module.matches(".entry").count(), 1, "{module}");
            assert!(module.contains(&format!(".entry {name}(")), "{module}");
            assert!(
                module.starts_with(".version 8.0\n.target sm_90a\n.address_size 64\n"),
                "{module}"
            );
        }
    }

    #[test]
    fn a_shared_function_is_in_both_with_its_declaration_and_what_it_reaches() {
        for module in modules().values() {
            assert_eq!(module.matches(".func helper").count(), 2, "{module}");
            assert!(module.contains("reached_through_helper[4];"), "{module}");
            assert!(!module.contains("unused(") && !module.contains("vprintf"), "{module}");
        }
    }

    #[test]
    fn variables_go_where_they_are_used() {
        let modules = modules();
        let (first, second) = (&modules["first"], &modules["second"]);
        assert!(first.contains(".extern .shared .align 1024 .b8 dynamic_shared[];"), "{first}");
        assert!(!second.contains("dynamic_shared"), "{second}");
        assert!(second.contains("table_$_1[8] = {0, 0, 0, 63, 0, 0, 0, 191};"), "{second}");
        assert!(!first.contains("table_$_1"), "{first}");
    }

    #[test]
    fn bodies_and_directives_are_kept_whole() {
        let first = &modules()["first"];
        let body = TWO_KERNELS.split_once(".visible .entry first").unwrap().1;
        let body = body.split_once(".visible .entry second").unwrap().0;
        assert!(first.contains(body.trim_end()), "{first}");
    }

    #[test]
    fn a_module_splits_into_itself() {
        for (name, module) in modules() {
            assert_eq!(split(&module).unwrap(), [(name, module)]);
        }
    }

    #[test]
    fn variables_that_point_at_each_other_do_not_loop() {
        let ptx = ".global .u64 a = b;\n.global .u64 b = a;\n.entry k() { mov.b64 %rd1, a; }\n";
        let modules = split(ptx).unwrap();
        assert!(modules[0].1.contains("a = b;") && modules[0].1.contains("b = a;"));
    }
}
