//! Runs a worker by the wall clock, or by the clock of captures. Times count from 1970-01-01 UTC, so that captures get
//! correct time stamps.

use scalebricks_graph::{Clock, Supply, Trace, Worker};
use scalebricks_io::PacketBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How long a run continues after its sources have ended while elements keep packets and nothing happens: by the wall
/// clock, and by that of captures.
const LINGER_WALL: Duration = Duration::from_secs(1);
const LINGER_CAPTURES: Duration = Duration::from_secs(10);

/// How far the clock of captures advances at once while elements keep packets or wait for timers.
const STEP: Duration = Duration::from_millis(1);

/// Most turns at one moment of captures; then time advances even if work remains.
const TURNS_A_MOMENT: u32 = 4_096;

/// Turns without work after which a worker sleeps; its sleep is less than a tick of timers.
const PATIENCE: u32 = 256;
const SLEEP: Duration = Duration::from_micros(50);

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All sources have ended and all work is done, or a script has stopped the run.
    Done,
    /// Sources still have packets, but nothing has moved for ten seconds of the captures.
    Stuck,
    /// It was asked to stop.
    Stopped,
    /// Its duration has passed.
    Elapsed,
}

/// Runs a worker until its sources end, `stop` is set, or `duration` has passed on its clock. When its sources have ended,
/// elements send what waits ([`Graph::finish`](scalebricks_graph::Graph::finish)).
pub fn run<P: PacketBuf + 'static, T: Trace<P>>(
    worker: &mut Worker<P, T>,
    clock: Clock,
    duration: Option<Duration>,
    stop: &AtomicBool,
) -> End {
    let end = match clock {
        Clock::Wall => by_wall(worker, duration, stop),
        Clock::Captures => by_captures(worker, duration, stop),
    };
    worker.leave();
    end
}

fn has_passed(since: Duration, now: Duration, duration: Option<Duration>) -> bool {
    duration.is_some_and(|duration| now.saturating_sub(since) >= duration)
}

fn by_wall<P: PacketBuf + 'static, T: Trace<P>>(
    worker: &mut Worker<P, T>,
    duration: Option<Duration>,
    stop: &AtomicBool,
) -> End {
    let start = Instant::now();
    // A clock before 1970 counts as 0.
    let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (mut idle, mut active, mut has_finished) = (0u32, epoch, false);
    loop {
        if stop.load(Ordering::Relaxed) {
            return End::Stopped;
        }
        let now = epoch + start.elapsed();
        if has_passed(epoch, now, duration) {
            return End::Elapsed;
        }
        let moved = worker.turn(now);
        if worker.graph().is_stopped() {
            return End::Done;
        }
        if moved > 0 {
            (idle, active) = (0, now);
            continue;
        }
        idle = idle.saturating_add(1);
        if worker.graph().supply() == Some(Supply::Ended)
            && (worker.graph().held() == 0 || now.saturating_sub(active) >= LINGER_WALL)
        {
            if std::mem::replace(&mut has_finished, true) || !worker.graph_mut().finish() {
                return End::Done;
            }
            (idle, active) = (0, now);
            continue;
        }
        if idle < PATIENCE {
            std::thread::yield_now();
        } else {
            worker.leave();
            std::thread::sleep(SLEEP);
        }
    }
}

