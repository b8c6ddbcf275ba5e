//! Elements of the data plane's graph, one a file.
//!
//! An element is its file and a line below: the line makes the file part of the crate and its class part of [`registry`].
//! Documentation and tests take everything else from the element's own declaration.
//! Folders hold the elements of one layer. Besides there is what several elements share:
//!
//! | module | what it holds |
//! |---|---|
//! | [`columns`], [`facts`] | what elements know of packets beside their bytes |
//! | [`values`] | types of parameters, as Click writes them |
//! | [`gateway`] | the gateway of a mobile network: its elements, and what they are made of |
//! | [`flat`] | the switch for flat names: its elements, and the table that they ask |
//! | `header`, `ip_check` | the IPv4 header of a packet, proven again by each element; what makes one valid |
//! | `named` | names and texts of drop reasons, counters and handlers that several elements have |
//! | `side`, `sift` | elements that send what is wrong to a second output, and elements that look at packets one by one |
//! | `gate`, `pace`, `paced` | elements that are started, stopped and limited; rates, and elements that pull at them |
//! | `neighbours`, `arp_messages`, `printer`, `handler` | ARP's table and messages, lines to print, texts of handlers |

#![forbid(unsafe_code)]

mod arp_messages;
pub mod columns;
pub mod facts;
pub mod filter;
pub mod flat;
mod frames;
mod gate;
pub mod gateway;
mod handler;
mod handoff;
mod header;
#[cfg(test)]
mod hostile;
mod ip_check;
mod named;
mod neighbours;
#[cfg(test)]
mod outside;
mod pace;
mod paced;
mod printer;
mod recorder;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod rig_ip;
#[cfg(test)]
mod router;
mod routes;
#[cfg(test)]
mod schedulers;
mod side;
mod sift;
mod split;
pub mod values;

pub use handoff::{FromWorker, ToWorker, handoff};

/// Declares a module for each element, re-exports the element, and registers its class. Elements in `[folder]` are files of
/// that folder. `fuse` names classes that run in one loop where they follow each other.
macro_rules! elements {
    (
        $($kind:ident $module:ident $name:ident $(<$packet:ident>)?;)+
        $([$folder:ident] { $($in_kind:ident $in_module:ident $in_name:ident $(<$in_packet:ident>)?;)+ })*
        $(=> fuse $fused:ty;)*
    ) => {
        $(mod $module; pub use $module::$name;)+
        $(mod $folder { $(mod $in_module; pub use $in_module::$in_name;)+ } pub use $folder::{$($in_name),+};)*

        /// All classes of this crate.
        pub fn registry<P: scalebricks_io::PacketBuf + 'static>() -> scalebricks_graph::Registry<P> {
            let mut registry = scalebricks_graph::Registry::new();
            $(elements!(@$kind registry, $name $(<$packet>)?);)+
            $($(elements!(@$in_kind registry, $in_name $(<$in_packet>)?);)+)*
            $(registry.fuse::<$fused>();)*
            registry
        }

        #[cfg(test)]
        const CLASSES: usize = [$(stringify!($name)),+ $($(, stringify!($in_name))+)*].len();
    };
    (@whole $registry:ident, $class:ty) => { $registry.add::<$class>() };
    (@small $registry:ident, $class:ty) => { $registry.add_small::<$class>() };
}

elements! {
    small check_length CheckLength;
    small check_paint CheckPaint;
    small counter Counter;
    whole discard Discard;
    whole from_device FromDevice<P>;
    whole from_dump FromDump;
    whole hash_switch HashSwitch;
    whole idle Idle;
    whole infinite_source InfiniteSource;
    whole meter Meter;
    whole null Null;
    small paint Paint;
    whole paint_switch PaintSwitch;
    whole paint_tee PaintTee;
    whole poll_device PollDevice<P>;
    small print Print;
    whole queue Queue<P>;
    whole rated_source RatedSource;
    whole round_robin_switch RoundRobinSwitch;
    whole script Script;
    whole switch Switch;
    whole tee Tee;
    whole to_device ToDevice<P>;
    whole to_dump ToDump;
    whole to_host ToHost;
    whole unqueue Unqueue;
    [ethernet] {
        whole arp_querier ARPQuerier<P>;
        small arp_responder ARPResponder;
        whole classifier Classifier;
        small drop_broadcasts DropBroadcasts;
        small ether_encap EtherEncap;
        small host_ether_filter HostEtherFilter;
        small strip Strip;
        small unstrip Unstrip;
    }
    [ip] {
        whole check_ip_header CheckIPHeader;
        whole check_ip_header2 CheckIPHeader2;
        small dec_ip_ttl DecIPTTL;
        small fix_ip_src FixIPSrc;
        whole get_ip_address GetIPAddress;
        whole direct_ip_lookup DirectIPLookup;
        whole icmp_error ICMPError;
        whole icmp_ping_responder ICMPPingResponder;
        whole ip_classifier IPClassifier;
        whole ip_encap IPEncap;
        whole ip_filter IPFilter;
        whole ip_fragmenter IPFragmenter<P>;
        small ip_gw_options IPGWOptions;
        whole ip_input_combo IPInputCombo;
        whole ip_output_combo IPOutputCombo;
        small ip_print IPPrint;
        whole linear_ip_lookup LinearIPLookup;
        small mark_ip_header MarkIPHeader;
        whole radix_ip_lookup RadixIPLookup;
        small set_ip_checksum SetIPChecksum;
        small set_ip_dscp SetIPDSCP;
        whole static_ip_lookup StaticIPLookup;
    }
    [scheduling] {
        whole bandwidth_rated_unqueue BandwidthRatedUnqueue;
        whole bandwidth_shaper BandwidthShaper;
        whole drr_sched DRRSched<P>;
        whole prio_sched PrioSched;
        whole rated_unqueue RatedUnqueue;
        whole red RED;
        whole round_robin_sched RoundRobinSched;
        whole shaper Shaper;
    }
    => fuse (IPGWOptions, FixIPSrc, DecIPTTL);
}

