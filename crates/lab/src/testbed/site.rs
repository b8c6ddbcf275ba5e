//! The place of a lab on this machine: the names of its namespaces, its directory, its processes. It is cleared however its owner
//! ends: on return and on panic by its guard, after a kill by a process that waits for the end of its owner.

use super::LabError;
use super::args::NameArgs;
use super::context::poll;
use super::exec::Cmd;
use super::nodes::{Process, own_program};
use super::state::{self, Lock};
use scalebricks_console::{Console, Interrupt, status};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Tells the reaper that there is nothing to remove.
const DONE: &[u8] = b"done";

/// Time until a process that was killed must have released its lock.
const ENDED: Duration = Duration::from_secs(1);

/// The file that describes a lab that is up.
pub const PLAN: &str = "plan.json";

/// Offloads that are disabled at every end of a cable, in the words of `ethtool -K`: with them the kernel does not compute
/// checksums, and passes packets that are larger than any frame.
const OFFLOADS: [&str; 8] = ["rx", "tx", "sg", "tso", "gso", "gro", "rxvlan", "txvlan"];

/// What a namespace is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A host with the kernel's stack.
    Host,
    /// A router with the kernel's stack.
    KernelRouter,
    /// Interfaces that programs of this project or bridges use; the kernel's stack is off.
    Bare,
}

/// A lab's names and places. Modules of labs add their operations to it.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    /// The name of the lab.
    pub name: &'a str,
    /// The directory of its files.
    pub directory: &'a Path,
    /// Whether the user wants to stop.
    pub interrupt: &'a Interrupt,
}

impl Site<'_> {
    /// The path of a file of the lab.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.join(name)
    }

    /// Starts a program whose log has this name.
    ///
    /// # Errors
    /// As [`Cmd::start`].
    pub fn start(&self, name: &str, command: &Cmd) -> Result<Process, LabError> {
        let log = self.path(format!("{name}.log"));
        Ok(Process::new(command.line(), command.start(&log)?, log))
    }

    /// Starts this program as a helper process in a namespace, and waits until it prints `ready`.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn helper(&self, name: &str, line: &str, namespace: &str) -> Result<Process, LabError> {
        let process = self.start(name, &own_program()?.words(line).inside(namespace))?;
        process.await_word("ready", self.interrupt)
    }

    /// Creates a namespace.
    ///
    /// # Errors
    /// [`LabError::Rights`] if namespaces cannot be created, [`LabError::Exists`]; else the error of a command.
    pub fn namespace(&self, namespace: &str, role: Role) -> Result<(), LabError> {
        Cmd::new("ip netns add").arg(namespace).run(self.interrupt).map_err(|error| match error {
            LabError::Failed { output, .. } if output.contains("File exists") => {
                LabError::Exists(self.name.to_owned())
            }
            LabError::Failed { output, .. } => LabError::Rights(output),
            other => other,
        })?;
        let mut settings = format!("net.ipv4.ip_forward={}", u8::from(role == Role::KernelRouter));
        for scope in ["all", "default"] {
            // Writing to a String cannot fail.
            let _ = write!(settings, " net.ipv4.conf.{scope}.rp_filter=0");
            let ipv6: &[&str] =
                if role == Role::Bare { &["disable_ipv6=1"] } else { &["accept_dad=0", "accept_ra=0"] };
            for setting in ipv6 {
                let _ = write!(settings, " net.ipv6.conf.{scope}.{setting}");
            }
        }
        match role {
            Role::Bare => {}
            Role::Host => {
                settings += " net.ipv4.fib_multipath_hash_policy=1 net.ipv6.fib_multipath_hash_policy=1";
            }
            Role::KernelRouter => {
                settings +=
                    " net.ipv6.conf.all.forwarding=1 net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0";
            }
        }
        Cmd::new("sysctl -qw").words(&settings).inside(namespace).run(self.interrupt)?;
        self.ip(namespace, "link set lo up")
    }

    /// Lays a cable between interfaces in two namespaces: without offloads, both ends up.
    ///
    /// # Errors
    /// The error of a command.
    pub fn cable(&self, a: (&str, &str), b: (&str, &str), mtu: u16) -> Result<(), LabError> {
        let ends = format!("{} mtu {mtu} netns {} type veth peer name {} mtu {mtu}", a.1, a.0, b.1);
        Cmd::new(&format!("ip link add name {ends} netns {}", b.0)).run(self.interrupt)?;
        for (namespace, interface) in [a, b] {
            self.disable_offloads(namespace, interface)?;
            self.ip(namespace, &format!("link set dev {interface} up"))?;
        }
        Ok(())
    }

    /// Disables the offloads of an interface, as far as it has them.
    ///
    /// # Errors
    /// A program that cannot be started.
    pub fn disable_offloads(&self, namespace: &str, interface: &str) -> Result<(), LabError> {
        let off = OFFLOADS.map(|name| format!("{name} off")).join(" ");
        let command = Cmd::new(&format!("ethtool -K {interface} {off}")).inside(namespace);
        // It fails for offloads that the interface does not have.
        command.finish(self.interrupt).map(drop)
    }

    /// Runs `ip` for a namespace.
    ///
    /// # Errors
    /// As [`Cmd::run`].
    pub fn ip(&self, namespace: &str, line: &str) -> Result<(), LabError> {
        Cmd::new(&format!("ip -n {namespace} {line}")).run(self.interrupt).map(drop)
    }
}

