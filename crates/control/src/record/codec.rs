//! Changes as bytes.
//!
//! All integers little-endian. Version `u16`, reserved `u16` (0), number of changes `u32`; then each change: its kind, one
//! octet, and
//!
//! | kind | change | content |
//! |---|---|---|
//! | 1 | upsert | key, node (1), value (16) |
//! | 2 | move | the same |
//! | 3 | delete | key |
//! | 4 | repin | node (1), last position (8), number of heirs less one (1), heirs (1 each), ascending |
//! | 5 | reshape | number (4), the table's parameters, as it writes them (28) |
//! | 6 | upsert that names an epoch | key, node (1), epoch (4), value (16) |
//! | 7 | move that names an epoch | the same |
//! | 8 | close | epoch (4), node (1), heirs (32): bit n mod 8 of octet n / 8 for node n |
//!
//! A key is its number of words, 2 or 5, in one octet, and the words. The version is the first that has all kinds of changes in
//! the list: kinds 6 to 8 came with version 3, kind 5 with version 2. No epoch is 0 in kinds 6 to 8. So one list of
//! changes has one encoding.
//!
//! In version 3 the reserved octets may be 1, and the list is one of calls. Each call: the process (8), the request's number (8),
//! how far below it the oldest number is that the process waits for (2), number of changes (4), and the changes.

use super::{Call, CallId, Change, Closure, Epoch, Heirs, Repin, Reshape, Session, WINDOW};
use crate::engine::{MAX_BATCH_BYTES, WriterId};
use crate::shape;
use crate::version::Version;
use scalebricks_types::{FlowKey, Key16, Key40, NodeId, Position};

const HEADER_BYTES: usize = 8;

/// Octets of a call before its changes.
const CALL_BYTES: usize = 8 + 8 + 2 + 4;

/// What a list is of, in the header.
mod form {
    pub(super) const CHANGES: u16 = 0;
    pub(super) const CALLS: u16 = 1;
}

/// What a batch says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Changes without a requester: those of versions 1 and 2, and those that owners make of their own accord.
    Changes(Vec<Change>),
    /// Calls.
    Calls(Vec<Call>),
}

mod kind {
    pub(super) const UPSERT: u8 = 1;
    pub(super) const MOVE: u8 = 2;
    pub(super) const DELETE: u8 = 3;
    pub(super) const REPIN: u8 = 4;
    pub(super) const RESHAPE: u8 = 5;
    pub(super) const UPSERT_IN: u8 = 6;
    pub(super) const MOVE_IN: u8 = 7;
    pub(super) const CLOSE: u8 = 8;
}

/// The changes take more than a batch may: split them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the changes take {0} bytes, a batch has {MAX_BATCH_BYTES}: split them")]
pub struct EncodeError(pub usize);

/// Why bytes are no changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by newer software.
    #[error("version {0} is not known here: use newer software")]
    Version(u16),
    /// They end too early.
    #[error("the record ends within change {0}")]
    Truncated(u32),
    /// No such change.
    #[error("change {0} is of unknown kind {1}")]
    Kind(u32, u8),
    /// Something in it is not as it has to be; says what.
    #[error("change {0}: {1}")]
    Malformed(u32, &'static str),
    /// There is more behind the last change.
    #[error("{0} bytes behind the last change")]
    Trailing(usize),
}

/// The payload of a batch with these changes.
///
/// # Errors
/// [`EncodeError`] over [`MAX_BATCH_BYTES`]: about 30 thousand sessions of short keys.
pub fn encode(changes: &[Change]) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(HEADER_BYTES + changes.len() * 35);
    put_header(&mut out, version_of(changes), form::CHANGES, changes.len());
    put_all(&mut out, changes)?;
    Ok(out)
}

