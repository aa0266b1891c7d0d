//! The attributes of `cuda_std`: `#[kernel]` and `#[device_inline]`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, FnArg, Ident, ItemFn, Pat, Signature, Token, Type, Visibility,
    parse_macro_input,
};

/// Launch bounds: the arguments of the attribute.
#[derive(Default)]
struct LaunchBounds {
    max_threads: Option<Expr>,
    min_blocks: Option<Expr>,
    max_registers: Option<Expr>,
    cluster: Option<Expr>,
    early_start: bool,
}

impl Parse for LaunchBounds {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        struct Bound(Ident, Option<Expr>);
        impl Parse for Bound {
            fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
                let name = input.parse()?;
                let value =
                    input.parse::<Option<Token![=]>>()?.map(|_| input.parse()).transpose()?;
                Ok(Bound(name, value))
            }
        }

        let mut bounds = LaunchBounds::default();
        for Bound(name, value) in Punctuated::<Bound, Token![,]>::parse_terminated(input)? {
            let twice = || syn::Error::new(name.span(), "this is given twice");
            let slot = match name.to_string().as_str() {
                "max_threads" => &mut bounds.max_threads,
                "min_blocks" => &mut bounds.min_blocks,
                "max_registers" => &mut bounds.max_registers,
                "cluster" => &mut bounds.cluster,
                "early_start" => {
                    if value.is_some() {
                        return Err(syn::Error::new_spanned(value, "`early_start` has no value"));
                    }
                    if std::mem::replace(&mut bounds.early_start, true) {
                        return Err(twice());
                    }
                    continue;
                }
                _ => {
                    return Err(syn::Error::new(
                        name.span(),
                        "expected `max_threads`, `min_blocks`, `max_registers`, `cluster` or `early_start`",
                    ));
                }
            };
            let Some(value) = value else {
                return Err(syn::Error::new(name.span(), format!("expected `{name} = value`")));
            };
            if slot.replace(value).is_some() {
                return Err(twice());
            }
        }
        if let (Some(min_blocks), None) = (&bounds.min_blocks, &bounds.max_threads) {
            return Err(syn::Error::new_spanned(
                min_blocks,
                "`min_blocks` needs `max_threads`: together they bound the registers of a thread",
            ));
        }
        Ok(bounds)
    }
}

/// Makes a function a kernel: an entry of the PTX module on the device, a launchable
/// [`KernelEntry`](../cuda_std/entry/struct.KernelEntry.html) on the host.
///
/// ```text
/// #[kernel(max_threads = 256, min_blocks = 2)]
/// pub unsafe fn scale(x: GlobalPtr<f32>, factor: f32, len: u32) { .. }
/// ```
///
/// The function must be `unsafe`, not generic, and return nothing; its parameters must be `Copy`, take at least a byte
/// each (PTX has none that take nothing), and are passed by value. The optional bounds are constant expressions of type
/// `u32` and become the PTX directives `.maxntid`, `.minnctapersm` and `.maxnreg` (PTX ISA, section 11.4):
/// `max_threads` threads in a block at most, `min_blocks` blocks resident on a multiprocessor at least, `max_registers`
/// registers a thread at most. Where a multiprocessor of the architecture cannot hold `min_blocks` blocks of
/// `max_threads`, for its threads or for the number of blocks, as many as it can hold are asked for. A later GPU that
/// runs the same PTX may hold fewer (1,536 threads of 8.6, 8.9 and 12.0 beside 2,048 of 8.0): there the bound is left
/// out of account, and a thread may take more registers.
///
/// With `cluster = n` each `n` blocks that follow each other along x are a [cluster](../cuda_std/cluster/index.html),
/// which a launch need not ask for (`.reqnctapercluster`); the grid must be a multiple of that. On targets without
/// clusters, and for 1, blocks are on their own.
///
/// With `early_start` a launch may begin before the one before it on its stream has ended; the kernel
/// [waits](../cuda_std/early_start/fn.wait.html) for that before it touches global memory.
///
/// A parameter `#[grid_constant] name: &T` stays where the launch put it, and the kernel gets a reference to that:
/// `__grid_constant__` of CUDA C++. It is how [`TensorMap`](../cuda_std/bulk_copy/struct.TensorMap.html)s are passed,
/// whose address copies need. A launch passes a `T`, as for any other parameter. It needs PTX ISA 7.7, which rustc
/// writes for sm_90a; on older targets the launch of such a kernel ends at once.
///
/// The attribute adds a module of the function's name. On the host it has one constant, `ENTRY`; on the device it has
/// the entry.
///
/// On the device the crate must enable `#![feature(abi_ptx, asm_experimental_arch)]`.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let bounds = parse_macro_input!(attribute as LaunchBounds);
    let function = parse_macro_input!(item as ItemFn);
    expand(bounds, function).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a function part of each of its callers on the device, for good.
