//! Where the two directions of each flow are handled, as a node tells it: after a death or a drain both at one node.

use super::{CALM, LabError, Outages, RETURN};
use crate::lab::traffic::Verdict;
use scalebricks::admin::client::{Client, ClientError, Target};
use scalebricks_types::NodeId;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The columns of a flow file that are needed.
const COLUMNS: [&str; 2] = ["uplink_teid", "node"];

impl Outages<'_, '_> {
    /// Drains a node: its flows go to others, and no packet is lost.
    pub(super) fn drain(&mut self, node: NodeId) -> Result<(), LabError> {
        let (seen, verdict) = self.watched(node, |outages| {
            outages.told(node, |other| other.drain(node.get().into(), true).map(drop))?;
            outages.one_heir_each(node)
        })?;
        self.add("a node is drained: packets go on", seen.unharmed(seen.at));
        self.add("both directions of each of its flows are at one node", verdict);
        self.told(node, |other| other.undrain(node.get().into()).map(drop))?;
        let verdict = self.gets_flows(node)?;
        self.add("it gets flows again", verdict);
        Ok(())
    }

    /// Has another node than this do something.
    fn told<T>(
        &self,
        apart_from: NodeId,
        call: impl FnOnce(Client) -> Result<T, ClientError>,
    ) -> Result<T, LabError> {
        let other = self.lab.plan.size.nodes().find(|node| *node != apart_from).unwrap_or(apart_from);
        let client = Client::new(Target::Unix(self.lab.processes().socket(other)), RETURN);
        let done = client.and_then(call);
        done.map_err(|error| LabError::Setup { what: format!("node {} answers: {error}", other.get()) })
    }

    /// Waits until a node has no flows, and compares the directions of all.
    pub(super) fn one_heir_each(&self, without: NodeId) -> Result<Verdict, LabError> {
        let other = self.lab.plan.size.nodes().find(|node| *node != without).unwrap_or(without);
        let began = Instant::now();
        loop {
            let found = directions(self.lab.processes().socket(other), without)?;
            if found.left == 0 || began.elapsed() > self.limits().back {
                let says = format!(
                    "{} of {} flows are split between two nodes, {} are still at node {}",
                    found.split,
                    found.flows,
                    found.left,
                    without.get()
                );
                let passed = found.flows > 0 && found.split == 0 && found.left == 0;
                return Ok(Verdict { passed, says });
            }
            self.interrupt.check()?;
            thread::sleep(CALM / 4);
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
    for (uplink_teid, down) in downstream {
        let up = client.flow(&[("uplink_teid", &uplink_teid)]).map_err(|error| setup(&error))?.node;
        let without = u16::from(without.get());
        found.flows += 1;
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
