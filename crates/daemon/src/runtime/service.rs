//! The service manager, and the signals by which it and operators ask for something.

use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::time::{Duration, Instant};

/// Time between two words to the service manager while something is waited for.
const WORD_EVERY: Duration = Duration::from_secs(5);

/// What asks a daemon to stop, and what has it read its input again.
///
/// # Errors
/// What the system says.
pub(crate) fn signals() -> io::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP])
}

/// Tells the service manager, if one is there to be told.
pub(crate) fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, state) {
        tracing::debug!(%error, "no service manager was told");
    }
}

/// Waits until everything is there that whoever started the daemon counts on, and tells the service manager; `for_what` is what it
/// hears meanwhile. False, and nothing told, if the daemon is asked to stop before: [`wait`] hears that.
pub(crate) fn ready(signals: &mut Signals, for_what: &str, is_complete: impl Fn() -> bool) -> bool {
    let mut next_word = Instant::now();
    while !is_complete() {
        if is_asked_to_stop(signals) {
            // The wait for signals sees the next one only, so it is sent once more.
            let _to_itself = signal_hook::low_level::raise(SIGTERM);
            return false;
        }
        if Instant::now() >= next_word {
            // It may take long, as while there is no engine: who waits is not to be taken for one that hangs.
            next_word += WORD_EVERY;
            let more = u32::try_from(4 * WORD_EVERY.as_micros()).unwrap_or(u32::MAX);
            tell(&[NotifyState::ExtendTimeoutUsec(more), NotifyState::Status(for_what)]);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    tell(&[NotifyState::Ready, NotifyState::Status("forwards")]);
    true
}

/// Until a signal asks to stop; others have something read again.
pub(crate) fn wait(signals: &mut Signals, read_again: impl Fn()) {
    for signal in signals.forever() {
        if signal != SIGHUP {
            tell(&[NotifyState::Stopping]);
            return;
        }
        read_again();
    }
}

/// Lets a time pass, or as much of it as there is until somebody asks to stop again.
pub(crate) fn drain(signals: &mut Signals, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until && !is_asked_to_stop(signals) {
        std::thread::sleep(Duration::from_millis(10).min(time));
    }
}

fn is_asked_to_stop(signals: &mut Signals) -> bool {
    signals.pending().any(|signal| signal != SIGHUP)
}
