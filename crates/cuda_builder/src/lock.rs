//! A lock that builds wait for, but not for ever.
//!
//! Cargo shows what a build script says only when it ends, so that one which waits looks like one that compiles.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::error::Error;

/// How long one build waits for another: longer than any compiles.
const MOST: Duration = Duration::from_secs(60 * 60);

/// How long a file system may take to say whether a file is locked. Some of networks never do.
const NO_ANSWER: Duration = Duration::from_secs(20);

/// How often it is asked.
const PAUSE: Duration = Duration::from_millis(100);

/// What a file system says.
enum Answer {
    /// The file is locked until this is dropped.
    Ours(File),
    /// Another has locked it.
    Busy,
    /// It cannot lock.
    None,
}

/// Creates a file and locks it. Where the file system has no locks builds go on without, as those of cargo do, since
/// they only matter to two at the same time.
pub fn take(path: &Path) -> Result<Option<File>, Error> {
    let file = File::create(path).map_err(Error::io(path))?;
    take_within(path, MOST, NO_ANSWER, move |answers| ask(file, answers))
}

/// Asks for a lock time and again, until it is taken or nobody listens.
fn ask(file: File, answers: &SyncSender<Answer>) {
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) => {}
            // There are many ways to say that it has none, such as `ENOLCK`.
            Err(TryLockError::Error(_)) => {
                let _ = answers.send(Answer::None);
                return;
            }
        }
        if answers.send(Answer::Busy).is_err() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    // If nobody listens any more the file is closed, and with it the lock is gone.
    let _ = answers.send(Answer::Ours(file));
}

/// The lock of the last of the answers.
fn take_within(
    path: &Path,
    most: Duration,
    no_answer: Duration,
    ask: impl FnOnce(&SyncSender<Answer>) + Send + 'static,
) -> Result<Option<File>, Error> {
    let begun = Instant::now();
    let (sender, answers) = sync_channel(1);
    std::thread::spawn(move || ask(&sender));
    let mut is_told = false;
    loop {
        match answers.recv_timeout(no_answer) {
            Ok(Answer::Ours(file)) => return Ok(Some(file)),
            Ok(Answer::Busy) if begun.elapsed() >= most => {
                return Err(Error::Locked { path: path.to_path_buf(), waited: most });
            }
            Ok(Answer::Busy) => {
                // `cargo build -vv` shows it at once.
                if !is_told {
                    println!("waiting for another build, which has locked {}", path.display());
                }
                is_told = true;
            }
            Ok(Answer::None) | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = take(&path).unwrap();
        assert!(first.is_some());
        let second = std::thread::spawn({
            let path = path.clone();
            move || take(&path).unwrap().is_some()
        });
        std::thread::sleep(Duration::from_millis(300));
        assert!(!second.is_finished());
        drop(first);
        assert!(second.join().unwrap());
        assert!(take(&path).unwrap().is_some(), "it is given back");
    }

    #[test]
    fn a_build_that_never_ends_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let _first = take(&path).unwrap();
        let file = File::create(&path).unwrap();
        let waited = Duration::from_millis(300);
        let error = take_within(&path, waited, NO_ANSWER, |answers| ask(file, answers));
        let message = error.unwrap_err().to_string();
        assert!(message.contains(&path.display().to_string()), "{message}");
    }

    #[test]
    fn a_file_system_without_locks_stops_nobody() {
        let path = Path::new("lock");
        let none = |answers: &SyncSender<Answer>| answers.send(Answer::None).unwrap();
        assert!(take_within(path, MOST, NO_ANSWER, none).unwrap().is_none());
        let silent = |_: &SyncSender<Answer>| std::thread::sleep(Duration::from_secs(2));
        let no_answer = Duration::from_millis(50);
        assert!(take_within(path, MOST, no_answer, silent).unwrap().is_none());
    }
}
