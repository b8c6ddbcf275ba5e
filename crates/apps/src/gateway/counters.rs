//! A node's counters, declared once: everything that shows counters uses this list.

use crate::gateway::wiring::name;
use scalebricks_elements::gateway::reason::DropCounts;

/// A metric, with the series of one or several counters.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name, without prefix and suffix.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Whether each worker has its own series.
    pub is_by_worker: bool,
}

/// A counter of a node other than drops.
#[derive(Debug)]
pub struct CounterSpec {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub doc: &'static str,
    /// Its name in the table of rare events; `None` if it is shown elsewhere.
    pub seldom: Option<&'static str>,
    /// The metric it is part of.
    pub family: &'static Family,
    /// Its labels.
    pub labels: &'static [(&'static str, &'static str)],
    value: fn(&NodeStats) -> u64,
}

const PACKETS: Family = Family {
    name: "packets",
    help: "Packets that a worker received from or sent by a port; a fragmented packet counts once.",
    is_by_worker: true,
};

const PROBES: Family = Family {
    name: "fabric_probes",
    help: "Probes and echoes of the fabric, which do not count as packets.",
    is_by_worker: false,
};

/// A metric of a single counter.
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
        /// Every received packet is sent by a port, dropped, consumed by the slow path as a message to the node itself,
        /// or waits: for the fabric, or in the slow path for its next hop. So `in = out + dropped + consumed +
        /// waiting`, summed over all workers, where each sum is over all ports. In addition, `dropped` counts messages
        /// of the node itself and further fragments of a packet that a port refused.
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

        /// The field of a counter's value.
        pub(crate) type Field = fn(&mut NodeStats) -> &mut u64;

        /// A counter of an element: the names of both.
        pub(crate) type Source = (&'static str, &'static str);

        /// For each field, the element counters to add and to subtract.
        pub(crate) const SOURCES: &[(Field, &[Source], &[Source])] =
            &[$((|stats| &mut stats.$name, &[$($source),+], &[$($($less),+)?]),)+];

        /// All counters in display order. Drops have their own list,
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
    /// Sent to the Internet, without the node's own answers.
    internet_out = [(name::TO_INTERNET, "sent")]: PACKETS, ["port" = "internet", "direction" = "out"];
    /// Sent to base stations; a fragmented packet counts once.
    base_station_out = [(name::TO_BASE_STATION, "sent")]: PACKETS, ["port" = "base-station", "direction" = "out"];
    /// Sent over the fabric.
    fabric_out = [(name::TO_FABRIC, "sent")]: PACKETS, ["port" = "fabric", "direction" = "out"];
    /// Outer fragments sent instead of whole packets.
    fragments_made = [(name::HANDLE, "fragments_made")]: alone("outer_fragments", "Outer fragments sent in their place."), [], "fragments made";
    /// Packets that were fragmented.
    packets_fragmented = [(name::HANDLE, "packets_fragmented")]: alone("fragmented_packets", "Packets sent in outer fragments."), [], "packets fragmented";
    /// ICMP errors sent.
    icmp_sent = [(name::HANDLE, "icmp_sent")]: alone("icmp_errors_sent", "ICMP errors sent."), [], "ICMP errors sent";
    /// Packets forwarded to another node because the flow was no longer here.
    forwarded_again = [(name::STEER, "forwarded_again")]: alone("forwarded_again_packets", "Packets forwarded again because the flow was no longer here."), [],
        "forwarded once more";
    /// Packets sent through a relay node because the direct path was broken.
    relayed = [(name::TO_FABRIC, "relayed")]: alone("relayed_packets", "Packets sent through a relay node because the direct path was broken."), [],
        "relayed over a third node";
    /// Probes and echoes received from the fabric; not part of `fabric_in`.
    probes_in = [(name::PROBES, "probes_received")]: PROBES, ["event" = "received"];
    /// Probes and echoes sent over the fabric; not part of `fabric_out`.
    probes_out = [(name::TO_FABRIC, "probes_sent")]: PROBES, ["event" = "sent"];
    /// Probes and echoes that were not sent: no buffer, a full port, or a node that asked for too many.
    probes_unsent = [(name::PROBES, "probes_unsent"), (name::TO_FABRIC, "probes_unsent")]: PROBES, ["event" = "unsent"], "probes not sent";
}

impl NodeStats {
    /// All counters other than drops, in the order of [`COUNTERS`].
    pub fn counters(&self) -> impl Iterator<Item = (&'static CounterSpec, u64)> + '_ {
        COUNTERS.iter().map(|spec| (spec, (spec.value)(self)))
    }
}
