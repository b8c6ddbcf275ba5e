//! Two hosts between which ordinary programs send: `ping`, `curl`, `iperf3`, each bound to an address.

use super::LabError;
use super::counters::kernel_counters;
use super::exec::Cmd;
use super::http;
use super::plan::{Family, HTTP_PORT};
use super::site::Site;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Pings of one check.
const PINGS: u32 = 20;

/// Octets of a UDP datagram: one packet, also with IPv6 and tunnel headers.
const UDP_LEN: u32 = 1200;

/// Time that pings may take. They end after five seconds by themselves, but the machine may stall.
const PING_LIMIT: Duration = Duration::from_secs(120);

/// Time that a file may take.
const FILE_LIMIT: Duration = Duration::from_secs(120);

/// Time that iperf3 may take beside the time it sends.
const IPERF3_LIMIT: Duration = Duration::from_secs(30);

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

    /// The verdict of a check in which a program took too long: it failed.
    ///
    /// # Errors
    /// All other errors.
    pub fn or_too_slow(done: Result<Self, LabError>) -> Result<Self, LabError> {
        match done {
            Err(LabError::TooSlow { limit, .. }) => {
                Ok(Self::new(false, format!("no end after {} s", limit.as_secs())))
            }
            done => done,
        }
    }
}

/// What iperf3 sends in both directions at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stream {
    /// TCP.
    Tcp,
    /// Paced UDP.
    Udp {
        /// Rate in each direction, as iperf3 understands it.
        rate: &'static str,
        /// Datagrams that may be lost, per thousand.
        most_lost_per_mille: f64,
    },
}

/// A client and a server, each with its namespace and address.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// Where they are.
    pub site: Site<'a>,
    /// The client's namespace.
    pub client: &'a str,
    /// The client's address.
    pub from: IpAddr,
    /// The server's namespace.
    pub server: &'a str,
    /// The server's address.
    pub to: IpAddr,
}

impl Ends<'_> {
    /// The family of the addresses.
    pub const fn family(&self) -> Family {
        if self.to.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// The same hosts in the other roles.
    pub const fn swapped(self) -> Self {
        let Self { site, client, from, server, to } = self;
        Self { site, client: server, from: to, server: client, to: from }
    }

    /// Echo requests, the last of them in packets of `full` octets, which may not be fragmented.
    ///
    /// # Errors
    /// [`LabError::Interrupted`], or a program that cannot be started.
    pub fn ping(&self, full: u16) -> Result<Verdict, LabError> {
        let (family, from, to) = (self.family(), self.from, self.to);
        let option = family.option();
        let full = full.saturating_sub(if family == Family::V4 { 28 } else { 48 });
        for (count, size) in [(PINGS - 5, 56), (5, full)] {
            // With -w, ping continues until `count` requests are answered. Without it, a late answer counts as lost.
            let line = format!("ping {option} -n -c {count} -i 0.02 -w 5 -M do -s {size} -I {from} {to}");
            let done = Cmd::new(&line).inside(self.client).limit(PING_LIMIT).finish(self.site.interrupt)?;
            if let Err(why) = check_pings(&done.text(), count) {
                return Ok(Verdict::new(false, format!("{size} octets: {why} {}", done.stderr)));
            }
        }
        Ok(Verdict::new(true, format!("{PINGS} of {PINGS}")))
    }

    /// A file of so many octets from the server, which must be equal.
    ///
    /// # Errors
    /// As [`ping`](Self::ping), and [`LabError::TooSlow`].
    pub fn fetch(&self, size: u64) -> Result<Verdict, LabError> {
        let done = self.curl(size, "").limit(FILE_LIMIT).finish(self.site.interrupt)?;
        let received = done.stdout.len() as u64;
        if !done.status.success() || received != size {
            return Ok(Verdict::new(false, format!("{received} of {size} octets. {}", done.stderr)));
        }
        Ok(match http::first_difference(&done.stdout) {
            Some(place) => Verdict::new(false, format!("octet {place} differs")),
            None => Verdict::new(true, megabits(size, done.took)),
        })
    }

    /// A file of so many octets to the server, which compares it.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub fn send(&self, size: u64) -> Result<Verdict, LabError> {
        let mut file = vec![0; size as usize]; // arguments are checked: at most 1 GiB
        http::fill(0, &mut file);
        // The empty Expect header makes curl send the file without asking first.
        let curl = self.curl(size, "-X PUT -H Expect: --data-binary @-").input(file);
        let done = curl.limit(FILE_LIMIT).finish(self.site.interrupt)?;
        let says = if done.status.success() { megabits(size, done.took) } else { done.stderr };
        Ok(Verdict::new(done.status.success(), says))
    }

    /// `curl` with these options, for a file of this size.
    pub fn curl(&self, size: u64, options: &str) -> Cmd {
        let (option, from) = (self.family().option(), self.from);
        let server = SocketAddr::new(self.to, HTTP_PORT);
        let line = format!("curl {option} -gsSf --interface {from} {options} http://{server}/{size}");
        Cmd::new(&line).inside(self.client)
    }

    /// Datagrams that reached either host and that its full sockets dropped, because the program did not run.
    fn unread(&self) -> Result<u64, LabError> {
        let mut unread = 0;
        for namespace in [self.client, self.server] {
            let counters = kernel_counters(namespace, self.site.interrupt)?;
            let of = |name: &str| counters.get(name).copied().unwrap_or(0);
            unread += of("Udp:RcvbufErrors") + of("Udp6RcvbufErrors");
        }
        Ok(unread)
    }

    /// A stream of so many seconds. Datagrams that the receiver's own socket dropped are not lost on the way.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub fn iperf3(&self, stream: Stream, seconds: u32) -> Result<Verdict, LabError> {
        let (option, from, to) = (self.family().option(), self.from, self.to);
        let udp = match stream {
            Stream::Tcp => String::new(),
            Stream::Udp { rate, .. } => format!("-u -b {rate} -l {UDP_LEN}"),
        };
        let line = format!("iperf3 {option} -c {to} -B {from} -t {seconds} -J --bidir {udp}");
        // A server per run: one that lost its client is busy for a while.
        let server = Cmd::new("iperf3 -s -1 --forceflush").inside(self.server);
        let unread = self.unread()?;
        let server =
            self.site.start("iperf3", &server)?.await_word("Server listening", self.site.interrupt)?;
        let limit = IPERF3_LIMIT + Duration::from_secs(u64::from(seconds));
        let done = Cmd::new(&line).inside(self.client).limit(limit).finish(self.site.interrupt);
        server.kill();
        let done = done?;
        let unread = self.unread()? - unread;
        Ok(rates(&done.stdout, stream, unread).unwrap_or_else(|why| Verdict::new(false, why)))
    }
}

