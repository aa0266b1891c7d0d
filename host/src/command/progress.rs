//! Progress bars. They are drawn on standard error, and only where that is a terminal.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use std::borrow::Cow;
use std::time::Duration;

const REDRAW: Duration = Duration::from_millis(100);

/// A bar over `steps` steps. It goes with the last handle, so that what is said of a failure has a line of its own.
pub fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps).with_finish(ProgressFinish::AndClear);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(REDRAW);
    bar
}

/// A bar over work that takes minutes: how much of it is done, and when the rest will be. It goes with the last handle.
pub fn long_bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps).with_finish(ProgressFinish::AndClear);
    let template = "{bar:30} {percent:>3} % {elapsed}, {eta} left  {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(REDRAW);
    bar
}

/// A spinner for work without steps, which goes as bars do.
pub fn spinner(message: impl Into<Cow<'static, str>>) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
    spinner.set_message(message);
    spinner.enable_steady_tick(REDRAW);
    spinner
}
