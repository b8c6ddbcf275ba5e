//! The NAT against a slow twin: plain maps that are searched from end to end. The twin decides what must happen to each
//! packet; which free port a new mapping gets is the NAT's choice, and is checked.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use super::packets::*;
use proptest::prelude::*;
use scalebricks_flows::Direction::{Forward, Reverse};
use scalebricks_flows::nat::{Allocation, Config, Filtering, Plan, Prefix, Refusal};
use scalebricks_flows::tcp::{self, Connection, Segment, Verdict};
use scalebricks_wire::transport::Tcp;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

const BLOCK: u16 = 4;
const BLOCKS_PER_ADDRESS: u16 = 3;
const FIRST: u16 = 2_000;
const MAPPINGS: usize = 9;
const SESSIONS: usize = 8;
const SUBSCRIBER_BLOCKS: usize = 2;

type Inside = (Ipv4Addr, u16, u8);
type Block = (Ipv4Addr, u16);

struct Mapping {
    public: End,
    serial: u32,
    last_out: Duration,
}

struct Flow {
    connection: Option<Connection>,
    /// The direction of the first packet is out.
    began_inside: bool,
    last: Duration,
    held: Option<u32>,
}

struct Twin {
    config: Config,
    now: Duration,
    serial: u32,
    mappings: BTreeMap<Inside, Mapping>,
    flows: BTreeMap<(Inside, End), Flow>,
    /// By first port: owner and since when it has no mapping.
    blocks: BTreeMap<Block, (Ipv4Addr, Option<Duration>)>,
    /// Public address of each inside address that has blocks or flows.
    subscribers: BTreeMap<Ipv4Addr, Ipv4Addr>,
}

/// What must happen.
#[derive(Debug, PartialEq)]
enum Must {
    /// From this public end.
    Leave(End),
    Arrive(Inside),
}

fn timeouts() -> tcp::Timeouts {
    let transitory = Duration::from_secs(240);
    tcp::Timeouts {
        syn_sent: transitory,
        syn_received: transitory,
        established: Duration::from_secs(7_440),
        half_closed: transitory,
        closing: transitory,
        time_wait: transitory,
        reset: transitory,
    }
}

impl Twin {
    fn idle_limit(kind: u8) -> Duration {
        Duration::from_secs(match kind {
            UDP => 300,
            TCP => 240,
            _ => 60,
        })
    }

    fn block_of(public: End) -> Block {
        (public.0, (public.1 - FIRST) / BLOCK * BLOCK + FIRST)
    }

    fn mappings_in(&self, block: Block, kind: u8) -> usize {
        let is_in = |(inside, mapping): (&Inside, &Mapping)| {
            inside.2 == kind && Self::block_of(mapping.public) == block
        };
        self.mappings.iter().filter(|entry| is_in(*entry)).count()
    }

    fn note_idle(&mut self) {
        for block in self.blocks.keys().copied().collect::<Vec<_>>() {
            let is_idle = [TCP, UDP, ICMP].iter().all(|kind| self.mappings_in(block, *kind) == 0);
            if let Some((_, since)) = self.blocks.get_mut(&block) {
                *since = if is_idle { since.or(Some(self.now)) } else { None };
            }
        }
    }

    /// Ends what is over.
    fn sweep(&mut self, now: Duration) {
        self.now = now;
        self.flows.retain(|(inside, _), flow| {
            let lifetime = match &flow.connection {
                Some(connection) => timeouts().of(connection.state()),
                None => Self::idle_limit(inside.2),
            };
            now.saturating_sub(flow.last) <= lifetime
        });
        let flows = &self.flows;
        self.mappings.retain(|inside, mapping| {
            let is_held = flows.values().any(|flow| flow.held == Some(mapping.serial));
            inside.2 == TCP && is_held || now.saturating_sub(mapping.last_out) <= Self::idle_limit(inside.2)
        });
        self.note_idle();
        self.blocks.retain(|_, (_, since)| {
            since.is_none_or(|since| now.saturating_sub(since) < Duration::from_secs(120))
        });
        self.forget();
    }

    /// Ends a mapping that the connection which has just been replaced has kept.
    fn expire(&mut self, inside: Inside) {
        let Some(mapping) = self.mappings.get(&inside) else { return };
        let is_held = self.flows.values().any(|flow| flow.held == Some(mapping.serial));
        if !is_held && self.now.saturating_sub(mapping.last_out) > Self::idle_limit(inside.2) {
            self.mappings.remove(&inside);
            self.note_idle();
        }
    }

