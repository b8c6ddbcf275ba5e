//! Traffic of ordinary programs: `ping`, `curl`, `iperf3`, each bound to the address of a phone.

use super::LabError;
use super::context::LabContext;
use super::exec::Cmd;
use super::http;
use super::plan::{Family, HTTP_PORT, Plan, Ue};
use scalebricks_types::NodeId;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Pings of one check.
const PINGS: u32 = 20;

/// A small file, octets: a few dozen packets.
const SMALL_FILE: u64 = 60_000;

/// Seconds of one measurement.
const SECONDS: u32 = 1;

/// Rate of UDP, each direction.
const UDP_RATE: &str = "20M";

/// Octets of a UDP datagram: one packet, also with IPv6 and tunnel headers.
const UDP_LEN: u32 = 1200;

/// Datagrams that may be lost, per thousand. If other programs use the lab's cores, the kernel's queues overflow. Pings and
/// files reveal any other loss.
const UDP_LOSS_PER_MILLE: f64 = 10.0;

/// Time that a file may take.
const FILE_LIMIT: Duration = Duration::from_secs(120);

/// Time that iperf3 may take.
const IPERF3_LIMIT: Duration = Duration::from_secs(30 + SECONDS as u64);

/// The result of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Whether it passed.
    pub passed: bool,
    /// A short explanation.
    pub says: String,
}

impl Verdict {
    /// A result with its explanation.
    pub fn new(passed: bool, says: impl Into<String>) -> Self {
        Self { passed, says: says.into() }
    }

    /// Passed if there are no problems, which are the explanation.
    pub fn of_problems(problems: &[impl std::fmt::Debug], none: &str) -> Self {
        if problems.is_empty() { Self::new(true, none) } else { Self::new(false, format!("{problems:?}")) }
    }
}

/// What users do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Echo requests of a phone, the last of them as long as the Internet's MTU permits.
    PingUp,
    /// Echo requests to a phone.
    PingDown,
    /// A file from the Internet host that is too small to measure a rate.
    FetchSmall,
    /// A file of so many octets from the Internet host.
    Fetch(u64),
    /// A file to it.
    Send(u64),
    /// TCP in both directions at once.
    Tcp,
    /// UDP in both directions at once.
    Udp,
}

impl Use {
    /// Its name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PingUp => "ping from phone",
            Self::PingDown => "ping to phone",
            Self::FetchSmall => "curl, small file",
            Self::Fetch(_) => "curl, download",
            Self::Send(_) => "curl, upload",
            Self::Tcp => "iperf3 TCP, Mb/s",
            Self::Udp => "iperf3 UDP, Mb/s",
        }
    }
}