/// The text between a mark and the next blank.
pub fn word_after<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.split_once(mark)?.1.split_ascii_whitespace().next()
}

/// Checks that so many pings were answered once, and none before the last of them was lost.
///
/// # Errors
/// What is missing.
pub fn check_pings(output: &str, count: u32) -> Result<(), String> {
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
fn rates(output: &[u8], stream: Stream, unread: u64) -> Result<Verdict, String> {
    let output: Value = serde_json::from_slice(output).map_err(|_| "iperf3 printed no JSON".to_owned())?;
    if let Some(error) = output["error"].as_str() {
        return Err(error.to_owned());
    }
    let number = |sum: &str, field: &str| {
        output["end"][sum][field].as_f64().ok_or_else(|| format!("iperf3 does not report {sum}.{field}"))
    };
    let up = number("sum_received", "bits_per_second")? * 1e-6;
    let down = number("sum_received_bidir_reverse", "bits_per_second")? * 1e-6;
    let Stream::Udp { most_lost_per_mille, .. } = stream else {
        return Ok(Verdict::new(up > 0.1 && down > 0.1, format!("{up:.0} up, {down:.0} down")));
    };
    let lost = number("sum", "lost_packets")? + number("sum_bidir_reverse", "lost_packets")?;
    let sent = number("sum", "packets")? + number("sum_bidir_reverse", "packets")?;
    let lost = (lost - unread as f64).max(0.0);
    let passed = sent > 0.0 && lost * 1000.0 <= sent * most_lost_per_mille;
    let unread = if unread > 0 { format!(", {unread} not read") } else { String::new() };
    Ok(Verdict::new(passed, format!("{up:.0} up, {down:.0} down, lost {lost:.0} of {sent:.0}{unread}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP: Stream = Stream::Udp { rate: "20M", most_lost_per_mille: 10.0 };

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
        let verdict = rates(output(2).as_bytes(), UDP, 0).unwrap();
        assert_eq!((verdict.passed, verdict.says.as_str()), (true, "20 up, 10 down, lost 3 of 2000"));
        assert!(!rates(output(30).as_bytes(), UDP, 0).unwrap().passed);
        assert!(rates(output(30).as_bytes(), Stream::Tcp, 0).unwrap().passed);
        let unread = rates(output(30).as_bytes(), UDP, 20).unwrap();
        assert_eq!(
            (unread.passed, unread.says.as_str()),
            (true, "20 up, 10 down, lost 11 of 2000, 20 not read")
        );
        assert_eq!(rates(br#"{"end":{},"error":"refused"}"#, UDP, 0), Err("refused".to_owned()));
        assert!(rates(br#"{"end":{}}"#, UDP, 0).is_err() && rates(b"", UDP, 0).is_err());
    }
}
