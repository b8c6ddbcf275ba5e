//! `NextHopKeeper`.

use crate::arp_table::Known;
use crate::columns::{DstIp, DstIp6};
use crate::fabric::next_hops::{Neighbour, NextHops};
use crate::next_hops::Held;
use crate::resolver::Resolver;
use crate::{RestoreMac, RouterOutput};
use scalebricks_graph::{Class, Control, Element, Frame, Graph, Handle, HandlerId, Out, Upstream, element};
use scalebricks_io::PacketBuf;
use scalebricks_types::Bucket;
use scalebricks_wire::MacAddr;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Least time between two looks for changes.
const LOOK: Duration = Duration::from_millis(10);

/// Time between two looks while the rate delays requests: it refills the bucket.
const REFILL: Duration = Duration::from_millis(100);

/// Next hops that it looks at in a turn.
const SLICE: usize = 256;

/// Most requests that wait to be sent.
const WANTS: usize = 256;

element! {
    /// Resolves the next hops of a node of a cluster router ahead of traffic, keeps their MAC addresses fresh, and enters
    /// them in the table of its `RestoreMac`. The `ARPQuerier` and the `IP6NDSolicitor` of each port ask for them, at
    /// their input 2. A next hop that does not answer is asked again as long as it is in the table, RATE times a second
    /// for all next hops at most.
    pub struct NextHopKeeper as "NextHopKeeper" {
        restore: String, output: Option<String>, arp: Vec<String>, nd: Vec<String>, refresh: Duration, bucket: Bucket,
        state: Option<State>, fault: Option<String>, wants: VecDeque<Neighbour>, dst: Handle<DstIp>, dst6: Handle<DstIp6>,
    }
    outputs { push "port" [OneOrMore]: "By external port: packets that want the MAC address of an IPv4 neighbour, then of an IPv6 neighbour.", }
    fresh { "port", }
    params NextHopKeeperParams {
        /// The `RestoreMac` of the node.
        restore: String,
        /// The `ARPQuerier` of each port, in order.
        arp: String,
        /// The `IP6NDSolicitor` of each port, in order.
        nd: String,
        /// The `RouterOutput` of the node, which then uses the table of its `RestoreMac`.
        output: Option<String> = None,
        /// Time between two looks at next hops of which nothing changes.
        refresh: Duration = Duration::from_secs(1),
        /// Most requests per second, of which a tenth may be sent at once.
        rate: u32 = 100,
    }
    example { "restore", "arp0 arp1", "nd0 nd1", "output", }
    writes { DstIp, DstIp6, }
    counters {
        WANTED = "requests" [Made]: "Next hops asked for.",
        LATER = "requests_delayed": "Requests over the rate; they are made later.",
        NEXT_HOPS = "next_hops": "Next hops in the table (a level).",
        RESOLVED = "resolved": "Next hops with a MAC address (a level).",
    }
    handlers { read TABLE = "table": "Next hops, one per line: number, port, address, MAC address or `?`.", }
    hooks { Begin, Between, }
    binds { dst, dst6, }
}

/// What it found in its graph, and how far it is.
#[derive(Debug)]
struct State {
    hops: Arc<NextHops>,
    /// Increased by the resolvers.
    resolvers: Vec<Arc<AtomicU64>>,
    /// Changes of next hops and of resolvers that it has seen.
    seen: (u64, u64),
    /// All next hops, ordered by family and port.
    defined: Vec<(u16, Neighbour)>,
    /// How many it has looked at in its pass; all if there is none.
    at: usize,
    /// The next hop that a pass begins with: the first that the rate delayed, so that all have their turn.
    first: usize,
    /// The first next hop that the rate delayed in this pass.
    late: Option<usize>,
    begun: Duration,
    next: Duration,
    resolved: u64,
    delayed: u64,
    levels: (u64, u64),
}

