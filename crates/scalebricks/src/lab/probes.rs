//! Pings of phones of all nodes, in both directions and over both families, all the time while something breaks: for how long
//! none of a flow's was answered.

use super::LabError;
use super::exec::Cmd;
use super::nodes::{Process, Processes};
use super::plan::{Family, Plan, Ue};
use rustix::process::Signal;
use scalebricks_console::Interrupt;
use std::time::{Duration, SystemTime};

/// Time between two pings of a flow.
const EVERY: Duration = Duration::from_millis(50);

/// How long they go on if nobody ends them.
const LONGEST: Duration = Duration::from_secs(120);

/// An answer that takes longer comes too late: it waited for a node that was away.
const LATE: Duration = Duration::from_secs(1);

/// Pings at the end that may still be on their way.
const UNDER_WAY: u32 = 10;

/// The pings, under way.
pub struct Probes {
    running: Vec<(String, Process)>,
}

/// What became of one flow's pings.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// Whose they were.
    pub flow: String,
    /// How many were sent.
    pub sent: u32,
    /// Those that were answered in time: number, and when they were sent, as Unix time in seconds. Ascending, each once.
    answered: Vec<(u32, f64)>,
}

/// Now, as Unix time in seconds.
pub fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl Probes {
    /// Starts them: of the first phone of each node.
    ///
    /// # Errors
    /// As [`Processes::start`].
    pub fn start(processes: Processes<'_>) -> Result<Self, LabError> {
        let plan = processes.plan;
        let mut running = Vec::new();
        for ue in plan.size.nodes().map(Plan::ue_of) {
            for family in Family::ALL {
                let (phone, host) = (ue.address(family), family.host());
                for (from, to, namespace, way) in
                    [(phone, host, plan.ue(), "up"), (host, phone, plan.inet(), "down")]
                {
                    let (option, every, time) = (family.option(), EVERY.as_secs_f64(), LONGEST.as_secs());
                    let line = format!("ping {option} -n -D -i {every} -w {time} -I {from} {to}");
                    let name = flow(ue, family, way);
                    let process = processes.start(&name, &Cmd::new(&line).inside(&namespace))?;
                    running.push((name, process));
                }
            }
        }
        Ok(Self { running })
    }

    /// Ends them, and says what became of each.
    ///
    /// # Errors
    /// [`LabError::Died`] if one had ended; [`LabError::Setup`] if what one says is not understood.
    pub fn finish(self, interrupt: &Interrupt) -> Result<Vec<Answers>, LabError> {
        let mut all = Vec::new();
        for (_, process) in &self.running {
            process.signal(Signal::INT)?;
        }
        for (flow, process) in self.running {
            let ended = process.await_word_for("packets transmitted", Duration::from_secs(5), interrupt)?;
            let told = ended.log();
            ended.kill();
            let read = Answers::read(&flow, &told);
            let what = || LabError::Setup { what: format!("{flow}: ping says nothing that is understood") };
            all.push(read.ok_or_else(what)?);
        }
        Ok(all)
    }
}

fn flow(ue: Ue, family: Family, way: &str) -> String {
    format!("ping-{}-{}-{way}", ue.number, family.name())
}

impl Answers {
    /// What `ping -D` says.
    fn read(flow: &str, told: &str) -> Option<Self> {
        let line = told.lines().find(|line| line.contains("packets transmitted"))?;
        let sent = line.split(' ').next()?.parse().ok()?;
        let mut answered: Vec<(u32, f64)> = told.lines().filter_map(answer).collect();
        answered.sort_by_key(|(number, _)| *number);
        answered.dedup_by_key(|(number, _)| *number);
        Some(Self { flow: flow.to_owned(), sent, answered })
    }

    /// How many were not answered in time.
    pub fn lost(&self) -> u32 {
        self.sent.saturating_sub(self.answered.len() as u32)
    }