impl LabContext<'_> {
    /// Does something as this phone.
    ///
    /// # Errors
    /// [`LabError::Interrupted`], or a program that cannot be started. Other errors are part of the verdict.
    pub fn use_network(&self, what: Use, ue: Ue, family: Family) -> Result<Verdict, LabError> {
        let done = match what {
            Use::PingUp => self.ping(&self.plan.ue(), ue.address(family), family.host(), family),
            Use::PingDown => self.ping(&self.plan.inet(), family.host(), ue.address(family), family),
            Use::FetchSmall => self.fetch(ue, family, SMALL_FILE),
            Use::Fetch(size) => self.fetch(ue, family, size),
            Use::Send(size) => self.send(ue, family, size),
            Use::Tcp => self.iperf3(ue, family, false),
            Use::Udp => self.iperf3(ue, family, true),
        };
        match done {
            Err(LabError::TooSlow { limit, .. }) => {
                Ok(Verdict::new(false, format!("no end after {} s", limit.as_secs())))
            }
            done => done,
        }
    }

    /// Echo requests of the Internet host to a node.
    ///
    /// # Errors
    /// As [`use_network`](Self::use_network).
    pub fn ping_node(&self, node: NodeId, family: Family) -> Result<Verdict, LabError> {
        self.ping(&self.plan.inet(), family.host(), Plan::internet_address(node, family), family)
    }

    fn ping(&self, namespace: &str, from: IpAddr, to: IpAddr, family: Family) -> Result<Verdict, LabError> {
        let option = family.option();
        // Full packets may not be fragmented on the way into the tunnel.
        let full = if family == Family::V4 { 1472 } else { 1452 };
        for (count, size) in [(PINGS - 5, 56), (5, full)] {
            // With -w, ping continues until `count` requests are answered. Without it, a late answer counts as lost.
            let line = format!("ping {option} -n -c {count} -i 0.02 -w 5 -M do -s {size} -I {from} {to}");
            let done = Cmd::new(&line).inside(namespace).finish(self.interrupt)?;
            if let Err(why) = check_pings(&done.text(), count) {
                return Ok(Verdict::new(false, format!("{size} octets: {why} {}", done.stderr)));
            }
        }
        Ok(Verdict::new(true, format!("{PINGS} of {PINGS}")))
    }

    fn fetch(&self, ue: Ue, family: Family, size: u64) -> Result<Verdict, LabError> {
        let done = self.curl(ue, family, size, "").limit(FILE_LIMIT).finish(self.interrupt)?;
        let received = done.stdout.len() as u64;
        if !done.status.success() || received != size {
            return Ok(Verdict::new(false, format!("{received} of {size} octets. {}", done.stderr)));
        }
        Ok(match http::first_difference(&done.stdout) {
            Some(place) => Verdict::new(false, format!("octet {place} differs")),
            None if size == SMALL_FILE => Verdict::new(true, "equal"),
            None => Verdict::new(true, megabits(size, done.took)),
        })
    }

    fn send(&self, ue: Ue, family: Family, size: u64) -> Result<Verdict, LabError> {
        let mut file = vec![0; size as usize]; // arguments are checked: at most 1 GiB
        http::fill(0, &mut file);
        // The empty Expect header makes curl send the file without asking first.
        let curl = self.curl(ue, family, size, "-X PUT -H Expect: --data-binary @-").input(file);
        let done = curl.limit(FILE_LIMIT).finish(self.interrupt)?;
        let says = if done.status.success() { megabits(size, done.took) } else { done.stderr };
        Ok(Verdict::new(done.status.success(), says))
    }

    /// `curl` as a phone, with these options, for a file of this size.
    pub fn curl(&self, ue: Ue, family: Family, size: u64, options: &str) -> Cmd {
        let (option, from) = (family.option(), ue.address(family));
        let host = SocketAddr::new(family.host(), HTTP_PORT);
        let line = format!("curl {option} -gsSf --interface {from} {options} http://{host}/{size}");
        Cmd::new(&line).inside(&self.plan.ue())
    }

    fn iperf3(&self, ue: Ue, family: Family, is_udp: bool) -> Result<Verdict, LabError> {
        let (option, from, host) = (family.option(), ue.address(family), family.host());
        let udp = if is_udp { format!("-u -b {UDP_RATE} -l {UDP_LEN}") } else { String::new() };
        let line = format!("iperf3 {option} -c {host} -B {from} -t {SECONDS} -J --bidir {udp}");
        // A server per run: one that lost its client is busy for a while.
        let server = Cmd::new("iperf3 -s -1 --forceflush").inside(&self.plan.inet());
        let server = self.start("iperf3", &server)?.await_word("Server listening", self.interrupt)?;
        let client = Cmd::new(&line).inside(&self.plan.ue()).limit(IPERF3_LIMIT);
        let done = client.finish(self.interrupt);
        server.kill();
        Ok(rates(&done?.stdout, is_udp).unwrap_or_else(|why| Verdict::new(false, why)))
    }
}

/// The text between a mark and the next blank.
pub fn word_after<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.split_once(mark)?.1.split_ascii_whitespace().next()
}

