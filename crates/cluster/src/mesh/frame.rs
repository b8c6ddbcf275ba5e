//! Messages on a connection.

use super::keys::{self, MAC_BYTES};
use bytes::{Buf, BufMut};
use ring::hmac::{Context, Key};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Bytes before the payload: its length, and a code over the frame's number, the length and the payload.
const HEAD_BYTES: usize = 4 + MAC_BYTES;

/// Most bytes that are read or hashed at once.
const PIECE: usize = 256 * 1024;

/// Why no message could be read.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The peer closed the connection, or it broke.
    Broken,
    /// Nothing came for too long.
    Silent,
    /// A length that is not allowed.
    TooLarge,
    /// The frame was altered, or is not the next one of the peer.
    WrongKey,
}

/// One direction of a connection: its key, and the number of frames so far.
pub(super) struct Frames {
    key: Key,
    number: u64,
}

impl Frames {
    pub(super) fn new(key: Key) -> Self {
        Self { key, number: 0 }
    }

    /// The code of the next frame up to its length; the payload must follow.
    fn begin(&mut self, length: [u8; 4]) -> Context {
        let mut context = Context::with_key(&self.key);
        context.update(&self.number.to_le_bytes());
        context.update(&length);
        self.number += 1;
        context
    }

    /// Writes a message. After an error or cancellation the connection is unusable.
    pub(super) async fn write(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        payload: &[u8],
    ) -> io::Result<()> {
        let length = u32::try_from(payload.len()).map_err(|_| io::ErrorKind::InvalidInput)?.to_le_bytes();
        let mut context = self.begin(length);
        for piece in payload.chunks(PIECE) {
            context.update(piece);
            tokio::task::yield_now().await;
        }
        let mut head = [0; HEAD_BYTES];
        let (start, code) = head.split_at_mut(length.len());
        start.copy_from_slice(&length);
        code.copy_from_slice(&keys::finish(context));
        stream.write_all_buf(&mut Buf::chain(&head[..], payload)).await?;
        stream.flush().await
    }

    /// Reads a message of up to `most` bytes. Memory grows with the bytes received, not with the announced length.
    pub(super) async fn read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        most: usize,
        silence: Duration,
    ) -> Result<Vec<u8>, Refusal> {
        let head = read(stream, Vec::with_capacity(HEAD_BYTES), HEAD_BYTES, silence, |_| ()).await?;
        let (length, code) = head.split_first_chunk().ok_or(Refusal::Broken)?;
        let bytes = u32::from_le_bytes(*length) as usize;
        if bytes > most {
            return Err(Refusal::TooLarge);
        }
        let mut context = self.begin(*length);
        let payload = read(stream, Vec::new(), bytes, silence, |piece| context.update(piece)).await?;
        let code = code.first_chunk().ok_or(Refusal::Broken)?;
        if keys::is_same(&keys::finish(context), code) { Ok(payload) } else { Err(Refusal::WrongKey) }
    }
}

/// Reads so many bytes, and passes them to `seen` as they arrive.
async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    mut bytes: Vec<u8>,
    length: usize,
    silence: Duration,
    mut seen: impl FnMut(&[u8]),
) -> Result<Vec<u8>, Refusal> {
    while bytes.len() < length {
        let had = bytes.len();
        // At most twice what has arrived, so that an announced length costs nothing.
        let piece = (length - had).min(PIECE);
        bytes.reserve(piece.min(had.max(4096)));
        let room = piece.min(bytes.capacity() - had);
        let came = timeout(silence, stream.read_buf(&mut (&mut bytes).limit(room))).await;
        match came {
            Err(_) => return Err(Refusal::Silent),
            Ok(Err(_) | Ok(0)) => return Err(Refusal::Broken),
            Ok(Ok(_)) => seen(bytes.get(had..).unwrap_or_default()),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ring::hmac::HMAC_SHA256;
    use tokio::io::duplex;

    const PATIENCE: Duration = Duration::from_millis(500);

    fn frames() -> Frames {
        Frames::new(Key::new(HMAC_SHA256, &[1; 32]))
    }

    fn run<T>(what: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(what)
    }

    async fn written(messages: &[Vec<u8>]) -> Vec<u8> {
        let (mut bytes, mut frames) = (Vec::new(), frames());
        for message in messages {
            frames.write(&mut bytes, message).await.unwrap();
        }
        bytes
    }

    /// All frames that these bytes contain, and the reason why decoding stopped.
    async fn read_all(bytes: &[u8], most: usize) -> (Vec<Vec<u8>>, Refusal) {
        let (mut stream, mut frames, mut messages) = (bytes, frames(), Vec::new());
        loop {
            match frames.read(&mut stream, most, PATIENCE).await {
                Ok(message) => messages.push(message),
                Err(refusal) => return (messages, refusal),
            }
        }
    }

    proptest! {
        #[test]
        fn frames_survive_a_connection(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..6),
        ) {
            let (read, end) = run(async { read_all(&written(&messages).await, 3000).await });
            prop_assert_eq!(read, messages);
            prop_assert!(matches!(end, Refusal::Broken));
        }

        #[test]
        fn altered_frames_are_refused(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..6),
            at: prop::sample::Index,
            bit in 0_u32..8,
            cut: bool,
        ) {
            let (read, _) = run(async {
                let mut bytes = written(&messages).await;
                let at = at.index(bytes.len());
                if cut { bytes.truncate(at) } else { bytes[at] ^= 1_u8 << bit }
                read_all(&bytes, 300).await
            });
            prop_assert!(read.len() < messages.len());
            prop_assert!(messages.starts_with(&read));
        }

        #[test]
        fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert!(run(read_all(&bytes, 3000)).0.is_empty());
        }
    }

    #[test]
    fn swapped_or_repeated_frames_are_refused() {
        run(async {
            let bytes = written(&[vec![1; 10], vec![2; 10]]).await;
            let (one, two) = bytes.split_at(bytes.len() / 2);
            let (read, end) = read_all(&[two, one].concat(), 100).await;
            assert!(read.is_empty() && matches!(end, Refusal::WrongKey));
            let (read, end) = read_all(&[one, one].concat(), 100).await;
            assert!(read.len() == 1 && matches!(end, Refusal::WrongKey));
        });
    }

    #[test]
    fn a_length_costs_nothing_and_silence_has_an_end() {
        run(async {
            let huge = [&u32::MAX.to_le_bytes()[..], &[0; 32]].concat();
            assert!(matches!(read_all(&huge, 1 << 24).await.1, Refusal::TooLarge));
            let (mut here, mut there) = duplex(4096);
            here.write_all(&[&(1_u32 << 24).to_le_bytes()[..], &[0; 33]].concat()).await.unwrap();
            let mut frames = frames();
            let end = frames.read(&mut there, 1 << 24, Duration::from_millis(20)).await;
            assert!(matches!(end, Err(Refusal::Silent)));
        });
    }

    #[test]
    fn the_form_does_not_change() {
        let bytes = run(written(&[b"hi".to_vec()]));
        let code = keys::mac(&frames().key, &[&[0; 8], &[2, 0, 0, 0], b"hi"]);
        assert_eq!(bytes, [&[2, 0, 0, 0][..], &code, b"hi"].concat());
    }
}
