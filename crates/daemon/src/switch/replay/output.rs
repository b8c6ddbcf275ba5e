//! The output captures: one per port, with temporary names until all are complete.

use crate::error::ProcessError;
use scalebricks_apps::switch::text::PortNames;
use scalebricks_io::{CaptureWriter, CapturedFrame};
use std::fs;
use std::path::{Path, PathBuf};

/// One capture per port, with the port's name.
pub(super) struct Captures {
    files: Vec<OneFile>,
}

struct OneFile {
    /// `None` once finished.
    writer: Option<CaptureWriter>,
    temporary: PathBuf,
    path: PathBuf,
}

impl Captures {
    /// Creates the directory and the files.
    pub(super) fn create(directory: &Path, ports: &PortNames) -> Result<Self, ProcessError> {
        let failed = |error| ProcessError::File { path: directory.to_owned(), error };
        fs::create_dir_all(directory).map_err(failed)?;
        let files = ports.all().iter().map(|port| {
            let name = format!("{port}.pcap");
            let path = directory.join(&name);
            // The extension determines the format.
            let temporary = directory.join(format!(".{}.{name}", std::process::id()));
            let writer = CaptureWriter::create(&temporary)
                .map_err(|error| ProcessError::Capture { path: path.clone(), error })?;
            Ok(OneFile { writer: Some(writer), temporary, path })
        });
        Ok(Self { files: files.collect::<Result<_, ProcessError>>()? })
    }

    /// Writes a frame that left by a port. It is truncated like the frame that came in.
    pub(super) fn write(
        &mut self,
        port: usize,
        came: &CapturedFrame,
        data: &[u8],
    ) -> Result<(), ProcessError> {
        let Some(file) = self.files.get_mut(port) else { return Ok(()) };
        let Some(writer) = &mut file.writer else { return Ok(()) };
        let written = writer.write_cut_frame(came.timestamp, data, came.original_len);
        written.map_err(|error| ProcessError::Capture { path: file.path.clone(), error })
    }

    /// Completes all files and renames them; returns their paths.
    pub(super) fn finish(mut self) -> Result<Vec<PathBuf>, ProcessError> {
        for file in &mut self.files {
            if let Some(writer) = file.writer.take() {
                let failed = |error| ProcessError::Capture { path: file.path.clone(), error };
                writer.finish().map_err(failed)?;
            }
        }
        let mut paths = Vec::with_capacity(self.files.len());
        for file in &self.files {
            let failed = |error| ProcessError::File { path: file.path.clone(), error };
            fs::rename(&file.temporary, &file.path).map_err(failed)?;
            paths.push(file.path.clone());
        }
        Ok(paths)
    }
}

impl Drop for OneFile {
    fn drop(&mut self) {
        self.writer = None;
        // Fails if the file was renamed. An incomplete file is useless, so other errors are ignored.
        drop(fs::remove_file(&self.temporary));
    }
}
