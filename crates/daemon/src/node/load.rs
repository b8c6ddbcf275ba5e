//! Reads what a node is told: its configuration, and the flows that the configuration names.

use super::NodeError;
use super::config::{ControlFile, NodeFile};
use scalebricks_admin::flow_list::Reading;
use scalebricks_apps::gateway::FlowSpec;
use scalebricks_console::Console;
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// A configuration, and where it was read.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// What it says.
    pub node: NodeFile,
    /// The file of flows, found beside the configuration.
    pub flows: PathBuf,
    /// The file that says so.
    pub path: PathBuf,
}

impl Configuration {
    /// Reads a configuration.
    ///
    /// # Errors
    /// [`NodeError::Read`] and [`NodeError::Config`].
    pub fn read(path: &Path) -> Result<Self, NodeError> {
        let read = |error| NodeError::Read { path: path.to_owned(), error };
        let text = std::fs::read_to_string(path).map_err(read)?;
        let node = NodeFile::parse(&text)
            .map_err(|problems| NodeError::Config { path: path.to_owned(), problems })?;
        let mut read = Self { flows: PathBuf::new(), node, path: path.to_owned() };
        read.flows = read.beside(&read.node.flows);
        Ok(read)
    }

    /// A file that the configuration names: beside it, unless its path is absolute.
    pub fn beside(&self, file: &Path) -> PathBuf {
        self.path.parent().unwrap_or_else(|| Path::new("")).join(file)
    }

    /// The control plane, if flows come from there, with its files found.
    pub fn control(&self) -> Option<ControlFile> {
        let control = self.node.control.clone()?;
        let engine = control.engine.with_files(|file| self.beside(file));
        Some(ControlFile { engine, key: self.beside(&control.key), ..control })
    }

    /// The tunnel addresses of the base stations, in their order.
    pub fn stations(&self) -> Vec<Ipv4Addr> {
        self.node.base_stations.iter().map(|station| station.address).collect()
    }

    /// Reads the flows, as the file has them now; none where they come from the control plane.
    ///
    /// # Errors
    /// [`NodeError::Read`] and [`NodeError::Flows`].
    pub fn flows(&self, console: &Console) -> Result<Vec<FlowSpec>, NodeError> {
        if self.node.control.is_some() {
            return Ok(Vec::new());
        }
        let read = |error| NodeError::Read { path: self.flows.clone(), error };
        let file = File::open(&self.flows).map_err(read)?;
        let bytes = file.metadata().map_err(read)?.len();
        let stations = self.stations();
        let reading = Reading { profile: self.node.profile, size: self.node.size, base_stations: &stations };
        let progress = console.progress("flows", bytes);
        let flows = reading
            .read(file, &progress)
            .map_err(|error| NodeError::Flows { path: self.flows.clone(), error })?;
        progress.finish();
        Ok(flows)
    }
}
