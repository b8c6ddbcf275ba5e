//! Notices of flows that moved to other nodes, for the controller.

use super::event::Event;
use super::plane::ControlPlane;
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Most notices that are kept.
const KEPT: usize = 64;

/// Notices of one node within this time are merged.
const TOGETHER_MS: u64 = 10_000;

/// Why a node's flows went to others.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
    BorshSerialize,
    BorshDeserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum RepinCause {
    /// It died.
    Died,
    /// It is drained.
    Drained,
    /// It is alive, and cannot do its work.
    Unfit,
}

impl RepinCause {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Died => "died",
            Self::Drained => "drained",
            Self::Unfit => "unfit",
        }
    }
}

/// A node's flows went to others.
#[derive(
    Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, BorshSerialize, BorshDeserialize,
)]
pub struct RepinNotice {
    /// The node whose flows they were.
    pub node: u16,
    /// Which of its lives it was in.
    pub life: u64,
    /// Why.
    pub cause: RepinCause,
    /// When the first of them moved, in milliseconds since 1970-01-01 UTC by the reporting node's clock.
    pub at_unix_ms: u64,
    /// Partitions of the key space that have logged it.
    pub partitions: u64,
    /// Keys that moved, two per flow; none while no owner of a partition has reported.
    pub keys: Option<u64>,
    /// The nodes that took them.
    pub heirs: Vec<u16>,
}

/// Milliseconds since 1970-01-01 UTC, for display only.
fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl RepinNotice {
    /// A notice with the present time and unknown amounts.
    pub fn now(node: NodeId, life: u64, cause: RepinCause) -> Self {
        let node = u16::from(node.get());
        Self { node, life, cause, at_unix_ms: now_unix_ms(), partitions: 0, keys: None, heirs: Vec::new() }
    }

    /// Whether another notice continues this one.
    fn continues(&self, other: &Self) -> bool {
        (self.node, self.life, self.cause) == (other.node, other.life, other.cause)
            && other.at_unix_ms.abs_diff(self.at_unix_ms) <= TOGETHER_MS
    }

    /// Merges a notice that continues this one.
    pub(super) fn merge(&mut self, other: Self) {
        self.partitions = self.partitions.saturating_add(other.partitions);
        self.keys = match (self.keys, other.keys) {
            (Some(one), Some(more)) => Some(one.saturating_add(more)),
            (one, other) => one.or(other),
        };
        self.heirs.extend(other.heirs);
        self.heirs.sort_unstable();
        self.heirs.dedup();
    }
}

/// The newest notices, the newest at the end.
#[derive(Debug, Default)]
pub(super) struct Repins(Mutex<VecDeque<RepinNotice>>);

impl Repins {
    fn notices(&self) -> MutexGuard<'_, VecDeque<RepinNotice>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // whole at any time
    }

    pub(super) fn add(&self, mut notice: RepinNotice) {
        notice.heirs.truncate(1 << 8); // more nodes there are not
        let mut notices = self.notices();
        if let Some(known) = notices.iter_mut().rev().find(|known| known.continues(&notice)) {
            return known.merge(notice);
        }
        if notices.len() == KEPT {
            notices.pop_front();
        }
        notices.push_back(notice);
    }

    pub(super) fn all(&self) -> Vec<RepinNotice> {
        self.notices().iter().cloned().collect()
    }
}

impl ControlPlane {
    /// The newest notices of nodes whose flows moved to others, the newest at the end.
    pub fn repins(&self) -> Vec<RepinNotice> {
        self.shared.repins.all()
    }

    /// Sends a notice to all nodes.
    pub async fn tell_repin(&self, notice: RepinNotice) {
        // A stopping process sends none.
        let _stopping = self.events.send(Event::Tell(notice)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_one_death_are_one_notice_and_the_last_are_kept() {
        let notice = |node: u16, at_unix_ms, heirs: &[u16]| RepinNotice {
            node,
            life: 1,
            cause: RepinCause::Died,
            at_unix_ms,
            partitions: 1,
            keys: Some(10),
            heirs: heirs.to_vec(),
        };
        let repins = Repins::default();
        repins.add(notice(1, 1_000, &[0, 3]));
        repins.add(notice(1, 1_200, &[3, 2]));
        repins.add(RepinNotice { cause: RepinCause::Drained, ..notice(1, 1_300, &[2]) });
        let all = repins.all();
        assert_eq!((all.len(), all[0].partitions, all[0].keys), (2, 2, Some(20)));
        assert_eq!((all[0].at_unix_ms, all[0].heirs.as_slice()), (1_000, &[0, 2, 3][..]));
        (0..200).for_each(|number| repins.add(notice(number, 50_000, &[0])));
        let all = repins.all();
        assert_eq!((all.len(), all[0].node, all[63].node), (64, 136, 199));
    }
}
