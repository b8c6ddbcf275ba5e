//! Pings of phones of all nodes, in both directions and over both families, during an outage: which of them were answered, and
//! when they were sent.

use super::LabError;
use super::context::LabContext;
use super::ends::word_after;
use super::exec::Cmd;
use super::nodes::Process;
use super::plan::{Family, Ue};
use rustix::process::Signal;
use scalebricks_console::Interrupt;
use std::cmp::Ordering;
use std::time::{Duration, SystemTime};

/// Time between two pings of a flow.
const EVERY: Duration = Duration::from_millis(50);

/// Longest run of pings.
const LONGEST: Duration = Duration::from_secs(120);

/// Pings at the end that may not have been answered yet.
const IN_FLIGHT: u32 = 10;

/// Pings that are running.
pub struct Probes {
    running: Vec<(Ue, String, Process)>,
}

/// The results of one flow's pings.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// The phone.
    pub ue: Ue,
    /// The flow's name in reports.
    pub flow: String,
    /// Pings that were sent.
    sent: u32,
    /// The answers, in order of their numbers: number, time of sending as Unix time in seconds, round-trip time in seconds.
    answered: Vec<(u32, f64, f64)>,
}

/// The Unix time in seconds.
pub fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl Probes {
    /// Starts the pings of these phones.
    ///
    /// # Errors
    /// As [`LabContext::start`].
    pub fn start(context: LabContext<'_>, phones: &[Ue]) -> Result<Self, LabError> {
        let plan = context.plan;
        let (every, time) = (EVERY.as_secs_f64(), LONGEST.as_secs());
        let mut running = Vec::new();
        for (ue, family) in phones.iter().flat_map(|ue| Family::ALL.map(|family| (*ue, family))) {
            let (phone, host) = (ue.address(family), family.host());
            for (from, to, namespace, way) in
                [(phone, host, plan.ue(), "up"), (host, phone, plan.inet(), "down")]
            {
                let option = family.option();
                let line = format!("ping {option} -n -D -i {every} -w {time} -I {from} {to}");
                let name = format!("ping-{}-{}-{way}", ue.number, family.name());
                let process = context.start(&name, &Cmd::new(&line).inside(&namespace))?;
                running.push((ue, name, process));
            }
        }
        Ok(Self { running })
    }

    /// Stops the pings; their results.
    ///
    /// # Errors
    /// [`LabError::Died`] if one had ended; [`LabError::Setup`] if its output cannot be parsed.
    pub fn finish(self, interrupt: &Interrupt) -> Result<Vec<Answers>, LabError> {
        self.running.iter().try_for_each(|(_, _, process)| process.signal(Signal::INT))?;
        let read = |(ue, flow, process): (Ue, String, Process)| {
            let ended = process.await_word_for("packets transmitted", Duration::from_secs(5), interrupt)?;
            let answers = Answers::read(ue, &flow, &ended.log());
            ended.kill();
            answers.ok_or_else(|| LabError::Setup(format!("{flow}: cannot parse the output of ping")))
        };
        self.running.into_iter().map(read).collect()
    }
}

impl Answers {
    /// Parses the output of `ping -D`.
    fn read(ue: Ue, flow: &str, output: &str) -> Option<Self> {
        let line = output.lines().find(|line| line.contains("packets transmitted"))?;
        let sent = line.split(' ').next()?.parse().ok()?;
        let mut answered: Vec<(u32, f64, f64)> = output.lines().filter_map(answer).collect();
        answered.sort_by(|a, b| (a.0, a.2).partial_cmp(&(b.0, b.2)).unwrap_or(Ordering::Equal));
        Some(Self { ue, flow: flow.to_owned(), sent, answered })
    }

    /// When each ping was sent, in the order of their numbers, as Unix time in seconds: interpolated between answered pings, and
    /// extrapolated before and after them. Unanswered pings at the end, which may still be in flight, are left out.
    pub fn sent_at(&self) -> Vec<f64> {
        let every = EVERY.as_secs_f64();
        let mut known: Vec<(u32, f64)> = self.answered.iter().map(|(number, at, _)| (*number, *at)).collect();
        known.dedup_by_key(|(number, _)| *number);
        let (Some(first), Some(last)) = (known.first().copied(), known.last().copied()) else {
            // Without an answer, the times are unknown.
            return vec![0.0; self.sent.saturating_sub(IN_FLIGHT) as usize];
        };
        let before = (1..first.0).map(|number| first.1 - f64::from(first.0 - number) * every);
        let between = known.windows(2).flat_map(|pair| {
            let ((a, at), (b, then)) = (pair[0], pair[1]);
            let step = (then - at) / f64::from(b - a);
            (a..b).map(move |number| at + f64::from(number - a) * step)
        });
        let after = (last.0..=self.sent).map(|number| last.1 + f64::from(number - last.0) * every);
        let mut all: Vec<f64> = before.chain(between).chain(after).collect();
        // Answered pings are not in flight.
        all.truncate(last.0.max(self.sent.saturating_sub(IN_FLIGHT)) as usize);
        all
    }

    /// One item per answer: the ping's number, from 0, and the round-trip time in microseconds.
    pub fn arrived(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.answered.iter().map(|(number, _, took_s)| {
            let took = Duration::try_from_secs_f64(*took_s).unwrap_or_default();
            (u64::from(*number).saturating_sub(1), took.as_micros() as u64) // ping ends before that overflows
        })
    }
}

/// Number, time of sending and round-trip time in the line of an answer.
fn answer(line: &str) -> Option<(u32, f64, f64)> {
    let (arrived, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let rest = rest.contains(" bytes from ").then_some(rest)?;
    let number = word_after(rest, "icmp_seq=")?.parse().ok().filter(|number| *number > 0)?;
    let took: f64 = word_after(rest, "time=")?.parse().ok()?;
    let took = took / 1e3;
    Some((number, arrived.parse::<f64>().ok()? - took, took))
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_types::NodeId;
    use std::fmt::Write as _;

    const UE: Ue = Ue { number: 0, node: NodeId::new(0) };

    /// 200 pings from second 1,000.05 on, of which these are not answered.
    fn answers(is_lost: impl Fn(u32) -> bool) -> Answers {
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
    fn the_time_of_a_lost_ping_is_interpolated() {
        for is_lost in
            [|_| false, |number| (41..=80).contains(&number), |number| !(9..=150).contains(&number)]
        {
            let answers = answers(is_lost);
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
        assert_eq!(answers(|_| true).sent_at().len(), 190);
        assert_eq!(answers(|_| true).arrived().count(), 0);
    }

    #[test]
    fn an_answer_has_its_time_of_sending_and_round_trip_time() {
        let late = "[1000.5] 64 bytes from 192.0.2.1: icmp_seq=7 ttl=62 time=1500 ms";
        assert_eq!(answer(late), Some((7, 999.0, 1.5)));
        assert_eq!(answer("[1000.5] From 192.0.2.10 icmp_seq=7 Destination Host Unreachable"), None);
        assert_eq!(answer(&late.replace("icmp_seq=7", "icmp_seq=0")), None);
        let double = format!("{late}\n{late}\n9 packets transmitted, 1 received");
        assert_eq!(Answers::read(UE, "x", &double).unwrap().arrived().count(), 2);
        assert_eq!(Answers::read(UE, "x", "nothing"), None);
    }
}