/// The payload of a batch with these calls.
///
/// # Errors
/// [`EncodeError`] over [`MAX_BATCH_BYTES`].
pub fn encode_calls(calls: &[Call]) -> Result<Vec<u8>, EncodeError> {
    let changes: usize = calls.iter().map(|call| call.changes.len()).sum();
    let mut out = Vec::with_capacity(HEADER_BYTES + calls.len() * CALL_BYTES + changes * 35);
    put_header(&mut out, Version::VERDICTS, form::CALLS, calls.len());
    for Call { id, oldest, changes } in calls {
        put_words(&mut out, &[id.by.0, id.number]);
        out.extend_from_slice(&(id.number.saturating_sub(*oldest) as u16).to_le_bytes()); // below the window
        out.extend_from_slice(&(changes.len() as u32).to_le_bytes()); // more of them are too long
        put_all(&mut out, changes)?;
    }
    Ok(out)
}

fn put_header(out: &mut Vec<u8>, version: Version, form: u16, count: usize) {
    out.extend_from_slice(&version.get().to_le_bytes());
    out.extend_from_slice(&form.to_le_bytes());
    out.extend_from_slice(&(count as u32).to_le_bytes()); // more of them are too long
}

fn put_all(out: &mut Vec<u8>, changes: &[Change]) -> Result<(), EncodeError> {
    for change in changes {
        put(out, change);
        if out.len() > MAX_BATCH_BYTES {
            return Err(EncodeError(out.len()));
        }
    }
    Ok(())
}

/// The first version that can say these changes.
fn version_of(changes: &[Change]) -> Version {
    let version = |change: &Change| match change {
        Change::Close(_) => Version::TENURES,
        Change::Upsert(_, session) | Change::Move(_, session) if session.epoch != Epoch::UNKNOWN => {
            Version::TENURES
        }
        Change::Reshape(_) => Version::RESHAPES,
        _ => Version::FIRST,
    };
    changes.iter().map(version).max().unwrap_or(Version::FIRST)
}

fn put(out: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Upsert(key, session) => put_session(out, [kind::UPSERT, kind::UPSERT_IN], key, session),
        Change::Move(key, session) => put_session(out, [kind::MOVE, kind::MOVE_IN], key, session),
        Change::Close(closure) => {
            out.push(kind::CLOSE);
            closure.put(out);
        }
        Change::Delete(key) => {
            out.push(kind::DELETE);
            put_key(out, key);
        }
        Change::Repin(Repin { from, upto, heirs }) => {
            let heirs = heirs.nodes();
            out.extend_from_slice(&[kind::REPIN, from.get()]);
            put_words(out, &[upto.0]);
            out.push((heirs.len() - 1) as u8); // 1 to 256 of them
            out.extend(heirs.iter().map(|heir| heir.get()));
        }
        Change::Reshape(Reshape { number, to }) => {
            out.push(kind::RESHAPE);
            out.extend_from_slice(&number.to_le_bytes());
            to.put(out);
        }
    }
}

/// A session with its key, in the kind without epoch or in the one with it.
fn put_session(out: &mut Vec<u8>, [without, with]: [u8; 2], key: &FlowKey, session: &Session) {
    let names_epoch = session.epoch != Epoch::UNKNOWN;
    out.push(if names_epoch { with } else { without });
    put_key(out, key);
    out.push(session.node.get());
    if names_epoch {
        out.extend_from_slice(&session.epoch.get().to_le_bytes());
    }
    put_words(out, &session.value);
}

/// A key as its number of words and the words.
pub(crate) fn put_key(out: &mut Vec<u8>, key: &FlowKey) {
    let words: &[u64] = match key {
        FlowKey::Short(key) => key.words(),
        FlowKey::Long(key) => key.words(),
    };
    out.push(words.len() as u8);
    put_words(out, words);
}

