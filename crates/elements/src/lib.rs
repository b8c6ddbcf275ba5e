//! Elements of the data plane's graph, one per file.
//!
//! To add an element, add its file and a line below: the line makes the file part of the crate and its class part of
//! [`registry`]. Documentation and tests take everything else from the element's own declaration. Each folder holds the
//! elements of one layer. Code that several elements share:
//!
//! | module | contents |
//! |---|---|
//! | [`columns`], [`annotations`] | metadata that elements keep beside packets |
//! | [`values`] | parameter types in Click's notation |
//! | [`gateway`] | the mobile gateway: its elements and their parts |
//! | [`esp`] | IPsec: security associations, algorithms, anti-replay |
//! | [`fabric`] | clusters: encoded addresses, live links, the state of steering |
//! | [`flat`] | the switch for flat names: its elements and their table |
//! | [`firewall`] | the stateful firewall: rules, verdicts of flows |
//! | `streams` | parts of TCP streams: found by the flow tracker, written as segments |
//! | `header`, `header6`, `ip_check` | access to a packet's IP header with lengths checked; header validation |
//! | `shared_names` | names and descriptions of shared drop reasons, counters and handlers |
//! | `side_output`, `agnostic` | an optional output for bad packets; elements that process single packets |
//! | `gate`, `pace`, `paced` | elements that are started, stopped and limited; rates; elements that pull at a rate |
//! | `resolver`, `arp_table`, `arp_messages` | resolution of next hops by ARP and neighbour discovery |
//! | `bypass` | puts an `IPRoute` in front of the elements of an IPv4 router |
//! | `plain`, `burst_headers` | which packets are ordinary: one packet, and the packets of a burst together |
//! | `next_hops` | copies of routes and neighbours, for elements that forward whole bursts |
//! | `stored` | packets of a queue, by bursts where they come so |
//! | `ping` | answers to ICMP echo requests |
//! | `refragment` | cuts packets that came in fragments |
//! | `printer`, `handler` | printed lines, values of handlers |

#![forbid(unsafe_code)]

mod agnostic;
pub mod annotations;
mod arp_messages;
mod arp_table;
mod burst_headers;
mod bypass;
mod capture_source;
pub mod columns;
pub mod esp;
pub mod fabric;
pub mod filter;
pub mod firewall;
pub mod flat;
mod gate;
pub mod gateway;
mod handler;
mod handoff;
mod header;
mod header6;
mod icmp_errors;
mod ip_check;
mod next_hops;
mod pace;
mod paced;
mod ping;
mod plain;
mod printer;
mod recorder;
mod refragment;
mod resolver;
mod resolver_class;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod rig_ip;
mod routes;
mod shared_names;
mod side_output;
mod split;
mod stored;
mod streams;
#[cfg(test)]
mod test_environment;
pub mod values;

use scalebricks_graph::PerPacket;

pub use handoff::{Consumer, FromWorker, Producer, PushError, ToWorker, handoff, ring};

/// Declares a module for each element, re-exports the element, and registers its class. Elements in `[folder]` are
/// files of that folder. A class that is not `batch` implements [`PerPacket`]. `fuse` names classes that run in one loop where they are connected in sequence.
macro_rules! elements {
    (
        $($kind:ident $module:ident $name:ident $(<$packet:ident>)?;)+
        $([$folder:ident] { $($in_kind:ident $in_module:ident $in_name:ident $(<$in_packet:ident>)?;)+ })*
        $(=> fuse $fused:ty;)*
    ) => {
        $(mod $module; pub use $module::$name;)+
        $(mod $folder { $(pub(crate) mod $in_module; pub use $in_module::$in_name;)+ } pub use $folder::{$($in_name),+};)*
        $(elements!(@$kind $name);)+
        $($(elements!(@$in_kind $in_name);)+)*

        /// All classes of this crate.
        pub fn registry<P: scalebricks_io::PacketBuf + 'static>() -> scalebricks_graph::Registry<P> {
            let mut registry = scalebricks_graph::Registry::new();
            $(registry.add::<$name $(<$packet>)?>();)+
            $($(registry.add::<$in_name $(<$in_packet>)?>();)+)*
            $(registry.fuse::<$fused>();)*
            registry.shortcut(bypass::find);
            registry.alias("PollDevice", FromDevice::<P>::SPEC.class);
            registry
        }

        #[cfg(test)]
        const CLASSES: usize = [$(stringify!($name)),+ $($(, stringify!($in_name))+)*].len();
    };
    (@batch $class:ident) => {};
    (@per_packet $class:ident) => { scalebricks_graph::agnostic! { $class } };
    (@prints $class:ident) => { scalebricks_graph::agnostic! { $class, opens } };
}

