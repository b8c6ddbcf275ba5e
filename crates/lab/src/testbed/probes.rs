//! Pings of phones of all nodes, in both directions and over both families, all the time while something breaks: which of them
//! was answered, and when it was sent.

use super::LabError;
use super::exec::Cmd;
use super::nodes::{Process, Processes};
use super::plan::{Family, Ue};
use rustix::process::Signal;
use scalebricks_console::Interrupt;
use std::cmp::Ordering;
use std::time::{Duration, SystemTime};

/// Time between two pings of a flow.
const EVERY: Duration = Duration::from_millis(50);

/// How long they go on if nobody ends them.
const LONGEST: Duration = Duration::from_secs(120);

/// Pings at the end that may still be on their way.
const UNDER_WAY: u32 = 10;

/// The pings, under way.
pub struct Probes {
    running: Vec<(Ue, String, Process)>,
}

/// What became of one flow's pings.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// Whose they were.
    pub ue: Ue,
    /// As the table calls it.
    pub flow: String,
    /// How many were sent.
    sent: u32,
    /// Those that were answered: number, when they were sent, as Unix time in seconds, and how long the answer took, in seconds.
    /// Ascending, one for each answer.
    answered: Vec<(u32, f64, f64)>,
}

/// Now, as Unix time in seconds.
pub fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl Probes {
    /// Starts them, of these phones.
    ///
    /// # Errors
    /// As [`Processes::start`].
    pub fn start(processes: Processes<'_>, phones: &[Ue]) -> Result<Self, LabError> {
        let plan = processes.plan;
        let mut running = Vec::new();
        for ue in phones.iter().copied() {
            for family in Family::ALL {
                let (phone, host) = (ue.address(family), family.host());
                for (from, to, namespace, way) in
                    [(phone, host, plan.ue(), "up"), (host, phone, plan.inet(), "down")]
                {
                    let (option, every, time) = (family.option(), EVERY.as_secs_f64(), LONGEST.as_secs());
                    let line = format!("ping {option} -n -D -i {every} -w {time} -I {from} {to}");
                    let name = flow(ue, family, way);
                    let process = processes.start(&name, &Cmd::new(&line).inside(&namespace))?;
                    running.push((ue, name, process));
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
        for (_, _, process) in &self.running {
            process.signal(Signal::INT)?;
        }
        for (ue, flow, process) in self.running {
            let ended = process.await_word_for("packets transmitted", Duration::from_secs(5), interrupt)?;
            let told = ended.log();
            ended.kill();
            let read = Answers::read(ue, &flow, &told);
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
    fn read(ue: Ue, flow: &str, told: &str) -> Option<Self> {
        let line = told.lines().find(|line| line.contains("packets transmitted"))?;
        let sent = line.split(' ').next()?.parse().ok()?;
        let mut answered: Vec<(u32, f64, f64)> = told.lines().filter_map(answer).collect();
        answered.sort_by(|a, b| (a.0, a.2).partial_cmp(&(b.0, b.2)).unwrap_or(Ordering::Equal));
        Some(Self { ue, flow: flow.to_owned(), sent, answered })
    }

    /// When each was sent, in the order of their numbers, as Unix time in seconds: between two that were answered evenly, before and
    /// behind them at the usual pace. The last few, which may still be under way, are left out.
    pub fn sent_at(&self) -> Vec<f64> {
        let every = EVERY.as_secs_f64();
        let mut known: Vec<(u32, f64)> = self.answered.iter().map(|(number, at, _)| (*number, *at)).collect();
        known.dedup_by_key(|(number, _)| *number);
        let (Some(first), Some(last)) = (known.first().copied(), known.last().copied()) else {
            // None was answered: nobody knows when they were sent.
            return vec![0.0; self.sent.saturating_sub(UNDER_WAY) as usize];
        };
        let before = (1..first.0).map(|number| first.1 - f64::from(first.0 - number) * every);
        let between = known.windows(2).flat_map(|pair| match *pair {
            [(a, at), (b, then)] => {
                let step = (then - at) / f64::from(b - a);
                (a..b).map(move |number| at + f64::from(number - a) * step).collect()
            }
            _ => Vec::new(),
        });
        let behind = (last.0..=self.sent).map(|number| last.1 + f64::from(number - last.0) * every);
        let mut all: Vec<f64> = before.chain(between).chain(behind).collect();
        // Those that were answered are not under way.
        all.truncate(last.0.max(self.sent.saturating_sub(UNDER_WAY)) as usize);
        all
    }

    /// Those that were answered, once for each answer: number, from 0, and how long the answer took, in microseconds.
    pub fn arrived(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.answered.iter().map(|(number, _, took_s)| {
            let took = Duration::try_from_secs_f64(*took_s).unwrap_or_default();
            (u64::from(*number).saturating_sub(1), took.as_micros() as u64) // ping ends before that overflows
        })
    }
}

/// Number, time of sending and time taken, of a line that tells of an answer.
fn answer(line: &str) -> Option<(u32, f64, f64)> {
    let (came, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let rest = rest.contains(" bytes from ").then_some(rest)?;
    let (_, rest) = rest.split_once("icmp_seq=")?;
    let number = rest.split(' ').next()?.parse().ok().filter(|number| *number > 0)?;
    let took: f64 = rest.split_once("time=")?.1.split(' ').next()?.parse().ok()?;
    let took = took / 1e3;
    Some((number, came.parse::<f64>().ok()? - took, took))
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_types::NodeId;
    use std::fmt::Write as _;

    const UE: Ue = Ue { number: 0, node: NodeId::new(0) };

    /// 200 pings from second 1,000.05 on, of which these are not answered.
    fn told(is_lost: impl Fn(u32) -> bool) -> Answers {
        let mut text = "PING 192.0.2.1 (192.0.2.1) from 10.45.0.1 : 56(84) bytes of data.\n".to_owned();
        for number in (1..=200_u32).filter(|number| !is_lost(*number)) {
            let at = 1_000.0 + f64::from(number) * 0.05 + 0.002;
            let _ =
                writeln!(text, "[{at:.6}] 64 bytes from 192.0.2.1: icmp_seq={number} ttl=62 time=2.00 ms");
        }
        text += "From 192.0.2.10 icmp_seq=7 Destination Host Unreachable\n\n--- 192.0.2.1 ping statistics ---\n\
                 200 packets transmitted, 100 received, 50% packet loss, time 9990ms\n";
        Answers::read(UE, "x", &text).unwrap()
    }

    #[test]
    fn the_time_of_sending_of_a_ping_that_is_lost_is_known_by_its_neighbours() {
        for is_lost in
            [|_| false, |number| (41..=80).contains(&number), |number| !(9..=150).contains(&number)]
        {
            let answers = told(is_lost);
            let sent = answers.sent_at();
            let all = if is_lost(200) { 190 } else { 200 };
            assert_eq!(sent.len(), all, "the last ten may be under way");
            for (number, at) in (1_u32..).zip(&sent) {
                assert!((at - 1_000.0 - f64::from(number) * 0.05).abs() < 1e-3, "{number}: {at}");
            }
            let arrived: Vec<u64> = answers.arrived().map(|(number, _)| number + 1).collect();
            let expected: Vec<u64> = (1..=200).filter(|number| !is_lost(*number)).map(u64::from).collect();
            assert_eq!(arrived, expected);
        }
        assert_eq!(told(|_| true).sent_at().len(), 190);
        assert_eq!(told(|_| true).arrived().count(), 0);
    }

    #[test]
    fn a_line_of_an_answer_tells_when_it_was_sent_and_how_long_it_took() {
        let late = "[1000.5] 64 bytes from 192.0.2.1: icmp_seq=7 ttl=62 time=1500 ms";
        assert_eq!(answer(late), Some((7, 999.0, 1.5)));
        assert_eq!(answer("[1000.5] From 192.0.2.10 icmp_seq=7 Destination Host Unreachable"), None);
        assert_eq!(answer(&late.replace("icmp_seq=7", "icmp_seq=0")), None);
        let double = format!("{late}\n{late}\n9 packets transmitted, 1 received");
        assert_eq!(Answers::read(UE, "x", &double).unwrap().arrived().count(), 2);
        assert_eq!(Answers::read(UE, "x", "nothing"), None);
    }
}