/// Words, little-endian.
pub(crate) fn put_words(out: &mut Vec<u8>, words: &[u64]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// The changes in exactly these bytes. Allocates no more than a small multiple of what they hold.
///
/// # Errors
/// [`DecodeError`].
pub fn decode(bytes: &[u8]) -> Result<Vec<Change>, DecodeError> {
    match decode_payload(bytes)? {
        Payload::Changes(changes) => Ok(changes),
        Payload::Calls(_) => Err(DecodeError::Malformed(0, "calls where changes should be")),
    }
}

/// What exactly these bytes say. Allocates no more than a small multiple of what they hold.
///
/// # Errors
/// [`DecodeError`].
pub fn decode_payload(bytes: &[u8]) -> Result<Payload, DecodeError> {
    let mut reader = Reader { bytes, change: 0 };
    let version = u16::from_le_bytes(reader.take()?);
    let version = Version::known(version).ok_or(DecodeError::Version(version))?;
    let form = u16::from_le_bytes(reader.take()?);
    let count = u32::from_le_bytes(reader.take()?);
    let payload = match form {
        form::CHANGES => Payload::Changes(reader.changes(count)?),
        form::CALLS if version >= Version::VERDICTS => Payload::Calls(reader.calls(count)?),
        _ => return Err(DecodeError::Malformed(0, "the reserved octets are not 0")),
    };
    let wanted = match &payload {
        Payload::Changes(changes) => version_of(changes),
        Payload::Calls(_) => Version::VERDICTS,
    };
    if !reader.bytes.is_empty() {
        Err(DecodeError::Trailing(reader.bytes.len()))
    } else if version == wanted {
        Ok(payload)
    } else {
        Err(DecodeError::Malformed(0, "not of the version that it says"))
    }
}

/// Bytes that are read from the front.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// The change it is in, for errors.
    change: u32,
}

