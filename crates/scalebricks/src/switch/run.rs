//! `scalebricks switch run`: a switch as a daemon.
//!
//! ```text
//! configuration ─▶ names ─▶ ports ─▶ workers ─▶ ready
//!                    ▲                            │
//!                    └── SIGHUP, by difference    └── SIGTERM, SIGINT: stop
//! ```

use super::SwitchError;
use super::admin;
use super::links::{self, Links};
use super::load::Configuration;
use super::log::LogHandle;
use super::running::Running;
use super::worker::Worker;
use crate::admin::model::NodeState;
use crate::node::worker::Control;
use scalebricks_console::status;
use scalebricks_dataplane::flat::{FlatSwitch, SwitchPort};
use scalebricks_dpdk::{Eal, Mbuf, Pool};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Runs a switch until it is asked to stop.
///
/// # Errors
/// [`SwitchError`]: what it was told, ports that cannot be opened, names that cannot be.
pub fn run(config: &Path) -> Result<u8, SwitchError> {
    let started = Instant::now();
    // Before anything long: a signal that comes meanwhile is not lost.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(SwitchError::Signals)?;
    let configuration = Configuration::read(config)?;
    let devices = devices(&configuration)?;
    let table = configuration.table()?;
    let switch = Arc::new(Running::new(configuration, table, started));
    let file = &switch.configuration.file;
    if let Some(control) = &file.control {
        let mut control = control.clone();
        control.engine = control.engine.with_files(|file| switch.configuration.beside(file));
        let log = LogHandle::start(&control, file, switch.names.clone())?;
        let _once = switch.log.set(log);
    } else {
        switch.reload()?;
    }
    let ports = links::open(file, &devices);
    let Links { eal, workers: ports, pool, devices } =
        ports.map_err(|error| SwitchError::Ports(error.to_string()))?;
    let admin = admin::serve(&switch)?;
    let control = Arc::new(Control::default());
    let threads = start_workers(&switch, eal, ports, pool, &control)?;
    switch.set_state(NodeState::Ready);
    tracing::info!(
        names = switch.names.lock().len(),
        kind = file.names.kind.word(),
        admin = %admin.socket().display(),
        "ready"
    );
    if caught_up(&mut signals, &switch) {
        tell(&[sd_notify::NotifyState::Ready]);
    }
    wait(&mut signals, &switch);
    switch.set_state(NodeState::Draining);
    tell(&[sd_notify::NotifyState::Stopping]);
    control.stop();
    let failed = threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
    drop((admin, devices));
    if failed > 0 {
        return Err(SwitchError::Worker(failed));
    }
    tracing::info!(uptime_s = started.elapsed().as_secs(), "stopped");
    Ok(status::SUCCESS)
}

/// The device of each port.
fn devices(configuration: &Configuration) -> Result<Vec<String>, SwitchError> {
    let file = &configuration.file;
    let ports = file.ports.iter().zip(file.port_names.all());
    ports
        .map(|(port, name)| {
            let missing = || {
                SwitchError::Usage(format!("port '{name}' has no device, which a replay only can do without"))
            };
            port.device.clone().ok_or_else(missing)
        })
        .collect()
}

/// Tells the service manager, if one is there to be told.
fn tell(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, state) {
        tracing::debug!(%error, "no service manager was told");
    }
}

/// Waits until the table has all names that the log has: whoever started the switch counts on it from then on. False: it was asked
/// to stop meanwhile, which whoever comes next hears.
fn caught_up(signals: &mut Signals, switch: &Running) -> bool {
    while !switch.has_all_names() {
        if signals.pending().any(|signal| signal != SIGHUP) {
            // The wait for signals sees the next one only, so it is sent once more.
            let _to_itself = signal_hook::low_level::raise(SIGTERM);
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Until a signal asks to stop; others have names read again.
fn wait(signals: &mut Signals, switch: &Running) {
    for signal in signals.forever() {
        if signal != SIGHUP {
            return;
        }
        match switch.reload() {
            Ok(None) => tracing::info!("names come from the log: nothing is read again"),
            Ok(Some(done)) => tracing::info!(
                added = done.added,
                altered = done.altered,
                removed = done.removed,
                kept = done.kept,
                "names reloaded"
            ),
            Err(error) => tracing::error!(%error, "the names stay as they were"),
        }
    }
}

fn start_workers(
    switch: &Running,
    eal: Eal,
    ports: Vec<Vec<SwitchPort<Mbuf>>>,
    pool: Pool,
    control: &Arc<Control>,
) -> Result<Vec<JoinHandle<()>>, SwitchError> {
    let file = &switch.configuration.file;
    // One guard for all: the rate is the port's, however its frames are spread over queues.
    let policy = switch.configuration.policy();
    let fib = Arc::clone(switch.names.lock().fib());
    let start = Instant::now();
    let mut threads = Vec::new();
    for (at, ports) in ports.into_iter().enumerate() {
        let mut worker = Worker {
            switch: FlatSwitch::new(policy.clone(), fib.reader(file.names.unknown), ports, Box::new(pool)),
            told: switch.told(at),
            idle: file.workers.idle,
            core: file.workers.cores.get(at).copied(),
            start,
        };
        let control = Arc::clone(control);
        let run = move || {
            // Known to DPDK, a thread has packets of the pool at hand.
            let registered = eal.register_thread();
            if let Err(error) = &registered {
                tracing::warn!(%error, "a worker has no packets of its own at hand");
            }
            worker.run(&control);
        };
        let thread = std::thread::Builder::new().name(format!("worker-{at}")).spawn(run);
        threads.push(thread.map_err(SwitchError::Thread)?);
    }
    Ok(threads)
}
