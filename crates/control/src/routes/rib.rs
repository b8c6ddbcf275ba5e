//! Paths by prefix, and the selected ones.

use super::hops::{HopChange, HopNumbers, NumberedExit, StoredHops};
use super::record::{Exit, FeederId, IpPrefix, Path, Paths, RouteBatch, RouteRecord};
use crate::codec::{DecodeError, Encoded};
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_tables::lpm::Prefix;
use scalebricks_types::NodeSet;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Bound;

/// Most prefixes of both families. Announcements of further ones are refused, by all nodes alike.
pub const MAX_PREFIXES: usize = 1 << 22;

/// A change of the selected path to a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteChange<A> {
    /// The prefix.
    pub prefix: Prefix<A>,
    /// Where its packets leave; `None` if no path is left.
    pub exit: Option<NumberedExit>,
}

/// Changes for a node's tables of both families, in the order in which they happened. A later change of a prefix
/// replaces an earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteChanges {
    /// IPv4.
    pub v4: Vec<RouteChange<Ipv4Addr>>,
    /// IPv6.
    pub v6: Vec<RouteChange<Ipv6Addr>>,
    /// Numbers of next hops, of all nodes.
    pub hops: Vec<HopChange>,
}

impl RouteChanges {
    fn push(&mut self, prefix: IpPrefix, exit: Option<NumberedExit>) {
        match prefix {
            IpPrefix::V4(prefix) => self.v4.push(RouteChange { prefix, exit }),
            IpPrefix::V6(prefix) => self.v6.push(RouteChange { prefix, exit }),
        }
    }

    /// Number of changed routes.
    pub const fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether no route changed.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a batch did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApplyCounts {
    /// Records applied.
    pub applied: u64,
    /// Announcements refused, because the RIB has [`MAX_PREFIXES`].
    pub refused: u64,
    /// Announcements refused, because a node has no number left for a next hop
    /// ([`MAX_NEXT_HOPS`](super::MAX_NEXT_HOPS)). The feeder's earlier paths to the prefix are gone.
    pub without_number: u64,
}

/// A path of a feeder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
struct Candidate {
    path: Path,
    feeder: FeederId,
    /// The feeder's restarts when it announced this.
    restarts: u32,
}

/// The paths to a prefix, in ascending order, and the selected one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Entry {
    candidates: Vec<Candidate>,
    selected: Option<Exit>,
}

impl Entry {
    /// Selects again; whether that changed the exit.
    fn select(&mut self, alive: &NodeSet) -> bool {
        let best = self.candidates.iter().find(|candidate| alive.contains(candidate.path.exit.node));
        let exit = best.map(|candidate| candidate.path.exit);
        std::mem::replace(&mut self.selected, exit) != exit
    }
}

/// A prefix with its paths.
#[derive(Debug, Clone, Copy)]
pub struct RoutePaths<'a> {
    /// The prefix.
    pub prefix: IpPrefix,
    entry: &'a Entry,
}

impl<'a> RoutePaths<'a> {
    /// The paths, best first, with their feeders.
    pub fn paths(self) -> impl Iterator<Item = (Path, FeederId)> + 'a {
        self.entry.candidates.iter().map(|candidate| (candidate.path, candidate.feeder))
    }

    /// The selected exit; `None` if no path leaves at a living node.
    pub const fn selected(self) -> Option<Exit> {
        self.entry.selected
    }
}

/// The routes of all feeders. Nodes that applied the same batches, and consider the same nodes alive, have the same
/// selected paths.
///
/// # Cost
/// A record takes one search in an ordered map. [`RouteRib::set_alive`] visits every prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteRib {
    entries: BTreeMap<IpPrefix, Entry>,
    /// How often each feeder restarted.
    restarts: BTreeMap<FeederId, u32>,
    hops: HopNumbers,
    alive: NodeSet,
}

impl RouteRib {
    /// An empty RIB of a cluster in which these nodes are alive.
    pub fn new(alive: NodeSet) -> Self {
        Self { alive, ..Self::default() }
    }

    /// Number of prefixes with at least one path.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no path.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The selected exit of exactly this prefix.
    pub fn selected(&self, prefix: IpPrefix) -> Option<NumberedExit> {
        self.hops.get(self.entries.get(&prefix)?.selected?)
    }

