//! Live routes from FRR's zebra, which connects to a *forwarding plane manager* (FPM) over TCP and sends each route that it
//! selects as a netlink message. Both of zebra's modules are understood: `fpm` in its form of netlink, and
//! `dplane_fpm_nl`, with and without next-hop objects.
//!
//! ```text
//! bytes ─▶ Frames: version, kind, length ─▶ netlink: routes, next hops ─▶ FpmTable
//! ```
//!
//! A frame has at most 64 KiB, so a message cannot ask for more memory than that. A frame of another version, kind or
//! length is the end of the session: what follows has no known beginning. A message that cannot be read is counted, and
//! the next one is read.

mod netlink;
mod table;
#[cfg(test)]
mod tests;

pub use netlink::{Ignored, MAX_GATEWAYS, MessageError};
pub use table::{FpmCounts, FpmTable, MAX_OBJECTS, MAX_ROUTES};

/// Bytes of the header of a frame.
const HEADER: usize = 4;

/// The version of FPM.
const VERSION: u8 = 1;

/// The kind of a frame that holds netlink messages.
const NETLINK: u8 = 1;

/// Bytes of the longest frame.
pub const MAX_FRAME_BYTES: usize = 65_535;

/// Why a stream of frames ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Another version.
    #[error("FPM version {0}: only version {VERSION} is known")]
    Version(u8),
    /// Frames of another kind.
    #[error(
        "an FPM frame of kind {0}: load zebra's module with the option netlink, as in -M fpm:netlink, or dplane_fpm_nl"
    )]
    Kind(u8),
    /// A length that does not include the header.
    #[error("an FPM frame of {0} bytes: the header alone has {HEADER}")]
    Length(u16),
}

/// Cuts a stream of bytes into frames. Memory: at most one frame and the bytes that were added last.
#[derive(Debug, Clone, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Bytes before this place were taken.
    taken: usize,
}

impl Frames {
    /// Adds bytes of the stream.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The content of the next frame; `None` until it is complete.
    ///
    /// # Errors
    /// [`FrameError`]: the stream cannot be read further.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let rest = &self.bytes[self.taken..];
        let Some(&[version, kind, high, low]) = rest.first_chunk() else { return Ok(None) };
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        if kind != NETLINK {
            return Err(FrameError::Kind(kind));
        }
        let length = u16::from_be_bytes([high, low]);
        if usize::from(length) < HEADER {
            return Err(FrameError::Length(length));
        }
        let Some(frame) = rest.get(HEADER..usize::from(length)) else { return Ok(None) };
        self.taken += usize::from(length);
        Ok(Some(frame))
    }
}
