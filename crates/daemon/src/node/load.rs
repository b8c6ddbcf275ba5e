//! Reads the configuration of a node, and the flows that it names.

use super::config::{ApplianceFile, ControlFile, NodeFile};
use crate::error::ProcessError;
use crate::runtime::configuration;
use scalebricks_admin::flow_list::Reading;
use scalebricks_admin::server::{Limits, Listen};
use scalebricks_apps::gateway::{Appliance, FlowSpec};
use scalebricks_console::Console;
use scalebricks_io::Packet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The configuration of a node.
pub type Configuration = configuration::Configuration<NodeFile>;

impl Configuration {
    /// Reads a configuration.
    ///
    /// # Errors
    /// [`ProcessError::File`] and [`ProcessError::Config`].
    pub fn read(path: &Path) -> Result<Self, ProcessError> {
        Self::read_with(path, NodeFile::parse)
    }

    /// The control plane with its paths resolved; `None` if flows come from a file.
    pub fn control(&self) -> Option<ControlFile> {
        let control = self.file.control.clone()?;
        let engine = control.engine.with_files(|file| self.beside(file));
        Some(ControlFile { engine, key: self.beside(&control.key), ..control })
    }

    /// The addresses of the admin server.
    pub fn admin(&self) -> Listen {
        self.listen(&self.file.admin, self.file.admin_tcp.as_ref(), Limits::default())
    }

    /// The appliance's configuration in the Click language, checked; `None` for a gateway of tunnels.
    ///
    /// # Errors
    /// [`ProcessError::File`] and [`ProcessError::Appliance`].
    pub fn appliance(&self) -> Result<Option<Arc<str>>, ProcessError> {
        let text = match &self.file.appliance {
            None => return Ok(None),
            Some(ApplianceFile::BuiltIn(text)) => text.clone(),
            Some(ApplianceFile::File(path)) => {
                let path = self.beside(path);
                std::fs::read_to_string(&path).map_err(ProcessError::file(&path))?
            }
        };
        Appliance::check::<Packet>(&text)?;
        Ok(Some(text.into()))
    }

    /// The path of the flow file.
    pub fn flow_file(&self) -> PathBuf {
        self.beside(&self.file.flows)
    }

    /// Reads the flow file; no flows if they come from the control plane.
    ///
    /// # Errors
    /// [`ProcessError::File`] and [`ProcessError::Flows`].
    pub fn flows(&self, console: &Console) -> Result<Vec<FlowSpec>, ProcessError> {
        if self.file.control.is_some() {
            return Ok(Vec::new());
        }
        let path = self.flow_file();
        let file = File::open(&path).map_err(ProcessError::file(&path))?;
        let bytes = file.metadata().map_err(ProcessError::file(&path))?.len();
        let NodeFile { profile, size, base_stations, .. } = &self.file;
        let reading = Reading { profile: *profile, size: *size, base_stations };
        let progress = console.progress("flows", bytes);
        let flows = reading.read(file, &progress).map_err(|error| ProcessError::Flows { path, error })?;
        progress.finish();
        Ok(flows)
    }
}
