//! What the admin server asks of a run.

use super::args::FileArgs;
use crate::admin::graph::{Configuration, GraphControl, ReloadError};
use crate::admin::model::{ElementCounts, ElementView, GraphView, ReplacedView};
use scalebricks_apps::click::directory::Refused;
use scalebricks_apps::click::live::{Live, Replaced};
use scalebricks_io::PacketBuf;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

/// A run, and the file it was started with.
#[derive(Debug)]
pub(super) struct Served<P> {
    pub(super) live: Live<P>,
    file: PathBuf,
    since: Instant,
}

impl<P: PacketBuf + 'static> Served<P> {
    pub(super) fn new(live: Live<P>, args: &FileArgs) -> Self {
        Self { live, file: args.file.clone(), since: Instant::now() }
    }

    /// What the elements of the configuration have counted, in its order, and what those of former ones have.
    fn counts(&self) -> (Vec<ElementView>, Vec<ElementCounts>) {
        let counted = self.live.counted();
        let key = |counts: &ElementCounts| (counts.name.clone(), counts.class.clone());
        let mut counts: HashMap<_, _> =
            counted.iter().map(ElementCounts::from).map(|counts| (key(&counts), counts)).collect();
        let known = self.live.directory().known();
        let elements = known.elements.iter().map(|element| {
            ElementView::new(element, counts.remove(&(element.name.clone(), element.class.clone())))
        });
        let elements = elements.collect();
        let mut former: Vec<_> = counts.into_values().collect();
        former.sort_by_cached_key(key);
        (elements, former)
    }
}

impl<P: PacketBuf + 'static> GraphControl for Served<P> {
    fn view(&self) -> GraphView {
        let (elements, former) = self.counts();
        GraphView {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            file: self.file.display().to_string(),
            uptime_s: self.since.elapsed().as_secs_f64(),
            replacements: self.live.replacements(),
            elements,
            former,
        }
    }

    fn element(&self, name: &str) -> Result<ElementView, Refused> {
        let known = self.live.directory().known();
        let element = known.element(name)?;
        let counted = self.live.counted();
        let counted =
            counted.iter().find(|one| *one.element == *element.name && one.spec.class == element.class);
        Ok(ElementView::new(element, counted.map(ElementCounts::from)).with_handlers(element))
    }

    fn read(&self, element: &str, handler: &str, parameter: &str) -> Result<String, Refused> {
        self.live.directory().read(element, handler, parameter)
    }

    fn write(&self, element: &str, handler: &str, value: String) -> Result<(), Refused> {
        self.live.directory().write(element, handler, value)
    }

    fn replace(&self, with: Configuration) -> Result<ReplacedView, ReloadError> {
        let (name, text) = match with {
            Configuration::Text { name, text } => (name, text),
            Configuration::File => {
                let read = std::fs::read(&self.file);
                let text = read.map_err(|error| ReloadError::Read { path: self.file.clone(), error })?;
                (self.file.display().to_string(), text)
            }
        };
        let Replaced { elements, connections, replacements } = self.live.replace(&name, &text)?;
        Ok(ReplacedView { elements, connections, replacements })
    }
}
