//! What happens on Ctrl-C: the unfinished output file goes, and so does the process; work that can stop by itself is asked
//! to first.

use super::exit::INTERRUPTED;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The file that must not stay behind.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Whether work that can stop by itself has been asked to.
static REQUESTED: AtomicBool = AtomicBool::new(false);

fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, interruption and termination remove the file that [`remember`] was told of last.
///
/// Where no handler can be installed the process still ends, only without removing anything.
pub fn install() {
    let _ = ctrlc::set_handler(|| end());
}

/// From now on, the first interruption only makes [`requested`] true: the work looks at it, keeps what it has and ends. The
/// second one is handled as after [`install`].
///
/// Where no handler can be installed the first interruption ends the process.
pub fn install_stoppable() {
    let _ = ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            end();
        }
        super::eprintln_quietly(format_args!(
            "stopping after this step; interrupt again to stop at once"
        ));
    });
}

/// Whether an interruption asks the work to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Removes the unfinished file and ends the process.
fn end() -> ! {
    // The lock is kept to the end: nothing can be finished or begun any more.
    let unfinished = unfinished();
    if let Some(path) = unfinished.as_ref() {
        let _ = fs::remove_file(path);
    }
    std::process::exit(INTERRUPTED.into());
}

/// Remembers a file before it is created.
pub fn remember(path: &Path) {
    *unfinished() = Some(path.to_owned());
}

/// Runs the step that finishes the file, during which no interruption is handled, and forgets the file.
pub fn finish<R>(step: impl FnOnce() -> R) -> R {
    let mut unfinished = unfinished();
    let result = step();
    *unfinished = None;
    result
}

/// Makes a write past the limit of `ulimit -f` an error like a full disk, instead of the end of the process with an
/// unfinished file left behind.
pub fn ignore_file_size_signal() {
    // SAFETY: no handler function is installed, and no thread has been started yet.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}