///
/// There a call takes more than most of what kernels call, and what is passed by reference would lie in local memory.
/// On the host it is left to the compiler: a kernel is hundreds of small functions, and a library is hundreds of
/// kernels, so with all of them written out in each the simulator's copy of the kernels takes minutes to compile. The
/// functions of `cuda_std` itself, which kernels call most, are written out on both: without, the simulator takes a
/// third longer.
#[proc_macro_attribute]
pub fn device_inline(_: TokenStream, item: TokenStream) -> TokenStream {
    let attribute = quote!(#[cfg_attr(target_arch = "nvptx64", inline(always))]);
    [attribute.into(), item].into_iter().collect()
}

/// What the address of a grid constant is a multiple of: as much as a tensor map needs.
const GRID_CONSTANT_ALIGNMENT: u32 = 64;

/// A parameter of a kernel.
struct Parameter {
    /// What a launch passes.
    passed: Type,
    /// Whether the kernel gets a reference to it, where the launch has put it.
    grid_constant: bool,
}

impl Parameter {
    fn new(input: &FnArg) -> syn::Result<Self> {
        let FnArg::Typed(typed) = input else {
            return Err(syn::Error::new_spanned(input, "a kernel is not a method"));
        };
        if !typed.attrs.iter().any(is_grid_constant) {
            return Ok(Parameter { passed: (*typed.ty).clone(), grid_constant: false });
        }
        match (&*typed.pat, &*typed.ty) {
            (Pat::Ident(_), Type::Reference(reference)) if reference.mutability.is_none() => {
                Ok(Parameter { passed: (*reference.elem).clone(), grid_constant: true })
            }
            _ => Err(syn::Error::new_spanned(input, "a grid constant is `name: &Type`")),
        }
    }
}

fn is_grid_constant(attribute: &Attribute) -> bool {
    attribute.path().is_ident("grid_constant")
}

fn expand(bounds: LaunchBounds, function: ItemFn) -> syn::Result<TokenStream2> {
    let ItemFn { attrs, vis, sig, block } = &function;
    check(sig)?;
    let name = &sig.ident;
    let parameters = sig.inputs.iter().map(Parameter::new).collect::<syn::Result<Vec<_>>>()?;
    let mut inputs = sig.inputs.clone();
    for input in &mut inputs {
        if let FnArg::Typed(typed) = input {
            typed.attrs.retain(|attribute| !is_grid_constant(attribute));
        }
    }
    let directives = directives(name, &bounds);
    let of_parameters = checks_of_parameters(name, &parameters);
    let entry = entry(name, &parameters);
    let host = host_module(name, vis, &bounds, &parameters);
    Ok(quote! {
        #directives
        #of_parameters

        #(#attrs)*
        #[cfg_attr(target_arch = "nvptx64", inline(always))]
        #vis unsafe fn #name(#inputs) #block

        #entry
        #host
    })
}

/// Refuses functions that cannot be kernels.
fn check(sig: &Signature) -> syn::Result<()> {
    if sig.unsafety.is_none() {
        return Err(syn::Error::new_spanned(&sig.ident, "a kernel must be an `unsafe fn`"));
    }
    if !sig.generics.params.is_empty() {
        return Err(syn::Error::new_spanned(
            &sig.generics,
            "a kernel is one entry of the PTX module and cannot be generic: call a generic function from it",
        ));
    }
    if !matches!(sig.output, syn::ReturnType::Default) {
        return Err(syn::Error::new_spanned(&sig.output, "a kernel returns nothing"));
    }
    Ok(())
}

/// The lines that ask `cuda_builder` for the directives of launch bounds: it reads them from the assembly and moves the
/// directives to the entry.
fn directives(name: &Ident, bounds: &LaunchBounds) -> TokenStream2 {
    let directives = [
        (".maxntid", &bounds.max_threads),
        (".minnctapersm", &bounds.min_blocks),
        (".maxnreg", &bounds.max_registers),
        (".reqnctapercluster", &bounds.cluster),
    ];
    let lines = directives.iter().filter_map(|(directive, value)| {
        let value = value.as_ref()?;
        let value = match (*directive, &bounds.max_threads) {
            (".minnctapersm", Some(max_threads)) => {
                quote!(::cuda_std::registers::blocks_that_fit(#max_threads, #value))
            }
            (".reqnctapercluster", _) => quote!(::cuda_std::backend::blocks_of_cluster(#value)),
            _ => quote!(#value),
        };
        let line = format!("// cuda_builder: {name} {directive} {{value}}");
        Some(quote! {
            #[cfg(target_arch = "nvptx64")]
            ::core::arch::global_asm!(#line, value = const { let value: u32 = #value; value });
        })
    });
    quote!(#(#lines)*)
}

/// What is asked of parameters: of `cuda_builder` an alignment, of their types that they take any room.
fn checks_of_parameters(name: &Ident, parameters: &[Parameter]) -> TokenStream2 {
    // The compiler does not align a parameter to more than 16 bytes.
    let constants = parameters.iter().enumerate().filter(|(_, of)| of.grid_constant);
    let alignments = constants.map(|(index, _)| {
        let line =
            format!("// cuda_builder: {name} .param {index} .align {GRID_CONSTANT_ALIGNMENT}");
        quote! {
            #[cfg(target_arch = "nvptx64")]
            ::core::arch::global_asm!(#line);
        }
    });
    // One that takes nothing would not be there, and those behind it be counted wrong.
    let sizes = parameters.iter().map(|Parameter { passed, .. }| {
        let message = format!("a parameter of the kernel `{name}` takes no bytes");
        quote!(
            const _: () = assert!(::core::mem::size_of::<#passed>() > 0, #message);
        )
    });
    quote!(#(#alignments)* #(#sizes)*)
}

/// The entry on the device.
fn entry(name: &Ident, parameters: &[Parameter]) -> TokenStream2 {
    let names = (0..parameters.len()).map(|index| format_ident!("argument_{index}"));
    let names = names.collect::<Vec<_>>();
    let types = parameters.iter().map(|parameter| &parameter.passed);
    let arguments = parameters.iter().enumerate().map(|(index, parameter)| {
        let (Parameter { passed, .. }, argument) = (parameter, &names[index]);
        if parameter.grid_constant {
            // The compiler's name for the parameter.
            let symbol = format!("{name}_param_{index}");
            quote!({
                let _ = #argument;
                &*(::cuda_std::__parameter_address!(#symbol) as *const #passed)
            })
        } else {
            quote!(#argument)
        }
    });
    quote! {
        // rustc divides a crate into units that are compiled at the same time by modules: each entry has one of its
        // own.
        #[cfg(target_arch = "nvptx64")]
        mod #name {
            // For the types of parameters.
            #[allow(unused_imports)]
            use super::*;

            #[unsafe(no_mangle)]
            pub unsafe extern "ptx-kernel" fn #name(#(#names: #types),*) {
                // SAFETY: the launch keeps the kernel's contract.
                unsafe { super::#name(#(#arguments),*) }
            }
        }
    }
}

/// The kernel as the host sees it.
fn host_module(
    name: &Ident,
    vis: &Visibility,
    bounds: &LaunchBounds,
    parameters: &[Parameter],
) -> TokenStream2 {
    let bound = |value: &Option<Expr>| match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    };
    let max_threads = bound(&bounds.max_threads);
    let min_blocks = bound(&bounds.min_blocks);
    let max_registers = bound(&bounds.max_registers);
    let early_start = bounds.early_start;
    let cluster = bounds.cluster.as_ref().map_or_else(|| quote!(1), |value| quote!(#value));
    let types = parameters.iter().map(|parameter| &parameter.passed);
    let arguments = parameters.iter().enumerate().map(|(index, parameter)| {
        let passed = &parameter.passed;
        if parameter.grid_constant {
            quote!(&*arguments[#index].cast::<#passed>())
        } else {
            quote!(*arguments[#index].cast::<#passed>())
        }
    });
    quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = concat!("How the host launches [`", stringify!(#name), "`](fn@", stringify!(#name), ").")]
        #vis mod #name {
            // For the types of parameters.
            #[allow(unused_imports)]
            use super::*;

            /// The kernel as the host sees it.
            pub const ENTRY: ::cuda_std::entry::KernelEntry = ::cuda_std::entry::KernelEntry {
                name: stringify!(#name),
                max_threads: #max_threads,
                min_blocks: #min_blocks,
                max_registers: #max_registers,
                cluster: #cluster,
                early_start: #early_start,
                parameters: &[#(::cuda_std::entry::Parameter::of::<#types>()),*],
                function: call,
            };

            unsafe fn call(arguments: &[*const ::core::ffi::c_void]) {
                // SAFETY: the launcher has checked the number of arguments and promises that each points to a value of
                // its parameter's type.
                unsafe { super::#name(#(#arguments),*) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the attribute says of a kernel that it refuses, or nothing.
    fn refusal(bounds: &str, function: &str) -> Option<String> {
        let bounds = match syn::parse_str(bounds) {
            Ok(bounds) => bounds,
            Err(error) => return Some(error.to_string()),
        };
        let function = syn::parse_str(function).expect("the example is a function");
        expand(bounds, function).err().map(|error| error.to_string())
    }

    #[test]
    fn what_is_no_kernel_is_refused_with_the_reason() {
        const KERNEL: &str = "unsafe fn f(x: u32) {}";
        for (bounds, function, message) in [
            ("", "fn f(x: u32) {}", "a kernel must be an `unsafe fn`"),
            ("", "unsafe fn f<T>(x: T) {}", "cannot be generic"),
            ("", "unsafe fn f() -> u32 { 0 }", "a kernel returns nothing"),
            ("", "unsafe fn f(&self) {}", "a kernel is not a method"),
            ("", "unsafe fn f(#[grid_constant] x: u32) {}", "a grid constant is `name: &Type`"),
            (
                "",
                "unsafe fn f(#[grid_constant] x: &mut u32) {}",
                "a grid constant is `name: &Type`",
            ),
            ("min_blocks = 2", KERNEL, "`min_blocks` needs `max_threads`"),
            ("max_threads", KERNEL, "expected `max_threads = value`"),
            ("early_start = 1", KERNEL, "`early_start` has no value"),
            ("early_start, early_start", KERNEL, "this is given twice"),
            ("cluster = 2, cluster = 2", KERNEL, "this is given twice"),
            ("threads = 128", KERNEL, "expected `max_threads`, `min_blocks`"),
        ] {
            let refused = refusal(bounds, function).unwrap_or_default();
            assert!(refused.contains(message), "#[kernel({bounds})] {function}: {refused}");
        }
    }

    #[test]
    fn what_is_a_kernel_is_taken() {
        for bounds in ["", "max_threads = 8 * N, min_blocks = 2, cluster = 2, early_start"] {
            let function = "pub unsafe fn f(x: u32, #[grid_constant] map: &TensorMap) {}";
            assert_eq!(refusal(bounds, function), None, "{bounds}");
        }
    }
}
