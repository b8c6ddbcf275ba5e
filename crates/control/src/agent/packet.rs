//! What nodes send each other.

use crate::distribution::{Message, Report};
use crate::record::DecodeError;
use crate::version::Version;

/// Between two nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// An owner speaks to a node.
    Message(Message),
    /// A node tells an owner where it is.
    Reports(Vec<Report>),
}

impl Packet {
    /// The packet as bytes, as nodes of this version understand it: a message, or reports one behind the other.
    pub fn encode(&self, version: Version) -> Vec<u8> {
        match self {
            Self::Message(message) => message.encode(version),
            Self::Reports(reports) => reports.iter().flat_map(|report| report.encode(version)).collect(),
        }
    }

    /// The packet in exactly these bytes.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if let Some(len) = Report::len(bytes) {
            bytes.chunks(len).map(Report::decode).collect::<Result<_, _>>().map(Self::Reports)
        } else {
            Message::decode(bytes).map(Self::Message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::FibRoom;
    use scalebricks_types::{PartitionId, Position};

    fn report(partition: u16) -> Report {
        let partition = PartitionId(partition);
        let (fib, whole, gpt) = (Position(4), Position(5), Position(6));
        let room = FibRoom { used: 1, capacity: 2, shed: 3 };
        Report { fib, whole, gpt, again: 7, room, ..Report::new(partition, 3) }
    }

    #[test]
    fn packets_survive_their_bytes() {
        let target = crate::distribution::Target {
            partition: PartitionId(1),
            life: 2,
            settled: Position(3),
            fib: Position(4),
            gpt: Position(5),
            room: 6,
            keys: 7,
            shapes: 8,
            again: None,
            newest: Position(5),
        };
        for packet in
            [Packet::Message(Message::Target(target)), Packet::Reports((0..64).map(report).collect())]
        {
            assert_eq!(Packet::decode(&packet.encode(Version::NEWEST)), Ok(packet));
        }
        let two = Packet::Reports(vec![report(1), report(2)]).encode(Version::NEWEST);
        assert!(Packet::decode(&two[..two.len() - 1]).is_err());
        assert!(Packet::decode(&[]).is_err());
    }
}