    /// All prefixes with a selected path, in order.
    pub fn routes(&self) -> impl Iterator<Item = (IpPrefix, NumberedExit)> + '_ {
        self.entries.iter().filter_map(|(prefix, entry)| Some((*prefix, self.hops.get(entry.selected?)?)))
    }

    /// All paths to prefixes from `from` on, in order, with their feeders. The best ones come first.
    pub fn paths_from(&self, from: Option<IpPrefix>) -> impl Iterator<Item = RoutePaths<'_>> + '_ {
        let start = from.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.range((start, Bound::Unbounded));
        entries.map(|(prefix, entry)| RoutePaths { prefix: *prefix, entry })
    }

    /// The paths to exactly this prefix.
    pub fn paths(&self, prefix: IpPrefix) -> Option<RoutePaths<'_>> {
        self.entries.get(&prefix).map(|entry| RoutePaths { prefix, entry })
    }

    /// The number of an exit with at least one path.
    pub fn number(&self, exit: Exit) -> Option<u16> {
        self.hops.get(exit).map(|hop| hop.number)
    }

    /// The exits that have numbers, in order.
    pub fn next_hops(&self) -> impl Iterator<Item = NumberedExit> + '_ {
        self.hops.iter()
    }

    /// Number of exits that have numbers.
    pub fn next_hop_count(&self) -> usize {
        self.hops.len()
    }

    /// The nodes that are considered alive.
    pub const fn alive(&self) -> NodeSet {
        self.alive
    }

    /// The changes that lead from this RIB's selected paths and numbers to those of another.
    pub fn changes_to(&self, other: &Self) -> RouteChanges {
        let mut changes = RouteChanges::default();
        let numbered = |rib: &Self| rib.next_hops().collect::<BTreeSet<_>>();
        let (old, new) = (numbered(self), numbered(other));
        let change = |is_used| move |hop: &NumberedExit| HopChange { hop: *hop, is_used };
        changes.hops.extend(old.difference(&new).map(change(false)));
        changes.hops.extend(new.difference(&old).map(change(true)));
        let (mut old, mut new) = (self.routes().peekable(), other.routes().peekable());
        loop {
            match (old.peek().copied(), new.peek().copied()) {
                (None, None) => return changes,
                (Some((gone, _)), next) if next.is_none_or(|(prefix, _)| gone < prefix) => {
                    changes.push(gone, None);
                    old.next();
                }
                (before, Some((prefix, exit))) => {
                    let same = before.filter(|(other, _)| *other == prefix);
                    if same.is_some() {
                        old.next();
                    }
                    if same.is_none_or(|(_, before)| before != exit) {
                        changes.push(prefix, Some(exit));
                    }
                    new.next();
                }
                (Some(_), None) => unreachable!(), // the second case
            }
        }
    }

    /// A feeder's paths, by prefix, in order.
    pub fn of_feeder(&self, feeder: FeederId) -> impl Iterator<Item = (IpPrefix, Vec<Path>)> + '_ {
        self.entries.iter().filter_map(move |(prefix, entry)| {
            let own = entry.candidates.iter().filter(|candidate| candidate.feeder == feeder);
            let paths: Vec<Path> = own.map(|candidate| candidate.path).collect();
            (!paths.is_empty()).then_some((*prefix, paths))
        })
    }

    /// Applies a batch of the log; adds the changes of selected paths to `changes`.
    pub fn apply(&mut self, batch: &RouteBatch, changes: &mut RouteChanges) -> ApplyCounts {
        let mut counts = ApplyCounts::default();
        for record in &batch.0 {
            match record {
                RouteRecord::Announce(feeder, prefix, paths) => {
                    self.announce(*feeder, *prefix, paths, changes, &mut counts);
                    continue;
                }
                RouteRecord::Withdraw(feeder, prefix) => self.withdraw(*feeder, *prefix, changes),
                RouteRecord::Restart(feeder) => {
                    let restarts = self.restarts.entry(*feeder).or_default();
                    *restarts = restarts.wrapping_add(1);
                }
                RouteRecord::Complete(feeder) => self.remove_stale(*feeder, changes),
            }
            counts.applied += 1;
        }
        counts
    }

    fn announce(
        &mut self,
        feeder: FeederId,
        prefix: IpPrefix,
        paths: &Paths,
        changes: &mut RouteChanges,
        counts: &mut ApplyCounts,
    ) {
        if self.entries.len() >= MAX_PREFIXES && !self.entries.contains_key(&prefix) {
            counts.refused += 1;
            return;
        }
        // Before the old paths go, so that an exit of both keeps its number.
        let exits: Vec<Exit> = paths.as_slice().iter().map(|path| path.exit).collect();
        if !self.hops.add(&exits, &mut changes.hops) {
            counts.without_number += 1;
            // The announcement replaces earlier paths, which the feeder no longer has (RFC 4271 §9).
            self.withdraw(feeder, prefix, changes);
            return;
        }
        counts.applied += 1;
        let restarts = self.restarts.get(&feeder).copied().unwrap_or_default();
        let new = paths.as_slice().iter().map(|path| Candidate { path: *path, feeder, restarts });
        self.replace(feeder, prefix, new, changes);
    }

    fn withdraw(&mut self, feeder: FeederId, prefix: IpPrefix, changes: &mut RouteChanges) {
        if self.entries.contains_key(&prefix) {
            self.replace(feeder, prefix, std::iter::empty(), changes);
        }
    }

    /// Replaces a feeder's candidates of a prefix; the exits of new ones have been counted.
    fn replace(
        &mut self,
        feeder: FeederId,
        prefix: IpPrefix,
        new: impl Iterator<Item = Candidate>,
        changes: &mut RouteChanges,
    ) {
        let entry = self.entries.entry(prefix).or_default();
        let old: Vec<Candidate> = entry.candidates.extract_if(.., |one| one.feeder == feeder).collect();
        entry.candidates.extend(new);
        entry.candidates.sort_unstable();
        if entry.select(&self.alive) {
            changes.push(prefix, entry.selected.and_then(|exit| self.hops.get(exit)));
        }
        if entry.candidates.is_empty() {
            self.entries.remove(&prefix);
        }
        for candidate in old {
            self.hops.remove(candidate.path.exit, &mut changes.hops);
        }
    }

    fn remove_stale(&mut self, feeder: FeederId, changes: &mut RouteChanges) {
        let now = self.restarts.get(&feeder).copied().unwrap_or_default();
        let (alive, hops) = (self.alive, &mut self.hops);
        self.entries.retain(|prefix, entry| {
            let stale = |one: &mut Candidate| one.feeder == feeder && one.restarts != now;
            let old: Vec<Candidate> = entry.candidates.extract_if(.., stale).collect();
            if entry.select(&alive) {
                changes.push(*prefix, entry.selected.and_then(|exit| hops.get(exit)));
            }
            for candidate in old {
                hops.remove(candidate.path.exit, &mut changes.hops);
            }
            !entry.candidates.is_empty()
        });
    }

    /// Only these nodes are alive: moves the prefixes of others to their next paths, and prefixes to better paths of
    /// nodes that are alive again.
    pub fn set_alive(&mut self, alive: NodeSet, changes: &mut RouteChanges) {
        if self.alive == alive {
            return;
        }
        self.alive = alive;
        for (prefix, entry) in &mut self.entries {
            if entry.select(&alive) {
                changes.push(*prefix, entry.selected.and_then(|exit| self.hops.get(exit)));
            }
        }
    }

    /// Encodes all paths, for a snapshot of the log. Equal RIBs have equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let entries =
            self.entries.iter().map(|(prefix, entry)| (*prefix, entry.candidates.clone())).collect();
        let restarts = self.restarts.iter().map(|(feeder, count)| (*feeder, *count)).collect();
        Stored { restarts, hops: self.hops.stored(), entries }.encode()
    }

    /// Decodes a snapshot; `alive` are the living nodes.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8], alive: NodeSet) -> Result<Self, DecodeError> {
        let Stored { restarts, hops, entries } = Stored::decode(bytes)?;
        let exits = entries.iter().flat_map(|(_, candidates)| candidates.iter().map(|one| one.path.exit));
        let hops = HopNumbers::restore(hops, exits)
            .map_err(|problem| DecodeError::Malformed { what: Stored::NAME, problem: problem.to_owned() })?;
        let select = |(prefix, candidates)| {
            let mut entry = Entry { candidates, selected: None };
            entry.select(&alive);
            (prefix, entry)
        };
        let entries = entries.into_iter().map(select).collect();
        Ok(Self { entries, restarts: restarts.into_iter().collect(), hops, alive })
    }
}

/// A stored RIB.
#[derive(BorshSerialize)]
struct Stored {
    restarts: Vec<(FeederId, u32)>,
    hops: StoredHops,
    entries: Vec<(IpPrefix, Vec<Candidate>)>,
}

/// Only what [`RouteRib::encode`] writes: feeders and prefixes ascend, and each prefix has paths, which ascend.
impl BorshDeserialize for Stored {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        let restarts = Vec::<(FeederId, u32)>::deserialize_reader(reader)?;
        let hops = StoredHops::deserialize_reader(reader)?;
        let entries = Vec::<(IpPrefix, Vec<Candidate>)>::deserialize_reader(reader)?;
        let is_valid = restarts.is_sorted_by(|one, next| one.0 < next.0)
            && entries.is_sorted_by(|one, next| one.0 < next.0)
            && entries.len() <= MAX_PREFIXES
            && entries
                .iter()
                .all(|(_, paths)| !paths.is_empty() && paths.is_sorted_by(|one, next| one < next));
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "routes that are not in canonical order");
        if is_valid { Ok(Self { restarts, hops, entries }) } else { Err(wrong()) }
    }
}

impl Encoded for Stored {
    const NAME: &'static str = "routes";
}
