//! Mappings, subscribers, limits and lifetimes: all of a NAT but its sessions, which the tracker has.

use super::blocks::{BlockEvent, Blocks};
use super::sessions::{Context, Session};
use super::slab::Slab;
use super::{Allocation, Config, Endpoint, Event, Kind, Refusal};
use crate::named::Tally;
use scalebricks_tables::dhash::Column;
use scalebricks_types::{HashSeed, KeyHasher};
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

/// An inside endpoint and its public one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mapping {
    pub(super) inside: Endpoint,
    pub(super) public: Ipv4Addr,
    pub(super) port: u16,
    place: u16,
    block: u32,
    pub(super) subscriber: u32,
    /// Sessions in which the inside endpoint has sent: these keep a TCP mapping.
    pub(super) holders: u32,
    /// Its number among all mappings ever.
    pub(super) serial: u64,
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
    pub(super) outside_sessions: u32,
    pub(super) refused: u64,
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
    pub(super) contacts: HashMap<(u64, Ipv4Addr), u32>,
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
    pub(super) fn of_inside(&self, inside: Endpoint) -> Option<(u32, Mapping)> {
        let number = *self.by_inside.get(&inside)?;
        self.mappings.get(number).filter(|mapping| self.is_alive(mapping)).map(|mapping| (number, *mapping))
    }

    /// RFC 4787 REQ-6: outbound packets refresh a mapping. A TCP mapping lasts as long as its connections.
    pub(super) fn is_alive(&self, mapping: &Mapping) -> bool {
        let timeouts = &self.config.timeouts;
        let idle = self.now.saturating_sub(mapping.last_out);
        match mapping.inside.kind {
            Kind::Tcp => mapping.holders > 0 || idle <= timeouts.tcp_transitory,
            Kind::Udp => idle <= timeouts.udp,
            Kind::Icmp => idle <= timeouts.icmp,
        }
    }

    /// The mapping of an inside endpoint; a new one if it has none. Returns whether it is new.
    pub(super) fn assign(&mut self, inside: Endpoint) -> Result<(u32, bool), Refusal> {
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

    pub(super) fn end_mapping(&mut self, number: u32) {
        let Some(mapping) = self.mappings.remove(number) else { return };
        self.by_inside.remove(&mapping.inside);
        self.blocks.give_back(mapping.block, mapping.place, mapping.inside.kind, self.now);
        if let Some(subscriber) = self.subscribers.get_mut(mapping.subscriber) {
            subscriber.mappings -= 1;
        }
        self.events.count(Event::MappingEnded);
    }

    /// Forgets a subscriber that has neither blocks nor sessions.
    pub(super) fn forget_subscriber(&mut self, number: u32) {
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
