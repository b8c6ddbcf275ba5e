//! The routes that a session has announced.

use super::super::FeedPrefix;
use super::netlink::{self, Ignored, MAX_GATEWAYS, Message, MessageError, Object, Target};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// Most routes of a session; further ones are counted and not used.
pub const MAX_ROUTES: usize = 1 << 22;

/// Most next-hop objects of a session; further ones are counted and not used.
pub const MAX_OBJECTS: usize = 1 << 16;

/// What a session sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FpmCounts {
    /// Routes, new or changed.
    pub routes: u64,
    /// Routes over several next hops.
    pub multipath: u64,
    /// Withdrawals.
    pub withdrawals: u64,
    /// Changes of next-hop objects.
    pub objects: u64,
    /// Messages about anything else.
    pub other_kind: u64,
    /// Routes of other tables than the main one.
    pub other_table: u64,
    /// Networks of the speaker's interfaces.
    pub of_the_kernel: u64,
    /// Routes that are not unicast routes, such as black holes.
    pub not_unicast: u64,
    /// Routes without a gateway.
    pub no_gateway: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Routes and objects beyond the limits.
    pub too_many: u64,
}

impl FpmCounts {
    /// All counts by name.
    pub const fn all(&self) -> [(&'static str, u64); 11] {
        [
            ("routes", self.routes),
            ("multipath", self.multipath),
            ("withdrawals", self.withdrawals),
            ("objects", self.objects),
            ("other_kind", self.other_kind),
            ("other_table", self.other_table),
            ("of_the_kernel", self.of_the_kernel),
            ("not_unicast", self.not_unicast),
            ("no_gateway", self.no_gateway),
            ("malformed", self.malformed),
            ("too_many", self.too_many),
        ]
    }
}

/// The routes that a session has announced, and their next hops.
#[derive(Debug, Clone, Default)]
pub struct FpmTable {
    routes: BTreeMap<FeedPrefix, Target>,
    objects: HashMap<u32, Object>,
    /// Routes over each object.
    users: HashMap<u32, usize>,
    counts: FpmCounts,
    last_error: Option<MessageError>,
}

impl FpmTable {
    /// What was read.
    pub const fn counts(&self) -> FpmCounts {
        self.counts
    }

    /// Why the last malformed message could not be read.
    pub const fn last_error(&self) -> Option<&MessageError> {
        self.last_error.as_ref()
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there are no routes.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Forgets all routes and objects, for a new session. The counts stay.
    pub fn clear(&mut self) {
        self.routes.clear();
        self.objects.clear();
        self.users.clear();
    }

    /// All prefixes that have a route.
    pub fn prefixes(&self) -> impl Iterator<Item = FeedPrefix> + '_ {
        self.routes.keys().copied()
    }

    /// The neighbours that a prefix's route leads to, at most [`MAX_GATEWAYS`]; none without a route.
    pub fn next_hops(&self, prefix: FeedPrefix) -> Vec<IpAddr> {
        match self.routes.get(&prefix) {
            None => Vec::new(),
            Some(Target::Gateways(gateways)) => gateways.to_vec(),
            Some(Target::Object(number)) => self.of_object(*number),
        }
    }

    /// The neighbours of an object. A group consists of single ones: the kernel allows no group of groups.
    fn of_object(&self, number: u32) -> Vec<IpAddr> {
        let single = |number: &u32| match self.objects.get(number) {
            Some(Object::Single(gateway)) => *gateway,
            Some(Object::Group(_)) | None => None,
        };
        match self.objects.get(&number) {
            Some(Object::Group(members)) => members.iter().filter_map(single).take(MAX_GATEWAYS).collect(),
            _ => single(&number).into_iter().collect(),
        }
    }

    /// Reads the messages of a frame; adds the prefixes whose routes may have changed to `changed`.
    ///
    /// Cost: a search per route. A changed object that routes use visits all routes.
    pub fn read(&mut self, frame: &[u8], changed: &mut BTreeSet<FeedPrefix>) {
        let mut rest = frame;
        while !rest.is_empty() {
            let (message, after) = netlink::read(rest);
            rest = after;
            match message {
                Ok(message) => self.take(message, changed),
                Err(error) => {
                    self.counts.malformed += 1;
                    self.last_error = Some(error);
                }
            }
        }
    }

    fn take(&mut self, message: Message, changed: &mut BTreeSet<FeedPrefix>) {
        match message {
            Message::Route(prefix, target) => {
                if self.routes.len() >= MAX_ROUTES && !self.routes.contains_key(&prefix) {
                    self.counts.too_many += 1;
                    return;
                }
                self.counts.routes += 1;
                self.set(prefix, Some(target));
                self.counts.multipath += u64::from(self.next_hops(prefix).len() > 1);
                changed.insert(prefix);
            }
            Message::Withdraw(prefix) => {
                self.counts.withdrawals += 1;
                if self.set(prefix, None) {
                    changed.insert(prefix);
                }
            }
            Message::Unusable(prefix, why) => {
                self.ignore(why);
                if self.set(prefix, None) {
                    changed.insert(prefix);
                }
            }
            Message::Object(number, object) => {
                if self.objects.len() >= MAX_OBJECTS && !self.objects.contains_key(&number) {
                    self.counts.too_many += 1;
                    return;
                }
                self.counts.objects += 1;
                let old = self.objects.insert(number, object.clone());
                if old.as_ref() != Some(&object) {
                    self.object_changed(number, changed);
                }
            }
            Message::RemoveObject(number) => {
                self.counts.objects += 1;
                if self.objects.remove(&number).is_some() {
                    self.object_changed(number, changed);
                }
            }
            Message::Ignored(why) => self.ignore(why),
        }
    }

    const fn ignore(&mut self, why: Ignored) {
        let counts = &mut self.counts;
        *match why {
            Ignored::OtherKind => &mut counts.other_kind,
            Ignored::OtherTable => &mut counts.other_table,
            Ignored::OfTheKernel => &mut counts.of_the_kernel,
            Ignored::NotUnicast => &mut counts.not_unicast,
            Ignored::NoGateway => &mut counts.no_gateway,
        } += 1;
    }

    /// Sets or removes a route; whether there was one.
    fn set(&mut self, prefix: FeedPrefix, target: Option<Target>) -> bool {
        if let Some(Target::Object(number)) = target {
            *self.users.entry(number).or_default() += 1;
        }
        let old = match target {
            Some(target) => self.routes.insert(prefix, target),
            None => self.routes.remove(&prefix),
        };
        if let Some(Target::Object(number)) = old
            && let Some(users) = self.users.get_mut(&number)
        {
            *users -= 1;
            if *users == 0 {
                self.users.remove(&number);
            }
        }
        old.is_some()
    }

    /// Marks the routes over an object, and over groups with it.
    fn object_changed(&self, number: u32, changed: &mut BTreeSet<FeedPrefix>) {
        let has_it = |of: &u32| match self.objects.get(of) {
            Some(Object::Group(members)) => *of == number || members.contains(&number),
            _ => *of == number,
        };
        let affected: BTreeSet<u32> = self.users.keys().copied().filter(has_it).collect();
        if affected.is_empty() {
            return; // as for most objects, which zebra sends before the first route over them
        }
        let is_over = |target: &Target| matches!(target, Target::Object(of) if affected.contains(of));
        changed.extend(self.routes.iter().filter(|(_, target)| is_over(target)).map(|(prefix, _)| *prefix));
    }
}