/// The exclusive right to a lab's name. What has that name is removed when this value is dropped, unless it is
/// [left](Self::leave).
#[derive(Debug)]
pub struct Ground<'a> {
    /// The lab's name.
    pub name: String,
    /// The directory of its files.
    pub directory: PathBuf,
    /// Output to the user.
    pub console: &'a Console,
    /// Whether the user wants to stop.
    pub interrupt: &'a Interrupt,
    reaper: Option<Child>,
    is_left: bool,
    _lock: Lock,
}

impl<'a> Ground<'a> {
    /// Takes the name of a lab, and removes what an earlier run left.
    ///
    /// # Errors
    /// [`LabError::Busy`], [`LabError::Exists`] if a lab of this name is up; else the error of a command.
    pub fn claim(name: &str, console: &'a Console, interrupt: &'a Interrupt) -> Result<Self, LabError> {
        let lock = Lock::take(name)?;
        let directory = state::directory(name);
        if directory.join(PLAN).exists() && state::is_up(name) {
            return Err(LabError::Exists(name.to_owned()));
        }
        let left = state::remove(name)?;
        if left > 0 {
            console.note(&format!("removed {left} namespaces that an earlier run left"));
        }
        fs::create_dir_all(&directory).map_err(LabError::file(&directory))?;
        let reaper = Some(reaper(name)?);
        Ok(Self { name: name.to_owned(), directory, console, interrupt, reaper, is_left: false, _lock: lock })
    }

    /// The ground of a lab that is already up, and stays up.
    ///
    /// # Errors
    /// [`LabError::Busy`].
    pub fn join(name: &str, console: &'a Console, interrupt: &'a Interrupt) -> Result<Self, LabError> {
        let lock = Lock::take(name)?;
        let directory = state::directory(name);
        Ok(Self {
            name: name.to_owned(),
            directory,
            console,
            interrupt,
            reaper: None,
            is_left: true,
            _lock: lock,
        })
    }

    /// What operations on the lab need.
    pub fn site(&self) -> Site<'_> {
        Site { name: &self.name, directory: &self.directory, interrupt: self.interrupt }
    }

    /// Removes nothing when this value is dropped.
    pub const fn leave(&mut self) {
        self.is_left = true;
    }

    /// Copies logs, configurations and captures to a directory.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn keep(&self, out: &Path) -> Result<(), LabError> {
        fs::create_dir_all(out).map_err(LabError::file(out))?;
        for entry in fs::read_dir(&self.directory).map_err(LabError::file(out))?.flatten() {
            let path = entry.path();
            if let Some(name) = path.file_name().filter(|_| path.is_file()) {
                fs::copy(&path, out.join(name)).map_err(LabError::file(out))?;
            }
        }
        self.console.note(&format!("logs and captures are in {}", out.display()));
        Ok(())
    }
}

impl Drop for Ground<'_> {
    fn drop(&mut self) {
        if !self.is_left {
            self.console.note("removing the lab");
            if let Err(error) = state::remove(&self.name) {
                self.console.error(&format!("cannot remove the whole lab: {error}\ntry `make lab-down`"));
            }
        }
        if let Some(mut reaper) = self.reaper.take() {
            // An error means that the reaper has ended.
            drop(reaper.stdin.take().map(|mut stdin| stdin.write_all(DONE)));
            drop(reaper.wait());
        }
    }
}

/// Starts the process that removes the lab if this one is killed.
fn reaper(name: &str) -> Result<Child, LabError> {
    let started = || {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["lab", "reaper", "--name", name]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    started().map_err(|error: std::io::Error| LabError::NotStarted {
        command: "scalebricks lab reaper".to_owned(),
        why: error.to_string(),
    })
}

/// Waits for the end of its parent, and removes the lab unless the parent has reported that there is nothing to remove.
///
/// # Errors
/// As [`state::remove`].
pub fn reap(args: &NameArgs) -> Result<u8, LabError> {
    let mut message = Vec::new();
    drop(std::io::stdin().read_to_end(&mut message));
    if message != DONE {
        // The system may close this pipe before it releases the parent's lock.
        let lock =
            poll(ENDED, Duration::from_millis(10), &Interrupt::default(), || match Lock::take(&args.name) {
                Err(LabError::Busy(_)) => Ok(None),
                lock => lock.map(Some),
            })?;
        // Without the lock, a new lab of this name has already removed the old one.
        if let Some(_lock) = lock {
            state::remove(&args.name)?;
        }
    }
    Ok(status::SUCCESS)
}
