//! What a node counts, declared once: whoever shows counters goes through this list.

use crate::gateway::wiring::name;
use scalebricks_elements::gateway::reason::DropCounts;

/// A metric, with the series of one or several counters.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name, without prefix and suffix.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Whether each worker has series of its own.
    pub is_by_worker: bool,
}

/// Something that a node counts beside drops.
#[derive(Debug)]
pub struct CounterSpec {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub doc: &'static str,
    /// What it is called in a table of what happens seldom; `None` if it is told otherwise.
    pub seldom: Option<&'static str>,
    /// The metric it is part of.
    pub family: &'static Family,
    /// By which labels.
    pub labels: &'static [(&'static str, &'static str)],
    value: fn(&NodeStats) -> u64,
}

const PACKETS: Family = Family {
    name: "packets",
    help: "Packets a worker took from a port or sent by it; a fragmented one counts once.",
    is_by_worker: true,
};

const PROBES: Family = Family {
    name: "fabric_probes",
    help: "Probes and echoes of the fabric, which are no packets of it.",
    is_by_worker: false,
};

/// A metric of one counter alone.
const fn alone(name: &'static str, help: &'static str) -> Family {
    Family { name, help, is_by_worker: false }
}

macro_rules! counters {
    (@seldom) => { None };
    (@seldom $words:literal) => { Some($words) };
    ($(
        $(#[doc = $doc:literal])+
        $name:ident = [$($source:expr),+] $(less [$($less:expr),+])?: $family:expr, [$($label:literal = $value:literal),*] $(, $seldom:literal)?;
    )+) => {
        /// A node's counters. One worker owns them.
        ///
        /// Every packet that comes in is sent by a port, dropped, taken by the slow path as a message to the node itself, or waits: for the
        /// fabric, or in the slow path for its next hop. So `in = out + dropped + taken + waiting`, summed over all workers, where each sum
        /// is over all ports. Beside that, `dropped` counts messages of the node itself and further fragments of a packet that a port refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct NodeStats {
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// Dropped, by reason.
            pub dropped: DropCounts,
        }

        impl std::ops::AddAssign<&Self> for NodeStats {
            fn add_assign(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
                self.dropped += &other.dropped;
            }
        }

        /// Where a counter's value goes.
        pub(crate) type Field = fn(&mut NodeStats) -> &mut u64;

        /// A counter of an element, by the names of both.
        pub(crate) type Source = (&'static str, &'static str);

        /// Of which counters of the node's elements each is the sum, and which are taken off.
        pub(crate) const SOURCES: &[(Field, &[Source], &[Source])] =
            &[$((|stats| &mut stats.$name, &[$($source),+], &[$($($less),+)?]),)+];

        /// All counters, in the order in which they are told. Drops have a list of their own,
        /// [`DropReason::ALL`](scalebricks_elements::gateway::DropReason::ALL).
        pub const COUNTERS: &[CounterSpec] = &[$(CounterSpec {
            name: stringify!($name),
            doc: concat!($($doc),+).trim_ascii(),
            seldom: counters!(@seldom $($seldom)?),
            family: &const { $family },
            labels: &[$(($label, $value)),*],
            value: |stats| stats.$name,
        },)+];
    };
}

counters! {
    /// Received from the Internet.
    internet_in = [(name::FROM_INTERNET, "received")]: PACKETS, ["port" = "internet", "direction" = "in"];
    /// Received from the base stations.
    base_station_in = [(name::FROM_BASE_STATION, "received")]: PACKETS, ["port" = "base-station", "direction" = "in"];
    /// Received from the fabric.
    fabric_in = [(name::FROM_FABRIC, "received")] less [(name::PROBES, "probes_received")]: PACKETS, ["port" = "fabric", "direction" = "in"];
    /// Sent to the Internet, the node's own answers apart.
    internet_out = [(name::TO_INTERNET, "sent")]: PACKETS, ["port" = "internet", "direction" = "out"];
    /// Sent to base stations; a fragmented packet counts once.
    base_station_out = [(name::TO_BASE_STATION, "sent")]: PACKETS, ["port" = "base-station", "direction" = "out"];
    /// Sent over the fabric.
    fabric_out = [(name::TO_FABRIC, "sent")]: PACKETS, ["port" = "fabric", "direction" = "out"];
    /// Outer fragments sent in place of whole packets.
    fragments_made = [(name::HANDLE, "fragments_made")]: alone("outer_fragments", "Outer fragments sent in their place."), [], "fragments made";
    /// Packets that were fragmented.
    packets_fragmented = [(name::HANDLE, "packets_fragmented")]: alone("fragmented_packets", "Packets sent in outer fragments."), [], "packets fragmented";
    /// ICMP errors sent.
    icmp_sent = [(name::HANDLE, "icmp_sent")]: alone("icmp_errors_sent", "ICMP errors sent."), [], "ICMP errors sent";
    /// Packets sent on to another node because the flow was not here any more.
    forwarded_again = [(name::STEER, "forwarded_again")]: alone("forwarded_again_packets", "Packets sent on because the flow was not here any more."), [],
        "forwarded once more";
    /// Packets sent to another node over a third, because the direct way was broken.
    relayed = [(name::TO_FABRIC, "relayed")]: alone("relayed_packets", "Packets sent to another node over a third, because the direct way was broken."), [],
        "relayed over a third node";
    /// Probes and echoes received from the fabric; no part of `fabric_in`.
    probes_in = [(name::PROBES, "probes_received")]: PROBES, ["event" = "received"];
    /// Probes and echoes sent over the fabric; no part of `fabric_out`.
    probes_out = [(name::TO_FABRIC, "probes_sent")]: PROBES, ["event" = "sent"];
    /// Probes and echoes that were not sent: no buffer, a full port, or a node that asks for too many.
    probes_unsent = [(name::PROBES, "probes_unsent"), (name::TO_FABRIC, "probes_unsent")]: PROBES, ["event" = "unsent"], "probes not sent";
}

impl NodeStats {
    /// Everything that is counted beside drops, in the order of [`COUNTERS`].
    pub fn counters(&self) -> impl Iterator<Item = (&'static CounterSpec, u64)> + '_ {
        COUNTERS.iter().map(|spec| (spec, (spec.value)(self)))
    }
}