    fn forget(&mut self) {
        let (blocks, flows) = (&self.blocks, &self.flows);
        self.subscribers.retain(|address, _| {
            blocks.values().any(|(owner, _)| owner == address)
                || flows.keys().any(|((inside, ..), _)| inside == address)
        });
    }

    fn all_blocks() -> impl Iterator<Item = Block> {
        [0, 1].into_iter().flat_map(|last| {
            (0..BLOCKS_PER_ADDRESS)
                .map(move |number| (Ipv4Addr::new(192, 0, 2, last), FIRST + number * BLOCK))
        })
    }

    fn own(&self, address: Ipv4Addr) -> Vec<Block> {
        self.blocks.iter().filter(|(_, (owner, _))| *owner == address).map(|(block, _)| *block).collect()
    }

    /// The blocks that a new mapping may be in: one that the subscriber has, or a free one.
    fn room(&self, inside: Inside) -> Result<Vec<Block>, Refusal> {
        let is_deterministic = self.config.allocation == Allocation::Deterministic;
        let fixed = Self::all_blocks().nth(usize::from(inside.0.octets()[3]) % 6);
        let free = |address: Option<&Ipv4Addr>| -> Vec<Block> {
            let blocks = Self::all_blocks().filter(|block| {
                !self.blocks.contains_key(block) && address.is_none_or(|address| block.0 == *address)
            });
            if is_deterministic { fixed.into_iter().collect() } else { blocks.collect() }
        };
        let Some(address) = self.subscribers.get(&inside.0) else {
            let free = free(None);
            return if free.is_empty() { Err(Refusal::NoBlock) } else { Ok(free) };
        };
        if self.mappings.keys().filter(|other| other.0 == inside.0).count() >= MAPPINGS {
            return Err(Refusal::MappingLimit);
        }
        let own = self.own(inside.0);
        let has_room = |block: &&Block| self.mappings_in(**block, inside.2) < usize::from(BLOCK);
        let with_room: Vec<Block> = own.iter().filter(has_room).copied().collect();
        if !with_room.is_empty() {
            return Ok(with_room);
        }
        if own.len() >= if is_deterministic { 1 } else { SUBSCRIBER_BLOCKS } {
            return Err(Refusal::NoPort);
        }
        let free = free(Some(address));
        if free.is_empty() { Err(Refusal::NoBlock) } else { Ok(free) }
    }

    /// Whether a session is within the limits.
    fn session(&self, inside: Inside, begins_outside: bool) -> Result<(), Refusal> {
        let own = || self.flows.iter().filter(|(((address, ..), _), _)| *address == inside.0);
        let (all, outside) = (own().count(), own().filter(|(_, flow)| !flow.began_inside).count());
        let is_over = all >= SESSIONS || begins_outside && outside >= SESSIONS.div_ceil(2);
        if is_over { Err(Refusal::SessionLimit) } else { Ok(()) }
    }

    fn passes(&self, inside: Inside, from: End) -> bool {
        let serial = self.mappings[&inside].serial;
        match self.config.filtering {
            Filtering::EndpointIndependent => true,
            Filtering::AddressDependent => {
                let sent =
                    |(key, flow): (&(Inside, End), &Flow)| key.1.0 == from.0 && flow.held == Some(serial);
                self.flows.iter().any(sent)
            }
            Filtering::AddressAndPortDependent => false,
        }
    }

