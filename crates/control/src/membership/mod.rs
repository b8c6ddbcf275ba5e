//! Who is in the cluster, who is alive, and who owns which partition.
//!
//! All of that is one record, the [`View`], which is changed by compare-and-set only: what it says, it says to all. Nodes send
//! each other heartbeats that list the nodes they hear. A member that has not heard another for [`SUSPICION`] proposes a view
//! without it if at least half of the members confirm that they do not hear it either. Of several who propose the same one is
//! first, and the others find it done. A view is safe whatever it says: two owners of a partition send the same bytes, and a
//! node that was removed wrongly joins again.
//!
//! Why these rules, and why they cannot cycle: `docs/adr/0028-membership-by-witnesses.md`.
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
pub use placement::{Placement, PlacementError, Standby};
pub use pulses::{PULSE, PULSELESS};
pub use returning::{CALM, HALF_HEARD, LONGEST_HOLD};
pub use scalebricks_types::NodeSet;
pub use suspension::Suspension;
pub use tenures::Placed;
pub use unfit::{FIT_HOLD, RESTARTS};
pub use view::{Member, View, ViewError};

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

/// A node that learns that somebody does not hear it sends a heartbeat at once, but not more often than this.
pub const REFUTE_EVERY: Duration = Duration::from_millis(100);

/// A node that did nothing for so long was stopped itself, and has heard nobody for that reason.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a proposal may take before it is made again.
const PATIENCE: Duration = Duration::from_millis(500);
