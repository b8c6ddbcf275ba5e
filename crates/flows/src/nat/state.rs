//! Mappings, subscribers, limits and lifetimes: all of a NAT but its sessions, which the tracker has.

use super::blocks::{BlockEvent, Blocks};
use super::slab::Slab;
use super::{Allocation, Config, Endpoint, Event, Filtering, Kind, Refusal};
use crate::named::Tally;
use crate::tcp::Anomaly;
use crate::tracker::{Ended, Sink};
use scalebricks_tables::dhash::Column;
use scalebricks_types::{FiveTuple, HashSeed, KeyHasher};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// An inside endpoint and its public one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mapping {
    pub(super) inside: Endpoint,
    pub(super) public: Ipv4Addr,
    pub(super) port: u16,
    place: u16,
    block: u32,
    subscriber: u32,
    /// Sessions in which the inside endpoint has sent: these keep a TCP mapping.
    pub(super) holders: u32,
    /// Its number among all mappings ever.
    serial: u64,
    /// When the inside endpoint has sent last.
    pub(super) last_out: Duration,
}

/// An inside address that has blocks or sessions.
#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) address: Ipv4Addr,
    /// The number of its public address.
    public: u32,
    pub(super) blocks: Vec<u32>,
    pub(super) mappings: u32,
    pub(super) sessions: u32,
    /// Sessions that began outside.
    outside_sessions: u32,
    pub(super) refused: u64,
}

/// What the NAT keeps beside a flow's record.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Session {
    /// The mapping's number and serial; 0 until an inside packet has passed.
    mapping: u32,
    serial: u64,
    subscriber: u32,
    exists: bool,
    began_outside: bool,
}

/// The packet that is being tracked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    pub(super) inside: Endpoint,
    pub(super) is_outbound: bool,
    /// Its mapping, if it is known.
    pub(super) mapping: Option<u32>,
    /// The mapping began for this packet.
    created: bool,
    /// The flow that begins with this packet begins outside.
    begins_outside: bool,
    pub(super) refusal: Option<Refusal>,
    /// The tracker refuses the segment, and the peer will challenge it.
    pub(super) is_challenge: bool,
}

impl Context {
    pub(super) const fn new(inside: Endpoint, mapping: Option<u32>) -> Self {
        Self {
            inside,
            is_outbound: mapping.is_none(),
            mapping,
            created: false,
            begins_outside: false,
            refusal: None,
            is_challenge: false,
        }
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) config: Config,
    pub(super) column: Column<Session>,
    hasher: KeyHasher,
    pub(super) now: Duration,
    pub(super) context: Option<Context>,
    pub(super) blocks: Blocks,
    pub(super) mappings: Slab<Mapping>,
    by_inside: HashMap<Endpoint, u32>,
    pub(super) subscribers: Slab<Subscriber>,
    by_address: HashMap<Ipv4Addr, u32>,
    /// With address-dependent filtering: sessions by mapping's serial and remote address, if the inside has sent there.
    contacts: HashMap<(u64, Ipv4Addr), u32>,
    serial: u64,
    /// Where the sweep of mappings goes on.
    hand: usize,
    pub(super) log: VecDeque<BlockEvent>,
    pub(super) events: Tally<Event>,
}

impl State {
    pub(super) fn new(config: Config, column: Column<Session>, secret: HashSeed) -> Self {
        Self {
            blocks: Blocks::new(&config.plan, config.allocation),
            config,
            column,
            hasher: KeyHasher::new(secret),
            now: Duration::ZERO,
            context: None,
            mappings: Slab::new(),
            by_inside: HashMap::new(),
            subscribers: Slab::new(),
            by_address: HashMap::new(),
            contacts: HashMap::new(),
            serial: 0,
            hand: 0,
            log: VecDeque::new(),
            events: Tally::default(),
        }
    }

    /// The mapping of a public port, if somebody inside has it now.
    #[inline]
    pub(super) fn of_public(&self, public: Ipv4Addr, port: u16, kind: Kind) -> Option<(u32, Mapping)> {
        let (block, place) = self.config.plan.place(public, port)?;
        let number = self.blocks.mapping(block, place, kind)?;
        self.mappings.get(number).filter(|mapping| self.is_alive(mapping)).map(|mapping| (number, *mapping))
    }

    /// The mapping of an inside endpoint, if it has one now.
    pub(super) fn of_inside(&self, inside: &Endpoint) -> Option<(u32, Mapping)> {
        let number = *self.by_inside.get(inside)?;
        self.mappings.get(number).filter(|mapping| self.is_alive(mapping)).map(|mapping| (number, *mapping))
    }