elements! {
    per_packet check_length CheckLength;
    per_packet check_paint CheckPaint;
    per_packet counter Counter;
    batch discard Discard;
    batch from_device FromDevice<P>;
    batch from_dump FromDump;
    batch hash_switch HashSwitch;
    batch idle Idle;
    batch infinite_source InfiniteSource;
    batch meter Meter;
    batch null Null;
    per_packet paint Paint;
    batch paint_switch PaintSwitch;
    batch paint_tee PaintTee;
    prints print Print;
    batch queue Queue<P>;
    batch rated_source RatedSource;
    batch round_robin_switch RoundRobinSwitch;
    batch script Script;
    batch switch Switch;
    batch tee Tee;
    batch to_device ToDevice<P>;
    batch to_dump ToDump;
    batch to_host ToHost;
    batch unqueue Unqueue;
    [ethernet] {
        batch arp_querier ARPQuerier<P>;
        per_packet arp_responder ARPResponder;
        batch classifier Classifier;
        per_packet drop_broadcasts DropBroadcasts;
        per_packet ether_encap EtherEncap;
        per_packet host_ether_filter HostEtherFilter;
        per_packet strip Strip;
        per_packet unstrip Unstrip;
    }
    [flows] {
        batch defragment Defragment;
        batch firewall Firewall<P>;
        batch flow_balance FlowBalance;
        batch flow_tracker FlowTracker;
        batch nat44 Nat44<P>;
        batch tcp_stream TCPStream<P>;
    }
    [fused] {
        batch ip_route IPRoute<P>;
    }
    [ip] {
        batch check_ip_header CheckIPHeader;
        batch check_ip_header2 CheckIPHeader2;
        per_packet dec_ip_ttl DecIPTTL;
        per_packet fix_ip_src FixIPSrc;
        batch get_ip_address GetIPAddress;
        batch direct_ip_lookup DirectIPLookup;
        batch icmp_error ICMPError;
        batch icmp_ping_responder ICMPPingResponder;
        batch ip_classifier IPClassifier;
        batch ip_encap IPEncap;
        batch ip_filter IPFilter;
        batch ip_fragmenter IPFragmenter<P>;
        per_packet ip_gw_options IPGWOptions;
        batch ip_input_combo IPInputCombo;
        batch ip_output_combo IPOutputCombo;
        prints ip_print IPPrint;
        batch linear_ip_lookup LinearIPLookup;
        per_packet mark_ip_header MarkIPHeader;
        batch radix_ip_lookup RadixIPLookup;
        per_packet set_ip_checksum SetIPChecksum;
        per_packet set_ip_dscp SetIPDSCP;
        batch static_ip_lookup StaticIPLookup;
    }
    [ip6] {
        batch check_ip6_header CheckIP6Header;
        per_packet dec_ip6_hlim DecIP6HLIM;
        batch get_ip6_address GetIP6Address;
        batch icmp6_error ICMP6Error;
        batch icmp6_ping_responder ICMP6PingResponder;
        per_packet ip6_nd_advertiser IP6NDAdvertiser;
        batch ip6_nd_solicitor IP6NDSolicitor<P>;
        batch lookup_ip6_route LookupIP6Route;
        per_packet mark_ip6_header MarkIP6Header;
    }
    [ipsec] {
        batch ipsec_decap IPsecDecap;
        batch ipsec_encap IPsecEncap;
    }
    [scheduling] {
        batch bandwidth_rated_unqueue BandwidthRatedUnqueue;
        batch bandwidth_shaper BandwidthShaper;
        batch drr_sched DRRSched<P>;
        batch prio_sched PrioSched;
        batch rated_unqueue RatedUnqueue;
        batch red RED;
        batch round_robin_sched RoundRobinSched;
        batch shaper Shaper;
    }
    [vlb] {
        batch classic_vlb ClassicVLB;
        batch digit_switch DigitSwitch;
        batch direct_vlb DirectVLB;
        batch flowlets Flowlets;
        batch link_hello LinkHello;
        batch mac_switch MacSwitch;
        batch next_hop_keeper NextHopKeeper;
        batch random_switch RandomSwitch;
        batch restore_mac RestoreMac;
        batch router_input RouterInput;
        batch router_output RouterOutput;
    }
    => fuse (IPGWOptions, FixIPSrc, DecIPTTL);
}

/// The specs of elements that only programs create.
pub fn program_only<P: scalebricks_io::PacketBuf + 'static>() -> Vec<&'static scalebricks_graph::Spec> {
    gateway::specs::<P>().into_iter().chain(flat::specs::<P>()).collect()
}

#[cfg(test)]
mod tests;
