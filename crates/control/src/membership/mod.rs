//! Membership: the members, which of them are alive, and which owns which partition.
//!
//! All of it is one record, the [`View`], changed only by compare-and-set. Nodes send each other heartbeats that list the nodes
//! they hear. A member that has not heard another for [`SUSPICION`] proposes a view without it if at least half of the members
//! confirm that they do not hear it either. If several propose the same, one succeeds and the others find it done. Any view is
//! safe: two owners of a partition send the same bytes, and a node that was removed wrongly joins again.
//!
//! `docs/adr/0028-membership-by-witnesses.md` explains the rules, and proves that they cannot cycle.
//!
//! A member that others hear and that cannot do its work is *suspended*: `docs/adr/0030-unfit-members-are-suspended.md`.

mod beat;
mod fitness;
mod hearing;
mod machine;
mod placement;
mod pulses;
mod returning;
mod suspension;
mod tenures;
mod unfit;
mod view;

pub use beat::{Beat, HearingReport};
pub use fitness::{Fitness, Respect, Unfitness};
pub use machine::{Action, Membership};
pub use placement::{Placement, Standby};
pub use pulses::{PULSE, PULSELESS};
pub use returning::{CALM, HALF_HEARD, LONGEST_HOLD};
pub use scalebricks_types::NodeSet;
pub use suspension::Suspension;
pub use tenures::Placed;
pub use unfit::{FIT_HOLD, RESTARTS};
pub use view::{Member, View};

use std::time::Duration;

/// Time between heartbeats: five have to be lost in a row before a member is silent for [`SUSPICION`], also if its clock is slow
/// by a tenth and that of the receiver fast by as much.
pub const BEAT: Duration = Duration::from_millis(160);

/// A member that was not heard for so long may be removed.
pub const SUSPICION: Duration = Duration::from_secs(1);

/// A node that was heard no longer ago than this is reported as heard, and its reports count: three heartbeats, and less than
/// [`SUSPICION`] by two. A node that is cut off from all others thus has no witnesses left when it could remove the first.
pub const HEARING: Duration = Duration::from_millis(600);

/// The reports of a witness that it does not hear a node count when they span this time: at least two heartbeats.
pub const CONFIRM: Duration = Duration::from_millis(150);

/// The same where some member may still hear the node.
pub const CONTEST: Duration = Duration::from_secs(1);

/// A node that another node does not hear sends a heartbeat at once, but not more often than this.
pub const REFUTE_EVERY: Duration = Duration::from_millis(100);

/// After a pause of this length a node was stopped itself, and has received nothing for that reason.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a proposal may take before it is made again.
const PATIENCE: Duration = Duration::from_millis(500);