    /// Stretches without an answer: when the first of the lost was sent, or could have been, and the next that was answered.
    /// One that did not end ends never.
    fn silences(&self) -> impl Iterator<Item = (f64, f64)> {
        let every = EVERY.as_secs_f64();
        let pairs = self.answered.windows(2).filter_map(move |pair| match pair {
            [(before, at), (after, again)] if after - before > 1 => Some((at + every, *again)),
            _ => None,
        });
        let (last, at) = self.answered.last().copied().unwrap_or_default();
        let is_silent = last + UNDER_WAY < self.sent;
        pairs.chain(is_silent.then_some((at + every, f64::INFINITY)))
    }

    /// The longest stretch without an answer of those that ended after a moment, counted from that moment if it had begun
    /// before; seconds.
    pub fn silence_after(&self, moment: f64) -> f64 {
        let after = self.silences().filter(|(_, end)| *end > moment);
        after.map(|(begin, end)| end - begin.max(moment)).fold(0.0, f64::max)
    }

    /// How long after a moment the longest silence ended that followed it; 0 if there was none.
    pub fn well_after(&self, moment: f64) -> f64 {
        let after = self.silences().filter(|(_, end)| *end > moment);
        let longest = after.max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
        longest.map_or(0.0, |(_, end)| end - moment)
    }
}

/// Number and time of sending, of a line that tells of an answer in time.
fn answer(line: &str) -> Option<(u32, f64)> {
    let (came, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let rest = rest.contains(" bytes from ").then_some(rest)?;
    let (_, rest) = rest.split_once("icmp_seq=")?;
    let number = rest.split(' ').next()?.parse().ok()?;
    let took: f64 = rest.split_once("time=")?.1.split(' ').next()?.parse().ok()?;
    let took = Some(took / 1e3).filter(|took| *took <= LATE.as_secs_f64())?;
    Some((number, came.parse::<f64>().ok()? - took))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    /// 200 pings from second 1,000 on, of which these are not answered.
    fn told(is_lost: impl Fn(u32) -> bool) -> Answers {
        let mut text = "PING 192.0.2.1 (192.0.2.1) from 10.45.0.1 : 56(84) bytes of data.\n".to_owned();
        for number in (1..=200_u32).filter(|number| !is_lost(*number)) {
            let at = 1_000.0 + f64::from(number) * 0.05 + 0.002;
            let _ =
                writeln!(text, "[{at:.6}] 64 bytes from 192.0.2.1: icmp_seq={number} ttl=62 time=2.00 ms");
        }
        text += "From 192.0.2.10 icmp_seq=7 Destination Host Unreachable\n\n--- 192.0.2.1 ping statistics ---\n\
                 200 packets transmitted, 100 received, 50% packet loss, time 9990ms\n";
        Answers::read("x", &text).unwrap()
    }

    fn is(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-3
    }

    #[test]
    fn a_silence_is_found_with_its_end() {
        let all = told(|_| false);
        assert_eq!((all.sent, all.lost()), (200, 0));
        assert!(is(all.silence_after(1_000.0), 0.0) && is(all.well_after(1_000.0), 0.0));
        // Numbers 41 to 80 are lost: from 1,002.05 to 1,004.05.
        let some = told(|number| (41..=80).contains(&number) || number == 120);
        assert_eq!(some.lost(), 41);
        assert!(is(some.silence_after(1_000.0), 2.0), "{}", some.silence_after(1_000.0));
        assert!(is(some.well_after(1_001.05), 3.0), "from the moment on");
        assert!(is(some.silence_after(1_003.05), 1.0), "what was before does not count");
        assert!(is(some.silence_after(1_005.0), 0.05), "one ping");
        assert!(is(some.silence_after(1_007.0), 0.0));
    }

    #[test]
    fn what_is_never_answered_again_is_not_well() {
        let gone = told(|number| number > 100);
        assert!(gone.well_after(1_000.0).is_infinite() && gone.silence_after(1_008.0).is_infinite());
        assert!(told(|_| true).well_after(1_000.0).is_infinite());
        let late = "[1000.5] 64 bytes from 192.0.2.1: icmp_seq=7 ttl=62 time=1001 ms";
        assert_eq!(answer(late), None, "whoever had it was away");
        assert!(answer(&late.replace("1001", "999")).is_some());
        // The last ones are still under way.
        assert!(is(told(|number| number > 195).well_after(1_000.0), 0.0));
        assert_eq!(Answers::read("x", "nothing"), None);
    }
}
