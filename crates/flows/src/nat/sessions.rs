//! Sessions: what the NAT keeps beside the tracker's flows, and which flows may begin.

use super::state::{Mapping, State};
use super::{Endpoint, Event, Filtering, Refusal};
use crate::tcp::Anomaly;
use crate::tracker::Sink;
use scalebricks_tables::dhash::{Record, StartedRecords};
use scalebricks_types::FiveTuple;
use std::net::IpAddr;

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
        Self { inside, mapping, created: false, begins_outside: false, refusal: None, is_challenge: false }
    }
}

impl State {
    /// Whether a new session is within the limits and passes the filter; finds or makes its mapping.
    fn admit(&mut self, context: &mut Context, tuple: &FiveTuple) -> Result<(), Refusal> {
        let inside = context.inside;
        context.begins_outside = tuple.src != IpAddr::V4(inside.address) || tuple.src_port != inside.port;
        // From outside, the mapping is known already.
        let is_outbound = context.mapping.is_none();
        let mapping = if let Some(number) = context.mapping {
            number
        } else {
            let (number, created) = self.assign(inside)?;
            (context.mapping, context.created) = (Some(number), created);
            number
        };
        let Some(mapping) = self.mappings.get(mapping) else { return Err(Refusal::NoMapping) };
        if context.begins_outside && !is_outbound {
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

    fn released(&mut self, tuple: FiveTuple, record: Record, records: &StartedRecords) {
        let session = records.column(self.column)[record];
        if !session.exists {
            return;
        }
        let remote = if session.began_outside { tuple.src } else { tuple.dst };
        self.let_go(&session, remote);
        if let Some(subscriber) = self.subscribers.get_mut(session.subscriber) {
            subscriber.sessions -= 1;
            subscriber.outside_sessions -= u32::from(session.began_outside);
        }
        self.forget_subscriber(session.subscriber);
    }
}
