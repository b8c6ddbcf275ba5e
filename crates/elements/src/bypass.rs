//! Finds IP routers that configurations spell out element by element, and puts an [`IPRoute`] in front of each port's
//! elements, past which it sends ordinary packets.
//!
//! ```text
//! FromDevice ─▶ IPRoute ─▶ Classifier ─▶ HostEtherFilter ─▶ Paint ─▶ Strip ─▶ CheckIPHeader ─▶ lookup ─▶ … ─▶ Queue
//!                  └─────────────────────────────────────────────────────────────────────────────────────────▲
//! ```
//!
//! What leaves, where and in which order does not change: once a packet of a turn took the elements, all later IPv4 packets
//! of that turn do. Nor does what elements count, except the sizes of batches: passed elements count the packets. While a capture observes packets between elements, or after a handler has changed a `Paint`, all packets take the
//! elements.

use crate::ip::check_ip_header::CheckIPHeader;
use crate::ip::dec_ip_ttl::DecIPTTL;
use crate::ip::fix_ip_src::FixIPSrc;
use crate::ip::get_ip_address::GetIPAddress;
use crate::ip::ip_fragmenter::IPFragmenter;
use crate::ip::ip_gw_options::IPGWOptions;
use crate::next_hops::Names;
use crate::plain::Plain4;
use crate::{
    ARPQuerier, Classifier, DirectIPLookup, DropBroadcasts, FromDevice, HostEtherFilter, IPRoute,
    LinearIPLookup, Paint, PaintTee, Queue, RadixIPLookup, StaticIPLookup, Strip,
};
use scalebricks_graph::{Draft, Element, Graph, PassedCounts, Shortcut};
use scalebricks_io::PacketBuf;
use scalebricks_wire::ethernet::HEADER_LEN;
use scalebricks_wire::ipv4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The input of a [`Queue`] for packets by value.
const QUEUE_BURSTS: usize = 1;

/// The elements that an [`IPRoute`] sends packets past.
#[derive(Debug)]
pub(crate) struct Bypass {
    /// Up to the lookup of routes.
    front: Passed,
    /// Behind it, by output from 1 on.
    back: Vec<Passed>,
    /// Whether a handler has set the paint.
    is_painted: Option<Arc<AtomicBool>>,
    is_bound: bool,
}

/// Elements and their counters.
#[derive(Debug, Default)]
struct Passed {
    names: Vec<String>,
    counts: Vec<PassedCounts>,
}

impl Passed {
    fn bind<P: PacketBuf + 'static>(&mut self, graph: &Graph<P>) {
        self.counts = self.names.iter().filter_map(|name| graph.passed_counts(name)).collect();
    }

    fn count(&self, packets: u64) {
        self.counts.iter().for_each(|counts| counts.add(packets));
    }
}

impl Bypass {
    /// Whether packets may take it.
    #[inline]
    pub(crate) fn is_right(&self) -> bool {
        self.is_bound && !self.is_painted.as_ref().is_some_and(|is_set| is_set.load(Ordering::Relaxed))
    }

    /// Finds the counters of the elements.
    pub(crate) fn bind<P: PacketBuf + 'static>(&mut self, graph: &Graph<P>) {
        if !self.is_bound {
            self.is_bound = true;
            self.front.bind(graph);
            self.back.iter_mut().for_each(|passed| passed.bind(graph));
        }
    }

    /// Counts a batch of packets, of which so many leave by each output.
    pub(crate) fn count(&self, packets: u64, mut by: impl FnMut(usize) -> usize) {
        if packets == 0 {
            return;
        }
        self.front.count(packets);
        for (passed, output) in self.back.iter().zip(1..) {
            let packets = by(output);
            if packets > 0 {
                passed.count(packets as u64);
            }
        }
    }
}

/// A walk along connections.
struct Walk<'a, P> {
    draft: &'a Draft<'a, P>,
    at: usize,
    output: usize,
    passed: Passed,
}

impl<'a, P: PacketBuf + 'static> Walk<'a, P> {
    fn new(draft: &'a Draft<'a, P>, at: usize, output: usize) -> Self {
        Self { draft, at, output, passed: Passed::default() }
    }

    /// Goes on to the next element, by its input 0, if it has this type.
    fn next<E: Element<P>>(&mut self) -> Option<&'a E> {
        let (to, 0) = self.draft.to(self.at, self.output)? else { return None };
        let element = self.draft.get::<E>(to)?;
        (self.at, self.output) = (to, 0);
        self.passed.names.push(self.draft.name(to).to_owned());
        Some(element)
    }
}