impl State {
    /// Whether a pass is due or under way.
    fn is_due(&mut self, now: Duration, refresh: Duration) -> bool {
        if self.at < self.defined.len() {
            return true;
        }
        if now < self.next {
            return false;
        }
        self.next = now + LOOK;
        let resolvers = self.resolvers.iter().map(|changes| changes.load(Ordering::Relaxed)).sum();
        let seen = (self.hops.changes(), resolvers);
        let pause = if self.late.is_some() { REFILL.min(refresh) } else { refresh };
        if seen == self.seen && now < self.begun.saturating_add(pause) {
            return false;
        }
        if seen.0 != self.seen.0 || self.seen == UNSEEN {
            let numbers = 0..u16::try_from(self.hops.count()).unwrap_or(u16::MAX);
            let defined = numbers.filter_map(|number| Some((number, self.hops.neighbour(number)?)));
            self.defined = defined.collect();
            self.defined.sort_by_key(|(_, neighbour)| place(*neighbour));
        }
        self.first = self.late.take().unwrap_or(self.first);
        (self.seen, self.at, self.begun, self.resolved) = (seen, 0, now, 0);
        true
    }
}

const UNSEEN: (u64, u64) = (u64::MAX, u64::MAX);

/// The output for a neighbour, which is also the place of its resolver.
fn place(neighbour: Neighbour) -> usize {
    2 * neighbour.port.index() + usize::from(neighbour.address.is_ipv6())
}

/// What a resolver knows about an address of either family.
fn known<P: PacketBuf + 'static>(
    graph: &mut Graph<P>,
    name: &str,
    address: IpAddr,
    now: Duration,
) -> Option<Known> {
    fn of<P: PacketBuf + 'static, A: Held<P>>(
        resolver: &Resolver<P, A::Discovery>,
        address: A,
        now: Duration,
    ) -> Known {
        resolver.neighbours.look_up(address, now, &resolver.config)
    }
    match address {
        IpAddr::V4(ip) => <Ipv4Addr as Held<P>>::resolver(graph, name).map(|resolver| of(resolver, ip, now)),
        IpAddr::V6(ip) => <Ipv6Addr as Held<P>>::resolver(graph, name).map(|resolver| of(resolver, ip, now)),
    }
}

impl NextHopKeeper {
    fn resolver(&self, place: usize) -> Option<&str> {
        let names = if place.is_multiple_of(2) { &self.arp } else { &self.nd };
        names.get(place / 2).map(String::as_str)
    }

    /// Finds the elements that it works with.
    fn find<P: PacketBuf + 'static>(&self, graph: &mut Graph<P>) -> Result<State, String> {
        let no = |name: &str, what: &str| format!("{name} is no {what}");
        let restore =
            graph.get_mut::<RestoreMac>(&self.restore).ok_or_else(|| no(&self.restore, "RestoreMac"))?;
        let hops = Arc::clone(restore.hops());
        if let Some(name) = &self.output {
            graph.get_mut::<RouterOutput>(name).ok_or_else(|| no(name, "RouterOutput"))?.set_hops(&hops);
        }
        let mut resolvers = Vec::new();
        for name in &self.arp {
            let resolver =
                <Ipv4Addr as Held<P>>::resolver(graph, name).ok_or_else(|| no(name, "ARPQuerier"))?;
            resolvers.push(Arc::clone(resolver.neighbours.changes()));
        }
        for name in &self.nd {
            let resolver =
                <Ipv6Addr as Held<P>>::resolver(graph, name).ok_or_else(|| no(name, "IP6NDSolicitor"))?;
            resolvers.push(Arc::clone(resolver.neighbours.changes()));
        }
        Ok(State {
            hops,
            resolvers,
            seen: UNSEEN,
            defined: Vec::new(),
            at: 0,
            first: 0,
            late: None,
            begun: Duration::ZERO,
            next: Duration::ZERO,
            resolved: 0,
            delayed: 0,
            levels: (0, 0),
        })
    }

    /// Looks at one next hop: its MAC address, and whether it must be asked for.
    fn look<P: PacketBuf + 'static>(
        &self,
        neighbour: Neighbour,
        graph: &mut Graph<P>,
        now: Duration,
    ) -> (Option<MacAddr>, bool) {
        let name = self.resolver(place(neighbour));
        match name.and_then(|name| known(graph, name, neighbour.address, now)) {
            Some(Known::Mac { mac, is_old }) => (Some(mac), is_old),
            Some(Known::Nothing) => (None, true),
            Some(Known::Pending) | None => (None, false),
        }
    }

    fn pass<P: PacketBuf + 'static>(&mut self, state: &mut State, graph: &mut Graph<P>, now: Duration) {
        for _ in 0..SLICE {
            if state.at >= state.defined.len() {
                break;
            }
            let at = (state.first + state.at) % state.defined.len();
            let Some(&(number, neighbour)) = state.defined.get(at) else { break };
            state.at += 1;
            let (mac, is_wanted) = self.look(neighbour, graph, now);
            if state.hops.get(number) != mac {
                state.hops.resolve(number, neighbour, mac);
            }
            state.resolved += u64::from(mac.is_some());
            if !is_wanted {
                continue;
            }
            if self.wants.len() < WANTS && self.bucket.take(now) {
                self.wants.push_back(neighbour);
            } else {
                state.delayed += 1;
                state.late.get_or_insert(at);
            }
        }
        if state.at >= state.defined.len() {
            state.levels = (state.defined.len() as u64, state.resolved);
        }
    }
}

