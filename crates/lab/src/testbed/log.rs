//! The NATS servers that store the log: one or three, each in a namespace of its own.

use super::LabError;
use super::context::LabContext;
use super::exec::Cmd;
use super::nodes::Process;
use super::plan::Plan;
use super::site::Site;
use super::state;
use rustix::process::Signal;
use scalebricks_console::Interrupt;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

/// Ports of the servers, for nodes and for each other.
const PORTS: (u16, u16) = (4222, 6222);

/// What a server prints when it listens.
const LISTENS: &str = "Server is ready";

/// The running servers, by number.
#[derive(Debug, Default)]
pub struct Log(BTreeMap<u8, Process>);

impl Log {
    /// Whether no server runs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Starts all servers that do not run.
    ///
    /// # Errors
    /// [`LabError`] if one is not ready in time.
    pub fn start(&mut self, processes: LabContext<'_>) -> Result<(), LabError> {
        processes.plan.servers().try_for_each(|server| self.start_server(processes, server))
    }

    /// Starts a server, unless it runs.
    ///
    /// # Errors
    /// The same.
    pub fn start_server(&mut self, processes: LabContext<'_>, server: u8) -> Result<(), LabError> {
        if let Entry::Vacant(place) = self.0.entry(server) {
            place.insert(processes.server(server)?);
        }
        Ok(())
    }

    /// Kills all servers, as a crash would.
    pub fn kill(&mut self) {
        while let Some((_, server)) = self.0.pop_first() {
            server.kill_at_once();
        }
    }

    /// Kills a server.
    pub fn kill_server(&mut self, server: u8) {
        if let Some(server) = self.0.remove(&server) {
            server.kill_at_once();
        }
    }

    /// Sends a signal to all servers.
    ///
    /// # Errors
    /// [`LabError::Died`].
    pub fn signal(&self, signal: Signal) -> Result<(), LabError> {
        self.0.values().try_for_each(|server| server.signal(signal))
    }

    /// Asserts that no server has ended on its own.
    ///
    /// # Errors
    /// [`LabError::Died`].
    pub fn check(&mut self) -> Result<(), LabError> {
        self.0.values_mut().try_for_each(Process::check_running)
    }
}

/// Checks that the program of the servers can be run, if the lab needs it.
///
/// # Errors
/// [`LabError::Usage`] tells how to get one.
pub fn check_program(plan: &Plan, interrupt: &Interrupt) -> Result<(), LabError> {
    if plan.servers().next().is_none() {
        return Ok(());
    }
    let program = plan.nats.to_string_lossy().into_owned();
    match Cmd::new("").arg(program).arg("--version").run(interrupt) {
        Ok(_) => Ok(()),
        Err(LabError::Interrupted(interrupted)) => Err(interrupted.into()),
        Err(error) => {
            let what = format!(
                "cannot run the NATS server that stores the log: {error}\ngive --nats-server PROGRAM; `scripts/nats.sh path` \
                 finds or builds one, and scripts/lab.sh passes it"
            );
            Err(LabError::Usage(what))
        }
    }
}

impl Plan {
    /// The servers' addresses, as nodes are configured with.
    pub fn servers_url(&self) -> String {
        let urls: Vec<String> =
            self.servers().map(|server| format!("nats://{}:{}", self.log_address(server), PORTS.0)).collect();
        urls.join(",")
    }
}

/// The configuration of a server. `cluster` is what it needs to find others.
pub fn server_text(name: &str, address: Ipv4Addr, store: &Path, cluster: &str) -> String {
    format!(
        "server_name: {name}\nlisten: \"{address}:{}\"\nmax_payload: 2MB\n\
         jetstream {{ store_dir: \"{}\", sync_interval: always }}\n{cluster}",
        PORTS.0,
        store.display(),
    )
}

/// Starts a server in a namespace, with the configuration `NAME.conf`, and waits until it listens.
///
/// # Errors
/// As [`Process::await_word`].
pub fn start_server(
    site: Site<'_>,
    program: &Path,
    name: &str,
    namespace: &str,
) -> Result<Process, LabError> {
    let config = site.path(format!("{name}.conf"));
    let command = Cmd::new("").arg(program.to_string_lossy()).arg("-c").arg(config.to_string_lossy());
    site.start(name, &command.inside(namespace))?.await_word(LISTENS, site.interrupt)
}

impl LabContext<'_> {
    /// Writes the servers' configurations.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn configure_servers(&self) -> Result<(), LabError> {
        let plan = self.plan;
        let routes: Vec<String> =
            plan.servers().map(|server| format!("nats://{}:{}", plan.log_address(server), PORTS.1)).collect();
        for server in plan.servers() {
            let address = plan.log_address(server);
            let store = self.path(format!("nats{server}"));
            let cluster = if routes.len() > 1 {
                let (port, routes) = (PORTS.1, routes.join(", "));
                format!("cluster {{ name: lab, listen: \"{address}:{port}\", routes: [ {routes} ] }}\n")
            } else {
                String::new()
            };
            let text = server_text(&format!("s{server}"), address, &store, &cluster);
            state::write(&self.path(format!("nats{server}.conf")), text.as_bytes())?;
        }
        Ok(())
    }

    /// Removes what the servers stored.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn forget(&self) -> Result<(), LabError> {
        let stores = self.plan.servers().map(|server| self.path(format!("nats{server}")));
        for path in stores.filter(|path| path.exists()) {
            fs::remove_dir_all(&path).map_err(LabError::file(&path))?;
        }
        Ok(())
    }

    fn server(&self, server: u8) -> Result<Process, LabError> {
        let name = format!("nats{server}");
        start_server(self.site(), &self.plan.nats, &name, &self.plan.log_server(server))
    }
}
