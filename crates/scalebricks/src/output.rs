//! The only module that speaks to the user: results on standard output, everything else on standard error.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Least time between two plain lines of progress.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Where words go.
#[derive(Debug)]
pub struct Console {
    quiet: bool,
    terminal: bool,
}

impl Console {
    /// A console; a quiet one tells results and errors only.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, terminal: io::stderr().is_terminal() }
    }

    /// A result, on standard output. Returns without a word if nobody reads it any more: `demo | head` is no error.
    ///
    /// # Errors
    /// Any other failure to write.
    #[expect(clippy::unused_self, reason = "whoever has a console may print results, and nobody else")]
    pub fn result(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    /// What is going on, on standard error.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// Something went wrong, on standard error, quiet or not.
    #[expect(clippy::unused_self, reason = "whoever has a console may report errors, and nobody else")]
    pub fn error(&self, text: &str) {
        say(&format!("error: {text}"));
    }

    /// Progress of something that consists of `total` steps: a bar on a terminal, else a line now and then.
    pub fn progress(&self, label: &str, total: u64) -> Progress {
        if self.terminal && !self.quiet {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(8));
            let template = "{prefix:>18} [{bar:40}] {human_pos}/{human_len} {elapsed} {msg}";
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
}

/// A line on standard error; if even that is closed, there is nobody left to tell.
fn say(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
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

    /// Done, and of no more interest.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// All done; the bar stays.
    pub fn finish(&self) {
        self.bar.finish();
        if let Some(Ok(lines)) = self.lines.as_ref().map(Mutex::lock) {
            say(&format!("{}: {} of {}", lines.label, self.bar.position(), lines.total));
        }
    }
}