impl Class for NextHopKeeper {
    fn make(params: NextHopKeeperParams) -> Result<Self, String> {
        let NextHopKeeperParams { restore, arp, nd, output, refresh, rate } = params;
        if refresh.is_zero() {
            return Err("REFRESH must be above 0".to_owned());
        }
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Ok(Self {
            restore,
            output,
            arp: words(&arp),
            nd: words(&nd),
            refresh,
            bucket: Bucket::new(rate.into(), u64::from(rate / 10).max(1)),
            state: None,
            fault: None,
            wants: VecDeque::new(),
            dst: Handle::default(),
            dst6: Handle::default(),
        })
    }
}

impl Control for NextHopKeeper {
    fn read(&self, _: HandlerId) -> String {
        let Some(state) = &self.state else { return String::new() };
        let line = |(number, neighbour): &(u16, Neighbour)| {
            let mac = state.hops.get(*number).map_or_else(|| "?".to_owned(), |mac| mac.to_string());
            format!("{number} {} {} {mac}", neighbour.port, neighbour.address)
        };
        state.defined.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

impl<P: PacketBuf + 'static> Element<P> for NextHopKeeper {
    fn begin(&mut self, _: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Some(state) = &mut self.state else { return };
        out.set(Self::NEXT_HOPS, state.levels.0);
        out.set(Self::RESOLVED, state.levels.1);
        out.count(Self::LATER, std::mem::take(&mut state.delayed));
        if self.wants.is_empty() {
            return;
        }
        for _ in 0..out.intake(frame.used()) {
            let Some(&neighbour) = self.wants.front() else { return };
            let Some(slot) = frame.alloc().and_then(|packet| frame.put(packet).ok()) else { return };
            self.wants.pop_front();
            let (ip, ip6) = match neighbour.address {
                IpAddr::V4(ip) => (ip, Ipv6Addr::UNSPECIFIED),
                IpAddr::V6(ip) => (Ipv4Addr::UNSPECIFIED, ip),
            };
            frame.column_mut(self.dst)[&slot] = DstIp(ip);
            frame.column_mut(self.dst6)[&slot] = DstIp6(ip6);
            out.count(Self::WANTED, 1);
            out.push(place(neighbour), slot);
        }
    }

    fn between(&mut self, _: &str, graph: &mut Graph<P>, now: Duration) {
        if self.fault.is_some() {
            return;
        }
        let mut state = match self.state.take().map_or_else(|| self.find(graph), Ok) {
            Ok(state) => state,
            Err(why) => {
                self.fault = Some(why);
                return;
            }
        };
        if state.is_due(now, self.refresh) {
            self.pass(&mut state, graph, now);
        }
        self.state = Some(state);
    }

    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}

#[cfg(test)]
#[path = "next_hop_keeper_tests.rs"]
mod tests;