    /// RFC 4787 REQ-6: outbound packets refresh a mapping. A TCP mapping lasts as long as its connections.
    fn is_alive(&self, mapping: &Mapping) -> bool {
        let timeouts = &self.config.timeouts;
        let idle = self.now.saturating_sub(mapping.last_out);
        match mapping.inside.kind {
            Kind::Tcp => mapping.holders > 0 || idle <= timeouts.tcp_transitory,
            Kind::Udp => idle <= timeouts.udp,
            Kind::Icmp => idle <= timeouts.icmp,
        }
    }

    /// The mapping of an inside endpoint; a new one if it has none. Returns whether it is new.
    fn assign(&mut self, inside: Endpoint) -> Result<(u32, bool), Refusal> {
        if let Some(&number) = self.by_inside.get(&inside) {
            if self.mappings.get(number).is_some_and(|mapping| self.is_alive(mapping)) {
                return Ok((number, false));
            }
            self.end_mapping(number);
        }
        if self.mappings.len() >= self.config.sessions as usize {
            return Err(Refusal::MappingsFull);
        }
        let (subscriber, block) = self.room(inside)?;
        let (place, public, port) = self.choose(block, inside).ok_or(Refusal::NoPort)?;
        self.serial += 1;
        let number = self.mappings.add(Mapping {
            inside,
            public,
            port,
            place,
            block,
            subscriber,
            holders: 0,
            serial: self.serial,
            last_out: self.now,
        });
        self.blocks.take(block, place, inside.kind, number);
        self.by_inside.insert(inside, number);
        if let Some(subscriber) = self.subscribers.get_mut(subscriber) {
            subscriber.mappings += 1;
        }
        self.events.count(Event::MappingBegan);
        Ok((number, true))
    }

    /// A subscriber and a block with a free port.
    fn room(&mut self, inside: Endpoint) -> Result<(u32, u32), Refusal> {
        let Some(&number) = self.by_address.get(&inside.address) else {
            return self.new_subscriber(inside.address);
        };
        let Some(subscriber) = self.subscribers.get_mut(number) else { return Err(Refusal::NoBlock) };
        if subscriber.mappings >= self.config.subscriber_mappings {
            subscriber.refused += 1;
            return Err(Refusal::MappingLimit);
        }
        let blocks = &self.blocks;
        if let Some(block) =
            subscriber.blocks.iter().copied().find(|block| blocks.has_room(*block, inside.kind))
        {
            return Ok((number, block));
        }
        let most = match self.config.allocation {
            Allocation::Dynamic => usize::from(self.config.subscriber_blocks),
            Allocation::Deterministic => 1,
        };
        if subscriber.blocks.len() >= most {
            subscriber.refused += 1;
            return Err(Refusal::NoPort);
        }
        let assigned = match self.config.allocation {
            // RFC 6888 REQ-2: all blocks are of one public address.
            Allocation::Dynamic => self.blocks.assign_any(subscriber.public, number),
            Allocation::Deterministic => own_block(&self.config, &mut self.blocks, inside.address, number),
        };
        let block = assigned.inspect_err(|_| subscriber.refused += 1)?;
        subscriber.blocks.push(block);
        self.note(inside.address, block, true);
        Ok((number, block))
    }

    fn new_subscriber(&mut self, address: Ipv4Addr) -> Result<(u32, u32), Refusal> {
        let public = match self.config.allocation {
            Allocation::Dynamic => {
                let from = self.hasher.hash_bytes(&address.octets()).get() as u32;
                self.blocks.address_with_room(from)?
            }
            Allocation::Deterministic => 0,
        };
        let fresh = Subscriber {
            address,
            public,
            blocks: Vec::with_capacity(1),
            mappings: 0,
            sessions: 0,
            outside_sessions: 0,
            refused: 0,
        };
        let number = self.subscribers.add(fresh);
        let assigned = match self.config.allocation {
            Allocation::Dynamic => self.blocks.assign_any(public, number),
            Allocation::Deterministic => own_block(&self.config, &mut self.blocks, address, number),
        };
        let Ok(block) = assigned else {
            self.subscribers.remove(number);
            return Err(Refusal::NoBlock);
        };
        if let Some(subscriber) = self.subscribers.get_mut(number) {
            subscriber.blocks.push(block);
        }
        self.by_address.insert(address, number);
        self.note(address, block, true);
        Ok((number, block))
    }

