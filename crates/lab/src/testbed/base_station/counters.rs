//! What the base station counts.

use super::tunnels::Refused;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The counters, shared by the threads that count.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: Counter,)+
        }

        /// The counters at one moment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub struct Counts {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// What they are now.
            pub fn read(&self) -> Counts {
                Counts { $($name: self.$name.0.load(Ordering::Relaxed),)+ }
            }
        }
    };
}

counters! {
    /// Packets of phones sent to the gateway.
    upstream,
    /// Packets from the gateway delivered to phones.
    downstream,
    /// Octets of those upstream, without tunnel headers.
    upstream_bytes,
    /// Octets of those downstream, without tunnel headers.
    downstream_bytes,
    /// Packets that no phone can have sent.
    not_a_ue,
    /// Packets and messages that contradict themselves, or fit nowhere.
    malformed,
    /// Packets in tunnels that are not there.
    bad_teid,
    /// Packets in the tunnel of another phone.
    wrong_ue,
    /// Packets with another QoS flow than their phone's.
    wrong_qfi,
    /// Echo requests answered.
    echo_requests,
    /// Answers to echo requests.
    echo_responses,
    /// Tunnels that the gateway says it does not know.
    error_indications,
    /// Messages of other kinds.
    other_messages,
    /// Packets that the system refused to send or deliver.
    system_errors,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts so many.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

impl Counters {
    /// Counts a refusal.
    pub fn refuse(&self, why: Refused) {
        let counter = match why {
            Refused::Malformed | Refused::TooLong => &self.malformed,
            Refused::NoSuchUe => &self.not_a_ue,
            Refused::BadTeid => &self.bad_teid,
            Refused::WrongUe => &self.wrong_ue,
            Refused::WrongQfi => &self.wrong_qfi,
        };
        counter.add(1);
    }
}

impl Counts {
    /// Counters that tell of a mistake and are not 0.
    pub fn mistakes(&self) -> Vec<(&'static str, u64)> {
        let Self { not_a_ue, malformed, bad_teid, wrong_ue, wrong_qfi, system_errors, .. } = *self;
        [
            ("not_a_ue", not_a_ue),
            ("malformed", malformed),
            ("bad_teid", bad_teid),
            ("wrong_ue", wrong_ue),
            ("wrong_qfi", wrong_qfi),
            ("system_errors", system_errors),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect()
    }
}
