//! Reads the frames of a capture file, which may end within a record.

use super::ReplayError;
use scalebricks_io::capture::CaptureError;
use scalebricks_io::{CaptureReader, CapturedFrame};
use std::path::{Path, PathBuf};

/// A frame of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its number in the file, from 1, as Wireshark shows it; frames of unsupported link types are counted too.
    pub(super) number: u64,
    /// The frame.
    pub(super) captured: CapturedFrame,
}

/// The frames of a capture that are Ethernet or can be converted to it, in file order. An incomplete last record, as after a kill of
/// the recorder, is ignored.
pub(super) struct Frames {
    reader: CaptureReader,
    path: PathBuf,
    /// Frames of unsupported link types.
    pub(super) unsupported: u64,
    /// Whether the file ended within a record.
    pub(super) is_cut: bool,
}

impl Frames {
    pub(super) fn open(path: &Path) -> Result<Self, ReplayError> {
        let failed = |source| ReplayError::Capture { path: path.to_owned(), source };
        let reader = CaptureReader::open(path).map_err(failed)?;
        Ok(Self { reader, path: path.to_owned(), unsupported: 0, is_cut: false })
    }
}

impl Iterator for Frames {
    type Item = Result<Frame, ReplayError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.reader.next()? {
                Ok(captured) => return Some(Ok(Frame { number: self.reader.frames(), captured })),
                Err(CaptureError::UnsupportedLinkType { .. }) => self.unsupported += 1,
                Err(CaptureError::Truncated { .. }) => {
                    self.is_cut = true;
                    return None;
                }
                Err(source) => return Some(Err(ReplayError::Capture { path: self.path.clone(), source })),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of a pcapng file in little-endian byte order.
    fn block(kind: u32, words: &[u32], data: &[u8]) -> Vec<u8> {
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
        let len = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes(), &len, &body[..], &len].concat()
    }

    #[test]
    fn frames_of_other_link_types_are_numbered() {
        let frame =
            |interface, data: &[u8]| block(6, &[interface, 0, 0, data.len() as u32, data.len() as u32], data);
        let (ethernet, wireless) = (1, 105);
        let file = [
            block(0x0a0d_0d0a, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX], &[]),
            block(1, &[ethernet, 0], &[]),
            block(1, &[wireless, 0], &[]),
            frame(1, &[8; 24]),
            frame(0, &[1; 60]),
            frame(1, &[8; 24]),
            frame(0, &[2; 60]),
        ];
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mixed.pcapng");
        std::fs::write(&path, file.concat()).unwrap();
        let mut frames = Frames::open(&path).unwrap();
        let read: Vec<_> =
            frames.by_ref().map(|frame| frame.map(|f| (f.number, f.captured.data[0])).unwrap()).collect();
        assert_eq!((read, frames.unsupported), (vec![(2, 1), (4, 2)], 2));
    }
}
