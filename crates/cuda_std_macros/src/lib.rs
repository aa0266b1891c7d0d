//! The `#[kernel]` attribute of `cuda_std`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, FnArg, Ident, ItemFn, Token, parse_macro_input};

/// Launch bounds: the arguments of the attribute.
#[derive(Default)]
struct LaunchBounds {
    max_threads: Option<Expr>,
    min_blocks: Option<Expr>,
    max_registers: Option<Expr>,
}

impl Parse for LaunchBounds {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        struct Bound(Ident, Expr);
        impl Parse for Bound {
            fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
                let name = input.parse()?;
                input.parse::<Token![=]>()?;
                Ok(Bound(name, input.parse()?))
            }
        }

        let mut bounds = LaunchBounds::default();
        for Bound(name, value) in Punctuated::<Bound, Token![,]>::parse_terminated(input)? {
            let slot = match name.to_string().as_str() {
                "max_threads" => &mut bounds.max_threads,
                "min_blocks" => &mut bounds.min_blocks,
                "max_registers" => &mut bounds.max_registers,
                _ => {
                    return Err(syn::Error::new(
                        name.span(),
                        "expected `max_threads`, `min_blocks` or `max_registers`",
                    ));
                }
            };
            if slot.replace(value).is_some() {
                return Err(syn::Error::new(name.span(), "this bound is given twice"));
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
/// The function must be `unsafe`, not generic, and return nothing; its parameters must be `Copy` and are passed by
/// value. The optional bounds are constant expressions of type `u32` and become the PTX directives
/// `.maxntid`, `.minnctapersm` and `.maxnreg` (PTX ISA, section 11.4): `max_threads` threads in a block at most,
/// `min_blocks` blocks resident on a multiprocessor at least, `max_registers` registers a thread at most. Where a
/// multiprocessor of the architecture cannot hold `min_blocks` blocks of `max_threads`, as many as it can hold are asked
/// for.
///
/// On the host the attribute adds a module of the function's name with one constant, `ENTRY`.
///
/// On the device the crate must enable `#![feature(abi_ptx, asm_experimental_arch)]`.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let bounds = parse_macro_input!(attribute as LaunchBounds);
    let function = parse_macro_input!(item as ItemFn);
    expand(bounds, function).unwrap_or_else(syn::Error::into_compile_error).into()
}

fn expand(bounds: LaunchBounds, function: ItemFn) -> syn::Result<TokenStream2> {
    let ItemFn { attrs, vis, sig, block } = &function;
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

    let name = &sig.ident;
    let inputs = &sig.inputs;
    let types = sig
        .inputs
        .iter()
        .map(|input| match input {
            FnArg::Typed(typed) => Ok(typed.ty.clone()),
            FnArg::Receiver(receiver) => {
                Err(syn::Error::new_spanned(receiver, "a kernel is not a method"))
            }
        })
        .collect::<syn::Result<Vec<_>>>()?;

    // cuda_builder reads these lines from the assembly and moves the directives to the entry.
    let directives = [
        (".maxntid", &bounds.max_threads),
        (".minnctapersm", &bounds.min_blocks),
        (".maxnreg", &bounds.max_registers),
    ];
    let lines = directives.iter().filter_map(|(directive, value)| {
        let value = value.as_ref()?;
        let value = match (*directive, &bounds.max_threads) {
            (".minnctapersm", Some(max_threads)) => {
                quote!(::cuda_std::backend::blocks_that_fit(#max_threads, #value))
            }
            _ => quote!(#value),
        };
        let line = format!("// cuda_builder: {name} {directive} {{value}}");
        Some(quote! {
            #[cfg(target_arch = "nvptx64")]
            ::core::arch::global_asm!(#line, value = const { let value: u32 = #value; value });
        })
    });

    let bound = |value: &Option<Expr>| match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    };
    let max_threads = bound(&bounds.max_threads);
    let min_blocks = bound(&bounds.min_blocks);
    let max_registers = bound(&bounds.max_registers);
    let count = types.len();
    let indices = 0..count;

    Ok(quote! {
        #(#lines)*

        #[cfg(target_arch = "nvptx64")]
        #(#attrs)*
        #[unsafe(no_mangle)]
        #vis unsafe extern "ptx-kernel" fn #name(#inputs) #block

        #[cfg(not(target_arch = "nvptx64"))]
        #(#attrs)*
        #vis unsafe fn #name(#inputs) #block

        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = concat!("How the host launches [`", stringify!(#name), "`](fn@", stringify!(#name), ").")]
        #vis mod #name {
            use super::*;

            /// The kernel as the host sees it.
            pub const ENTRY: ::cuda_std::entry::KernelEntry = ::cuda_std::entry::KernelEntry {
                name: stringify!(#name),
                max_threads: #max_threads,
                min_blocks: #min_blocks,
                max_registers: #max_registers,
                parameters: &[#(::cuda_std::entry::Parameter::of::<#types>()),*],
                function: call,
            };

            unsafe fn call(arguments: &[*const ::core::ffi::c_void]) {
                // SAFETY: the launcher has checked the number of arguments and promises that each points to a value of
                // its parameter's type.
                unsafe { super::#name(#(*arguments[#indices].cast::<#types>()),*) }
            }
        }
    })
}
