//! Configurations in the Click language: checked, built and run.
//!
//! ```text
//! text ─▶ scalebricks_click::parse ─▶ check ─▶ Builder ─▶ Graph ─▶ open(Environment) ─▶ run
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`config_only`] | classes that exist in configurations but not in graphs |
//! | [`devices`] | devices and captures that elements open, by the user's bindings |
//! | [`run`] | runs a worker by the wall clock, or by the clock of captures |
//! | [`live`] | a running configuration that can be replaced while packets flow |
//! | [`control_socket`] | Click's protocol to read and write handlers |
//!
//! Errors in a text are reported with file, line, column and the line itself. Any text is processed in bounded time and
//! memory, and none makes a function of this module panic.
//!
//! ```
//! use scalebricks_apps::click::Router;
//! use scalebricks_graph::Ledger;
//! use scalebricks_io::Packet;
//!
//! let registry = scalebricks_elements::registry::<Packet>();
//! let router = Router::read("r.click", b"InfiniteSource(LIMIT 5) -> c :: Counter -> Discard;", &[], &registry)?;
//! let graph = router.graph(&registry, &mut Ledger::new())?;
//! assert_eq!(graph.elements().count(), 3);
//!
//! let errors = Router::read("r.click", b"Idle -> Quue -> Discard;", &[], &registry).unwrap_err();
//! assert!(errors.to_string().starts_with("r.click:1:9: undeclared element `Quue`; did you mean `Queue`?"));
//! # Ok::<(), scalebricks_click::Errors>(())
//! ```

pub mod config_only;
pub mod control_socket;
pub mod devices;
mod diagnostics;
pub mod live;
mod names;
mod open_requests;
pub mod run;
mod shared_port;

use crate::directory::GraphInfo;
use scalebricks_click::values::AddressInfo;
use scalebricks_click::{Configuration, Declaration, Diagnostic, Errors, Limits, Options, Problem};
use scalebricks_graph::builder::{ELEMENTS, PORTS};
use scalebricks_graph::{Builder, Environment, Graph, Ledger, Registry};
use scalebricks_io::PacketBuf;

/// A parsed and checked configuration.
#[derive(Debug, Clone)]
pub struct Router {
    configuration: Configuration,
    /// Each element's arguments, with the names that `AddressInfo` defines replaced by their addresses.
    arguments: Vec<Vec<String>>,
}

/// The limits on a text: no more than a graph can have.
pub fn limits() -> Limits {
    Limits { elements: 2 * ELEMENTS, connections: 4 * ELEMENTS, port: PORTS as u32 - 1, ..Limits::default() }
}