impl<'a> Reader<'a> {
    /// At the start of these bytes.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, change: 0 }
    }

    /// What is not read yet.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(DecodeError::Truncated(self.change))?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// Goes on with what is behind something that was read from [`rest`](Self::rest).
    pub(crate) const fn go_to(&mut self, rest: &'a [u8]) {
        self.bytes = rest;
    }

    /// The next so many bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(DecodeError::Truncated(self.change))?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn words<const N: usize>(&mut self) -> Result<[u64; N], DecodeError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = u64::from_le_bytes(self.take()?);
        }
        Ok(words)
    }

    pub(crate) fn key(&mut self) -> Result<FlowKey, DecodeError> {
        let [len] = self.take()?;
        let key = match len {
            2 => FlowKey::Short(Key16::from_words(self.words()?)),
            5 => FlowKey::Long(Key40::from_words(self.words()?)),
            _ => return Err(DecodeError::Malformed(self.change, "a key has 2 words or 5")),
        };
        let first = match &key {
            FlowKey::Short(key) => key.words()[0],
            FlowKey::Long(key) => key.words()[0],
        };
        // The first octet of a key is its domain, which is never 0.
        if first as u8 == 0 {
            Err(DecodeError::Malformed(self.change, "a key without domain"))
        } else {
            Ok(key)
        }
    }

    /// What cannot be at this place.
    pub(crate) const fn malformed(&self, what: &'static str) -> DecodeError {
        DecodeError::Malformed(self.change, what)
    }

    /// A session without an epoch.
    pub(crate) fn session(&mut self) -> Result<Session, DecodeError> {
        let [node] = self.take()?;
        Ok(Session::new(NodeId::new(node), self.words()?))
    }

    /// A session with an epoch, whichever it is.
    pub(crate) fn session_with_epoch(&mut self) -> Result<Session, DecodeError> {
        let [node] = self.take()?;
        let epoch = Epoch::new(u32::from_le_bytes(self.take()?));
        Ok(Session { node: NodeId::new(node), epoch, value: self.words()? })
    }

    /// A session that names an epoch.
    fn session_in(&mut self) -> Result<Session, DecodeError> {
        match self.session_with_epoch()? {
            Session { epoch: Epoch::UNKNOWN, .. } => Err(self.malformed("a pin names epoch 0")),
            session => Ok(session),
        }
    }

    fn changes(&mut self, count: u32) -> Result<Vec<Change>, DecodeError> {
        // A change takes 4 octets at least.
        let mut changes = Vec::with_capacity((count as usize).min(self.bytes.len() / 4));
        for _ in 0..count {
            changes.push(self.change()?);
            self.change += 1;
        }
        Ok(changes)
    }

    fn calls(&mut self, count: u32) -> Result<Vec<Call>, DecodeError> {
        let mut calls = Vec::with_capacity((count as usize).min(self.bytes.len() / CALL_BYTES));
        for _ in 0..count {
            let [by, number] = self.words()?;
            let below = u64::from(u16::from_le_bytes(self.take()?));
            if number == 0 || number >= 1 << 63 || below >= WINDOW.min(number) {
                return Err(DecodeError::Malformed(self.change, "no request has this number"));
            }
            let changes = u32::from_le_bytes(self.take()?);
            let (id, oldest) = (CallId { by: WriterId(by), number }, number - below);
            calls.push(Call { id, oldest, changes: self.changes(changes)? });
        }
        Ok(calls)
    }

    fn change(&mut self) -> Result<Change, DecodeError> {
        let [kind] = self.take()?;
        Ok(match kind {
            kind::UPSERT => Change::Upsert(self.key()?, self.session()?),
            kind::MOVE => Change::Move(self.key()?, self.session()?),
            kind::UPSERT_IN => Change::Upsert(self.key()?, self.session_in()?),
            kind::MOVE_IN => Change::Move(self.key()?, self.session_in()?),
            kind::DELETE => Change::Delete(self.key()?),
            kind::CLOSE => Change::Close(Closure::take(self)?),
            kind::REPIN => {
                let [from] = self.take()?;
                let [upto] = self.words()?;
                let [more] = self.take()?;
                let mut heirs = Vec::with_capacity(usize::from(more) + 1);
                for _ in 0..=more {
                    let [heir] = self.take()?;
                    if heirs.last().is_some_and(|last: &NodeId| last.get() >= heir) {
                        return Err(DecodeError::Malformed(self.change, "heirs are not in ascending order"));
                    }
                    heirs.push(NodeId::new(heir));
                }
                Change::Repin(Repin { from: NodeId::new(from), upto: Position(upto), heirs: Heirs(heirs) })
            }
            kind::RESHAPE => {
                let number = u32::from_le_bytes(self.take()?);
                Change::Reshape(Reshape { number, to: shape::params(self)? })
            }
            _ => return Err(DecodeError::Kind(self.change, kind)),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use scalebricks_tables::compact::{Params, Structure};
    use scalebricks_types::PartitionCount;

    /// Any key.
    pub(crate) fn key() -> impl Strategy<Value = FlowKey> {
        prop_oneof![
            any::<[u64; 2]>().prop_map(|[a, b]| FlowKey::Short(Key16::from_words([a | 1, b]))),
            any::<[u64; 5]>().prop_map(|[a, b, c, d, e]| FlowKey::Long(Key40::from_words([
                a | 1,
                b,
                c,
                d,
                e
            ]))),
        ]
    }

    fn change() -> impl Strategy<Value = Change> {
        let epoch = prop_oneof![Just(0), any::<u32>()];
        let session = (any::<u8>(), epoch, any::<[u64; 2]>()).prop_map(|(node, epoch, value)| Session {
            node: NodeId::new(node),
            epoch: Epoch::new(epoch),
            value,
        });
        let heirs = proptest::collection::btree_set(any::<u8>(), 1..=256)
            .prop_map(|heirs| Heirs::new(heirs.into_iter().map(NodeId::new)).unwrap());
        prop_oneof![
            (key(), session.clone()).prop_map(|(key, session)| Change::Upsert(key, session)),
            (key(), session).prop_map(|(key, session)| Change::Move(key, session)),
            key().prop_map(Change::Delete),
            (any::<u32>(), prop::sample::select(Structure::ALL.to_vec()), 1..100_u64, 1..=8_u8).prop_map(
                |(number, structure, keys, bits)| {
                    let to = Params::for_keys(structure, keys * 1000, bits, PartitionCount::ONE).unwrap();
                    Change::Reshape(Reshape { number, to })
                }
            ),
            (any::<u8>(), any::<u64>(), heirs).prop_map(|(from, upto, heirs)| {
                Change::Repin(Repin { from: NodeId::new(from), upto: Position(upto), heirs })
            }),
            (any::<u8>(), 1..=u32::MAX, any::<u8>(), any::<u8>()).prop_map(|(node, epoch, one, other)| {
                let heirs = [one, other, node.wrapping_add(1)].into_iter().filter(|heir| *heir != node);
                let heirs = Heirs::new(heirs.map(NodeId::new)).unwrap();
                Change::Close(Closure { node: NodeId::new(node), epoch: Epoch::new(epoch), heirs })
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn changes_survive(changes in proptest::collection::vec(change(), 0..20)) {
            let bytes = encode(&changes).unwrap();
            prop_assert_eq!(decode(&bytes), Ok(changes));
            for len in 0..bytes.len() {
                prop_assert!(decode(&bytes[..len]).is_err(), "cut to {} of {}", len, bytes.len());
            }
        }

        /// What is read is written again as the same bytes.
        #[test]
        fn one_encoding_each(changes in proptest::collection::vec(change(), 0..4), at: prop::sample::Index, octet: u8) {
            let mut bytes = encode(&changes).unwrap();
            let at = at.index(bytes.len());
            bytes[at] = octet;
            if let Ok(changes) = decode(&bytes) {
                prop_assert_eq!(encode(&changes).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn golden_bytes() {
        let session = Session::new(NodeId::new(3), [0x0807_0605_0403_0201, 0x100f_0e0d_0c0b_0a09]);
        let changes = [
            Change::Upsert(FlowKey::Short(Key16::from_words([5, 0x1122_3344])), session),
            Change::Repin(Repin {
                from: NodeId::new(7),
                upto: Position(0x15),
                heirs: Heirs::new([2, 1].map(NodeId::new)).unwrap(),
            }),
        ];
        #[rustfmt::skip]
        let bytes = [
            1, 0, 0, 0, 2, 0, 0, 0,
            1, 2, 5, 0, 0, 0, 0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0,
            3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
            4, 7, 0x15, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2,
        ];
        assert_eq!(encode(&changes).unwrap(), bytes);
        assert_eq!(decode(&bytes).unwrap(), changes);
    }

    #[test]
    fn golden_bytes_of_version_3() {
        let value = [0x0807_0605_0403_0201, 0x100f_0e0d_0c0b_0a09];
        let session = Session { node: NodeId::new(3), epoch: Epoch::new(0x0102), value };
        let changes = [
            Change::Move(FlowKey::Short(Key16::from_words([5, 0x1122_3344])), session),
            Change::Close(Closure {
                node: NodeId::new(7),
                epoch: Epoch::new(0x15),
                heirs: Heirs::new([2, 1, 8, 255].map(NodeId::new)).unwrap(),
            }),
        ];
        #[rustfmt::skip]
        let mut bytes = vec![
            3, 0, 0, 0, 2, 0, 0, 0,
            7, 2, 5, 0, 0, 0, 0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0,
            3, 2, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
            8, 0x15, 0, 0, 0, 7, 6, 1,
        ];
        bytes.extend([0; 29]);
        bytes.push(0x80);
        assert_eq!(encode(&changes).unwrap(), bytes);
        assert_eq!(decode(&bytes).unwrap(), changes);
        bytes[27..29].fill(0);
        assert!(matches!(decode(&bytes), Err(DecodeError::Malformed(0, _))), "epoch 0");
    }

    #[test]
    fn hostile_counts_allocate_nothing() {
        let bytes = [1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(decode(&bytes), Err(DecodeError::Truncated(0)));
    }

    #[test]
    fn too_much_is_refused() {
        let change = Change::Delete(FlowKey::Short(Key16::from_words([5, 1])));
        let changes = vec![change; MAX_BATCH_BYTES / 18 + 1];
        assert!(encode(&changes).is_err());
    }
}
