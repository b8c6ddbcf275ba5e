//! Ordinary programs as users: `ping`, `curl`, `iperf3`, each bound to the address of a phone.

use super::LabError;
use super::exec::Cmd;
use super::http;
use super::nodes::Processes;
use super::plan::{Family, HTTP_PORT, Plan, Ue};
use scalebricks_console::Interrupt;
use scalebricks_types::NodeId;
use serde_json::Value;
use std::net::IpAddr;
use std::time::Duration;

/// Pings of one check.
const PINGS: u32 = 20;

/// A small file, octets: a few dozen packets.
const SMALL_FILE: u64 = 60_000;

/// Seconds of one measurement.
const SECONDS: u32 = 1;

/// Rate of UDP, each direction.
const UDP_RATE: &str = "20M";

/// Octets of a UDP datagram: one packet with IPv6 and tunnel headers too.
const UDP_LEN: u32 = 1200;

/// Datagrams that may be lost, per thousand. Machines on which the lab shares a core with strangers lose some when the
/// kernel's queues run over; pings and files tell of any other loss.
const UDP_LOSS_PER_MILLE: f64 = 10.0;

/// What a check came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Whether all is well.
    pub passed: bool,
    /// In a few words.
    pub says: String,
}

impl Verdict {
    fn new(passed: bool, says: impl Into<String>) -> Self {
        Self { passed, says: says.into() }
    }
}

/// What users do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Echo requests of a phone, the last of them as long as the Internet's packets get.
    PingUp,
    /// Echo requests to a phone.
    PingDown,
    /// A file from the Internet host that is too small for its rate to mean anything.
    FetchSmall,
    /// A file from the Internet host, of so many octets.
    Fetch(u64),
    /// A file to it.
    Send(u64),
    /// TCP in both directions at once.
    Tcp,
    /// UDP in both directions at once.
    Udp,
}

impl Use {
    /// As the report calls it.
    pub fn name(self) -> &'static str {
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

/// Runs what users do.
#[derive(Debug, Clone, Copy)]
pub struct Traffic<'a> {
    /// Where.
    pub plan: &'a Plan,
    /// Whether to go on.
    pub interrupt: &'a Interrupt,
    /// What starts servers.
    pub processes: Processes<'a>,
    /// How long a file may take.
    pub limit: Duration,
}

impl Traffic<'_> {
    /// Does it, as this phone.
    ///
    /// # Errors
    /// [`LabError::Interrupted`], or a program that cannot be started; what goes wrong otherwise is the verdict.
    pub fn run(&self, what: Use, ue: Ue, family: Family) -> Result<Verdict, LabError> {
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

    /// Echo requests of the Internet host to a node itself.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn ping_node(&self, node: NodeId, family: Family) -> Result<Verdict, LabError> {
        self.ping(&self.plan.inet(), family.host(), Plan::internet_address(node, family), family)
    }

    fn ping(&self, namespace: &str, from: IpAddr, to: IpAddr, family: Family) -> Result<Verdict, LabError> {
        let option = family.option();
        // Full packets may not be fragmented on the way into the tunnel.
        let full = if family == Family::V4 { 1472 } else { 1452 };
        for (count, size) in [(PINGS - 5, 56), (5, full)] {
            // With a limit, ping goes on until so many are answered. Without, it would take a late answer for none.
            let line = format!("ping {option} -n -c {count} -i 0.02 -w 5 -M do -s {size} -I {from} {to}");
            let done = Cmd::new(&line).inside(namespace).finish(self.interrupt)?;
            if let Err(why) = pings(&done.text(), count) {
                return Ok(Verdict::new(false, format!("{size} octets: {why} {}", done.stderr)));
            }
        }
        Ok(Verdict::new(true, format!("{PINGS} of {PINGS}")))
    }

    fn curl(&self, ue: Ue, family: Family, size: u64) -> Cmd {
        let host = match family.host() {
            IpAddr::V4(host) => host.to_string(),
            IpAddr::V6(host) => format!("[{host}]"),
        };
        let (option, from) = (family.option(), ue.address(family));
        let line = format!("curl {option} -gsSf --interface {from} http://{host}:{HTTP_PORT}/{size}");
        Cmd::new(&line).inside(&self.plan.ue()).limit(self.limit)
    }

    fn fetch(&self, ue: Ue, family: Family, size: u64) -> Result<Verdict, LabError> {
        let done = self.curl(ue, family, size).finish(self.interrupt)?;
        let got = done.stdout.len() as u64;
        if !done.status.success() || got != size {
            return Ok(Verdict::new(false, format!("{got} of {size} octets. {}", done.stderr)));
        }
        Ok(match http::first_difference(&done.stdout) {
            Some(place) => Verdict::new(false, format!("octet {place} differs")),
            None if size == SMALL_FILE => Verdict::new(true, "equal"),
            None => Verdict::new(true, megabits(size, done.took)),
        })
    }

    fn send(&self, ue: Ue, family: Family, size: u64) -> Result<Verdict, LabError> {
        let mut file = vec![0; size as usize]; // arguments are checked: a GiB at most
        http::fill(0, &mut file);
        // Without asking first whether the file is welcome.
        let curl = self.curl(ue, family, size).words("-X PUT -H Expect: --data-binary @-").input(file);
        let done = curl.finish(self.interrupt)?;
        if !done.status.success() {
            return Ok(Verdict::new(false, done.stderr));
        }
        Ok(Verdict::new(true, megabits(size, done.took)))
    }

    fn iperf3(&self, ue: Ue, family: Family, is_udp: bool) -> Result<Verdict, LabError> {
        let (option, from, host) = (family.option(), ue.address(family), family.host());
        let udp = if is_udp { format!("-u -b {UDP_RATE} -l {UDP_LEN}") } else { String::new() };
        let line = format!("iperf3 {option} -c {host} -B {from} -t {SECONDS} -J --bidir {udp}");
        let limit = Duration::from_secs(30) + Duration::from_secs(u64::from(SECONDS));
        // A server of its own: one that lost its client is busy for a while.
        let server = Cmd::new("iperf3 -s -1 --forceflush").inside(&self.plan.inet());
        let server =
            self.processes.start("iperf3", &server)?.await_word("Server listening", self.interrupt)?;
        let done = Cmd::new(&line).inside(&self.plan.ue()).limit(limit).finish(self.interrupt);
        server.kill();
        Ok(rates(&done?.stdout, is_udp).unwrap_or_else(|why| Verdict::new(false, why)))
    }
}

