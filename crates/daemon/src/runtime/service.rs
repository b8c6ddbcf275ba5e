//! The service manager, and signals.

use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::time::{Duration, Instant};

/// Time between two messages to the service manager during a wait.
const NOTIFY_EVERY: Duration = Duration::from_secs(5);

/// The signals that stop a daemon, or make it read its input again.
///
/// # Errors
/// The error of the system.
pub(crate) fn signals() -> io::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP])
}

/// Notifies the service manager, if there is one.
pub(crate) fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, state) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

/// Waits until the daemon is complete, and notifies the service manager; `for_what` is the status meanwhile. False,
/// without notification, if the daemon is asked to stop first: [`wait`] then returns at once.
pub(crate) fn ready(signals: &mut Signals, for_what: &str, is_complete: impl Fn() -> bool) -> bool {
    let mut next_message = Instant::now();
    while !is_complete() {
        if is_asked_to_stop(signals) {
            // `wait` sees only the next signal, so it is raised again.
            let _to_itself = signal_hook::low_level::raise(SIGTERM);
            return false;
        }
        if Instant::now() >= next_message {
            // The wait may take long, for example without an engine: the service manager must not take it for a hang.
            next_message += NOTIFY_EVERY;
            let more = u32::try_from(4 * NOTIFY_EVERY.as_micros()).unwrap_or(u32::MAX);
            notify(&[NotifyState::ExtendTimeoutUsec(more), NotifyState::Status(for_what)]);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    notify(&[NotifyState::Ready, NotifyState::Status("forwards")]);
    true
}

/// Waits for a signal to stop; on SIGHUP calls `read_again`.
pub(crate) fn wait(signals: &mut Signals, read_again: impl Fn()) {
    for signal in signals.forever() {
        if signal != SIGHUP {
            notify(&[NotifyState::Stopping]);
            return;
        }
        read_again();
    }
}

/// Waits for a time, or until a second signal to stop.
pub(crate) fn drain(signals: &mut Signals, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until && !is_asked_to_stop(signals) {
        std::thread::sleep(Duration::from_millis(10).min(time));
    }
}

fn is_asked_to_stop(signals: &mut Signals) -> bool {
    signals.pending().any(|signal| signal != SIGHUP)
}
