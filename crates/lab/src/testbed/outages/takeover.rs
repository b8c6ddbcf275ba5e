//! The handling nodes of the two directions of each flow, as reported by a node: after a failure or a drain both must be the same.

use super::cluster::FailingLab;
use crate::testbed::LabError;
use crate::testbed::context::poll;
use scalebricks_admin::client::{Client, ClientError, Target};
use scalebricks_admin::flow_list::columns::{Cell, FlowRecord};
use scalebricks_types::NodeId;
use std::path::PathBuf;
use std::time::Duration;

/// Time that a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Flows whose upstream direction is requested: the first of up to a million.
const ASKED: usize = 2_000;

/// The columns of a flow file that are used.
const COLUMNS: [&str; 2] = ["uplink_teid", "node"];

/// Time until other nodes must have taken over the flows.
const LIMIT: Duration = Duration::from_secs(5);

/// Time between two comparisons, which request the flows one by one.
const PAUSE: Duration = Duration::from_millis(250);

impl FailingLab<'_, '_> {
    /// Waits until a node handles no flow, and both directions of each flow have the same handling node; what is wrong after
    /// 5 s, if anything.
    ///
    /// # Errors
    /// [`LabError::Interrupted`].
    pub fn await_takeover(&self, without: NodeId) -> Result<Option<String>, LabError> {
        let mut wrong = None;
        poll(LIMIT, PAUSE, self.lab.interrupt, || {
            let socket = self.lab.context().socket(self.other(without));
            wrong = match directions(socket, without) {
                Ok(Directions { flows: 1.., split: 0, left: 0 }) => None,
                Ok(Directions { flows, split, left }) => Some(format!(
                    "{split} of {flows} flows are split between two nodes, {left} are at node {}",
                    without.get()
                )),
                // The partitions of a failed node have no owner for a moment.
                Err(error) => Some(format!("cannot compare the directions of flows: {error}")),
            };
            Ok(wrong.is_none().then_some(()))
        })?;
        Ok(wrong)
    }
}

/// Counts of flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Directions {
    /// Flows of the cluster.
    flows: u64,
    /// Flows whose directions have different handling nodes.
    split: u64,
    /// Flows of which a direction is at the node that must have none.
    left: u64,
}

/// Compares the directions of all flows: downstream from the export of all flows, upstream by requests with the uplink TEID.
fn directions(socket: PathBuf, without: NodeId) -> Result<Directions, ClientError> {
    let client = Client::new(Target::Unix(socket), PATIENCE)?;
    let mut file = Vec::new();
    client.export(|bytes| {
        file.extend_from_slice(bytes);
        Ok(true)
    })?;
    let mut found = Directions::default();
    let without = u16::from(without.get());
    // A file that cannot be parsed has no flows.
    let downstream = flows(&String::from_utf8_lossy(&file)).unwrap_or_default();
    for (number, (uplink_teid, down)) in downstream.into_iter().enumerate() {
        found.flows += 1;
        let name = FlowRecord { uplink_teid: Cell::parse(&uplink_teid), ..FlowRecord::default() };
        let up = if number < ASKED { client.flow(&name)?.node } else { down };
        found.split += u64::from(up != down);
        found.left += u64::from(up == without || down == without);
    }
    Ok(found)
}

/// Uplink TEIDs and nodes of the flows in a flow file; `None` if it cannot be parsed.
fn flows(file: &str) -> Option<Vec<(String, u16)>> {
    let mut lines = file.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let header: Vec<&str> = lines.next()?.split(',').map(str::trim).collect();
    let place = |name: &str| header.iter().position(|column| *column == name);
    let [teid, node] = COLUMNS.map(place);
    let (teid, node) = (teid?, node?);
    let flow = |line: &str| {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        Some(((*cells.get(teid)?).to_owned(), cells.get(node)?.parse().ok()?))
    };
    lines.map(flow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_files_are_parsed_by_their_header() {
        let file = "ue,node,uplink_teid\n10.0.0.1,3,0x10\n10.0.0.2,0,17\n";
        assert_eq!(flows(file), Some(vec![("0x10".to_owned(), 3), ("17".to_owned(), 0)]));
        assert_eq!(flows("ue,node\n10.0.0.1,3\n"), None, "a column is missing");
        assert_eq!(flows("ue,node,uplink_teid\n10.0.0.1\n"), None, "a cell is missing");
        assert_eq!(flows(""), None);
    }
}
