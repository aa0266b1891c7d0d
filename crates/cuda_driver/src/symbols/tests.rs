//! The signatures are those of `cust_raw`, whose callers get the definitions.

use super::signatures;

/// What a parameter or a result is to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pointer,
    I32,
    U8,
    U16,
    U32,
    U64,
    Usize,
}

impl Kind {
    const fn bytes(self) -> usize {
        match self {
            Kind::U8 => 1,
            Kind::U16 => 2,
            Kind::I32 | Kind::U32 => 4,
            Kind::Pointer | Kind::U64 | Kind::Usize => 8,
        }
    }
}

/// A type of a parameter or a result.
pub(super) trait Passed {
    const KIND: Kind;
}

macro_rules! passed {
    ($($type:ty: $kind:ident;)*) => {
        $(impl Passed for $type {
            const KIND: Kind = {
                assert!(size_of::<$type>() == Kind::$kind.bytes());
                Kind::$kind
            };
        })*
    };
}

passed! {
    i32: I32;
    u8: U8;
    u16: U16;
    u32: U32;
    u64: U64;
    usize: Usize;
    cust_raw::CUresult: I32;
    cust_raw::CUdevice_attribute: I32;
    cust_raw::CUfunction_attribute: I32;
    cust_raw::CUfunc_cache: I32;
    cust_raw::CUsharedconfig: I32;
    cust_raw::CUlimit: I32;
    cust_raw::CUmem_advise: I32;
    cust_raw::CUjitInputType: I32;
    cust_raw::CUhostFn: Pointer;
    cust_raw::CUoccupancyB2DSize: Pointer;
}

impl<T> Passed for *mut T {
    const KIND: Kind = Kind::Pointer;
}

impl<T> Passed for *const T {
    const KIND: Kind = Kind::Pointer;
}

/// A pointer to a function.
pub(super) trait Signature {
    /// Its result and its parameters.
    const KINDS: &[Kind];
}

macro_rules! signature {
    ($($argument:ident)*) => {
        impl<Outcome: Passed, $($argument: Passed),*> Signature
            for unsafe extern "C" fn($($argument),*) -> Outcome
        {
            const KINDS: &[Kind] = &[Outcome::KIND, $($argument::KIND),*];
        }
    };
}

signature!();
signature!(A);
signature!(A B);
signature!(A B C);
signature!(A B C D);
signature!(A B C D E);
signature!(A B C D E F);
signature!(A B C D E F G H);
signature!(A B C D E F G H I J K);

pub(super) fn kinds<S: Signature>(_: S) -> Vec<Kind> {
    S::KINDS.to_vec()
}

/// The type that the compiler finds, for each parameter one.
macro_rules! any {
    ($argument:ident) => {
        _
    };
}
pub(super) use any;

#[test]
fn definitions_are_what_cust_raw_declares() {
    for (name, here, there) in signatures() {
        assert_eq!(here, there, "{name}");
    }
}
