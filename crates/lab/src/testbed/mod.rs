//! `scalebricks lab`: a cluster on one machine over real interfaces. Each machine is a network namespace, the network is made of
//! veth pairs and bridges, and ordinary programs generate the traffic.
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | the names, addresses, flows and configurations of the lab |
//! | [`network`] | builds and checks namespaces, veth pairs, bridges and routes |
//! | [`nodes`] | the processes in the namespaces |
//! | [`base_station`], [`http`] | two of these processes: base station with phones, file server |
//! | [`session`], [`state`] | a running lab, and its removal, also after a crash |
//! | [`traffic`] | `ping`, `curl`, `iperf3` |
//! | [`rounds`], [`counters`], [`capture`], [`crossings`] | the checks |
//! | [`faults`], [`frames`] | faults, and the traffic that must continue |
//! | [`outages`] | failures of nodes, links, workers and the log under load, and how long users notice them |
//! | [`probes`], [`streams`], [`transfers`] | the load during outages: pings, paced UDP, TCP |
//! | [`log`] | the NATS servers that store the log |
//! | [`halt`] | stops a worker |
//! | [`report`] | the results |
//! | [`exec`], [`tools`] | runs the system's programs, and installs them |

pub mod args;
pub mod base_station;
pub mod capture;
pub mod counters;
pub mod crossings;
pub mod exec;
pub mod faults;
pub mod frames;
pub mod halt;
pub mod http;
pub mod log;
pub mod network;
pub mod nodes;
pub mod outages;
pub mod plan;
pub mod probes;
pub mod report;
pub mod rounds;
pub mod session;
pub mod state;
pub mod streams;
pub mod tools;
pub mod traffic;
pub mod transfers;

use args::LabCommand;
use scalebricks_console::{Console, Interrupt, Interrupted, OutputError, status};
use scalebricks_report::pages::PagesError;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a lab did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Namespaces cannot be made.
    #[error(
        "cannot make network namespaces: {said}\nrun as root, in a container with CAP_SYS_ADMIN and CAP_NET_ADMIN"
    )]
    Rights {
        /// What `ip` said.
        said: String,
    },
    /// Programs are missing.
    #[error(
        "programs are missing; on Debian, as root: apt-get install {packages} (or run the lab with --install)"
    )]
    Missing {
        /// Their packages.
        packages: String,
    },
    /// A lab of this name stands.
    #[error(
        "a lab called {name} is up; test it with `scalebricks lab test`, remove it with `make lab-down`, or choose another --name"
    )]
    Exists {
        /// The name.
        name: String,
    },
    /// There is no lab to test.
    #[error("no lab called {name} is up; start it with `scalebricks lab up`")]
    Absent {
        /// The name.
        name: String,
    },
    /// Somebody else works on the lab of this name.
    #[error("another process works on the lab called {name}; wait for it, or choose another --name")]
    Busy {
        /// The name.
        name: String,
    },
    /// It was asked for what cannot be.
    #[error("{what}")]
    Usage {
        /// What is wrong.
        what: String,
    },
    /// A program that is not there.
    #[error("{command}: {why}")]
    NotStarted {
        /// How it was called.
        command: String,
        /// What the system says.
        why: String,
    },
    /// A program that failed.
    #[error("{command}: {status}\n{said}")]
    Failed {
        /// How it was called.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        said: String,
    },
    /// A program that took too long.
    #[error("{command}: no end after {} s", limit.as_secs())]
    TooSlow {
        /// How it was called.
        command: String,
        /// How long it was given.
        limit: Duration,
    },
    /// A process of the lab that ended on its own, or badly.
    #[error("{what}: {how}\n{tail}")]
    Died {
        /// How it was called.
        what: String,
        /// How it ended.
        how: String,
        /// The end of its log.
        tail: String,
    },
    /// The lab is not as it should be.
    #[error("{what}")]
    Setup {
        /// What is wrong.
        what: String,
    },
    /// A file.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The user wants to stop.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// Standard output, or a file of results.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The pages that show what was found.
    #[error(transparent)]
    Pages(#[from] PagesError),
}

impl LabError {
    /// The exit status that says so.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted(_) => status::INTERRUPTED,
            Self::Missing { .. }
            | Self::Exists { .. }
            | Self::Absent { .. }
            | Self::Busy { .. }
            | Self::Usage { .. }
            | Self::Pages(PagesError::Refused(_)) => status::USAGE,
            _ => status::FAILURE,
        }
    }
}

/// Does what was asked for; the exit status if it came to its end.
///
/// # Errors
/// [`LabError`] if it did not.
pub fn run(command: &LabCommand, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    match command {
        LabCommand::Run(args) => rounds::run(args, console, interrupt),
        LabCommand::Outages(args) => outages::run(args, console, interrupt),
        LabCommand::Up(args) => session::up(args, console, interrupt),
        LabCommand::Test(args) => rounds::test(args, console, interrupt),
        LabCommand::Down(args) => session::down(args, console),
        LabCommand::BaseStation(args) => base_station::run(args, console, interrupt),
        LabCommand::Frames(args) => frames::run(args, console, interrupt),
        LabCommand::FileServer => http::run(console, interrupt),
        LabCommand::Streams(args) => streams::run(args, console, interrupt),
        LabCommand::Halt(args) => halt::run(args, console, interrupt),
        LabCommand::Reaper(args) => session::reap(args),
    }
}
