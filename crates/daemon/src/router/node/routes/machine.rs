//! The RIB as a state that the log changes.

use super::SharedRoutes;
use crate::replica::{Applied, LogSpec, Newest, Restored, StateMachine};
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_control::codec::{DecodeError, Encoded};
use scalebricks_control::engine::WriterId;
use scalebricks_control::replay::Limits;
use scalebricks_control::routes::{ApplyCounts, RouteBatch, RouteRib};

/// The log of routes. A BGP speaker may log a few records twenty times a second for a long time: entries are small then,
/// and replaying some thousands takes less than a second.
pub(crate) const LOG: LogSpec =
    LogSpec { kind_record: "router.routes", replay: Limits { entries: 16_384, bytes: 32 << 20 } };

/// The kind of contents of the log.
const KIND: &str = "routes";

/// A node's routes.
#[derive(Debug)]
pub(crate) struct RoutesMachine(pub(crate) SharedRoutes);

/// A snapshot.
#[derive(Debug, BorshSerialize, BorshDeserialize)]
struct Stored {
    /// The newest batch of each writer.
    newest: Vec<(WriterId, u64)>,
    /// The encoded RIB.
    rib: Vec<u8>,
}

impl Encoded for Stored {
    const NAME: &'static str = "snapshot of routes";
}

impl StateMachine for RoutesMachine {
    type Outcome = ApplyCounts;
    const WHAT: &'static str = "routes";

    fn kind(&self) -> &str {
        KIND
    }

    fn apply(&mut self, payload: &[u8]) -> Applied<ApplyCounts> {
        match RouteBatch::decode(payload) {
            Ok(batch) => Applied::Done(self.0.apply(&batch)),
            Err(error @ DecodeError::Version { .. }) => Applied::Foreign(error.to_string()),
            Err(error @ DecodeError::Malformed { .. }) => Applied::Ignored(error.to_string()),
        }
    }

    fn encode(&self, newest: &Newest) -> Result<Vec<u8>, String> {
        let newest = newest.iter().map(|(writer, number)| (*writer, *number)).collect();
        let rib = self.0.lock().rib.encode();
        Ok(Stored { newest, rib }.encode())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<Restored, String> {
        let stored = Stored::decode(bytes).map_err(|error| error.to_string())?;
        let alive = self.0.lock().rib.alive();
        let rib = RouteRib::decode(&stored.rib, alive).map_err(|error| error.to_string())?;
        self.0.replace(rib);
        Ok(Restored { newest: stored.newest.into_iter().collect(), is_complete: true })
    }

    fn clear(&mut self) -> Result<(), String> {
        let alive = self.0.lock().rib.alive();
        self.0.replace(RouteRib::new(alive));
        Ok(())
    }
}