    /// A packet between an inside and a far end.
    fn packet(
        &mut self,
        (inside, far): (Inside, End),
        is_out: bool,
        segment: Option<&Segment>,
        nat: &Seen,
    ) -> Result<Must, Refusal> {
        let key = (inside, far);
        let config =
            tcp::Config { pick_up: self.config.pick_up, timeouts: timeouts(), ..tcp::Config::default() };
        let mut fresh = segment.map(|_| Connection::default());
        let mut first = Forward;
        let direction = |began_inside: bool| if began_inside == is_out { Forward } else { Reverse };
        if let Some(flow) = self.flows.get_mut(&key)
            && let (Some(connection), Some(segment)) = (&mut flow.connection, segment)
        {
            let from = direction(flow.began_inside);
            match connection.segment(from, segment, self.now, &config).verdict {
                Verdict::Replaced => {
                    let (next, from) = connection.successor(from, segment);
                    (fresh, first) = (Some(next), from);
                    self.flows.remove(&key);
                    if is_out {
                        self.expire(inside);
                    }
                }
                Verdict::Refused(anomaly) => {
                    let known = self.mappings.get(&inside).filter(|_| is_out && anomaly.is_challenge());
                    return known.map(|known| Must::Leave(known.public)).ok_or(Refusal::Segment);
                }
                Verdict::Accepted => {}
            }
        }
        if !self.flows.contains_key(&key) {
            if let (Some(fresh), Some(segment)) = (&mut fresh, segment)
                && !fresh.segment(first, segment, self.now, &config).is_accepted()
            {
                return Err(Refusal::Segment);
            }
            let begins_inside = is_out == (first == Forward);
            self.begin(key, is_out, begins_inside, fresh, nat)?;
        }
        let Some(flow) = self.flows.get_mut(&key) else { unreachable!("it is there or has begun") };
        flow.last = self.now;
        if !is_out {
            return Ok(Must::Arrive(inside));
        }
        let held = flow.held;
        let known = self.mappings.get(&inside).map(|mapping| mapping.serial);
        let is_new = known.is_none();
        if is_new {
            self.map(inside, nat)?;
        }
        let Some(mapping) = self.mappings.get_mut(&inside) else { unreachable!("it is mapped") };
        mapping.last_out = self.now;
        let (serial, public) = (mapping.serial, mapping.public);
        if held != Some(serial)
            && let Some(flow) = self.flows.get_mut(&key)
        {
            flow.held = Some(serial);
        }
        Ok(Must::Leave(public))
    }

    fn begin(
        &mut self,
        key: (Inside, End),
        is_out: bool,
        begins_inside: bool,
        connection: Option<Connection>,
        nat: &Seen,
    ) -> Result<(), Refusal> {
        let (inside, far) = key;
        let is_mapped = self.mappings.contains_key(&inside);
        if is_out && !is_mapped {
            self.map(inside, nat)?;
        }
        if !is_out && !begins_inside && !self.passes(inside, far) {
            return Err(Refusal::Filtered);
        }
        if let Err(refusal) = self.session(inside, !begins_inside) {
            if !is_mapped {
                self.mappings.remove(&inside);
                self.note_idle();
            }
            return Err(refusal);
        }
        self.flows.insert(key, Flow { connection, began_inside: begins_inside, last: self.now, held: None });
        Ok(())
    }

    /// A new mapping, where the NAT has put it.
    fn map(&mut self, inside: Inside, nat: &Seen) -> Result<(), Refusal> {
        let room = self.room(inside)?;
        let after: BTreeSet<Block> = nat.blocks(inside.0);
        let own: BTreeSet<Block> = self.own(inside.0).into_iter().collect();
        let has_room = own.iter().any(|block| room.contains(block));
        let added: Vec<Block> = after.difference(&own).copied().collect();
        assert!(own.is_subset(&after), "a block is lost");
        assert_eq!(added.len(), usize::from(!has_room), "{inside:?}: {own:?} {after:?}");
        for block in added {
            assert!(room.contains(&block), "{block:?} is not free");
            self.blocks.insert(block, (inside.0, Some(self.now)));
            self.subscribers.insert(inside.0, block.0);
        }
        let public = nat.chosen.unwrap_or_else(|| {
            // It was refused later: any free port will do, as the mapping ends at once.
            let block =
                after.iter().find(|block| self.mappings_in(**block, inside.2) < usize::from(BLOCK)).unwrap();
            let taken: Vec<u16> = self.taken(*block, inside.2);
            (block.0, (block.1..block.1 + BLOCK).find(|port| !taken.contains(port)).unwrap())
        });
        let block = Self::block_of(public);
        assert!(after.contains(&block), "{public:?} is in no block of {inside:?}");
        let taken = self.taken(block, inside.2);
        assert!(!taken.contains(&public.1), "{public:?} has another mapping");
        let even =
            (block.1..block.1 + BLOCK).filter(|port| !taken.contains(port) && (port ^ inside.1) & 1 == 0);
        assert!(nat.chosen.is_none() || even.count() == 0 || (public.1 ^ inside.1) & 1 == 0, "parity");
        self.serial += 1;
        self.mappings.insert(inside, Mapping { public, serial: self.serial, last_out: self.now });
        self.note_idle();
        Ok(())
    }

    fn taken(&self, block: Block, kind: u8) -> Vec<u16> {
        let of = |(inside, mapping): (&Inside, &Mapping)| {
            (inside.2 == kind && Self::block_of(mapping.public) == block).then_some(mapping.public.1)
        };
        self.mappings.iter().filter_map(of).collect()
    }

