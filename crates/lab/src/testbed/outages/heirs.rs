//! Where the two directions of each flow are handled, as a node tells it: after a death or a drain both at one node.

use super::scene::Scene;
use crate::testbed::LabError;
use scalebricks_admin::client::{Client, Target};
use scalebricks_admin::flow_list::columns::{Cell, FlowRecord};
use scalebricks_types::NodeId;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Flows whose upstream direction is asked for: of a million, the first.
const ASKED: usize = 2_000;

/// The columns of a flow file that are needed.
const COLUMNS: [&str; 2] = ["uplink_teid", "node"];

/// Until flows are to be at another node, after it is known that they must.
const LIMIT: Duration = Duration::from_secs(5);

/// Between two looks: the directions of all flows are asked for one by one.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl Scene<'_, '_> {
    /// Waits until a node has no flows, and compares the directions of all: what is wrong, if anything.
    ///
    /// # Errors
    /// [`LabError::Interrupted`].
    pub fn one_heir_each(&self, without: NodeId) -> Result<Option<String>, LabError> {
        let began = Instant::now();
        loop {
            let socket = self.lab.processes().socket(self.other(without));
            let wrong = match directions(socket, without) {
                Ok(found) if found.flows > 0 && found.split == 0 && found.left == 0 => return Ok(None),
                Ok(Directions { flows, split, left }) => format!(
                    "{split} of {flows} flows are split between two nodes, {left} are at node {}",
                    without.get()
                ),
                // Partitions of a node that died have no owner for a moment.
                Err(error) => error.to_string(),
            };
            if began.elapsed() > LIMIT {
                return Ok(Some(wrong));
            }
            self.interrupt.check()?;
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Directions {
    /// Flows of the cluster.
    flows: u64,
    /// Flows whose directions are at two nodes.
    split: u64,
    /// Flows of which a direction is at the node that is to have none.
    left: u64,
}

/// Compares the directions of all flows: downstream as the export of all flows tells, upstream as asked for by the uplink TEID.
///
/// # Errors
/// [`LabError::Setup`] if the node at the socket does not answer.
fn directions(socket: PathBuf, without: NodeId) -> Result<Directions, LabError> {
    let setup = |what: &dyn std::fmt::Display| LabError::Setup { what: format!("where flows are: {what}") };
    let client = Client::new(Target::Unix(socket), PATIENCE).map_err(|error| setup(&error))?;
    let mut file = Vec::new();
    let exported = client.export(|bytes| {
        file.extend_from_slice(bytes);
        Ok(true)
    });
    exported.map_err(|error| setup(&error))?;
    let downstream =
        flows(&String::from_utf8_lossy(&file)).ok_or_else(|| setup(&"the export is no flow file"))?;
    let mut found = Directions::default();
    let without = u16::from(without.get());
    for (number, (uplink_teid, down)) in downstream.into_iter().enumerate() {
        found.flows += 1;
        if number >= ASKED {
            found.left += u64::from(down == without);
            continue;
        }
        let name = FlowRecord { uplink_teid: Cell::parse(&uplink_teid), ..FlowRecord::default() };
        let up = client.flow(&name).map_err(|error| setup(&error))?.node;
        found.split += u64::from(up != down);
        found.left += u64::from(up == without || down == without);
    }
    Ok(found)
}

/// Uplink TEIDs and nodes of the flows in a flow file; `None` if it is none.
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
    fn flow_files_are_read_by_their_header() {
        let file = "ue,node,uplink_teid\n10.0.0.1,3,0x10\n10.0.0.2,0,17\n";
        assert_eq!(flows(file), Some(vec![("0x10".to_owned(), 3), ("17".to_owned(), 0)]));
        assert_eq!(flows("ue,node\n10.0.0.1,3\n"), None, "a column is missing");
        assert_eq!(flows("ue,node,uplink_teid\n10.0.0.1\n"), None, "a cell is missing");
        assert_eq!(flows(""), None);
    }
}
