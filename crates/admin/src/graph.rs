//! The interface of the admin server to a running graph of elements.

use super::model::{ElementCounts, ElementView, GraphView, HandlerAnswer, ReplacedView};
use scalebricks_apps::click::live::ReplaceError;
use scalebricks_apps::directory::{Directory, ElementInfo, RequestAnswer, RequestError};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Replaces the configuration of a run.
pub trait Replace: Send + Sync + 'static {
    /// Replaces the configuration at the next turn. May block.
    ///
    /// # Errors
    /// [`ReloadError`]; the old configuration then keeps running.
    fn replace(&self, with: Configuration) -> Result<ReplacedView, ReloadError>;

    /// The number of replacements.
    fn replacements(&self) -> u64;
}

/// The graphs of a process's workers, all with the same wiring. Calls may block until a worker is between two turns, up
/// to a second.
#[derive(Clone)]
pub struct ServedGraph {
    directory: Arc<Directory>,
    file: String,
    since: Instant,
    replace: Option<Arc<dyn Replace>>,
}

impl fmt::Debug for ServedGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedGraph").field("file", &self.file).finish_non_exhaustive()
    }
}

impl ServedGraph {
    /// Graphs that the program wires itself, in a process that was started with this file.
    pub fn new(directory: Arc<Directory>, file: impl Into<PathBuf>, since: Instant) -> Self {
        Self { directory, file: file.into().display().to_string(), since, replace: None }
    }

    /// Makes the configuration replaceable.
    #[must_use]
    pub fn replaced_by(self, replace: Arc<dyn Replace>) -> Self {
        Self { replace: Some(replace), ..self }
    }

    /// The elements, their connections and their counters, on one worker or summed over all.
    ///
    /// # Errors
    /// [`RequestError::NotRunning`], [`RequestError::NoWorker`].
    pub fn view(&self, worker: Option<usize>) -> Result<GraphView, RequestError> {
        let mut counts = self.counts(worker)?;
        let known = self.directory.known();
        let elements = known.elements.iter();
        let elements = elements.map(|element| ElementView::new(element, take(&mut counts, element)));
        let elements = elements.collect();
        let mut former: Vec<_> = counts.into_values().collect();
        former.sort_by_cached_key(|one| (one.name.clone(), one.class.clone()));
        Ok(GraphView {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            file: self.file.clone(),
            uptime_s: self.since.elapsed().as_secs_f64(),
            workers: self.directory.workers(),
            is_replaceable: self.replace.is_some(),
            replacements: self.replace.as_ref().map_or(0, |replace| replace.replacements()),
            elements,
            former,
        })
    }

    /// One element, with its handlers.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn element(&self, name: &str, worker: Option<usize>) -> Result<ElementView, RequestError> {
        let mut counts = self.counts(worker)?;
        let known = self.directory.known();
        let element = known.element(name)?;
        Ok(ElementView::new(element, take(&mut counts, element)).with_handlers(element))
    }

    /// Reads a handler.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn read(
        &self,
        element: &str,
        handler: &str,
        parameter: &str,
        worker: Option<usize>,
    ) -> Result<HandlerAnswer, RequestError> {
        let RequestAnswer { text: value, worker } =
            self.directory.read(element, handler, parameter, worker)?;
        Ok(HandlerAnswer { value, worker })
    }

    /// Writes a handler on all workers.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn write(&self, element: &str, handler: &str, value: &str) -> Result<(), RequestError> {
        self.directory.write(element, handler, value)
    }

    /// Replaces the configuration at the next turn.
    ///
    /// # Errors
    /// [`ReloadError`]; the old configuration then keeps running.
    pub fn replace(&self, with: Configuration) -> Result<ReplacedView, ReloadError> {
        self.replace.as_ref().ok_or(ReloadError::Fixed)?.replace(with)
    }

    fn counts(&self, worker: Option<usize>) -> Result<Counts, RequestError> {
        let counted = self.directory.counted(worker)?;
        let key = |one: &ElementCounts| (one.name.clone(), one.class.clone());
        Ok(counted.iter().map(ElementCounts::from).map(|one| (key(&one), one)).collect())
    }
}

/// By name and class.
type Counts = HashMap<(String, String), ElementCounts>;

fn take(counts: &mut Counts, element: &ElementInfo) -> Option<ElementCounts> {
    counts.remove(&(element.name.clone(), element.spec?.class.to_owned()))
}

/// The source of a new configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Configuration {
    /// The file of the run.
    File,
    /// A text.
    Text {
        /// Its name in errors.
        name: String,
        /// The text, in the Click language.
        text: Vec<u8>,
    },
}

/// Why a configuration was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The program wires the graph itself.
    #[error(
        "the program wires this graph itself, so a configuration in the Click language cannot replace it"
    )]
    Fixed,
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The configuration cannot run, or not now.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
}