/// What the elements are that only programs make.
pub fn of_programs<P: scalebricks_io::PacketBuf + 'static>() -> Vec<&'static scalebricks_graph::Spec> {
    gateway::specs::<P>().into_iter().chain(flat::specs::<P>()).collect()
}

#[cfg(test)]
mod tests {
    use scalebricks_graph::Spec;
    use scalebricks_graph::describe::Page;
    use scalebricks_graph::spec::{ParamSpec, RUN_DROPS};
    use scalebricks_io::Packet;
    use std::collections::{BTreeMap, BTreeSet, HashSet};

    /// All classes that configurations name, by name.
    fn classes() -> Vec<&'static Spec> {
        let mut specs: Vec<_> = crate::registry::<Packet>().specs().collect();
        specs.sort_by_key(|spec| spec.class);
        specs
    }

    /// `UPDATE_DOCS=1 cargo test -p scalebricks-elements` writes the page anew.
    #[test]
    fn the_page_about_elements_is_that_of_their_specs() {
        let page = Page { classes: &classes(), of_programs: &crate::of_programs::<Packet>() };
        let page =
            format!("<!-- Generated from the elements' specs by a test of scalebricks-elements. -->\n{page}");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/elements.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page, "docs/elements.md is not up to date: run this test with UPDATE_DOCS=1");
    }

    /// Reasons that mean one thing to a router and another to a bridge: the gateway and the switch for flat names never run in one
    /// graph, and their metrics have these names.
    const SEVERAL: [&str; 2] = ["link_local", "truncated"];

    #[test]
    fn a_drop_reason_means_the_same_in_every_element() {
        let mut meanings = BTreeMap::<_, BTreeSet<_>>::new();
        let specs = classes().into_iter().chain(crate::of_programs::<Packet>());
        let all = specs.flat_map(|spec| spec.drops);
        all.chain(RUN_DROPS).for_each(|drop| {
            meanings.entry(drop.name).or_default().insert(drop.doc);
        });
        let several: Vec<_> =
            meanings.iter().filter(|(_, docs)| docs.len() > 1).map(|(name, _)| *name).collect();
        assert_eq!(several, SEVERAL, "{meanings:#?}");
    }

    #[test]
    fn every_class_is_documented_throughout() {
        let mut specs = classes();
        specs.extend(crate::of_programs::<Packet>());
        let names: HashSet<&str> = specs.iter().map(|spec| spec.class).collect();
        assert_eq!((specs.len(), classes().len()), (names.len(), crate::CLASSES), "two classes of one name");
        for spec in specs {
            assert!(!spec.doc.is_empty(), "{}", spec.class);
            let opens = |name: &str| name.contains("file") || name == "devname";
            let is_missing = |param: &ParamSpec| param.default.is_none() && !opens(param.name);
            assert!(
                !spec.example.is_empty() || !spec.params.iter().any(is_missing),
                "{}: no example",
                spec.class
            );
            let ports = spec.inputs.iter().chain(spec.outputs).map(|port| port.doc);
            let counted =
                spec.drops.iter().map(|drop| drop.doc).chain(spec.counters.iter().map(|counter| counter.doc));
            let params = spec.params.iter().map(|param| param.doc.last().copied().unwrap_or_default());
            for doc in
                ports.chain(counted).chain(spec.handlers.iter().map(|handler| handler.doc)).chain(params)
            {
                assert!(doc.trim().ends_with('.'), "{}: {doc:?}", spec.class);
            }
        }
    }
}
