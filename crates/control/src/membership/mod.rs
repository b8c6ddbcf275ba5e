//! Who is in the cluster, who is alive, and who owns which partition.
//!
//! All of that is one record, the [`View`], which is changed by compare-and-set only: what it says, it says to all. Nodes
//! hear each other's heartbeats, and whoever has not heard a node for [`SUSPICION`] proposes a view without it. Of several who
//! propose the same one is first, and the others find it done. A view is safe whatever it says: two owners of a partition send
//! the same bytes, and a node that was given up wrongly joins again.

mod machine;
mod placement;
mod tenures;
mod view;

pub use machine::{Action, BEAT, Membership, SUSPICION};
pub use placement::{Placement, PlacementError, Standby};
pub use tenures::Placed;
pub use view::{Member, View, ViewError};
