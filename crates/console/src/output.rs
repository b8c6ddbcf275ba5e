//! The only module that speaks to the user: results on standard output, everything else on standard error.

use crate::atomic_file::{self, WriteFileError};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Least time between two plain lines of progress.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Why a result did not reach whoever asked for it.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Standard output.
    #[error("cannot print the results: {0}")]
    Print(#[from] io::Error),
    /// A result file.
    #[error(transparent)]
    File(#[from] WriteFileError),
    /// The JSON.
    #[error("the results do not serialise: {0}")]
    Json(#[from] serde_json::Error),
    /// A picture.
    #[error(transparent)]
    Draw(Box<dyn Error + Send + Sync>),
}

/// Results as an indented JSON document that ends in a newline.
///
/// # Errors
/// [`OutputError::Json`] with what the serialiser says.
pub fn json(results: &impl Serialize) -> Result<String, OutputError> {
    Ok(serde_json::to_string_pretty(results)? + "\n")
}

/// Where words go. Whoever has one may speak to the user, and nobody else: that is why its methods take `self`.
#[derive(Debug)]
pub struct Console {
    quiet: bool,
    /// The bars on a terminal, which several at once must share; none where progress is told in lines.
    bars: Option<MultiProgress>,
}

impl Console {
    /// A console; a quiet one tells results and errors only.
    pub fn new(quiet: bool) -> Self {
        let draws = !quiet && io::stderr().is_terminal();
        let target = || MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8));
        Self { quiet, bars: draws.then(target) }
    }

    /// A result, on standard output. Returns without a word if nobody reads it any more: `demo | head` is no error.
    ///
    /// # Errors
    /// [`OutputError::Print`] for any other failure to write.
    pub fn result(&self, text: &str) -> Result<(), OutputError> {
        let mut out = io::stdout().lock();
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => Ok(written?),
        }
    }

    /// A result, as a file that is there whole or not at all.
    ///
    /// # Errors
    /// [`OutputError::File`] names the file.
    pub fn keep(&self, path: &Path, content: &str) -> Result<(), OutputError> {
        atomic_file::write(path, content.as_bytes())?;
        self.note(&format!("wrote {}", path.display()));
        Ok(())
    }

    /// What is going on, on standard error.
    pub fn note(&self, text: &str) {
        match &self.bars {
            Some(bars) => bars.suspend(|| say(text)),
            None if !self.quiet => say(text),
            None => {}
        }
    }

    /// Something went wrong, on standard error, quiet or not.
    pub fn error(&self, text: &str) {
        say(&format!("error: {text}"));
    }

    /// Progress of something that consists of `total` steps: a bar on a terminal, else a line now and then.
    pub fn progress(&self, label: &str, total: u64) -> Progress {
        if let Some(bars) = &self.bars {
            let bar = bars.add(ProgressBar::new(total));
            // At most 80 columns, with a rate behind it.
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

    /// Something that takes a moment and cannot say how far it is: a spinner on a terminal, which goes when the value
    /// is dropped.
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

/// A line on standard error; if even that is closed, there is nobody left to tell.
fn say(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Something that takes a moment.
#[derive(Debug)]
pub struct Busy(Option<ProgressBar>);

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(spinner) = &self.0 {
            spinner.finish_and_clear();
        }
    }
}

/// Progress under way. Any thread may report it.
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
    /// So many steps more are done.
    pub fn add(&self, steps: u64) {
        self.bar.inc(steps);
        let Some(lines) = &self.lines else { return };
        let Ok(mut lines) = lines.lock() else { return };
        if lines.last.elapsed() >= LINE_INTERVAL {
            lines.last = Instant::now();
            say(&format!("{}: {} of {}", lines.label, self.bar.position(), lines.total));
        }
    }

    /// Says what else is known, behind the bar.
    pub fn message(&self, text: String) {
        self.bar.set_message(text);
    }

    /// All done.
    pub fn finish(&self) {
        self.bar.finish();
        if let Some(Ok(lines)) = self.lines.as_ref().map(Mutex::lock) {
            say(&format!("{}: {} of {}", lines.label, self.bar.position(), lines.total));
        }
    }
}
