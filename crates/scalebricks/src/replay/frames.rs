//! Reads a capture file for its frames, whatever state its end is in.

use super::ReplayError;
use scalebricks_io::capture::CaptureError;
use scalebricks_io::{CaptureReader, CapturedFrame};
use std::path::{Path, PathBuf};

/// The frames of a capture that are Ethernet or can be made so, in file order. A file that ends in the middle of a
/// record, as one does whose recorder was killed, ends before that record.
pub(super) struct Frames {
    reader: CaptureReader,
    path: PathBuf,
    /// Frames of link types that carry no Ethernet.
    pub(super) unsupported: u64,
    /// The file ended in the middle of a record.
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
    type Item = Result<CapturedFrame, ReplayError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.reader.next()? {
                Ok(frame) => return Some(Ok(frame)),
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