/// Whether so many pings were answered once, and none before the last of them was not.
fn pings(told: &str, count: u32) -> Result<(), String> {
    let after = |line: &str| line.split_once("icmp_seq=").map(|(_, rest)| rest.to_owned());
    let is_answer = |line: &&str| line.contains(" bytes from ");
    let number = |rest: String| rest.split_ascii_whitespace().next()?.parse().ok();
    let mut numbers: Vec<u32> = told.lines().filter(is_answer).filter_map(after).filter_map(number).collect();
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

/// What iperf3 measured in both directions.
fn rates(told: &[u8], is_udp: bool) -> Result<Verdict, String> {
    let told: Value = serde_json::from_slice(told).map_err(|_| "iperf3 said nothing".to_owned())?;
    if let Some(error) = told["error"].as_str() {
        return Err(error.to_owned());
    }
    let number = |sum: &str, field: &str| {
        told["end"][sum][field].as_f64().ok_or_else(|| format!("iperf3 does not tell {sum}.{field}"))
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
    fn lost_pings_duplicates_and_silence_are_told_apart() {
        let told = |numbers: &[u32]| {
            let line =
                |number: &u32| format!("64 bytes from 10.45.0.1: icmp_seq={number} ttl=62 time=1.3 ms\n");
            format!("PING x\n{}\n--- x ping statistics ---\n", numbers.iter().map(line).collect::<String>())
        };
        assert_eq!(pings(&told(&[1, 3, 2]), 3), Ok(()));
        assert_eq!(pings(&told(&[1, 2, 4]), 3), Err("1 of 4 lost".to_owned()));
        assert_eq!(pings(&told(&[1, 2, 2, 3]), 3), Err("1 answered twice".to_owned()));
        assert_eq!(pings(&told(&[1, 2]), 3), Err("2 of 3 answered".to_owned()));
        let refused = "From 192.0.2.10 icmp_seq=1 Destination Host Unreachable\n";
        assert_eq!(pings(refused, 3), Err("0 of 3 answered".to_owned()));
    }

    #[test]
    fn rates_and_losses_are_those_of_both_directions() {
        let told = |lost: u32| {
            format!(
                r#"{{"end":{{"sum":{{"lost_packets":{lost},"packets":1000}},
                "sum_bidir_reverse":{{"lost_packets":1,"packets":1000}},
                "sum_received":{{"bits_per_second":2e7}},"sum_received_bidir_reverse":{{"bits_per_second":1e7}}}}}}"#
            )
        };
        let verdict = rates(told(2).as_bytes(), true).unwrap();
        assert_eq!((verdict.passed, verdict.says.as_str()), (true, "20 up, 10 down, lost 3 of 2000"));
        assert!(!rates(told(30).as_bytes(), true).unwrap().passed);
        assert!(rates(told(30).as_bytes(), false).unwrap().passed);
        assert_eq!(rates(br#"{"end":{},"error":"refused"}"#, true), Err("refused".to_owned()));
        assert!(rates(br#"{"end":{}}"#, true).is_err() && rates(b"", true).is_err());
    }
}
