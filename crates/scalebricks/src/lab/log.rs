//! Who keeps the log: a process of this machine, or three NATS servers, each beside a node, with which it lives and dies.

use super::LabError;
use super::exec::Cmd;
use super::nodes::{Process, Processes};
use super::plan::Plan;
use super::state;
use rustix::process::Signal;
use scalebricks_types::NodeId;

/// Servers that keep the log.
const SERVERS: usize = 3;

/// Where they listen, for nodes and for each other.
const PORTS: (u16, u16) = (4222, 6222);

/// What a server says when it listens.
const LISTENS: &str = "Server is ready";

/// One that keeps the log.
#[derive(Debug)]
struct Keeper {
    /// With which node it lives and dies.
    beside: Option<NodeId>,
    process: Process,
}

/// All that keep the log and run.
#[derive(Debug, Default)]
pub struct Log(Vec<Keeper>);

impl Log {
    /// Whether nobody keeps it.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Starts all that do not run.
    ///
    /// # Errors
    /// [`LabError`] if one is not ready in time.
    pub fn start(&mut self, processes: Processes<'_>) -> Result<(), LabError> {
        if processes.plan.nats.is_none() {
            self.0.push(Keeper { beside: None, process: processes.engine()? });
            return Ok(());
        }
        processes.plan.servers().try_for_each(|node| self.start_beside(processes, node))
    }

    /// Starts the one that lives with a node, if there is one.
    ///
    /// # Errors
    /// The same.
    pub fn start_beside(&mut self, processes: Processes<'_>, node: NodeId) -> Result<(), LabError> {
        if processes.plan.servers().any(|server| server == node) {
            self.0.push(Keeper { beside: Some(node), process: processes.server(node)? });
        }
        Ok(())
    }

    /// Kills all, as a crash would.
    pub fn kill(&mut self) {
        self.0.drain(..).for_each(|keeper| keeper.process.kill_at_once());
    }

    /// Kills the one that lives with a node.
    pub fn kill_beside(&mut self, node: NodeId) {
        let dies = |keeper: &mut Keeper| keeper.beside == Some(node);
        self.0.extract_if(.., dies).for_each(|keeper| keeper.process.kill_at_once());
    }

    /// Sends a signal to all, or to the one that lives with a node.
    ///
    /// # Errors
    /// [`LabError::Died`].
    pub fn signal(&self, beside: Option<NodeId>, signal: Signal) -> Result<(), LabError> {
        let meant = |keeper: &&Keeper| beside.is_none() || keeper.beside == beside;
        self.0.iter().filter(meant).try_for_each(|keeper| keeper.process.signal(signal))
    }

    /// Asserts that none has ended on its own.
    ///
    /// # Errors
    /// [`LabError::Died`].
    pub fn check(&mut self) -> Result<(), LabError> {
        self.0.iter_mut().try_for_each(|keeper| keeper.process.ended())
    }
}

impl Plan {
    /// The nodes beside which a NATS server runs: the last three.
    pub fn servers(&self) -> impl Iterator<Item = NodeId> + use<> {
        let count = if self.nats.is_some() { SERVERS } else { 0 };
        self.size.nodes().skip(self.size.get().saturating_sub(count)).filter(move |_| count > 0)
    }

    /// Where nodes find the log, if NATS servers keep it.
    pub fn servers_url(&self) -> Option<String> {
        let url = |node| format!("nats://{}:{}", Self::control_address(node), PORTS.0);
        let urls: Vec<String> = self.servers().map(url).collect();
        (!urls.is_empty()).then(|| urls.join(","))
    }
}

impl Processes<'_> {
    /// Writes what the servers are told.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn configure_servers(&self) -> Result<(), LabError> {
        let route = |node| format!("nats://{}:{}", Plan::control_address(node), PORTS.1);
        let routes: Vec<String> = self.plan.servers().map(route).collect();
        for node in self.plan.servers() {
            let (number, address) = (node.get(), Plan::control_address(node));
            let store = self.directory.join(format!("nats{number}"));
            let text = format!(
                "server_name: s{number}\nlisten: \"{address}:{}\"\nmax_payload: 2MB\n\
                 jetstream {{ store_dir: \"{}\", sync_interval: always }}\n\
                 cluster {{ name: lab, listen: \"{address}:{}\", routes: [ {} ] }}\n",
                PORTS.0,
                store.display(),
                PORTS.1,
                routes.join(", ")
            );
            state::write(&self.directory.join(format!("nats{number}.conf")), text.as_bytes())?;
        }
        Ok(())
    }

    fn server(&self, node: NodeId) -> Result<Process, LabError> {
        let name = format!("nats{}", node.get());
        let program = self.plan.nats.iter().map(|path| path.to_string_lossy());
        let config = self.directory.join(format!("{name}.conf"));
        let command = program.fold(Cmd::new(""), Cmd::arg);
        let command = command.arg("-c").arg(config.to_string_lossy()).inside(&self.plan.node(node));
        self.start(&name, &command)?.await_word(LISTENS, self.interrupt)
    }
}