    /// A packet from outside to a public end.
    fn arrive(
        &mut self,
        kind: u8,
        from: End,
        to: End,
        segment: Option<&Segment>,
        nat: &Seen,
    ) -> Result<Must, Refusal> {
        let found = self.mappings.iter().find(|(inside, mapping)| inside.2 == kind && mapping.public == to);
        let inside = *found.ok_or(Refusal::NoMapping)?.0;
        let far = if kind == ICMP { (from.0, inside.1) } else { from };
        self.packet((inside, far), false, segment, nat)
    }
}

/// The public end of an inside one, from the NAT's table.
fn mapped(lines: &str, (address, port, kind): Inside) -> Option<End> {
    let name = match kind {
        TCP => "tcp",
        UDP => "udp",
        _ => "icmp",
    };
    let line = lines.lines().find(|line| line.starts_with(&format!("{name}\t{address}:{port}\t")))?;
    let (public, public_port) = line.split('\t').nth(2)?.split_once(':')?;
    Some((public.parse().ok()?, public_port.parse().ok()?))
}

/// What the NAT has done.
struct Seen {
    /// The public end that the packet's inside end has now.
    chosen: Option<End>,
    lines: String,
}

impl Seen {
    fn blocks(&self, inside: Ipv4Addr) -> BTreeSet<Block> {
        let of = |line: &str| {
            let mut fields = line.split('\t');
            let owner: Ipv4Addr = fields.next()?.parse().ok()?;
            let address = fields.next()?.parse().ok()?;
            let first = fields.next()?.split('-').next()?.parse().ok()?;
            (owner == inside).then_some((address, first))
        };
        self.lines.lines().filter_map(of).collect()
    }
}

#[derive(Debug, Clone)]
struct Step {
    kind: u8,
    host: u8,
    port: u16,
    far: u8,
    far_port: u16,
    what: What,
    segment: usize,
    later_s: u64,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Out,
    /// To the public end of the mapping with this number of all, or to a port that nobody has.
    Back(usize),
    /// From a host to the public end of such a mapping.
    Hairpin(usize),
}

/// Sequence number, acknowledgment, flags of segments that make connections in some orders.
const SEGMENTS: [(u32, u32, u8); 10] = [
    (100, 0, SYN),
    (500, 101, SYN | ACK),
    (101, 501, ACK),
    (501, 101, ACK),
    (101, 501, FIN | ACK),
    (501, 102, FIN | ACK),
    (102, 502, ACK),
    (101, 0, RST),
    (501, 101, RST | ACK),
    (9_000, 0, SYN),
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let what = prop_oneof![
        5 => Just(What::Out),
        4 => (0..8_usize).prop_map(What::Back),
        1 => (0..8_usize).prop_map(What::Hairpin),
    ];
    let later = prop_oneof![12 => Just(0_u64), 3 => 1..50_u64, 2 => 50..400_u64, 1 => 7_000..8_000_u64];
    let kind = prop_oneof![3 => Just(TCP), 3 => Just(UDP), 1 => Just(ICMP)];
    let step = (kind, 1..6_u8, 5_000..5_008_u16, 1..4_u8, 80..82_u16, what, 0..SEGMENTS.len(), later);
    let step = step.prop_map(|(kind, host, port, far, far_port, what, segment, later_s)| Step {
        kind,
        host,
        port,
        far,
        far_port,
        what,
        segment,
        later_s,
    });
    prop::collection::vec(step, 1..120)
}

fn build(kind: u8, src: End, dst: End, segment: usize, is_reply: bool) -> Vec<u8> {
    match kind {
        TCP => tcp(src, dst, SEGMENTS[segment], b""),
        UDP => udp(src, dst, b"x"),
        _ if is_reply => query(0, src.0, dst.0, dst.1),
        _ => query(8, src.0, dst.0, src.1),
    }
}

