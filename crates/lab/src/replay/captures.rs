//! The captures of the frames that left: one file per node.

use super::ReplayError;
use scalebricks_io::CaptureWriter;
use scalebricks_types::{ClusterSize, NodeId};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One capture file per node, `node-0.pcap` and so on, with temporary names until all are complete. A file has the frames of both
/// outside links: frames to base stations have the source address of the base-station port and are GTP-U, frames to the Internet have
/// that of the Internet port and are plain IP.
pub(super) struct NodeCaptures {
    files: Vec<NodeCapture>,
}

struct NodeCapture {
    /// `None` once finished.
    writer: Option<CaptureWriter>,
    temporary: PathBuf,
    path: PathBuf,
}

impl NodeCaptures {
    /// Creates the directory and the files.
    pub(super) fn create(directory: &Path, size: ClusterSize) -> Result<Self, ReplayError> {
        let failed = |source| ReplayError::Out { path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(failed)?;
        let stale = directory.join(file_name(size.get()));
        if stale.exists() {
            return Err(ReplayError::Stale(stale));
        }
        let files = size.nodes().map(|node| NodeCapture::create(directory, node));
        Ok(Self { files: files.collect::<Result<_, _>>()? })
    }

    /// Appends a frame to a node's file.
    pub(super) fn write(&mut self, node: NodeId, at: Duration, frame: &[u8]) -> Result<(), ReplayError> {
        let Some(file) = self.files.get_mut(node.index()) else { return Ok(()) };
        let Some(writer) = &mut file.writer else { return Ok(()) };
        writer
            .write_frame(at, frame)
            .map_err(|source| ReplayError::Capture { path: file.path.clone(), source })
    }

    /// Completes and renames all files; returns their paths.
    pub(super) fn finish(mut self) -> Result<Vec<PathBuf>, ReplayError> {
        for file in &mut self.files {
            if let Some(writer) = file.writer.take() {
                let failed = |source| ReplayError::Capture { path: file.path.clone(), source };
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
        // The writer chooses the format by the extension.
        let temporary = directory.join(format!(".{}.{}", std::process::id(), file_name(node.index())));
        let writer = CaptureWriter::create(&temporary)
            .map_err(|source| ReplayError::Capture { path: path.clone(), source })?;
        Ok(Self { writer: Some(writer), temporary, path })
    }
}

impl Drop for NodeCapture {
    fn drop(&mut self) {
        self.writer = None;
        // The file no longer exists if it was renamed; otherwise it is incomplete.
        drop(fs::remove_file(&self.temporary));
    }
}

fn file_name(node: usize) -> String {
    format!("node-{node}.pcap")
}
