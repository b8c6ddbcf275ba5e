//! Writes packets to a capture file.

use scalebricks_graph::{CounterId, Frame, Out, Recording, Slot};
use scalebricks_io::PacketBuf;

/// A capture file, the number of packets written, and the first error.
#[derive(Debug)]
pub(crate) struct Recorder {
    recording: Recording,
    /// Packets written.
    pub(crate) written: u64,
    fault: Option<String>,
}

impl Recorder {
    pub(crate) fn new(recording: Recording) -> Self {
        Self { recording, written: 0, fault: None }
    }

    /// Writes the first `snap` bytes of each packet, or all if that is 0. Counts written and failed packets.
    pub(crate) fn write<P: PacketBuf>(
        &mut self,
        slots: &[Slot],
        snap: usize,
        frame: &Frame<P>,
        out: &Out<'_>,
        [written, failed]: [CounterId; 2],
    ) {
        if slots.is_empty() {
            return;
        }
        let mut writer = self.recording.lock();
        for slot in slots {
            let data = frame.packet(slot).data();
            let kept = if snap == 0 { data } else { &data[..data.len().min(snap)] };
            let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let why = match writer.as_mut().map(|writer| writer.write_cut_frame(out.now(), kept, len)) {
                Some(Ok(())) => {
                    self.written += 1;
                    out.count(written, 1);
                    continue;
                }
                Some(Err(error)) => error.to_string(),
                None => "the file is complete already".to_owned(),
            };
            out.count(failed, 1);
            self.fault.get_or_insert(why);
        }
    }

    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
}
