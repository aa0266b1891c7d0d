//! Typed pointers to global and to shared memory.
//!
//! Rust has no address spaces, so a plain `*const T` inside a struct compiles to slow generic loads. These pointers
//! carry their space in their type and compile to `ld.global`, `st.shared` and so on. They are addresses, not
//! references: every access is `unsafe` for the usual reasons, and on the simulator every access is checked.
//!
//! Each access comes in two forms. The predicated one (`*_if`) is what bounds checks are made of: every lane executes
//! the same instruction and a lane whose predicate is false touches nothing and gets zero. That is free of branches on
//! the GPU, and it keeps the lanes of a warp in step, which is what lets the simulator count the requests of a warp
//! exactly.

use crate::backend;
use crate::scalar::Scalar;
use core::marker::PhantomData;

/// Bytes of `[T; N]`, checked at compile time to be a size that one load or store instruction can move.
const fn access_bytes<T, const N: usize>() -> usize {
    let bytes = size_of::<T>() * N;
    assert!(matches!(bytes, 1 | 2 | 4 | 8 | 16), "one access moves 1, 2, 4, 8 or 16 bytes");
    bytes
}

const NOT_ONE_ACCESS: &str = "one access moves 1, 2, 4, 8 or 16 elements";

macro_rules! pointer {
    (
        $(#[$doc:meta])*
        $name:ident, address = $address:ty,
        load = $load:ident, load_if = $load_if:ident, store = $store:ident, store_if = $store_if:ident
    ) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name<T> {
            address: $address,
            element: PhantomData<fn(T) -> T>,
        }

        impl<T> Clone for $name<T> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T> core::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{}({:#x})", stringify!($name), self.address)
            }
        }

        impl<T> $name<T> {
            /// The pointer to a byte address in this space.
            #[inline(always)]
            pub const fn from_address(address: $address) -> Self {
                Self { address, element: PhantomData }
            }

            /// The byte address in this space.
            #[inline(always)]
            pub const fn address(self) -> $address {
                self.address
            }

            /// The same address as a pointer to another element type.
            #[inline(always)]
            pub const fn cast<U>(self) -> $name<U> {
                $name::from_address(self.address)
            }

            /// The pointer `count` elements further on. Nothing is accessed, so any result is allowed.
            #[inline(always)]
            #[allow(clippy::should_implement_trait)]
            pub const fn add(self, count: $address) -> Self {
                Self::from_address(
                    self.address.wrapping_add(count.wrapping_mul(size_of::<T>() as $address)),
                )
            }
        }

        impl<T: Scalar> $name<T> {
            /// Reads one element.
            ///
            /// # Safety
            /// The element must lie in live memory of this space, be initialised and not be written concurrently.
            #[inline(always)]
            #[track_caller]
            pub unsafe fn load(self) -> T {
                // SAFETY: as promised by the caller.
                let [value] = unsafe { self.load_vec::<1>() };
                value
            }

            /// Reads one element where `predicate` holds, else gives zero and touches nothing.
            ///
            /// # Safety
            /// As for `load` where `predicate` holds.
            #[inline(always)]
            #[track_caller]
            pub unsafe fn load_if(self, predicate: bool) -> T {
                // SAFETY: as promised by the caller.
                let [value] = unsafe { self.load_vec_if::<1>(predicate) };
                value
            }

            /// Reads `N` elements in one instruction of 1 to 16 bytes.
            ///
            /// # Safety
            /// As for `load`, for all `N` elements; the address must be a multiple of the bytes moved.
            #[inline(always)]
            #[track_caller]
            pub unsafe fn load_vec<const N: usize>(self) -> [T; N] {
                const { access_bytes::<T, N>() };
                // SAFETY: as promised by the caller; `[T; N]` is made of scalars, so any bits are valid.
                unsafe { backend::$load::<[T; N]>(self.address) }
            }

            /// Reads `N` elements in one instruction where `predicate` holds, else gives zeros and touches nothing.
            ///
            /// # Safety
            /// As for `load_vec` where `predicate` holds.
            #[inline(always)]
            #[track_caller]
            pub unsafe fn load_vec_if<const N: usize>(self, predicate: bool) -> [T; N] {
                const { access_bytes::<T, N>() };
                // SAFETY: as promised by the caller; `[T; N]` is made of scalars, so any bits are valid.
                unsafe { backend::$load_if::<[T; N]>(self.address, predicate) }
            }

            /// As [`load_vec_if`](Self::load_vec_if) for a slice of 1, 2, 4, 8 or 16 elements, for generic code that
            /// cannot name the length as a constant. The length must be one all the same once the code is compiled.
            ///
            /// # Safety
            /// As for `load_vec_if`, with `N = out.len()`.
            #[inline(always)]
            #[track_caller]
            pub unsafe fn load_slice_if(self, predicate: bool, out: &mut [T]) {
                // SAFETY: as promised by the caller.
                unsafe {
                    match out.len() {
                        1 => out.copy_from_slice(&backend::$load_if::<[T; 1]>(self.address, predicate)),
                        2 => out.copy_from_slice(&backend::$load_if::<[T; 2]>(self.address, predicate)),
                        4 => out.copy_from_slice(&backend::$load_if::<[T; 4]>(self.address, predicate)),
                        8 => out.copy_from_slice(&backend::$load_if::<[T; 8]>(self.address, predicate)),
                        16 => out.copy_from_slice(&backend::$load_if::<[T; 16]>(self.address, predicate)),
                        _ => panic!("{}", NOT_ONE_ACCESS),
                    }
                }
            }

            /// As [`store_vec_if`](Self::store_vec_if) for a slice of 1, 2, 4, 8 or 16 elements, for generic code that
            /// cannot name the length as a constant. The length must be one all the same once the code is compiled.
            ///
            /// # Safety
            /// As for `store_vec_if`, with `N = values.len()`.
            #[inline(always)]
            #[track_caller]
            pub unsafe fn store_slice_if(self, predicate: bool, values: &[T]) {
                // SAFETY: as promised by the caller.
                unsafe {
                    match *values {
                        [a] => backend::$store_if(self.address, [a], predicate),
                        [a, b] => backend::$store_if(self.address, [a, b], predicate),
                        [a, b, c, d] => backend::$store_if(self.address, [a, b, c, d], predicate),
                        _ => match values.len() {
                            8 => {
                                let mut copy = [values[0]; 8];
                                copy.copy_from_slice(values);
                                backend::$store_if(self.address, copy, predicate)
                            }
                            16 => {
                                let mut copy = [values[0]; 16];
                                copy.copy_from_slice(values);
                                backend::$store_if(self.address, copy, predicate)
                            }
                            _ => panic!("{}", NOT_ONE_ACCESS),
                        },
                    }
                }
            }

            /// Writes one element.
            ///
            /// # Safety
            /// The element must lie in live memory of this space that no other thread accesses concurrently.
            #[inline(always)]
            #[track_caller]
            pub unsafe fn store(self, value: T) {
                // SAFETY: as promised by the caller.
                unsafe { self.store_vec([value]) }
            }

            /// Writes one element where `predicate` holds, else touches nothing.
            ///
            /// # Safety
            /// As for `store` where `predicate` holds.
            #[inline(always)]
            #[track_caller]
            pub unsafe fn store_if(self, predicate: bool, value: T) {
                // SAFETY: as promised by the caller.
                unsafe { self.store_vec_if(predicate, [value]) }
            }

            /// Writes `N` elements in one instruction of 1 to 16 bytes.
            ///
            /// # Safety
            /// As for `store`, for all `N` elements; the address must be a multiple of the bytes moved.
            #[inline(always)]
            #[track_caller]
            pub unsafe fn store_vec<const N: usize>(self, values: [T; N]) {
                const { access_bytes::<T, N>() };
                // SAFETY: as promised by the caller.
                unsafe { backend::$store(self.address, values) }
            }

            /// Writes `N` elements in one instruction where `predicate` holds, else touches nothing.
            ///
            /// # Safety
            /// As for `store_vec` where `predicate` holds.
            #[inline(always)]
            #[track_caller]
            pub unsafe fn store_vec_if<const N: usize>(self, predicate: bool, values: [T; N]) {
                const { access_bytes::<T, N>() };
                // SAFETY: as promised by the caller.
                unsafe { backend::$store_if(self.address, values, predicate) }
            }
        }
    };
}

pointer! {
    /// A pointer to elements in global memory (`ld.global`, `st.global`), 64 bits wide.
    ///
    /// Shapes are the caller's: a row-major matrix is a pointer to its first element and a leading dimension.
    GlobalPtr, address = u64,
    load = global_load, load_if = global_load_if, store = global_store, store_if = global_store_if
}

pointer! {
    /// A pointer to elements in the block's shared memory (`ld.shared`, `st.shared`), 32 bits wide.
    SharedPtr, address = u32,
    load = shared_load, load_if = shared_load_if, store = shared_store, store_if = shared_store_if
}

impl<T> GlobalPtr<T> {
    /// The null pointer: an optional operand that is absent.
    #[inline(always)]
    pub const fn null() -> Self {
        Self::from_address(0)
    }

    /// Whether this is the null pointer.
    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.address() == 0
    }
}
