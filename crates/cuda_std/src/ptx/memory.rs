//! Loads and stores of a thread.

use core::arch::asm;
use core::mem::{MaybeUninit, transmute_copy};

/// The loads and stores of one state space, by bytes moved. The size of `V` is known when the function is compiled, so
/// only one arm of each match is left.
macro_rules! state_space {
    (
        $space:literal, address = $address:ty : $register:ident,
        $load:ident, $load_if:ident, $store:ident, $store_if:ident
    ) => {
        #[inline(always)]
        pub unsafe fn $load<V: Copy>(address: $address) -> V {
            // SAFETY: as promised by the caller; each arm moves exactly the bytes of `V`.
            unsafe {
                match size_of::<V>() {
                    1 | 2 => {
                        let v: u16;
                        if size_of::<V>() == 1 {
                            asm!(concat!("ld.", $space, ".u8 {}, [{}];"), out(reg16) v, in($register) address,
                                options(pure, readonly, nostack));
                        } else {
                            asm!(concat!("ld.", $space, ".b16 {}, [{}];"), out(reg16) v, in($register) address,
                                options(pure, readonly, nostack));
                        }
                        transmute_copy(&v)
                    }
                    4 => {
                        let v: u32;
                        asm!(concat!("ld.", $space, ".b32 {}, [{}];"), out(reg32) v, in($register) address,
                            options(pure, readonly, nostack));
                        transmute_copy(&v)
                    }
                    8 => {
                        let v: u64;
                        asm!(concat!("ld.", $space, ".b64 {}, [{}];"), out(reg64) v, in($register) address,
                            options(pure, readonly, nostack));
                        transmute_copy(&v)
                    }
                    16 => {
                        let v: [u32; 4];
                        let (a, b, c, d);
                        asm!(concat!("ld.", $space, ".v4.b32 {{{}, {}, {}, {}}}, [{}];"),
                            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in($register) address,
                            options(pure, readonly, nostack));
                        v = [a, b, c, d];
                        transmute_copy(&v)
                    }
                    _ => unreachable!(),
                }
            }
        }

        #[inline(always)]
        pub unsafe fn $load_if<V: Copy>(address: $address, predicate: bool) -> V {
            let p = predicate as u32;
            // SAFETY: as promised by the caller; each arm moves exactly the bytes of `V`.
            unsafe {
                match size_of::<V>() {
                    1 | 2 => {
                        let v: u16;
                        if size_of::<V>() == 1 {
                            asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {p}, 0;", "mov.b16 {v}, 0;",
                                concat!("@p ld.", $space, ".u8 {v}, [{a}];"), "}}",
                                v = out(reg16) v, p = in(reg32) p, a = in($register) address,
                                options(pure, readonly, nostack));
                        } else {
                            asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {p}, 0;", "mov.b16 {v}, 0;",
                                concat!("@p ld.", $space, ".b16 {v}, [{a}];"), "}}",
                                v = out(reg16) v, p = in(reg32) p, a = in($register) address,
                                options(pure, readonly, nostack));
                        }
                        transmute_copy(&v)
                    }
                    4 => {
                        let v: u32;
                        asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {p}, 0;", "mov.b32 {v}, 0;",
                            concat!("@p ld.", $space, ".b32 {v}, [{a}];"), "}}",
                            v = out(reg32) v, p = in(reg32) p, a = in($register) address,
                            options(pure, readonly, nostack));
                        transmute_copy(&v)
                    }
                    8 => {
                        let v: u64;
                        asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {p}, 0;", "mov.b64 {v}, 0;",
                            concat!("@p ld.", $space, ".b64 {v}, [{a}];"), "}}",
                            v = out(reg64) v, p = in(reg32) p, a = in($register) address,
                            options(pure, readonly, nostack));
                        transmute_copy(&v)
                    }
                    16 => {
                        let (x, y, z, w): (u32, u32, u32, u32);
                        asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {p}, 0;",
                            "mov.b32 {x}, 0;", "mov.b32 {y}, 0;", "mov.b32 {z}, 0;", "mov.b32 {w}, 0;",
                            concat!("@p ld.", $space, ".v4.b32 {{{x}, {y}, {z}, {w}}}, [{a}];"), "}}",
                            x = out(reg32) x, y = out(reg32) y, z = out(reg32) z, w = out(reg32) w,
                            p = in(reg32) p, a = in($register) address,
                            options(pure, readonly, nostack));
                        transmute_copy(&[x, y, z, w])
                    }
                    _ => unreachable!(),
                }
            }
        }

        #[inline(always)]
        pub unsafe fn $store<V: Copy>(address: $address, value: V) {
            // SAFETY: as promised by the caller; each arm moves exactly the bytes of `V`.
            unsafe {
                match size_of::<V>() {
                    1 => asm!(concat!("st.", $space, ".u8 [{}], {};"),
                        in($register) address, in(reg16) transmute_copy::<V, u8>(&value) as u16, options(nostack)),
                    2 => asm!(concat!("st.", $space, ".b16 [{}], {};"),
                        in($register) address, in(reg16) transmute_copy::<V, u16>(&value), options(nostack)),
                    4 => asm!(concat!("st.", $space, ".b32 [{}], {};"),
                        in($register) address, in(reg32) transmute_copy::<V, u32>(&value), options(nostack)),
                    8 => asm!(concat!("st.", $space, ".b64 [{}], {};"),
                        in($register) address, in(reg64) transmute_copy::<V, u64>(&value), options(nostack)),
                    16 => {
                        let [x, y, z, w] = words(value);
                        asm!(concat!("st.", $space, ".v4.b32 [{}], {{{}, {}, {}, {}}};"),
                            in($register) address, in(reg32) x, in(reg32) y, in(reg32) z, in(reg32) w,
                            options(nostack))
                    }
                    _ => unreachable!(),
                }
            }
        }

        #[inline(always)]
        pub unsafe fn $store_if<V: Copy>(address: $address, value: V, predicate: bool) {
            if predicate {
                // SAFETY: as promised by the caller.
                unsafe { $store(address, value) }
            }
        }
    };
}

state_space!("global", address = u64: reg64, global_load, global_load_if, global_store, global_store_if);
state_space!("shared", address = u32: reg32, shared_load, shared_load_if, shared_store, shared_store_if);

/// The four words of a 16-byte value, of any alignment.
#[inline(always)]
fn words<V: Copy>(value: V) -> [u32; 4] {
    let mut words = MaybeUninit::<[u32; 4]>::uninit();
    // SAFETY: `V` is an array of scalars of 16 bytes in all, so its bytes are the bytes of four words.
    unsafe {
        words.as_mut_ptr().cast::<V>().write_unaligned(value);
        words.assume_init()
    }
}
