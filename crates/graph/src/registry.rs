//! Element classes by name.

use crate::args::{ArgError, Args, Params};
use crate::builder::FindShortcuts;
use crate::element::{Declared, Element};
use crate::fuse::{Chain, Fuse};
use crate::graph::Part;
use crate::spec::Spec;
use scalebricks_io::PacketBuf;
use std::collections::BTreeMap;
use std::fmt;

/// An element class that configurations can instantiate.
pub trait Class: Declared {
    /// Creates an element.
    ///
    /// # Errors
    /// What is wrong with the parameters.
    fn make(params: Self::Params) -> Result<Self, String>;
}

type Make<P> = fn(&[String]) -> Result<Box<dyn Element<P>>, ArgError>;
type Boxes<P> = Vec<Box<dyn Element<P>>>;

/// Joins several elements into one, given each one's number of outputs and its counters.
pub(crate) type Join<P> = fn(Boxes<P>, &[usize], &[Part]) -> Result<Box<dyn Element<P>>, Boxes<P>>;

/// A sequence of classes that can run as one element.
pub(crate) struct Fusion<P> {
    pub(crate) classes: Vec<&'static str>,
    pub(crate) join: Join<P>,
}

/// The classes that configurations may name, and the sequences of them that can be fused.
pub struct Registry<P> {
    classes: BTreeMap<&'static str, (&'static Spec, Make<P>)>,
    /// Other names of classes.
    aliases: BTreeMap<&'static str, &'static str>,
    pub(crate) fusions: Vec<Fusion<P>>,
    pub(crate) shortcuts: Vec<FindShortcuts<P>>,
}

impl<P> fmt::Debug for Registry<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.classes.keys()).finish()
    }
}

impl<P> Default for Registry<P> {
    fn default() -> Self {
        Self {
            classes: BTreeMap::new(),
            aliases: BTreeMap::new(),
            fusions: Vec::new(),
            shortcuts: Vec::new(),
        }
    }
}

fn make<C: Class>(texts: &[String]) -> Result<C, ArgError> {
    let mut args = Args::new(texts, C::SPEC)?;
    let params = C::Params::parse(&mut args)?;
    args.finish()?;
    C::make(params).map_err(ArgError::Refused)
}

/// A tuple of classes, for [`Registry::fuse`].
pub trait Classes {
    /// Their names.
    fn names() -> Vec<&'static str>;
}

macro_rules! classes {
    ($($($class:ident)+;)+) => {
        $(impl<$($class: Class),+> Classes for ($($class,)+) {
            fn names() -> Vec<&'static str> {
                vec![$($class::SPEC.class),+]
            }
        })+
    };
}

classes! {
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}

impl<P: PacketBuf + 'static> Registry<P> {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a class, replacing one of the same name.
    pub fn add<C: Class + Element<P>>(&mut self) -> &mut Self {
        self.classes.insert(C::SPEC.class, (C::SPEC, |texts| Ok(Box::new(make::<C>(texts)?))));
        self
    }

    /// Lets configurations use another name for a class.
    pub fn alias(&mut self, alias: &'static str, class: &'static str) -> &mut Self {
        self.aliases.insert(alias, class);
        self
    }

    fn class(&self, name: &str) -> Option<&(&'static Spec, Make<P>)> {
        self.classes.get(self.aliases.get(name).copied().unwrap_or(name))
    }

    /// All names of classes.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.classes.keys().chain(self.aliases.keys()).copied()
    }

    /// Lets the builder run connected elements of these classes as one. If several sequences fit, it takes the longest.
    pub fn fuse<C: Chain<P> + Classes>(&mut self) -> &mut Self {
        let join: Join<P> = |elements, outputs, parts| {
            let chain = C::join(elements)?;
            Ok(Box::new(Fuse::new(chain, outputs, parts)))
        };
        self.fusions.push(Fusion { classes: C::names(), join });
        self.fusions.sort_by_key(|fusion| std::cmp::Reverse(fusion.classes.len()));
        self
    }

    /// Lets the builder put elements in front of others whose work they do for most packets. Such an element must send,
    /// drop and count what the others would. It is an element of the graph like those that were declared.
    pub fn shortcut(&mut self, find: FindShortcuts<P>) -> &mut Self {
        self.shortcuts.push(find);
        self
    }

    /// All classes, by name.
    pub fn specs(&self) -> impl Iterator<Item = &'static Spec> + '_ {
        self.classes.values().map(|(spec, _)| *spec)
    }

    /// The class with this name or alias.
    pub fn spec(&self, class: &str) -> Option<&'static Spec> {
        self.class(class).map(|(spec, _)| *spec)
    }

    /// Creates an element of a class; `None` if there is no such class.
    pub fn make(&self, class: &str, args: &[String]) -> Option<Result<Box<dyn Element<P>>, ArgError>> {
        self.class(class).map(|(_, make)| make(args))
    }
}
