//! Shortcuts: elements that the builder puts in front of others whose work they do for most packets.

use super::{ElementPorts, IndexedConnection};
use crate::element::Element;
use scalebricks_io::PacketBuf;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A checked graph before it is assembled. Elements have numbers.
pub struct Draft<'a, P> {
    shapes: &'a [ElementPorts],
    made: &'a [Option<Box<dyn Element<P>>>],
    links: &'a [IndexedConnection],
}

impl<P> fmt::Debug for Draft<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft").field("shapes", &self.shapes).finish_non_exhaustive()
    }
}

impl<P: PacketBuf + 'static> Draft<'_, P> {
    /// Number of elements.
    pub const fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Whether there are no elements.
    pub const fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// The element of this number, if it is of type `E`.
    pub fn get<E: Element<P>>(&self, at: usize) -> Option<&E> {
        let element: &dyn Any = &**self.made.get(at)?.as_ref()?;
        element.downcast_ref()
    }

    /// Its name.
    pub fn name(&self, at: usize) -> &str {
        self.shapes.get(at).map_or("", |shape| &shape.name)
    }

    /// Number of its outputs.
    pub fn outputs(&self, at: usize) -> usize {
        self.shapes.get(at).map_or(0, |shape| shape.outputs)
    }

    /// The element and the input that one of its outputs pushes to.
    pub fn to(&self, at: usize, output: usize) -> Option<(usize, usize)> {
        let link =
            self.links.iter().find(|link| (link.from, link.output) == (at, output) && !link.is_pull)?;
        Some((link.to, link.input))
    }
}

/// An element for [`Registry::shortcut`](crate::Registry::shortcut). Its input 0 takes what an element pushes by output 0;
/// its own output 0 leads where that led.
pub struct Shortcut<P> {
    /// The number of the element behind which it is put.
    pub behind: usize,
    /// Its name.
    pub name: String,
    /// The element, with one input.
    pub element: Box<dyn Element<P>>,
    /// Where its outputs from 1 on lead: elements and inputs that have connections already, or optional inputs.
    pub to: Vec<(usize, usize)>,
}

impl<P> fmt::Debug for Shortcut<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shortcut").field("name", &self.name).field("to", &self.to).finish_non_exhaustive()
    }
}

/// Finds the shortcuts of a graph.
pub type FindShortcuts<P> = fn(&Draft<'_, P>) -> Vec<Shortcut<P>>;

/// Puts all shortcuts into a checked graph.
pub(super) fn insert<P: PacketBuf + 'static>(
    finders: &[FindShortcuts<P>],
    shapes: &mut Vec<ElementPorts>,
    made: &mut Vec<Option<Box<dyn Element<P>>>>,
    links: &mut Vec<IndexedConnection>,
) {
    let draft = Draft { shapes, made, links };
    let found: Vec<Shortcut<P>> = finders.iter().flat_map(|find| find(&draft)).collect();
    for Shortcut { behind, name, element, to } in found {
        let name: Arc<str> = name.into();
        let at = shapes.len();
        let link = links.iter_mut().find(|link| (link.from, link.output) == (behind, 0) && !link.is_pull);
        let (false, Some(link)) = (shapes.iter().any(|shape| shape.name == name), link) else { continue };
        let rest = (link.to, link.input);
        (link.to, link.input) = (at, 0);
        let outputs = 1 + to.len();
        for &(to, input) in &to {
            shapes[to].inputs = shapes[to].inputs.max(input + 1);
        }
        let ways = std::iter::once(rest).chain(to).enumerate();
        links.extend(ways.map(|(output, (to, input))| IndexedConnection {
            from: at,
            output,
            to,
            input,
            is_pull: false,
        }));
        shapes.push(ElementPorts { name, spec: element.spec(), inputs: 1, outputs, part_of: None });
        made.push(Some(element));
    }
}
