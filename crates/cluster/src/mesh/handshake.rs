//! The handshake of a connection: both ends prove that they have the key.

use super::keys::{self, Keys, MAC_BYTES, Mac, NONCE_BYTES};
use borsh::{BorshDeserialize, BorshSerialize};
use ring::hmac::Key;
use scalebricks_types::NodeId;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// First bytes of a connection, the version among them.
const MAGIC: [u8; 4] = *b"SBM\x02";

/// Bytes of the first message: magic, sender, receiver, nonce.
const HELLO_BYTES: usize = MAGIC.len() + 2 + NONCE_BYTES;

type Nonce = [u8; NONCE_BYTES];

/// Why a handshake failed.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It began with other bytes.
    Malformed,
    /// The sender is not a peer, or meant another node.
    Misdirected,
    /// The other end does not have the key.
    WrongKey,
    /// It broke.
    Unfinished,
}

impl From<io::Error> for Refusal {
    fn from(_: io::Error) -> Self {
        Self::Unfinished
    }
}

/// The first message of a connection, after the magic number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(super) struct Hello {
    pub(super) sender: NodeId,
    pub(super) receiver: NodeId,
    nonce: Nonce,
}

impl Hello {
    fn encode(&self) -> Vec<u8> {
        borsh::to_vec(&(MAGIC, self)).unwrap_or_default() // writing to memory does not fail
    }
}

/// The messages of both ends, covered by their codes and the connection's key.
struct Said {
    hello: Vec<u8>,
    nonce: Nonce,
}

impl Said {
    fn accepting(&self, keys: &Keys) -> Mac {
        keys::mac(&keys.handshake, &[b"accept", &self.hello, &self.nonce])
    }

    fn connecting(&self, keys: &Keys) -> Mac {
        keys::mac(&keys.handshake, &[b"connect", &self.hello, &self.nonce])
    }

    fn key(&self, keys: &Keys) -> Key {
        keys.connection(&[&self.hello, &self.nonce])
    }
}

fn nonce() -> Result<Nonce, Refusal> {
    keys::random().ok_or(Refusal::Unfinished)
}

/// The connecting end; returns the connection's key.
pub(super) async fn connect(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    keys: &Keys,
    (sender, receiver): (NodeId, NodeId),
) -> Result<Key, Refusal> {
    let hello = Hello { sender, receiver, nonce: nonce()? }.encode();
    stream.write_all(&hello).await?;
    let mut said = Said { hello, nonce: [0; NONCE_BYTES] };
    stream.read_exact(&mut said.nonce).await?;
    let mut code = [0; MAC_BYTES];
    stream.read_exact(&mut code).await?;
    if !keys::is_same(&code, &said.accepting(keys)) {
        return Err(Refusal::WrongKey);
    }
    stream.write_all(&said.connecting(keys)).await?;
    Ok(said.key(keys))
}

/// The accepting end; returns the peer and the connection's key. `is_for_us` checks sender and receiver.
pub(super) async fn accept(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    keys: &Keys,
    is_for_us: impl FnOnce(&Hello) -> bool,
) -> Result<(NodeId, Key), Refusal> {
    let mut magic = [0; MAGIC.len()];
    stream.read_exact(&mut magic).await?;
    if magic != MAGIC {
        return Err(Refusal::Malformed);
    }
    let mut bytes = [0; HELLO_BYTES - MAGIC.len()];
    stream.read_exact(&mut bytes).await?;
    let hello: Hello = borsh::from_slice(&bytes).map_err(|_| Refusal::Malformed)?;
    if !is_for_us(&hello) {
        return Err(Refusal::Misdirected);
    }
    let said = Said { hello: hello.encode(), nonce: nonce()? };
    stream.write_all(&[said.nonce, said.accepting(keys)].concat()).await?;
    let mut code = [0; MAC_BYTES];
    stream.read_exact(&mut code).await?;
    if !keys::is_same(&code, &said.connecting(keys)) {
        return Err(Refusal::WrongKey);
    }
    Ok((hello.sender, said.key(keys)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::config::ClusterKey;
    use proptest::prelude::*;
    use tokio::io::duplex;

    const A: NodeId = NodeId::new(1);
    const B: NodeId = NodeId::new(2);

    fn keys(byte: u8) -> Keys {
        Keys::new("test", &ClusterKey::new(&[byte; 32]).unwrap())
    }

    #[tokio::test]
    async fn both_ends_show_that_they_have_the_key_and_get_one_of_their_own() {
        let mut last = None;
        for _ in 0..2 {
            let (mut here, mut there) = duplex(4096);
            let (a, b) = (keys(1), keys(1));
            let (one, other) = tokio::join!(
                connect(&mut here, &a, (A, B)),
                accept(&mut there, &b, |hello| hello.sender == A && hello.receiver == B)
            );
            let (peer, other) = other.unwrap();
            assert_eq!(peer, A);
            let code = keys::mac(&one.unwrap(), &[b"x"]);
            assert_eq!(code, keys::mac(&other, &[b"x"]));
            assert_ne!(last.replace(code), Some(code), "a key for each connection");
        }
    }

    #[tokio::test]
    async fn another_key_is_noticed_by_either_end() {
        let (mut here, mut there) = duplex(4096);
        let (a, b) = (keys(1), keys(2));
        let connecting = async {
            let result = connect(&mut here, &a, (A, B)).await;
            drop(here);
            result
        };
        let (one, other) = tokio::join!(connecting, accept(&mut there, &b, |_| true));
        assert!(matches!(one, Err(Refusal::WrongKey)));
        assert!(matches!(other, Err(Refusal::Unfinished)));
        let (mut here, mut there) = duplex(4096);
        let hello = Hello { sender: A, receiver: B, nonce: [3; 32] }.encode();
        here.write_all(&[&hello[..], &[0; 32]].concat()).await.unwrap();
        assert!(matches!(accept(&mut there, &b, |_| true).await, Err(Refusal::WrongKey)));
    }

    #[tokio::test]
    async fn an_answer_cannot_be_turned_back() {
        // One without the key lets us prove ourselves to ourselves.
        let (mut here, mut there) = duplex(4096);
        let us = keys(1);
        let thief = async {
            let mut hello = [0; HELLO_BYTES];
            there.read_exact(&mut hello).await.unwrap();
            let said = Said { hello: hello.to_vec(), nonce: [0; 32] };
            there.write_all(&[said.nonce, said.connecting(&keys(1))].concat()).await.unwrap();
        };
        let (one, ()) = tokio::join!(connect(&mut here, &us, (A, B)), thief);
        assert!(matches!(one, Err(Refusal::WrongKey)));
    }

    proptest! {
        #[test]
        fn the_form_of_a_hello_does_not_change(sender: u8, receiver: u8, nonce: [u8; 32]) {
            let hello = Hello { sender: NodeId::new(sender), receiver: NodeId::new(receiver), nonce };
            let bytes = [&MAGIC[..], &[sender, receiver], &nonce].concat();
            prop_assert_eq!(hello.encode(), &bytes[..]);
            prop_assert_eq!(borsh::from_slice::<Hello>(&bytes[4..]).unwrap(), hello);
        }

        #[test]
        fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), starts_well: bool) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let bytes = if starts_well { [&MAGIC[..], &bytes].concat() } else { bytes };
            let refused = runtime.block_on(async {
                let (mut here, mut there) = duplex(4096);
                here.write_all(&bytes).await.unwrap();
                here.shutdown().await.unwrap();
                accept(&mut there, &keys(1), |_| true).await.is_err()
            });
            prop_assert!(refused);
        }
    }
}