    /// The port of a block that an endpoint gets: the first free one in its order.
    fn choose(&mut self, block: u32, inside: Endpoint) -> Option<(u16, Ipv4Addr, u16)> {
        let plan = &self.config.plan;
        let endpoint = (inside.address, inside.port, inside.kind.number());
        let mut order = plan.order(&self.hasher, endpoint, self.config.parity).enumerate();
        let blocks = &self.blocks;
        let (tried, place) = order.find(|(_, place)| blocks.mapping(block, *place, inside.kind).is_none())?;
        let (public, first) = plan.start(block)?;
        let port = first + place;
        if tried > 0 {
            self.events.count(Event::PortDisplaced);
        }
        if self.config.parity && (port ^ inside.port) & 1 != 0 {
            self.events.count(Event::ParityLost);
        }
        Some((place, public, port))
    }

    fn note(&mut self, inside: Ipv4Addr, block: u32, is_assigned: bool) {
        self.events.count(if is_assigned { Event::BlockAssigned } else { Event::BlockReleased });
        while self.log.len() >= self.config.events.max(1) {
            self.log.pop_front();
        }
        self.log.push_back(BlockEvent { at: self.now, inside, block, is_assigned });
    }

    fn end_mapping(&mut self, number: u32) {
        let Some(mapping) = self.mappings.remove(number) else { return };
        self.by_inside.remove(&mapping.inside);
        self.blocks.give_back(mapping.block, mapping.place, mapping.inside.kind, self.now);
        if let Some(subscriber) = self.subscribers.get_mut(mapping.subscriber) {
            subscriber.mappings -= 1;
        }
        self.events.count(Event::MappingEnded);
    }

    /// Forgets a subscriber that has neither blocks nor sessions.
    fn forget_subscriber(&mut self, number: u32) {
        let is_gone = self.subscribers.get(number).is_some_and(|s| s.blocks.is_empty() && s.sessions == 0);
        if is_gone && let Some(subscriber) = self.subscribers.remove(number) {
            self.by_address.remove(&subscriber.address);
        }
    }

    /// Ends mappings whose time is over, and frees blocks. Passes at most `budget` of each.
    pub(super) fn sweep(&mut self, budget: usize) {
        for _ in 0..budget.min(self.mappings.extent()) {
            self.hand = if self.hand + 1 < self.mappings.extent() { self.hand + 1 } else { 0 };
            let number = self.hand as u32;
            if self.mappings.get(number).is_some_and(|mapping| !self.is_alive(mapping)) {
                self.end_mapping(number);
            }
        }
        for _ in 0..budget.min(self.blocks.idle()) {
            let released = self.blocks.release(self.now, self.config.timeouts.block);
            let Some((block, number)) = released else { continue };
            if let Some(subscriber) = self.subscribers.get_mut(number) {
                subscriber.blocks.retain(|own| *own != block);
                let address = subscriber.address;
                self.note(address, block, false);
            }
            self.forget_subscriber(number);
        }
    }

    /// Whether a new session is within the limits and passes the filter; finds or makes its mapping.
    fn admit(&mut self, context: &mut Context, tuple: &FiveTuple) -> Result<(), Refusal> {
        let inside = context.inside;
        context.begins_outside = tuple.src != IpAddr::V4(inside.address) || tuple.src_port != inside.port;
        let mapping = match context.mapping {
            Some(number) => number,
            None => {
                let (number, created) = self.assign(inside)?;
                (context.mapping, context.created) = (Some(number), created);
                number
            }
        };
        let Some(mapping) = self.mappings.get(mapping) else { return Err(Refusal::NoMapping) };
        if context.begins_outside && !context.is_outbound {
            let remote = match tuple.src {
                IpAddr::V4(remote) => remote,
                IpAddr::V6(_) => return Err(Refusal::Filtered),
            };
            let passes = match self.config.filtering {
                Filtering::EndpointIndependent => true,
                Filtering::AddressDependent => self.contacts.contains_key(&(mapping.serial, remote)),
                Filtering::AddressAndPortDependent => false,
            };
            if !passes {
                return Err(Refusal::Filtered);
            }
        }
        let most = self.config.subscriber_sessions;
        let Some(subscriber) = self.subscribers.get_mut(mapping.subscriber) else {
            return Err(Refusal::NoMapping);
        };
        // Outside hosts cannot use up what a subscriber needs for its own sessions.
        let is_over = context.begins_outside && subscriber.outside_sessions >= most.div_ceil(2);
        if subscriber.sessions >= most || is_over {
            subscriber.refused += 1;
            return Err(Refusal::SessionLimit);
        }
        Ok(())
    }