impl Router {
    /// Parses a configuration and checks its classes and arguments. `file` names it in errors.
    /// `variables`, by name without `$`, take precedence over those that the text defines.
    ///
    /// # Errors
    /// All errors found, up to the default of [`Limits::errors`].
    pub fn read<P: PacketBuf + 'static>(
        file: &str,
        text: &[u8],
        variables: &[(String, String)],
        registry: &Registry<P>,
    ) -> Result<Self, Errors> {
        let options = Options { limits: limits(), parameters: variables.to_vec() };
        let configuration = scalebricks_click::parse(file, text, &options)?;
        let classes = registry.names().chain(config_only::specs().map(|spec| spec.class)).collect();
        let mut wrong = scalebricks_click::check(&configuration, &classes);
        wrong.extend(configuration.connections.iter().filter_map(|connection| {
            let ends = [connection.from, connection.to].map(|end| &configuration.elements[end.element]);
            let element = ends.into_iter().find(|element| config_only::spec(&element.class).is_some())?;
            let problem = Problem::Refused(format!("{} has no ports", element.name));
            Some(Diagnostic::new(connection.span, problem))
        }));
        let info = AddressInfo::of(&configuration);
        let has_names = info.is_ok();
        let info = info.unwrap_or_else(|errors| {
            wrong.extend_from_slice(errors.list());
            AddressInfo::default()
        });
        let resolve = |element| names::resolve(element, registry.spec(&element.class), &info);
        let resolved = configuration.elements.iter().map(resolve);
        let (arguments, unknown): (Vec<_>, Vec<_>) =
            resolved.map(|resolved| (resolved.arguments, resolved.unknown)).unzip();
        let router = Self { configuration, arguments };
        // The class's error about an unknown name says less.
        let is_told: Vec<bool> = unknown.iter().map(|names| !names.is_empty()).collect();
        wrong.extend(router.wrong_arguments(registry, &is_told));
        // If a definition is wrong, its names are unknown for that reason, which was reported.
        wrong.extend(unknown.into_iter().flatten().filter(|_| has_names));
        match router.configuration.errors(wrong) {
            Some(errors) => Err(errors),
            None => Ok(router),
        }
    }

    /// Arguments that classes refuse, for elements without earlier errors.
    fn wrong_arguments<P: PacketBuf + 'static>(
        &self,
        registry: &Registry<P>,
        is_told: &[bool],
    ) -> Vec<Diagnostic> {
        let mut wrong = Vec::new();
        let elements = self.configuration.elements.iter().zip(&self.arguments).zip(is_told);
        for ((element, arguments), _) in elements.filter(|(_, is_told)| !**is_told) {
            let made = registry.make(&element.class, arguments).and_then(Result::err);
            if let Some(error) = made.or_else(|| control_socket::wrong_arguments(element, arguments)) {
                wrong.push(diagnostics::argument(element, arguments, &error));
            }
        }
        wrong
    }

    /// The elements and connections.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Elements of classes that are not part of a graph.
    pub fn beside(&self) -> impl Iterator<Item = &Declaration> {
        self.configuration.elements.iter().filter(|element| config_only::spec(&element.class).is_some())
    }

    /// The arguments of each control socket.
    fn control_sockets(&self) -> impl Iterator<Item = &[String]> {
        let all = self.configuration.elements.iter().zip(&self.arguments);
        all.filter(|(element, _)| element.class == control_socket::SPEC.class)
            .map(|(_, arguments)| &arguments[..])
    }

    /// Parts of the configuration without effect, as sentences with positions.
    pub fn notes(&self) -> Vec<String> {
        let ignored = self.beside().filter(|element| config_only::is_ignored(&element.class));
        let note = |element: &Declaration| {
            let place = self.configuration.source().place(element.span.start);
            let (file, line, column) = (place.file, place.line, place.column);
            format!("{file}:{line}:{column}: {} has no effect here", element.class)
        };
        ignored.map(note).collect()
    }

    /// Builds the graph. Its counters come from the ledger, by name and class.
    ///
    /// # Errors
    /// All errors found in ports, push and pull; if there are none, those in columns; and if there are none, those of
    /// elements that refuse their place.
    pub fn graph<P: PacketBuf + 'static>(
        &self,
        registry: &Registry<P>,
        ledger: &mut Ledger,
    ) -> Result<Graph<P>, Errors> {
        let mut builder = Builder::new();
        self.declare_in(&mut builder);
        builder.build(registry, ledger).map_err(|errors| diagnostics::errors(self, &errors.0))
    }

    /// Declares the elements and connections in a graph under construction.
    pub fn declare_in<P: PacketBuf + 'static>(&self, builder: &mut Builder<P>) {
        let elements = &self.configuration.elements;
        for (element, arguments) in elements.iter().zip(&self.arguments) {
            if config_only::spec(&element.class).is_none() {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                builder.declare(&element.name, &element.class, &arguments);
            }
        }
        for connection in &self.configuration.connections {
            let [from, to] = [connection.from, connection.to];
            let name = |element: usize| elements.get(element).map_or("", |element| &element.name);
            builder.connect(name(from.element), from.port as usize, name(to.element), to.port as usize);
        }
    }

    /// Describes a graph built from this configuration.
    pub fn describe<P: PacketBuf + 'static>(&self, graph: &Graph<P>) -> GraphInfo {
        let configuration = &self.configuration;
        let declared = configuration.elements.iter().map(|element| {
            let arguments: Vec<&str> = element.args.iter().map(|argument| argument.text.as_str()).collect();
            (element.name.clone(), element.class.clone(), arguments.join(", "))
        });
        let required = configuration.requirements.iter().map(|required| format!("{}\n", required.package));
        let global = [
            ("config", configuration.source().text().to_owned()),
            ("flatconfig", configuration.to_string()),
            ("packages", String::new()),
            ("requirements", required.collect()),
        ];
        GraphInfo::of(graph).declared(declared, global)
    }

    /// Opens the resources of a graph built from this configuration.
    ///
    /// # Errors
    /// What cannot be opened, located at the element that needs it.
    pub fn open<P: PacketBuf + 'static>(
        &self,
        graph: &mut Graph<P>,
        world: &mut dyn Environment<P>,
    ) -> Result<(), Errors> {
        self.open_but(graph, world, |_| false)
    }

    /// The same for all elements except those that keep what their predecessors have.
    pub(crate) fn open_but<P: PacketBuf + 'static>(
        &self,
        graph: &mut Graph<P>,
        world: &mut dyn Environment<P>,
        keeps: impl Fn(&str) -> bool,
    ) -> Result<(), Errors> {
        let opened = graph.open_each(|name, element| if keeps(name) { Ok(()) } else { element.open(world) });
        let Err(failed) = opened else { return Ok(()) };
        let diagnostic = |(name, why): &(std::sync::Arc<str>, String)| {
            let message = why.clone();
            let element = self.configuration.elements.iter().find(|element| *element.name == **name);
            let span = element.map_or_else(Default::default, |element| element.span);
            Diagnostic::new(span, Problem::Argument { element: name.to_string(), message })
        };
        match self.configuration.errors(failed.iter().map(diagnostic)) {
            Some(errors) => Err(errors),
            None => Ok(()),
        }
    }
}
