//! What happens on Ctrl-C: unfinished output files go, and so does the process; work that can stop by itself is asked
//! to first.

use super::exit::{Failure, INTERRUPTED};
use super::output::Output;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The files that must not stay behind.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Whether there is work that can stop by itself.
static STOPPABLE: AtomicBool = AtomicBool::new(false);

/// Whether a JSON document is asked for of which nothing is written yet.
static OWES_DOCUMENT: AtomicBool = AtomicBool::new(false);

/// Whether it has been asked to.
static REQUESTED: AtomicBool = AtomicBool::new(false);

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, interruption and termination remove all [`Unfinished`] files.
///
/// Where no handler can be installed the process still ends, only without removing anything.
pub fn install() {
    let _ = ctrlc::set_handler(|| {
        if !STOPPABLE.load(Ordering::Relaxed) || REQUESTED.swap(true, Ordering::Relaxed) {
            end();
        }
        super::eprintln_quietly(format_args!(
            "stopping after this step; interrupt again to stop at once"
        ));
    });
}

/// From now on, the first interruption only makes [`requested`] true: the work looks at it, keeps what it has and ends.
/// The second one is handled as otherwise the first.
pub fn stop_by_request() {
    STOPPABLE.store(true, Ordering::Relaxed);
}

/// Whether an interruption asks the work to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// From now on, an end by interruption is said in JSON, too: the document that is asked for holds it.
pub fn owe_document() {
    OWES_DOCUMENT.store(true, Ordering::Relaxed);
}

/// What is written from now on is the document.
pub fn document_begins() {
    OWES_DOCUMENT.store(false, Ordering::Relaxed);
}

/// Removes the unfinished files, says that it was interrupted and ends the process.
fn end() -> ! {
    // The lock is kept to the end: nothing can be finished or begun any more.
    let unfinished = unfinished();
    for path in unfinished.iter() {
        let _ = fs::remove_file(path);
    }
    let interrupted = Failure::Interrupted("interrupted".into());
    super::eprintln_quietly(format_args!("regemm: {interrupted}"));
    if OWES_DOCUMENT.swap(false, Ordering::Relaxed) {
        // Standard output may be closed.
        let _ = Output::new(true).document(&super::error_json(&interrupted));
    }
    std::process::exit(INTERRUPTED.into());
}

/// A file that must not stay behind as long as this lives. Where the file has been finished it is no longer there under
/// this name.
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// Remembers a file before it is created.
    pub fn new(path: &Path) -> Unfinished {
        unfinished().insert(path.to_owned());
        Unfinished(path.to_owned())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        unfinished().remove(&self.0);
    }
}

/// Runs the step that finishes a file, during which no interruption is handled.
pub fn finish<R>(step: impl FnOnce() -> R) -> R {
    let _unfinished = unfinished();
    step()
}

/// Makes a write past the limit of `ulimit -f` an error like a full disk, instead of the end of the process with an
/// unfinished file left behind.
pub fn ignore_file_size_signal() {
    #[cfg(unix)]
    // SAFETY: no handler function is installed, and no thread has been started yet.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}
