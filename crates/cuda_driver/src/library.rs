//! Opening the driver's library and finding its functions.

use crate::result::{NO_DEVICE, NOT_SUPPORTED};
use crate::symbols;
use core::ffi::c_void;
use core::ptr::NonNull;
use libloading::Library;
use std::error::Error;
use std::sync::OnceLock;

/// The driver's library, as the NVIDIA driver installs it.
pub const LIBRARY: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };

/// Why there is no driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The library is not there or cannot be opened.
    #[error("{library} cannot be opened ({reason}); it comes with the NVIDIA driver")]
    NotFound {
        /// Name of the library.
        library: &'static str,
        /// What the system's loader says.
        reason: String,
    },
    /// The library has not even the function that every driver has.
    #[error("{library} is not a CUDA driver: it has no function {function}")]
    NotADriver {
        /// Name of the library.
        library: &'static str,
        /// The missing function.
        function: &'static str,
    },
}

/// The opened library with the address of each function of [`symbols::NAMES`], where this driver has it.
struct Driver {
    library: Library,
    functions: [Option<Address>; symbols::COUNT],
}

/// The address of a function.
#[derive(Clone, Copy)]
struct Address(NonNull<c_void>);

// SAFETY: functions neither move nor change, and the library is never closed.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// Opens the driver's library, once a process. Calling it again costs nothing.
///
/// # Errors
/// Says why there is no driver. The functions then return [`NO_DEVICE`].
pub fn load() -> Result<(), LoadError> {
    // A linker takes from a Rust library only the objects that something refers to. This reference makes the object
    // with the definitions one of them, whatever the order of libraries on its command line.
    core::hint::black_box(&symbols::DEFINITIONS);
    driver().map(|_| ()).map_err(Clone::clone)
}

fn driver() -> Result<&'static Driver, &'static LoadError> {
    static DRIVER: OnceLock<Result<Driver, LoadError>> = OnceLock::new();
    DRIVER.get_or_init(open).as_ref()
}

fn open() -> Result<Driver, LoadError> {
    // SAFETY: opening the driver runs its initialisers, which is what it is made for.
    let library = unsafe { Library::new(LIBRARY) }.map_err(|error| {
        // The loader's own words are the cause of what `libloading` says.
        let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        LoadError::NotFound { library: LIBRARY, reason }
    })?;
    if symbol(&library, "cuInit").is_none() {
        return Err(LoadError::NotADriver { library: LIBRARY, function: "cuInit" });
    }
    let functions = symbols::NAMES.map(|name| {
        let older = || symbol(&library, symbols::older_name(name)?);
        symbol(&library, name).or_else(older).map(Address)
    });
    Ok(Driver { library, functions })
}

fn symbol(library: &Library, name: &str) -> Option<NonNull<c_void>> {
    // SAFETY: the symbol is taken as an address only; nothing is called here.
    let symbol = unsafe { library.get::<*mut c_void>(name) }.ok()?;
    NonNull::new(*symbol)
}

/// The address of function `index` of the list, or the code to return instead of calling it.
pub(crate) fn address(index: usize) -> Result<*mut c_void, i32> {
    match driver() {
        Ok(driver) => match driver.functions[index] {
            Some(Address(function)) => Ok(function.as_ptr()),
            None => Err(NOT_SUPPORTED),
        },
        Err(_) => Err(NO_DEVICE),
    }
}

/// The address of any function of the driver; `None` where there is no driver or it has no such function.
pub(crate) fn lookup(name: &str) -> Option<NonNull<c_void>> {
    symbol(&driver().ok()?.library, name)
}
