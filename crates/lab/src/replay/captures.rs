//! The captures of what left: one file a node.

use super::ReplayError;
use scalebricks_io::CaptureWriter;
use scalebricks_types::{ClusterSize, NodeId};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One capture file a node, `node-0.pcap` and so on, under other names until all are complete. Both outside links of a
/// node are in its file: what it sent to base stations comes from the MAC address of its base-station port and is
/// GTP-U, what it sent to the Internet comes from that of its Internet port and is plain IP.
pub(super) struct NodeCaptures {
    files: Vec<NodeCapture>,
}

struct NodeCapture {
    /// Gone once finished.
    writer: Option<CaptureWriter>,
    temporary: PathBuf,
    path: PathBuf,
}

impl NodeCaptures {
    /// Makes the directory and the files.
    pub(super) fn create(directory: &Path, size: ClusterSize) -> Result<Self, ReplayError> {
        let failed = |source| ReplayError::Out { path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(failed)?;
        let stale = directory.join(file_name(size.get()));
        if stale.exists() {
            return Err(ReplayError::Stale { path: stale });
        }
        let files = size.nodes().map(|node| NodeCapture::create(directory, node));
        Ok(Self { files: files.collect::<Result<_, _>>()? })
    }

    /// Adds a frame to a node's file.
    pub(super) fn write(&mut self, node: NodeId, at: Duration, frame: &[u8]) -> Result<(), ReplayError> {
        let Some(file) = self.files.get_mut(node.index()) else { return Ok(()) };
        let Some(writer) = &mut file.writer else { return Ok(()) };
        writer.write_frame(at, frame).map_err(|source| ReplayError::Write { path: file.path.clone(), source })
    }

    /// Completes all files and gives them their names; returns them.
    pub(super) fn finish(mut self) -> Result<Vec<PathBuf>, ReplayError> {
        for file in &mut self.files {
            if let Some(writer) = file.writer.take() {
                let failed = |source| ReplayError::Write { path: file.path.clone(), source };
                writer.finish().map_err(failed)?;
            }
        }
        let mut paths = Vec::with_capacity(self.files.len());
        for file in &self.files {
            let failed = |source| ReplayError::Out { path: file.path.clone(), source };
            fs::rename(&file.temporary, &file.path).map_err(failed)?;
            paths.push(file.path.clone());
        }
        Ok(paths)
    }
}

impl NodeCapture {
    fn create(directory: &Path, node: NodeId) -> Result<Self, ReplayError> {
        let path = directory.join(file_name(node.index()));
        // The writer tells the format by the end of the name.
        let temporary = directory.join(format!(".{}.{}", std::process::id(), file_name(node.index())));
        let writer = CaptureWriter::create(&temporary)
            .map_err(|source| ReplayError::Write { path: path.clone(), source })?;
        Ok(Self { writer: Some(writer), temporary, path })
    }
}

impl Drop for NodeCapture {
    fn drop(&mut self) {
        self.writer = None;
        // Gone already if it was renamed; else nobody wants half a file, and there is nobody left to tell.
        drop(fs::remove_file(&self.temporary));
    }
}

fn file_name(node: usize) -> String {
    format!("node-{node}.pcap")
}
