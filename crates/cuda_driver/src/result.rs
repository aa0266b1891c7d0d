//! Result codes of the driver (`CUresult`) as plain integers.

use crate::library::lookup;
use crate::symbols::Pointer;
use core::cell::Cell;
use core::ffi::{CStr, c_char};

/// `CUDA_SUCCESS`
pub const SUCCESS: i32 = 0;
/// `CUDA_ERROR_STUB_LIBRARY`: the library found is the toolkit's placeholder for linking, not a driver.
pub const STUB_LIBRARY: i32 = 34;
/// `CUDA_ERROR_NO_DEVICE`: what every function returns where there is no driver.
pub const NO_DEVICE: i32 = 100;
/// `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`: the PTX is newer than the driver's compiler.
pub const UNSUPPORTED_PTX_VERSION: i32 = 222;
/// `CUDA_ERROR_NOT_SUPPORTED`: what a function returns that this driver does not have.
pub const NOT_SUPPORTED: i32 = 801;
/// `CUDA_ERROR_UNKNOWN`
pub const UNKNOWN: i32 = 999;

thread_local! {
    static LAST_FOREIGN: Cell<Option<i32>> = const { Cell::new(None) };
}

/// Passes on the codes that `cust_raw` 0.11 lists in its enum and turns all others into [`UNKNOWN`].
///
/// `cust_raw` declares the functions to return a Rust enum, so any other value would be undefined behaviour in its
/// callers, and newer drivers have codes that it does not list. The code itself is kept for [`take_foreign`].
pub(crate) fn listed(code: i32) -> i32 {
    match code {
        0..=8
        | 34
        | 100..=102
        | 200..=202
        | 205..=224
        | 300..=304
        | 400..=401
        | 500
        | 600
        | 700..=705
        | 708..=720
        | 800..=809
        | 900..=911 => code,
        UNKNOWN => {
            LAST_FOREIGN.set(None);
            UNKNOWN
        }
        foreign => {
            LAST_FOREIGN.set(Some(foreign));
            UNKNOWN
        }
    }
}

/// The code that the last [`UNKNOWN`] on this thread stood for, if the driver gave one that `cust` does not know.
/// Taking it forgets it.
pub fn take_foreign() -> Option<i32> {
    LAST_FOREIGN.take()
}

/// The driver's name and text for a result code, such as `CUDA_ERROR_OUT_OF_MEMORY` and `out of memory`; `None` where
/// there is no driver or it does not know the code.
pub fn describe(code: i32) -> Option<(String, String)> {
    Some((text_of("cuGetErrorName", code)?, text_of("cuGetErrorString", code)?))
}

fn text_of(function: &'static str, code: i32) -> Option<String> {
    let address = lookup(function)?;
    // SAFETY: both functions have this signature in every driver since CUDA 6.0.
    let function: unsafe extern "C" fn(i32, Pointer) -> i32 =
        unsafe { core::mem::transmute(address.as_ptr()) };
    let mut text: *const c_char = core::ptr::null();
    // SAFETY: the pointer is to a local that outlives the call.
    let result = unsafe { function(code, (&raw mut text).cast()) };
    if result != SUCCESS || text.is_null() {
        return None;
    }
    // SAFETY: the driver gives a static string that ends in a NUL.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_cust_does_not_list_becomes_unknown_and_is_kept() {
        const DEVICE_UNAVAILABLE: i32 = 46;
        assert_eq!(listed(DEVICE_UNAVAILABLE), UNKNOWN);
        assert_eq!(take_foreign(), Some(DEVICE_UNAVAILABLE));
        assert_eq!(take_foreign(), None);
        for code in [SUCCESS, STUB_LIBRARY, NO_DEVICE, UNSUPPORTED_PTX_VERSION, NOT_SUPPORTED] {
            assert_eq!(listed(code), code);
        }
        assert_eq!(take_foreign(), None);
    }
}
