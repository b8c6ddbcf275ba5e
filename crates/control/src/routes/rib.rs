//! Paths by prefix, and the selected ones.

use super::record::{Exit, FeederId, IpPrefix, Path, Paths, RouteBatch, RouteRecord};
use crate::codec::Encoded;
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_tables::lpm::Prefix;
use scalebricks_types::NodeSet;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Most prefixes of both families. Announcements of further ones are refused, by all nodes alike.
pub const MAX_PREFIXES: usize = 1 << 22;

/// A change of the selected path to a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteChange<A> {
    /// The prefix.
    pub prefix: Prefix<A>,
    /// Where its packets leave; `None` if no path is left.
    pub exit: Option<Exit>,
}

/// Changes for a node's tables of both families, in the order in which they happened. A later change of a prefix
/// replaces an earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteChanges {
    /// IPv4.
    pub v4: Vec<RouteChange<Ipv4Addr>>,
    /// IPv6.
    pub v6: Vec<RouteChange<Ipv6Addr>>,
}

impl RouteChanges {
    fn push(&mut self, prefix: IpPrefix, exit: Option<Exit>) {
        match prefix {
            IpPrefix::V4(prefix) => self.v4.push(RouteChange { prefix, exit }),
            IpPrefix::V6(prefix) => self.v6.push(RouteChange { prefix, exit }),
        }
    }

    /// Number of changes.
    pub const fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there are none.
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
    pub fn selected(&self, prefix: IpPrefix) -> Option<Exit> {
        self.entries.get(&prefix)?.selected
    }

    /// All prefixes with a selected path, in order.
    pub fn routes(&self) -> impl Iterator<Item = (IpPrefix, Exit)> + '_ {
        self.entries.iter().filter_map(|(prefix, entry)| Some((*prefix, entry.selected?)))
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
            let is_applied = match record {
                RouteRecord::Announce(feeder, prefix, paths) => {
                    self.announce(*feeder, *prefix, paths, changes)
                }
                RouteRecord::Withdraw(feeder, prefix) => {
                    self.edit(*prefix, changes, |candidates| candidates.retain(|one| one.feeder != *feeder));
                    true
                }
                RouteRecord::Restart(feeder) => {
                    let restarts = self.restarts.entry(*feeder).or_default();
                    *restarts = restarts.wrapping_add(1);
                    true
                }
                RouteRecord::Complete(feeder) => {
                    self.remove_stale(*feeder, changes);
                    true
                }
            };
            counts.applied += u64::from(is_applied);
            counts.refused += u64::from(!is_applied);
        }
        counts
    }

    fn announce(
        &mut self,
        feeder: FeederId,
        prefix: IpPrefix,
        paths: &Paths,
        changes: &mut RouteChanges,
    ) -> bool {
        if self.entries.len() >= MAX_PREFIXES && !self.entries.contains_key(&prefix) {
            return false;
        }
        let restarts = self.restarts.get(&feeder).copied().unwrap_or_default();
        let new = paths.as_slice().iter().map(|path| Candidate { path: *path, feeder, restarts });
        self.edit(prefix, changes, |candidates| {
            candidates.retain(|one| one.feeder != feeder);
            candidates.extend(new);
            candidates.sort_unstable();
        });
        true
    }

    /// Changes the candidates of a prefix.
    fn edit(&mut self, prefix: IpPrefix, changes: &mut RouteChanges, edit: impl FnOnce(&mut Vec<Candidate>)) {
        let entry = self.entries.entry(prefix).or_default();
        edit(&mut entry.candidates);
        if entry.select(&self.alive) {
            changes.push(prefix, entry.selected);
        }
        if entry.candidates.is_empty() {
            self.entries.remove(&prefix);
        }
    }

    fn remove_stale(&mut self, feeder: FeederId, changes: &mut RouteChanges) {
        let now = self.restarts.get(&feeder).copied().unwrap_or_default();
        let alive = self.alive;
        self.entries.retain(|prefix, entry| {
            entry.candidates.retain(|one| one.feeder != feeder || one.restarts == now);
            if entry.select(&alive) {
                changes.push(*prefix, entry.selected);
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
                changes.push(*prefix, entry.selected);
            }
        }
    }

    /// Encodes all paths, for a snapshot of the log. Equal RIBs have equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let entries =
            self.entries.iter().map(|(prefix, entry)| (*prefix, entry.candidates.clone())).collect();
        let restarts = self.restarts.iter().map(|(feeder, count)| (*feeder, *count)).collect();
        Stored { restarts, entries }.encode()
    }

    /// Decodes a snapshot; `alive` are the living nodes.
    ///
    /// # Errors
    /// [`DecodeError`](crate::codec::DecodeError).
    pub fn decode(bytes: &[u8], alive: NodeSet) -> Result<Self, crate::codec::DecodeError> {
        let Stored { restarts, entries } = Stored::decode(bytes)?;
        let select = |(prefix, candidates)| {
            let mut entry = Entry { candidates, selected: None };
            entry.select(&alive);
            (prefix, entry)
        };
        let entries = entries.into_iter().map(select).collect();
        Ok(Self { entries, restarts: restarts.into_iter().collect(), alive })
    }
}

/// A stored RIB.
#[derive(BorshSerialize)]
struct Stored {
    restarts: Vec<(FeederId, u32)>,
    entries: Vec<(IpPrefix, Vec<Candidate>)>,
}

/// Only what [`RouteRib::encode`] writes: feeders and prefixes ascend, and each prefix has paths, which ascend.
impl BorshDeserialize for Stored {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        let (restarts, entries) =
            <(Vec<(FeederId, u32)>, Vec<(IpPrefix, Vec<Candidate>)>)>::deserialize_reader(reader)?;
        let is_valid = restarts.is_sorted_by(|one, next| one.0 < next.0)
            && entries.is_sorted_by(|one, next| one.0 < next.0)
            && entries.len() <= MAX_PREFIXES
            && entries
                .iter()
                .all(|(_, paths)| !paths.is_empty() && paths.is_sorted_by(|one, next| one < next));
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "routes that are not in canonical order");
        if is_valid { Ok(Self { restarts, entries }) } else { Err(wrong()) }
    }
}

impl Encoded for Stored {
    const NAME: &'static str = "routes";
}
