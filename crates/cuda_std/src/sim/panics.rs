//! Panics of kernels, which become faults.

use super::fault::SourceLocation;
use super::worker;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Where the last panic of a kernel on this host thread happened.
    static LAST: RefCell<Option<SourceLocation>> = const { RefCell::new(None) };
}

/// Puts a panic hook before the program's that keeps silent about panics of kernels and remembers where they happened.
/// All other panics go to the program's hook.
pub(super) fn install_hook() {
    static INSTALLED: Once = Once::new();
    if std::thread::panicking() {
        // Hooks cannot be changed now; the fault then goes without its place in the source.
        return;
    }
    INSTALLED.call_once(|| {
        let program: Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync> = take_hook();
        set_hook(Box::new(move |info| {
            if worker::in_kernel() {
                LAST.set(info.location().map(SourceLocation::from));
            } else {
                program(info);
            }
        }));
    });
}

/// The message of a panic and where it happened.
pub(super) fn describe(payload: &(dyn Any + Send)) -> (String, Option<SourceLocation>) {
    let message = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with a payload that is no text");
    (format!("panicked: {message}"), LAST.take())
}