    /// The packet belongs to no session after all.
    pub(super) fn give_up(&mut self, context: &Context) {
        if let Some(number) = context.mapping.filter(|_| context.created) {
            self.end_mapping(number);
        }
    }

    /// Counts a session that has begun.
    pub(super) fn begin_session(&mut self, context: &Context, session: &mut Session) {
        let Some(mapping) = context.mapping.and_then(|number| self.mappings.get(number)) else { return };
        *session = Session {
            subscriber: mapping.subscriber,
            exists: true,
            began_outside: context.begins_outside,
            ..Session::default()
        };
        if let Some(subscriber) = self.subscribers.get_mut(mapping.subscriber) {
            subscriber.sessions += 1;
            subscriber.outside_sessions += u32::from(context.begins_outside);
        }
    }

    /// An inside packet of a session: finds its mapping, by the session alone if it still has the one of its last packet, and
    /// refreshes it.
    #[inline]
    pub(super) fn outbound(
        &mut self,
        context: &Context,
        session: &mut Session,
        remote: IpAddr,
    ) -> Result<Mapping, Refusal> {
        let known = self.mappings.get(session.mapping).filter(|mapping| mapping.serial == session.serial);
        let number = if known.is_some_and(|mapping| self.is_alive(mapping)) {
            session.mapping
        } else {
            let number = match context.mapping {
                Some(number) => number,
                None => self.assign(context.inside)?.0,
            };
            if session.serial != 0 {
                self.events.count(Event::Remapped);
            }
            self.hold(number, session, remote);
            number
        };
        let now = self.now;
        let mapping = self.mappings.get_mut(number).ok_or(Refusal::NoMapping)?;
        mapping.last_out = now;
        Ok(*mapping)
    }

    /// The session keeps this mapping from now on.
    fn hold(&mut self, number: u32, session: &mut Session, remote: IpAddr) {
        self.let_go(session, remote);
        let Some(mapping) = self.mappings.get_mut(number) else { return };
        mapping.holders += 1;
        (session.mapping, session.serial) = (number, mapping.serial);
        if self.config.filtering == Filtering::AddressDependent
            && let IpAddr::V4(remote) = remote
        {
            *self.contacts.entry((session.serial, remote)).or_insert(0) += 1;
        }
    }

    fn let_go(&mut self, session: &Session, remote: IpAddr) {
        if session.serial == 0 {
            return;
        }
        if let Some(mapping) = self.mappings.get_mut(session.mapping).filter(|m| m.serial == session.serial) {
            mapping.holders -= 1;
        }
        if let IpAddr::V4(remote) = remote
            && let Some(count) = self.contacts.get_mut(&(session.serial, remote))
        {
            *count -= 1;
            if *count == 0 {
                self.contacts.remove(&(session.serial, remote));
            }
        }
    }
}

/// Gives a subscriber the block that is computed from its address.
fn own_block(
    config: &Config,
    blocks: &mut Blocks,
    inside: Ipv4Addr,
    subscriber: u32,
) -> Result<u32, Refusal> {
    let block = config.plan.deterministic_number(inside).ok_or(Refusal::NoBlock)?;
    blocks.assign(block, subscriber);
    Ok(block)
}

impl Sink for State {
    fn may_begin(&mut self, tuple: &FiveTuple, _: u16) -> bool {
        let Some(mut context) = self.context.take() else { return false };
        context.refusal = self.admit(&mut context, tuple).err();
        self.context = Some(context);
        context.refusal.is_none()
    }

    fn anomaly(&mut self, _: u64, anomaly: Anomaly) {
        if let Some(context) = &mut self.context {
            context.is_challenge |= anomaly.is_challenge();
        }
    }

    fn ended(&mut self, ended: &Ended<'_>) {
        let session = ended.records.column(self.column)[ended.record];
        if !session.exists {
            return;
        }
        let remote = if session.began_outside { ended.tuple.src } else { ended.tuple.dst };
        self.let_go(&session, remote);
        if let Some(subscriber) = self.subscribers.get_mut(session.subscriber) {
            subscriber.sessions -= 1;
            subscriber.outside_sessions -= u32::from(session.began_outside);
        }
        self.forget_subscriber(session.subscriber);
    }
}
