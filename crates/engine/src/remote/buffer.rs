//! Bytes between a socket and its frames.

use super::codec::{self, CodecError, Message};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Bytes that may wait for a socket before no more are made; one frame or more may come on top.
pub(super) const OUTGOING_BYTES: usize = 256 << 10;

/// Either half of a socket.
pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// What came in and was not yet understood: never more than a frame and a read.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
    at: usize,
}

impl Incoming {
    /// Waits for more; may be given up at any time without loss. `false`: the other side has closed.
    pub(super) async fn fill(&mut self, reader: &mut Reader) -> io::Result<bool> {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.reserve(READ_BYTES);
        let mut limited = reader.take(READ_BYTES as u64);
        limited.read_buf(&mut self.bytes).await.map(|n| n > 0)
    }

    /// The next message, if it is there whole.
    pub(super) fn next<T: Message>(&mut self) -> Result<Option<codec::Decoded<T>>, CodecError> {
        let decoded = codec::decode(self.bytes.get(self.at..).unwrap_or_default())?;
        if let Some((_, _, len)) = &decoded {
            self.at += len;
        }
        Ok(decoded)
    }
}

/// What waits for the socket.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    at: usize,
}

impl Outgoing {
    /// Lets a message wait; returns how long its frame is.
    pub(super) fn push(&mut self, id: u64, message: &impl Message) -> usize {
        codec::encode(id, message, &mut self.bytes)
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Whether no more should be made for now.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() - self.at >= OUTGOING_BYTES
    }

    /// Writes some; may be given up at any time without loss.
    pub(super) async fn write(&mut self, writer: &mut Writer) -> io::Result<()> {
        let written = writer.write(self.bytes.get(self.at..).unwrap_or_default()).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.at += written;
        if self.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(4 * OUTGOING_BYTES);
            self.at = 0;
        } else if self.at >= OUTGOING_BYTES {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        Ok(())
    }
}
