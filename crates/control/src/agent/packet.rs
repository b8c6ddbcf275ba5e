//! Packets between the agents of two nodes.

use crate::codec::Encoded;
use crate::distribution::{Message, Report};
use borsh::{BorshDeserialize, BorshSerialize};

/// Between two nodes.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Packet {
    /// From an owner to a node.
    Message(Message),
    /// A node's positions, to an owner.
    Reports(Vec<Report>),
}

impl Encoded for Packet {
    const NAME: &'static str = "packet of the agent";
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
            again: 0,
            newest: Position(5),
        };
        for packet in
            [Packet::Message(Message::Target(target)), Packet::Reports((0..64).map(report).collect())]
        {
            assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
        }
        let two = Packet::Reports(vec![report(1), report(2)]).encode();
        assert!(Packet::decode(&two[..two.len() - 1]).is_err());
        assert!(Packet::decode(&[]).is_err());
    }
}
