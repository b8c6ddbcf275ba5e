//! Who keeps the log: a process of this machine, or three NATS servers, each in a namespace of its own.

use super::LabError;
use super::context::LabContext;
use super::exec::Cmd;
use super::network::ControlEnd;
use super::nodes::Process;
use super::plan::Plan;
use super::state;
use rustix::process::Signal;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;

/// Where servers listen, for nodes and for each other.
const PORTS: (u16, u16) = (4222, 6222);

/// What a server says when it listens.
const LISTENS: &str = "Server is ready";

/// All that keep the log and run.
#[derive(Debug, Default)]
pub struct Log {
    /// By number; a process of this machine has 0.
    keepers: BTreeMap<u8, Process>,
    /// Between each node and a process of this machine.
    relays: BTreeMap<NodeId, Process>,
}

/// How a node is cut off from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogCut {
    /// Nobody answers.
    Silent,
    /// Nobody is there. With NATS servers this is the same: they are behind a network.
    Refused,
}

impl Log {
    /// Whether nobody keeps it.
    pub fn is_empty(&self) -> bool {
        self.keepers.is_empty()
    }

    /// Starts all that do not run.
    ///
    /// # Errors
    /// [`LabError`] if one is not ready in time.
    pub fn start(&mut self, processes: LabContext<'_>) -> Result<(), LabError> {
        if processes.plan.nats.is_some() {
            return processes.plan.servers().try_for_each(|server| self.start_server(processes, server));
        }
        if self.keepers.is_empty() {
            self.keepers.insert(0, processes.engine()?);
        }
        for node in processes.plan.size.nodes() {
            self.start_relay(processes, node)?;
        }
        Ok(())
    }

    /// Starts a server, unless it runs.
    ///
    /// # Errors
    /// The same.
    pub fn start_server(&mut self, processes: LabContext<'_>, server: u8) -> Result<(), LabError> {
        if let Entry::Vacant(place) = self.keepers.entry(server) {
            place.insert(processes.server(server)?);
        }
        Ok(())
    }

    fn start_relay(&mut self, processes: LabContext<'_>, node: NodeId) -> Result<(), LabError> {
        if let Entry::Vacant(place) = self.relays.entry(node) {
            place.insert(processes.relay(node)?);
        }
        Ok(())
    }

    /// Kills all, as a crash would.
    pub fn kill(&mut self) {
        while let Some((_, keeper)) = self.keepers.pop_first() {
            keeper.kill_at_once();
        }
    }

    /// Kills a server.
    pub fn kill_server(&mut self, server: u8) {
        if let Some(keeper) = self.keepers.remove(&server) {
            keeper.kill_at_once();
        }
    }

    /// Sends a signal to all.
    ///
    /// # Errors
    /// [`LabError::Died`].
    pub fn signal(&self, signal: Signal) -> Result<(), LabError> {
        self.keepers.values().try_for_each(|keeper| keeper.signal(signal))
    }

    /// Cuts a node off from the log.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn cut(&mut self, network: LabContext<'_>, node: NodeId, how: LogCut) -> Result<(), LabError> {
        for server in network.plan.servers() {
            network.set_control_pair(ControlEnd::Node(node), ControlEnd::Log(server), false)?;
        }
        match how {
            LogCut::Silent => self.relays.get(&node).map_or(Ok(()), |relay| relay.signal(Signal::STOP)),
            LogCut::Refused => {
                self.relays.remove(&node).into_iter().for_each(Process::kill_at_once);
                Ok(())
            }
        }
    }

    /// Lets a node reach the log again.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn heal(&mut self, processes: LabContext<'_>, node: NodeId) -> Result<(), LabError> {
        for server in processes.plan.servers() {
            processes.set_control_pair(ControlEnd::Node(node), ControlEnd::Log(server), true)?;
        }
        if processes.plan.nats.is_some() {
            return Ok(());
        }
        self.start_relay(processes, node)?;
        self.relays.get(&node).map_or(Ok(()), |relay| relay.signal(Signal::CONT))
    }

    /// Asserts that none has ended on its own.
    ///
    /// # Errors
    /// [`LabError::Died`].
    pub fn check(&mut self) -> Result<(), LabError> {
        self.keepers.values_mut().chain(self.relays.values_mut()).try_for_each(Process::check_running)
    }
}

impl Plan {
    /// Where nodes find the log, if NATS servers keep it.
    pub fn servers_url(&self) -> Option<String> {
        let url = |server| format!("nats://{}:{}", Self::log_address(server), PORTS.0);
        let urls: Vec<String> = self.servers().map(url).collect();
        (!urls.is_empty()).then(|| urls.join(","))
    }
}

impl LabContext<'_> {
    /// Writes what the servers are told.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn configure_servers(&self) -> Result<(), LabError> {
        let route = |server| format!("nats://{}:{}", Plan::log_address(server), PORTS.1);
        let routes: Vec<String> = self.plan.servers().map(route).collect();
        for server in self.plan.servers() {
            let address = Plan::log_address(server);
            let store = self.directory.join(format!("nats{server}"));
            let text = format!(
                "server_name: s{server}\nlisten: \"{address}:{}\"\nmax_payload: 2MB\n\
                 jetstream {{ store_dir: \"{}\", sync_interval: always }}\n\
                 cluster {{ name: lab, listen: \"{address}:{}\", routes: [ {} ] }}\n",
                PORTS.0,
                store.display(),
                PORTS.1,
                routes.join(", ")
            );
            state::write(&self.directory.join(format!("nats{server}.conf")), text.as_bytes())?;
        }
        Ok(())
    }

    /// Removes what the log holds.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn forget(&self) -> Result<(), LabError> {
        let servers = self.plan.servers().map(|server| self.directory.join(format!("nats{server}")));
        for path in servers.chain([self.log_directory()]).filter(|path| path.exists()) {
            fs::remove_dir_all(&path).map_err(|error| LabError::File { path, error })?;
        }
        Ok(())
    }

    fn server(&self, server: u8) -> Result<Process, LabError> {
        let name = format!("nats{server}");
        let program = self.plan.nats.iter().map(|path| path.to_string_lossy());
        let config = self.directory.join(format!("{name}.conf"));
        let command = program.fold(Cmd::new(""), Cmd::arg);
        let command = command.arg("-c").arg(config.to_string_lossy()).inside(&self.plan.log_server(server));
        self.start(&name, &command)?.await_word(LISTENS, self.interrupt)
    }
}
