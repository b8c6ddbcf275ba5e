//! The format of messages: a header with a checksum over subject, note and body.
//!
//! `Sb: CRC NOTE`, CRC-32 in eight hexadecimal digits. The note is a batch's number, a record's `set` or `deleted`, a
//! chunk's index, or nothing.

use async_nats::{HeaderMap, Message};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;

/// Name of the header.
const SEAL: &str = "Sb";

/// A message stored in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub subject: String,
    pub sequence: u64,
    /// Value of the header.
    seal: Option<String>,
    body: Bytes,
}

fn crc(subject: &str, note: &str, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in [subject.as_bytes(), &[0], note.as_bytes(), &[0], body] {
        hasher.update(part);
    }
    hasher.finalize()
}

/// The headers of a message.
pub(super) fn head(subject: &str, note: &str, body: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(SEAL, format!("{:08x} {note}", crc(subject, note, body)));
    headers
}

impl Stored {
    /// Parses the answer to a direct get.
    pub(super) fn from_direct(message: Message) -> Option<Self> {
        let headers = message.headers?;
        let text = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
        Some(Self {
            subject: text("Nats-Subject")?,
            sequence: text("Nats-Sequence")?.parse().ok()?,
            seal: text(SEAL),
            body: message.payload,
        })
    }

    /// Parses a leader's answer.
    pub(super) fn from_leader(message: &Value) -> Option<Self> {
        let decode = |name: &str| match message.get(name) {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(value) => STANDARD.decode(value.as_str()?).ok(),
        };
        let head = String::from_utf8(decode("hdrs")?).ok()?;
        let ours =
            |line: &str| line.strip_prefix(SEAL)?.strip_prefix(':').map(|text| text.trim_start().to_owned());
        Some(Self {
            subject: message.get("subject")?.as_str()?.to_owned(),
            sequence: message.get("seq")?.as_u64()?,
            seal: head.split("\r\n").find_map(ours),
            body: decode("data")?.into(),
        })
    }

    /// Checks the checksum; returns note and body.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn open(&self) -> Result<(&str, &Bytes), &'static str> {
        let seal = self.seal.as_deref().ok_or("a message of another program is stored there")?;
        let (sum, note) = seal.split_once(' ').unwrap_or((seal, ""));
        if u32::from_str_radix(sum, 16) == Ok(crc(&self.subject, note, &self.body)) {
            Ok((note, &self.body))
        } else {
            Err("the checksum is wrong")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stored(seal: &str, body: &[u8]) -> Stored {
        let head = format!("NATS/1.0\r\nNats-Msg-Id: 1.2\r\n{seal}\r\n\r\n");
        let message = json!({
            "subject": "p.log.1.2", "seq": 7, "hdrs": STANDARD.encode(head), "data": STANDARD.encode(body)
        });
        Stored::from_leader(&message).unwrap()
    }

    #[test]
    fn what_is_changed_is_noticed() {
        let headers = head("p.log.1.2", "17", b"body");
        let seal = format!("Sb: {}", headers.get("Sb").unwrap().as_str());
        assert_eq!(stored(&seal, b"body").open(), Ok(("17", &Bytes::from_static(b"body"))));
        assert!(stored(&seal, b"bodx").open().is_err());
        assert!(stored(&seal.replace("17", "18"), b"body").open().is_err());
        assert!(stored("Other: 1", b"body").open().is_err());
        let other = Stored { subject: "p.log.1.3".to_owned(), ..stored(&seal, b"body") };
        assert!(other.open().is_err());
    }

    #[test]
    fn a_message_without_a_body_is_one() {
        let message = json!({"subject": "s", "seq": 1});
        assert!(Stored::from_leader(&message).unwrap().open().is_err());
        assert_eq!(Stored::from_leader(&json!({"subject": "s"})), None);
    }
}