/// Checks that so many pings were answered once, and none before the last of them was lost.
fn check_pings(output: &str, count: u32) -> Result<(), String> {
    let answers = output.lines().filter(|line| line.contains(" bytes from "));
    let mut numbers: Vec<u32> =
        answers.filter_map(|line| word_after(line, "icmp_seq=")?.parse().ok()).collect();
    numbers.sort_unstable();
    let answers = numbers.len();
    numbers.dedup();
    let last = numbers.last().copied().unwrap_or(0);
    if numbers.len() < answers {
        Err(format!("{} answered twice", answers - numbers.len()))
    } else if last as usize > answers {
        Err(format!("{} of {last} lost", last as usize - answers))
    } else if answers < count as usize {
        Err(format!("{answers} of {count} answered"))
    } else {
        Ok(())
    }
}

fn megabits(size: u64, took: Duration) -> String {
    format!("{:.0} Mb/s", size as f64 * 8e-6 / took.as_secs_f64())
}

/// The rates of both directions in the output of iperf3.
fn rates(output: &[u8], is_udp: bool) -> Result<Verdict, String> {
    let output: Value = serde_json::from_slice(output).map_err(|_| "iperf3 printed no JSON".to_owned())?;
    if let Some(error) = output["error"].as_str() {
        return Err(error.to_owned());
    }
    let number = |sum: &str, field: &str| {
        output["end"][sum][field].as_f64().ok_or_else(|| format!("iperf3 does not report {sum}.{field}"))
    };
    let up = number("sum_received", "bits_per_second")? * 1e-6;
    let down = number("sum_received_bidir_reverse", "bits_per_second")? * 1e-6;
    if !is_udp {
        return Ok(Verdict::new(up > 0.1 && down > 0.1, format!("{up:.0} up, {down:.0} down")));
    }
    let lost = number("sum", "lost_packets")? + number("sum_bidir_reverse", "lost_packets")?;
    let sent = number("sum", "packets")? + number("sum_bidir_reverse", "packets")?;
    let passed = sent > 0.0 && lost * 1000.0 <= sent * UDP_LOSS_PER_MILLE;
    Ok(Verdict::new(passed, format!("{up:.0} up, {down:.0} down, lost {lost:.0} of {sent:.0}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_duplicate_and_missing_answers_are_distinguished() {
        let output = |numbers: &[u32]| {
            let line =
                |number: &u32| format!("64 bytes from 10.45.0.1: icmp_seq={number} ttl=62 time=1.3 ms\n");
            format!("PING x\n{}\n--- x ping statistics ---\n", numbers.iter().map(line).collect::<String>())
        };
        assert_eq!(check_pings(&output(&[1, 3, 2]), 3), Ok(()));
        assert_eq!(check_pings(&output(&[1, 2, 4]), 3), Err("1 of 4 lost".to_owned()));
        assert_eq!(check_pings(&output(&[1, 2, 2, 3]), 3), Err("1 answered twice".to_owned()));
        assert_eq!(check_pings(&output(&[1, 2]), 3), Err("2 of 3 answered".to_owned()));
        let refused = "From 192.0.2.10 icmp_seq=1 Destination Host Unreachable\n";
        assert_eq!(check_pings(refused, 3), Err("0 of 3 answered".to_owned()));
    }

    #[test]
    fn rates_and_losses_are_those_of_both_directions() {
        let output = |lost: u32| {
            format!(
                r#"{{"end":{{"sum":{{"lost_packets":{lost},"packets":1000}},
                "sum_bidir_reverse":{{"lost_packets":1,"packets":1000}},
                "sum_received":{{"bits_per_second":2e7}},"sum_received_bidir_reverse":{{"bits_per_second":1e7}}}}}}"#
            )
        };
        let verdict = rates(output(2).as_bytes(), true).unwrap();
        assert_eq!((verdict.passed, verdict.says.as_str()), (true, "20 up, 10 down, lost 3 of 2000"));
        assert!(!rates(output(30).as_bytes(), true).unwrap().passed);
        assert!(rates(output(30).as_bytes(), false).unwrap().passed);
        assert_eq!(rates(br#"{"end":{},"error":"refused"}"#, true), Err("refused".to_owned()));
        assert!(rates(br#"{"end":{}}"#, true).is_err() && rates(b"", true).is_err());
    }
}
