//! A key for each purpose, derived from the cluster's key, so that bytes of one purpose are invalid for another.

use super::config::ClusterKey;
use ring::hmac::{Context, HMAC_SHA256, Key, sign};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

/// Bytes of a message authentication code.
pub(super) const MAC_BYTES: usize = 32;

/// Proves that the writer has the key, and that nothing was altered.
pub(super) type Mac = [u8; MAC_BYTES];

/// Bytes of a nonce.
pub(super) const NONCE_BYTES: usize = 32;

/// The keys of a mesh.
pub(super) struct Keys {
    pub(super) datagrams: Key,
    pub(super) handshake: Key,
    connections: Key,
}

impl Keys {
    pub(super) fn new(cluster: &str, key: &ClusterKey) -> Self {
        let root = Key::new(HMAC_SHA256, key.bytes());
        let purpose = |label: &[u8]| {
            let label = [b"scalebricks mesh 1 ", label, b" ", cluster.as_bytes()].concat();
            Key::new(HMAC_SHA256, sign(&root, &label).as_ref())
        };
        Self {
            datagrams: purpose(b"datagrams"),
            handshake: purpose(b"handshake"),
            connections: purpose(b"connections"),
        }
    }

    /// The key of one connection, derived from the handshake's messages.
    pub(super) fn connection(&self, said: &[&[u8]]) -> Key {
        Key::new(HMAC_SHA256, &mac(&self.connections, said))
    }
}

/// The code over these parts in order.
pub(super) fn mac(key: &Key, parts: &[&[u8]]) -> Mac {
    let mut context = Context::with_key(key);
    for part in parts {
        context.update(part);
    }
    finish(context)
}

/// The code of the data in a context.
pub(super) fn finish(context: Context) -> Mac {
    let mut mac = [0; MAC_BYTES];
    for (to, from) in mac.iter_mut().zip(context.sign().as_ref()) {
        *to = *from;
    }
    mac
}

/// Compares codes in constant time.
pub(super) fn is_same(a: &[u8], b: &Mac) -> bool {
    a.ct_eq(b).into()
}

/// Random bytes; `None` if the system has none.
pub(super) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok().map(|()| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_purpose_and_cluster() {
        let key = ClusterKey::new(&[1; 32]).unwrap();
        let (a, b) = (Keys::new("a", &key), Keys::new("b", &key));
        let all = [&a.datagrams, &a.handshake, &a.connections, &b.datagrams, &b.handshake, &b.connections];
        let codes: std::collections::BTreeSet<Mac> = all.iter().map(|key| mac(key, &[b"x"])).collect();
        assert_eq!(codes.len(), 6);
        assert_eq!(
            mac(&a.datagrams, &[b"ab", b"c"]),
            mac(&a.datagrams, &[b"a", b"bc"]),
            "parts are concatenated"
        );
        assert!(is_same(&[5; 32], &[5; 32]) && !is_same(&[5; 31], &[5; 32]) && !is_same(&[4; 32], &[5; 32]));
        assert_ne!(random::<16>().unwrap(), random::<16>().unwrap());
    }
}