fn by_captures<P: PacketBuf + 'static, T: Trace<P>>(
    worker: &mut Worker<P, T>,
    duration: Option<Duration>,
    stop: &AtomicBool,
) -> End {
    let Some(Supply::At(start)) = worker.graph().supply() else { return End::Done };
    // What sources have and elements keep, and when that last changed.
    let (mut now, mut active, mut before, mut turns) = (start, start, (None, 0), 0);
    let mut has_finished = false;
    loop {
        if stop.load(Ordering::Relaxed) {
            return End::Stopped;
        }
        if has_passed(start, now, duration) {
            return End::Elapsed;
        }
        turns += 1;
        let moved = worker.turn(now);
        if worker.graph().is_stopped() {
            return End::Done;
        }
        if moved > 0 && turns < TURNS_A_MOMENT {
            continue;
        }
        let (supply, held) = (worker.graph().supply(), worker.graph().held());
        if before != (supply, held) {
            (before, active) = ((supply, held), now);
        }
        let has_patience = now.saturating_sub(active) < LINGER_CAPTURES;
        let waits = has_patience && (held > 0 || worker.timers() > 0);
        let step = now.saturating_add(STEP);
        now = match supply {
            // A source is held back.
            Some(Supply::At(at)) if at <= now && has_patience => step,
            Some(Supply::At(at)) if at <= now => return End::Stuck,
            Some(Supply::At(at)) if waits => at.min(step),
            Some(Supply::At(at)) => at,
            _ if held > 0 && has_patience => step,
            _ if !std::mem::replace(&mut has_finished, true) && worker.graph_mut().finish() => step,
            _ => return End::Done,
        };
        turns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::click::Router;
    use crate::click::devices::{Devices, ReceiveBinding, SendBinding};
    use scalebricks_graph::Ledger;
    use scalebricks_io::{CaptureReader, CaptureWriter, Packet, Pool};
    use std::path::Path;

    fn capture(path: &Path, stamps: &[u64]) {
        let mut writer = CaptureWriter::create(path).unwrap();
        for &at in stamps {
            writer.write_frame(Duration::from_nanos(at), &[7; 60]).unwrap();
        }
        writer.finish().unwrap();
    }

    fn stamps(path: &Path) -> Vec<u64> {
        let stamp =
            |frame: Result<scalebricks_io::CapturedFrame, _>| frame.unwrap().timestamp.as_nanos() as u64;
        CaptureReader::open(path).unwrap().map(stamp).collect()
    }

    /// Runs a configuration; returns the files it wrote, and why it ended.
    fn ran(
        text: &str,
        mut outside: Devices<Packet>,
        clock: Clock,
        duration: Option<Duration>,
    ) -> (usize, End) {
        let registry = scalebricks_elements::registry();
        let router =
            Router::read("t", text.as_bytes(), &[], &registry).unwrap_or_else(|errors| panic!("{errors}"));
        let mut graph = router.graph(&registry, &mut Ledger::new()).unwrap();
        router.open(&mut graph, &mut outside).unwrap_or_else(|errors| panic!("{errors}"));
        let mut worker = Worker::new(graph, Box::new(Pool::new(500, 200).unwrap()), ());
        let end = run(&mut worker, clock, duration, &AtomicBool::new(false));
        (outside.finish().unwrap().len(), end)
    }

    const YEAR_NS: u64 = 31_557_600_000_000_000;

    #[test]
    fn time_stamps_pass_through_to_the_nanosecond() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let stamps_in = [YEAR_NS, YEAR_NS + 1, YEAR_NS + 1, YEAR_NS + 999_999_937, 2 * YEAR_NS];
        capture(&path("a.pcap"), &stamps_in);
        let mut outside = Devices::new(Clock::Captures);
        outside.receive(Some("eth0"), ReceiveBinding::Capture(path("a.pcap"))).send_any(path("b.pcap"));
        let text = "FromDevice(eth0) -> Queue(10) -> ToDevice(eth1)";
        assert_eq!(ran(text, outside, Clock::Captures, None), (1, End::Done));
        assert_eq!(stamps(&path("b.pcap")), stamps_in);
    }

    #[test]
    fn captures_are_merged_by_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        capture(&path("a.pcap"), &[10, 30, 50]);
        capture(&path("b.pcap"), &[20, 30, 60]);
        let text = format!(
            "t :: ToDump({0}/c.pcap); FromDump({0}/a.pcap) -> t; FromDump({0}/b.pcap, STOP false) -> t",
            folder.path().display()
        );
        assert_eq!(ran(&text, Devices::new(Clock::Captures), Clock::Captures, None), (1, End::Done));
        assert_eq!(stamps(&path("c.pcap")), [10, 20, 30, 30, 50, 60]);
        let short = Some(Duration::from_nanos(25));
        assert_eq!(ran(&text, Devices::new(Clock::Captures), Clock::Captures, short), (1, End::Elapsed));
        assert_eq!(stamps(&path("c.pcap")), [10, 20, 30, 30]);
        assert_eq!(ran(&text, Devices::new(Clock::Wall), Clock::Wall, None), (1, End::Done));
        assert_eq!(stamps(&path("c.pcap")).len(), 6);
    }

    #[test]
    fn a_capture_without_packets_ends_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap");
        capture(&path, &[]);
        for clock in [Clock::Captures, Clock::Wall] {
            let mut outside = Devices::new(clock);
            outside.receive(None, ReceiveBinding::Capture(path.clone())).send("e", SendBinding::Nothing);
            assert_eq!(ran("FromDevice(e) -> ToDevice(e)", outside, clock, None), (0, End::Done));
        }
    }

    #[test]
    fn a_source_that_is_held_back_for_good_ends_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap");
        // The queue raises back-pressure at 345 packets, and a turn brings in up to 128.
        capture(&path, &[5; 900]);
        let queue = "Queue(600, BLOCKING true) -> Unqueue(ACTIVE false) -> Discard";
        let text = format!("FromDump({}) -> {queue}", path.display());
        assert_eq!(ran(&text, Devices::new(Clock::Captures), Clock::Captures, None), (0, End::Stuck));
    }

    #[test]
    fn a_script_writes_handlers_by_the_clock_of_captures_and_ends_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        capture(
            path("a.pcap").as_ref(),
            &[YEAR_NS, YEAR_NS + 1_000_000_000, YEAR_NS + 3_000_000_000, 2 * YEAR_NS],
        );
        let text = format!(
            "FromDump({}) -> c :: Counter -> s :: Switch -> ToDump({}); s[1] -> ToDump({});
             Script(wait 500ms, write s.switch 1, wait 2s, print \"seen: $(c.count)\", wait 2s, stop, OUTFILE {})",
            path("a.pcap"), path("b.pcap"), path("c.pcap"), path("told")
        );
        assert_eq!(ran(&text, Devices::new(Clock::Captures), Clock::Captures, None), (2, End::Done));
        assert_eq!(stamps(path("b.pcap").as_ref()), [YEAR_NS]);
        assert_eq!(stamps(path("c.pcap").as_ref()), [YEAR_NS + 1_000_000_000, YEAR_NS + 3_000_000_000]);
        assert_eq!(std::fs::read_to_string(path("told")).unwrap(), "seen: 2\n");
    }

    #[test]
    fn packets_that_stay_do_not_hold_a_run_up_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap");
        capture(&path, &[5]);
        let text = format!("FromDump({}) -> Queue -> Unqueue(ACTIVE false) -> Discard", path.display());
        assert_eq!(ran(&text, Devices::new(Clock::Captures), Clock::Captures, None), (0, End::Done));
    }
}
