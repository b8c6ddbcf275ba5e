//! Packets of ports, as they come.
//!
//! ```text
//! packet sockets, DPDK ─▶ ports ─▶ frame ─▶ packet ─▶ tracker ─▶ talkers ─┐ once a second
//!                           └─ what ports dropped ─────────────────────────┴─▶ view
//! ```

mod ports;
mod talkers;
mod view;

pub use talkers::Order;
pub(super) use talkers::{Ranking, Report, Talkers, ip_len};
pub(super) use view::{Style, View};

use super::input::{Arrival, Bounds, Stopped, Tick, ip_packet};
use super::summary::Frames;
use crate::error::ProcessError;
use ports::{Ports, Seen};
use scalebricks_console::Interrupt;
use scalebricks_io::packet_socket::RETIRE;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest time between two ticks: flows end, and are written, that much late.
const TICK: Duration = Duration::from_secs(1);

/// Time after the end in which frames may still arrive that came before it.
const LATE: Duration = RETIRE.saturating_mul(4);

/// Open ports.
pub(super) struct Live {
    ports: Ports,
    /// Time between two ticks that show.
    interval: Duration,
}

/// The time since 1970-01-01 UTC.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Live {
    /// Opens ports.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub(super) fn open(names: &[String], interval: Duration) -> Result<Self, ProcessError> {
        Ok(Self { ports: Ports::open(names)?, interval })
    }

    /// The names of the ports, and their counters, for a [`View`].
    pub(super) fn seen(&self) -> (String, Arc<Seen>) {
        (self.ports.names().join(", "), self.ports.seen())
    }

    /// Whether checksums of frames may not be filled in yet.
    pub(super) fn has_offloads(&self) -> bool {
        self.ports.has_offloads()
    }

    /// Calls `take` with each IP packet until the bounds are reached, an interrupt, or an error.
    pub(super) fn read(
        mut self,
        bounds: &Bounds,
        frames: &mut Frames,
        interrupt: &Interrupt,
        take: &mut impl FnMut(Arrival<'_>) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        let ended = self.packets(bounds, frames, interrupt, take);
        // An error of the ports is reported before one of their counters.
        let counted = self.ports.count(frames).map_err(Stopped::Failed);
        ended.and(counted)
    }

    fn packets(
        &mut self,
        bounds: &Bounds,
        frames: &mut Frames,
        interrupt: &Interrupt,
        take: &mut impl FnMut(Arrival<'_>) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        let end = bounds.duration.map(|duration| now() + duration);
        let mut clock = Clock::new(self.interval);
        let (mut until, mut failure) = (None, None);
        while !bounds.is_reached(frames) {
            let at = now();
            if until.is_none() && (interrupt.check().is_err() || end.is_some_and(|end| at >= end)) {
                until = Some(end.map_or(at, |end| end.min(at)));
            }
            let mut result = Ok(());
            let came = self.ports.receive(until.map_or(Ports::WAIT, |_| RETIRE), &mut |frame, link| {
                let is_late = until.is_some_and(|until| frame.timestamp > until);
                if result.is_err() || is_late || bounds.is_reached(frames) {
                    return;
                }
                frames.all += 1;
                frames.bytes += u64::from(frame.original_len);
                if let Some(packet) = ip_packet(frame.bytes, link, frames) {
                    result = take(Arrival::Packet(packet, frame.timestamp));
                }
            });
            result?;
            let mut failed = came.err();
            if let Some(shows) = clock.strikes(Instant::now()) {
                failed = failed.or(self.ports.count(frames).err());
                take(Arrival::Tick(Tick { at: now(), shows }))?;
            }
            if let Some(error) = failed {
                // What came before it is still in the ring.
                until.get_or_insert(at);
                failure.get_or_insert(error);
            }
            if until.is_some_and(|until| now() >= until + LATE) {
                break;
            }
        }
        failure.map_or(Ok(()), |error| Err(Stopped::Failed(error)))
    }
}

/// When ticks are due.
struct Clock {
    every: Duration,
    interval: Duration,
    next: Instant,
    next_show: Instant,
}

impl Clock {
    fn new(interval: Duration) -> Self {
        let (now, every) = (Instant::now(), interval.min(TICK));
        Self { every, interval, next: now + every, next_show: now + interval }
    }

    /// Whether a tick is due, and shows.
    fn strikes(&mut self, now: Instant) -> Option<bool> {
        let shows = now >= self.next_show;
        if !shows && now < self.next {
            return None;
        }
        self.next = now + self.every;
        if shows {
            self.next_show += self.interval;
            if self.next_show <= now {
                // No interval is made up for.
                self.next_show = now + self.interval;
            }
        }
        Some(shows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_come_every_second_and_show_at_the_interval() {
        let mut clock = Clock::new(Duration::from_secs(3));
        let start = clock.next.checked_sub(TICK).unwrap();
        let mut at = |tenths: u32| clock.strikes(start + Duration::from_millis(100) * tenths);
        assert_eq!(at(9), None);
        assert_eq!(at(10), Some(false));
        assert_eq!(at(15), None);
        assert_eq!(at(20), Some(false));
        assert_eq!(at(30), Some(true));
        assert_eq!(at(40), Some(false));
        // After a pause, one interval is shown, and none is made up for.
        assert_eq!(at(200), Some(true));
        assert_eq!(at(201), None);
        assert_eq!(at(210), Some(false));
        assert_eq!(at(230), Some(true));
    }
}