fn run(steps: &[Step], allocation: Allocation, filtering: Filtering, pick_up: bool) {
    let inside = Prefix::new(host(0), if allocation == Allocation::Dynamic { 24 } else { 30 }).unwrap();
    let more = Prefix::new(host(4), 31).unwrap();
    let public = Prefix::new(Ipv4Addr::new(192, 0, 2, 0), 31).unwrap();
    let inside = if allocation == Allocation::Dynamic { vec![inside] } else { vec![inside, more] };
    let plan = Plan::new(&inside, &[public], FIRST..=FIRST + BLOCK * BLOCKS_PER_ADDRESS - 1, BLOCK).unwrap();
    let mut rig = Rig::with_plan(plan, |config| {
        config.allocation = allocation;
        config.filtering = filtering;
        config.pick_up = pick_up;
        config.subscriber_blocks = SUBSCRIBER_BLOCKS as u16;
        config.subscriber_mappings = MAPPINGS as u32;
        config.subscriber_sessions = SESSIONS as u32;
        config.sessions = 200;
        config.young_sessions = 200;
    });
    let mut twin = Twin {
        config: rig.nat.config().clone(),
        now: rig.now,
        serial: 0,
        mappings: BTreeMap::new(),
        flows: BTreeMap::new(),
        blocks: BTreeMap::new(),
        subscribers: BTreeMap::new(),
    };
    for step in steps {
        rig.wait(step.later_s);
        twin.sweep(rig.now);
        let own = (host(step.host), step.port);
        let far = (remote(step.far), step.far_port);
        let inside = (own.0, own.1, step.kind);
        let is_icmp = step.kind == ICMP;
        let public_of = |number: usize| {
            let of_kind = twin.mappings.iter().filter(|(inside, _)| inside.2 == step.kind);
            of_kind
                .map(|(_, mapping)| mapping.public)
                .nth(number)
                .unwrap_or((Ipv4Addr::new(192, 0, 2, 0), FIRST + 11))
        };
        let (src, dst, is_back) = match step.what {
            What::Out => (own, far, false),
            What::Back(number) => (far, public_of(number), true),
            What::Hairpin(_) if is_icmp => (own, far, false),
            What::Hairpin(number) => (own, public_of(number), false),
        };
        let is_hairpin = !is_back && dst.0.octets()[0] == 192;
        let packet = build(step.kind, src, dst, step.segment, is_back);
        let segment = (step.kind == TCP).then(|| Segment::of(&Tcp::parse(&packet[20..]).unwrap()));
        let got = match (is_back, is_hairpin) {
            (true, _) => rig.back(&packet),
            (false, true) => rig.hairpin(&packet),
            (false, false) => rig.out(&packet),
        };
        let sent = got.as_ref().ok().map(|bytes| ends(bytes));
        let seen = Seen {
            chosen: if is_back { None } else { mapped(&rig.nat.mapping_lines(Some(own.0), 100), inside) },
            lines: rig.nat.block_lines(None, 100),
        };
        let icmp_far = |far: End| if is_icmp { (far.0, own.1) } else { far };
        let must = if is_back {
            twin.arrive(step.kind, src, dst, segment.as_ref(), &seen)
        } else {
            let left = twin.packet((inside, icmp_far(dst)), true, segment.as_ref(), &seen);
            match left {
                Ok(Must::Leave(public)) if is_hairpin => {
                    twin.arrive(step.kind, public, dst, segment.as_ref(), &seen)
                }
                left => left,
            }
        };
        match (must, &got) {
            (Ok(Must::Leave(public)), Ok(_)) => {
                assert_eq!(Some(public), sent.map(|(from, _)| from), "{step:?}");
            }
            (Ok(Must::Arrive(to)), Ok(_)) => {
                assert_eq!(Some((to.0, to.1)), sent.map(|(_, to)| to), "{step:?}");
            }
            (Err(refusal), Err(got)) => assert_eq!(refusal, *got, "{step:?}"),
            (must, got) => panic!("{step:?}: must {must:?}, got {got:?}"),
        }
        twin.forget();
        assert_eq!(rig.nat.mappings(), twin.mappings.len(), "{step:?}");
        assert_eq!(rig.nat.tracker().flows(), twin.flows.len(), "{step:?}");
        assert_eq!(rig.nat.blocks_in_use(), twin.blocks.len(), "{step:?}");
        assert_eq!(rig.nat.subscribers(), twin.subscribers.len(), "{step:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn the_nat_does_what_its_twin_says(
        steps in steps(),
        is_dynamic: bool,
        pick_up: bool,
        filtering in prop::sample::select(vec![
            Filtering::EndpointIndependent, Filtering::AddressDependent, Filtering::AddressAndPortDependent,
        ]),
    ) {
        let allocation = if is_dynamic { Allocation::Dynamic } else { Allocation::Deterministic };
        run(&steps, allocation, filtering, pick_up);
    }
}
