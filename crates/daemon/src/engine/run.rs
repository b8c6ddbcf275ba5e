//! `scalebricks engine run`.

use super::EngineError;
use scalebricks_console::status;
use scalebricks_engine::embedded::{EmbeddedLog, OpenReport, Options};
use scalebricks_engine::remote::{Counts, Endpoint, Listener, Server, ServerOptions, serve};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often the process looks whether the log can still be written.
const TICK: Duration = Duration::from_secs(1);

/// What the process is told.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// The directory of the log.
    pub data: PathBuf,
    /// Where to listen; `None`: at a socket in the directory.
    pub listen: Option<Endpoint>,
    /// How often counts are logged.
    pub counts: Option<Duration>,
}

/// Opens the log of a directory and serves it until asked to stop. Then the log is closed in order.
///
/// # Errors
/// [`EngineError`]: the log cannot be opened, the socket is taken, or the disk failed.
pub fn run(config: &RunConfig) -> Result<u8, EngineError> {
    let began = Instant::now();
    // Before anything long: a signal that comes meanwhile is not lost.
    let signals = listen_to_signals()?;
    let open_error = |error| EngineError::Open { directory: config.data.clone(), error };
    let log = EmbeddedLog::open(&config.data, Options::default()).map_err(open_error)?;
    tell_opening(config, log.report(), began);
    let log = Arc::new(log);
    let endpoint = config.listen.clone().unwrap_or_else(|| Endpoint::Unix(config.data.join("engine.sock")));
    let listener = Listener::bind(&endpoint)?;
    let endpoint = listener.endpoint().clone();
    let server = serve(Arc::<EmbeddedLog>::clone(&log), listener, ServerOptions::default());
    let server = server.map_err(EngineError::Serve)?;
    tracing::info!(listen = %endpoint, elapsed_ms = elapsed_ms(began), "ready");
    let ended = wait(&signals, &server, &log, config);
    tracing::info!("stopping");
    let counts = server.counts();
    drop(server);
    drop(log); // the last: marks it as closed
    tell(&counts, "stopped");
    ended.map(|()| status::SUCCESS)
}

/// A message for each signal that asks to stop.
fn listen_to_signals() -> Result<Receiver<()>, EngineError> {
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(EngineError::Serve)?;
    let (sender, receiver) = channel();
    let listen = move || while signals.forever().next().is_some() && sender.send(()).is_ok() {};
    std::thread::Builder::new().name("signals".to_owned()).spawn(listen).map_err(EngineError::Serve)?;
    Ok(receiver)
}

/// Waits until somebody asks to stop, or there is no use in going on.
fn wait(
    signals: &Receiver<()>,
    server: &Server,
    log: &EmbeddedLog,
    config: &RunConfig,
) -> Result<(), EngineError> {
    let (mut told, mut told_at) = (server.counts(), Instant::now());
    while signals.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        if let Some(why) = log.broken() {
            return Err(EngineError::Broken { directory: config.data.clone(), why });
        }
        if !server.is_running() {
            return Err(EngineError::Ended);
        }
        let counts = server.counts();
        if config.counts.is_some_and(|every| told_at.elapsed() >= every) && counts != told {
            tell(&counts, "served");
            (told, told_at) = (counts, Instant::now());
        }
    }
    Ok(())
}

fn tell_opening(config: &RunConfig, report: &OpenReport, began: Instant) {
    if let Some(torn) = &report.torn {
        tracing::warn!(
            file = torn.file,
            offset = torn.offset,
            bytes = torn.bytes,
            what = torn.what,
            "cut off the last group, which is not whole: a crash left it half written, unless the disk damaged it later"
        );
    }
    for file in &report.removed {
        tracing::warn!(file, "removed a file that a crash left unfinished");
    }
    tracing::info!(
        data = %config.data.display(),
        segments = report.segments,
        groups = report.groups,
        entries = report.entries,
        records = report.records,
        was_closed = report.was_closed,
        elapsed_ms = elapsed_ms(began),
        "log opened"
    );
}

fn tell(counts: &Counts, what: &str) {
    tracing::info!(
        open = counts.open,
        connections = counts.connections,
        refused = counts.refused,
        hostile = counts.hostile,
        requests = counts.requests,
        appended = counts.appended,
        appended_bytes = counts.appended_bytes,
        failed = counts.failed,
        streamed = counts.streamed,
        "{what}"
    );
}

fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