/// Behind an output of the lookup.
struct Back {
    passed: Passed,
    /// The paint of packets that are copied.
    paint: Option<u8>,
    mtu: usize,
    arp: String,
    queue: usize,
}

fn back<P: PacketBuf + 'static>(draft: &Draft<'_, P>, lookup: usize, output: usize) -> Option<Back> {
    let mut walk = Walk::new(draft, lookup, output);
    walk.next::<DropBroadcasts>();
    let paint = walk.next::<PaintTee>().map(|tee| tee.color);
    walk.next::<IPGWOptions>();
    walk.next::<FixIPSrc>();
    walk.next::<DecIPTTL>()?;
    let mtu = walk.next::<IPFragmenter<P>>()?.mtu;
    walk.next::<ARPQuerier<P>>()?;
    let arp = draft.name(walk.at).to_owned();
    // The queue is not passed.
    let (queue, 0) = draft.to(walk.at, 0)? else { return None };
    draft.get::<Queue<P>>(queue)?;
    Some(Back { passed: walk.passed, paint, mtu, arp, queue })
}

fn behind<P: PacketBuf + 'static>(draft: &Draft<'_, P>, from: usize) -> Option<Shortcut<P>> {
    draft.get::<FromDevice<P>>(from)?;
    let mut walk = Walk::new(draft, from, 0);
    let least = HEADER_LEN + ipv4::MIN_HEADER_LEN;
    walk.output = walk.next::<Classifier>()?.output_of([8, 0], 12, least)?;
    let host = walk.next::<HostEtherFilter>().filter(|host| !host.drops_own && host.offset == 0)?;
    let paint = walk.next::<Paint>();
    walk.next::<Strip>().filter(|strip| usize::from(strip.length) == HEADER_LEN)?;
    let check = walk.next::<CheckIPHeader>().filter(|check| check.offset == 0)?;
    if draft.to(walk.at, 0).is_some_and(|(to, _)| draft.get::<GetIPAddress>(to).is_some()) {
        walk.next::<GetIPAddress>().filter(|get| get.offset == 16)?;
    }
    let is_lookup = walk.next::<DirectIPLookup>().is_some()
        || walk.next::<RadixIPLookup>().is_some()
        || walk.next::<StaticIPLookup>().is_some()
        || walk.next::<LinearIPLookup>().is_some();
    if !is_lookup {
        return None;
    }
    let routes = draft.name(walk.at).to_owned();
    let ways: Vec<Back> =
        (1..draft.outputs(walk.at)).map_while(|output| back(draft, walk.at, output)).collect();
    // Packets that would be copied, since they leave by the port where they arrived, take the elements.
    let color = paint.map_or(0, |paint| paint.color);
    let mut copied = (1..).zip(&ways).filter(|(_, way)| way.paint == Some(color)).map(|(output, _)| output);
    let port = copied.next().unwrap_or(u16::MAX);
    let mtu = ways.iter().map(|way| way.mtu).min()?;
    if copied.next().is_some() {
        return None;
    }
    let names = Names { routes, neighbours: ways.iter().map(|way| way.arp.clone()).collect() };
    let to = ways.iter().map(|way| (way.queue, QUEUE_BURSTS)).collect();
    let bypass = Bypass {
        front: walk.passed,
        back: ways.into_iter().map(|way| way.passed).collect(),
        is_painted: paint.map(|paint| Arc::clone(&paint.is_set)),
        is_bound: false,
    };
    let four = Plain4::without(check.rules.bad_src.clone(), mtu);
    let element = Box::new(IPRoute::<P>::instead(port, host.own, four, names, bypass));
    Some(Shortcut { behind: from, name: format!("{}/fast", draft.name(from)), element, to })
}

/// The shortcuts of a graph.
pub(crate) fn find<P: PacketBuf + 'static>(draft: &Draft<'_, P>) -> Vec<Shortcut<P>> {
    (0..draft.len()).filter_map(|at| behind(draft, at)).collect()
}
