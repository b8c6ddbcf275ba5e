//! A run as the admin server sees it.

use super::args::FileArgs;
use scalebricks_admin::graph::{Configuration, ReloadError, Replace};
use scalebricks_admin::model::ReplacedView;
use scalebricks_apps::click::live::{LiveRouter, Replacement};
use scalebricks_io::PacketBuf;

/// A run and its configuration file.
#[derive(Debug)]
pub(super) struct ServedRun<P> {
    pub(super) live: LiveRouter<P>,
    file: FileArgs,
}

impl<P: PacketBuf + 'static> ServedRun<P> {
    pub(super) fn new(live: LiveRouter<P>, args: &FileArgs) -> Self {
        Self { live, file: args.clone() }
    }
}

impl<P: PacketBuf + 'static> Replace for ServedRun<P> {
    fn replace(&self, with: Configuration) -> Result<ReplacedView, ReloadError> {
        let (name, text) = match with {
            Configuration::Text { name, text } => (name, text),
            Configuration::File => {
                let path = &self.file.file;
                let text =
                    self.file.read().map_err(|error| ReloadError::Read { path: path.clone(), error })?;
                (path.display().to_string(), text)
            }
        };
        let Replacement { elements, connections, replacements } = self.live.replace(&name, &text)?;
        Ok(ReplacedView { elements, connections, replacements })
    }

    fn replacements(&self) -> u64 {
        self.live.replacements()
    }
}
