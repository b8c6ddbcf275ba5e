//! What users of the lab do, with the programs of [`ends`](super::ends).

use super::LabError;
use super::context::LabContext;
use super::ends::{Ends, Stream, Verdict};
use super::exec::Cmd;
use super::plan::{Family, INTERNET_MTU, Plan, Ue};
use scalebricks_types::NodeId;

/// A small file, octets: a few dozen packets.
const SMALL_FILE: u64 = 60_000;

/// Seconds of one measurement.
const SECONDS: u32 = 1;

/// UDP, each direction. If other programs use the lab's cores, the kernel's queues overflow. Pings and files reveal any other
/// loss.
const UDP: Stream = Stream::Udp { rate: "20M", most_lost_per_mille: 10.0 };

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
        let inet = self.plan.inet();
        let phones = self.plan.ue();
        let ends = self.ends(ue, family, &phones, &inet);
        Verdict::or_too_slow(match what {
            Use::PingUp => ends.ping(INTERNET_MTU),
            Use::PingDown => ends.swapped().ping(INTERNET_MTU),
            Use::FetchSmall => ends.fetch(SMALL_FILE).map(|verdict| Verdict {
                says: if verdict.passed { "equal".to_owned() } else { verdict.says },
                ..verdict
            }),
            Use::Fetch(size) => ends.fetch(size),
            Use::Send(size) => ends.send(size),
            Use::Tcp => ends.iperf3(Stream::Tcp, SECONDS),
            Use::Udp => ends.iperf3(UDP, SECONDS),
        })
    }

    /// A phone and the Internet host.
    fn ends<'a>(&'a self, ue: Ue, family: Family, phones: &'a str, inet: &'a str) -> Ends<'a> {
        let (from, to) = (ue.address(family), family.host());
        Ends { site: self.site(), client: phones, from, server: inet, to }
    }

    /// `curl` as a phone, with these options, for a file of this size.
    pub fn curl(&self, ue: Ue, family: Family, size: u64, options: &str) -> Cmd {
        self.ends(ue, family, &self.plan.ue(), &self.plan.inet()).curl(size, options)
    }

    /// Echo requests of the Internet host to a node.
    ///
    /// # Errors
    /// As [`use_network`](Self::use_network).
    pub fn ping_node(&self, node: NodeId, family: Family) -> Result<Verdict, LabError> {
        let (inet, to) = (self.plan.inet(), Plan::internet_address(node, family));
        let server = self.plan.node(node);
        Ends { site: self.site(), client: &inet, from: family.host(), server: &server, to }.ping(INTERNET_MTU)
    }
}
