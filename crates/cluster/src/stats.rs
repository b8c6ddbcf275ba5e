//! The counters of a node's control plane, declared once: metrics and tables use this list.

use super::plane::{ControlPlane, PlaneState};
use scalebricks_control::agent::AgentStats;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;
use utoipa::ToSchema;

/// The kind of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// A present value.
    Gauge,
}

/// A counter of a node's control plane.
#[derive(Debug)]
pub struct PlaneCounter {
    /// The metric's name, without prefix and suffix.
    pub metric: &'static str,
    /// What it counts.
    pub doc: &'static str,
    /// The kind.
    pub kind: Kind,
    /// Its value.
    pub value: fn(&PlaneStats) -> u64,
}

macro_rules! counters {
    (
        shared { $($(#[doc = $doc:literal])+ $name:ident = $source:ident: $kind:ident $metric:literal,)+ }
        agent { $($(#[doc = $of_doc:literal])+ $of_name:ident: $of_kind:ident $of_metric:literal,)+ }
    ) => {
        /// Counters of a node's control plane since the process started.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
        #[serde(default)]
        pub struct PlaneStats {
            $($(#[doc = $doc])+ pub $name: u64,)+
            $($(#[doc = $of_doc])+ pub $of_name: u64,)+
        }

        /// All counters.
        pub const COUNTERS: &[PlaneCounter] = &[
            $(PlaneCounter {
                metric: $metric, doc: concat!($($doc),+).trim_ascii(), kind: Kind::$kind, value: |stats| stats.$name,
            },)+
            $(PlaneCounter {
                metric: $of_metric, doc: concat!($($of_doc),+).trim_ascii(), kind: Kind::$of_kind,
                value: |stats| stats.$of_name,
            },)+
        ];

        impl ControlPlane {
            /// The counters.
            pub fn stats(&self) -> PlaneStats {
                let PlaneState { $($source,)+ agent, .. } = &*self.shared;
                // All fields of the agent's counters: a missing one does not compile.
                let AgentStats { $($of_name,)+ } = **agent.load();
                PlaneStats { $($name: $source.load(Ordering::Relaxed),)+ $($of_name,)+ }
            }
        }
    };
}

counters! {
    shared {
        /// Log entries applied in partitions that this node owned.
        entries = applied: Counter "control_entries",
        /// Changes in them, or whole entries, that had no effect.
        voids = voids: Counter "control_void_changes",
        /// Malformed messages of other nodes.
        malformed = malformed: Counter "control_malformed_messages",
        /// Partitions that were loaded again because their log had lost entries that this node had applied.
        reloads = reloads: Counter "control_log_reloads",
    }
    agent {
        /// Messages of partitions' owners that followed a gap.
        gaps: Counter "control_gaps",
        /// Messages of partitions' owners that the tables refused.
        refused: Counter "control_refused_messages",
        /// Partitions in which this node gave a dead or drained node's keys to others.
        repins: Counter "control_repinned_partitions",
        /// Partitions whose bits in the GPT were wrong and were replaced.
        astray: Counter "control_wrong_partitions",
        /// Partitions whose entries in the FIB were wrong and were loaded again.
        fib_astray: Counter "control_wrong_fib_partitions",
        /// Times that the GPT was restarted because the cluster's had another shape.
        begun_anew: Counter "control_gpt_restarts",
        /// Partitions whose tables here were filled again because their log had lost entries.
        rewound: Counter "control_rewound_partitions",
        /// Keys that are this node's, and that its FIB has no room for now: packets to them are dropped.
        shedding: Gauge "control_shed_keys",
        /// Keys that its FIB had no room for when they arrived.
        shed: Counter "control_keys_shed",
        /// Calls that this node, as the owner of their partitions, did not log.
        calls_refused: Counter "control_refused_calls",
        /// Times that a call had to wait at this node, as the owner of its partition: a node that was removed might still forward one of its keys for another flow.
        calls_delayed: Counter "control_delayed_calls",
    }
}
