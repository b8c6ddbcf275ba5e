//! All output to the user: results on standard output, everything else on standard error.

use crate::atomic_file::{self, WriteFileError};
use console::Term;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Minimum time between two plain progress lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Why a result could not be printed or stored.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Writing to standard output failed.
    #[error("cannot print the results: {0}")]
    Print(#[from] io::Error),
    /// Writing a result file failed.
    #[error(transparent)]
    File(#[from] WriteFileError),
    /// Serialising the results failed.
    #[error("cannot serialise the results: {0}")]
    Json(#[from] serde_json::Error),
    /// Drawing a picture failed.
    #[error(transparent)]
    Draw(Box<dyn Error + Send + Sync>),
}

/// Results as an indented JSON document that ends in a newline.
///
/// # Errors
/// [`OutputError::Json`] with the serialiser's error.
pub fn json(results: &impl Serialize) -> Result<String, OutputError> {
    Ok(serde_json::to_string_pretty(results)? + "\n")
}

/// Output to the user. All output goes through a console, which is why its methods take `self` even where
/// they need no state.
#[derive(Debug)]
pub struct Console {
    quiet: bool,
    /// Progress bars on a terminal; `None` if progress is printed in lines.
    bars: Option<MultiProgress>,
}

impl Console {
    /// A console. If `quiet`, it prints results and errors only.
    pub fn new(quiet: bool) -> Self {
        let draws = !quiet && io::stderr().is_terminal();
        let target = || MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8));
        Self { quiet, bars: draws.then(target) }
    }

    /// Prints a result on standard output. A closed pipe is not an error, so `demo | head` works.
    ///
    /// # Errors
    /// [`OutputError::Print`] for any other error.
    pub fn result(&self, text: &str) -> Result<(), OutputError> {
        let mut out = io::stdout().lock();
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => Ok(written?),
        }
    }

    /// Writes a result to a file atomically.
    ///
    /// # Errors
    /// [`OutputError::File`] names the file.
    pub fn keep(&self, path: &Path, content: &str) -> Result<(), OutputError> {
        atomic_file::write(path, content.as_bytes())?;
        self.note(&format!("wrote {}", path.display()));
        Ok(())
    }

    /// Prints a note on standard error.
    pub fn note(&self, text: &str) {
        match &self.bars {
            Some(bars) => bars.suspend(|| say(text)),
            None if !self.quiet => say(text),
            None => {}
        }
    }

    /// Prints an error on standard error, even if quiet.
    pub fn error(&self, text: &str) {
        say(&format!("error: {text}"));
    }

    /// Progress over `total` steps: a bar on a terminal, otherwise a line every ten seconds.
    pub fn progress(&self, label: &str, total: u64) -> Progress {
        if let Some(bars) = &self.bars {
            let bar = bars.add(ProgressBar::new(total));
            // At most 80 columns including the message.
            let template = "{prefix:>18} [{bar:30}] {percent:>3}% {elapsed:>4} {msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_prefix(label.to_owned());
            return Progress { bar, lines: None };
        }
        let lines =
            (!self.quiet).then(|| Mutex::new(Lines { label: label.to_owned(), last: Instant::now(), total }));
        Progress { bar: ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()), lines }
    }

    /// A text on a terminal that is replaced again and again, such as a table of what goes on; `None` if standard error is no
    /// terminal.
    pub fn live(&self) -> Option<Live> {
        let bar = self.bars.as_ref()?.add(ProgressBar::new_spinner());
        bar.set_style(ProgressStyle::with_template("{msg}").ok()?);
        Some(Live(bar))
    }

    /// A spinner on a terminal for work of unknown length; it disappears when the value is dropped.
    pub fn busy(&self, label: &str, doing: &'static str) -> Busy {
        let spinner = self.bars.as_ref().map(|bars| {
            let spinner = bars.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{prefix:>18} {spinner} {msg}") {
                spinner.set_style(style);
            }
            spinner.set_prefix(label.to_owned());
            spinner.set_message(doing);
            spinner.enable_steady_tick(Duration::from_millis(125));
            spinner
        });
        Busy(spinner)
    }
}

/// A text that is replaced in place on a terminal; it disappears when the value is dropped.
#[derive(Debug)]
pub struct Live(ProgressBar);

impl Live {
    /// Width of the terminal, characters.
    pub fn columns(&self) -> u16 {
        Term::stderr().size().1
    }

    /// Shows the text in place of the last one. Lines are cut at the terminal's width, and what is below its height is left
    /// out.
    pub fn show(&self, text: &str) {
        // A terminal shows Ctrl-C as ^C at the end of the text, where another line begins, so that the first one is not removed:
        // it is empty.
        self.0.set_message(format!("\n{}", cut(text, self.columns().into())));
        self.0.tick();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The text with at most so many characters per line.
fn cut(text: &str, columns: usize) -> String {
    let lines: Vec<String> = text.lines().map(|line| line.chars().take(columns).collect()).collect();
    lines.join("\n")
}

/// Writes a line to standard error. If that is closed, the line is lost.
fn say(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// A spinner.
#[derive(Debug)]
pub struct Busy(Option<ProgressBar>);

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(spinner) = &self.0 {
            spinner.finish_and_clear();
        }
    }
}

/// Progress that any thread may report.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    lines: Option<Mutex<Lines>>,
}

#[derive(Debug)]
struct Lines {
    label: String,
    last: Instant,
    total: u64,
}

impl Progress {
    /// Reports completed steps.
    pub fn add(&self, steps: u64) {
        self.bar.inc(steps);
        let Some(lines) = &self.lines else { return };
        let Ok(mut lines) = lines.lock() else { return };
        if lines.last.elapsed() >= LINE_INTERVAL {
            lines.last = Instant::now();
            say(&format!("{}: {} of {}", lines.label, self.bar.position(), lines.total));
        }
    }

    /// Sets the text behind the bar.
    pub fn message(&self, text: String) {
        self.bar.set_message(text);
    }

    /// Reports completion.
    pub fn finish(&self) {
        self.bar.finish();
        if let Some(Ok(lines)) = self.lines.as_ref().map(Mutex::lock) {
            say(&format!("{}: {} of {}", lines.label, self.bar.position(), lines.total));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_the_width_of_the_terminal() {
        assert_eq!(cut("│ one │\n\ntwo", 4), "│ on\n\ntwo");
    }

    #[test]
    fn a_quiet_console_shows_no_live_text() {
        assert!(Console::new(true).live().is_none());
    }
}
