//! `scalebricks lab`: a cluster on one machine over real interfaces. Each machine is a network namespace, the network is made of
//! veth pairs and bridges, and ordinary programs generate the traffic.
//!
//! | module | content |
//! |---|---|
//! | [`plan`] | the names, addresses, flows and configurations of the lab |
//! | [`context`] | what every operation needs |
//! | [`network`] | builds and checks namespaces, veth pairs, bridges and routes |
//! | [`nodes`] | the processes in the namespaces |
//! | [`base_station`], [`http`] | two of these processes: base station with phones, file server |
//! | [`lab`], [`site`], [`state`] | a running lab, its place, and its removal, also after a crash |
//! | [`traffic`], [`ends`] | `ping`, `curl`, `iperf3` |
//! | [`rounds`], [`counters`], [`capture`], [`crossings`] | the checks |
//! | [`faults`], [`damaged_frames`] | faults, and the traffic that must continue |
//! | [`outages`] | failures of nodes, links, workers and the log under load, and how long users notice them |
//! | [`probes`], [`streams`], [`transfers`] | the load during outages: pings, paced UDP, TCP |
//! | [`log`] | the NATS servers that store the log |
//! | [`suspend`] | suspends threads of a node |
//! | [`router_lab`], [`replayed_frames`] | routers between the kernels' own network stacks |
//! | [`report`] | the results |
//! | [`exec`], [`tools`] | runs the system's programs, and installs them |

pub mod args;
pub mod base_station;
pub mod capture;
pub mod context;
pub mod counters;
pub mod crossings;
pub mod damaged_frames;
pub mod ends;
pub mod exec;
pub mod faults;
pub mod http;
pub mod lab;
pub mod log;
pub mod network;
pub mod nodes;
pub mod outages;
pub mod plan;
pub mod probes;
pub mod replayed_frames;
pub mod report;
pub mod rounds;
pub mod router_lab;
pub mod site;
pub mod state;
pub mod streams;
pub mod suspend;
pub mod tools;
pub mod traffic;
pub mod transfers;

use args::LabCommand;
use scalebricks_console::{Console, Interrupt, Interrupted, OutputError, status};
use scalebricks_report::pages::PagesError;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// Why a lab command failed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Network namespaces cannot be created; the message of `ip`.
    #[error(
        "cannot create network namespaces: {0}\nrun as root, in a container with CAP_SYS_ADMIN and CAP_NET_ADMIN"
    )]
    Rights(String),
    /// Programs of these packages are missing.
    #[error("programs are missing; on Debian, as root: apt-get install {0} (or run the lab with --install)")]
    Missing(String),
    /// A lab of this name is up.
    #[error(
        "a lab called {0} is up; test it with `scalebricks lab test`, remove it with `make lab-down`, or choose another --name"
    )]
    Exists(String),
    /// No lab of this name is up.
    #[error("no lab called {0} is up; start it with `scalebricks lab up`")]
    Absent(String),
    /// Another process uses the lab of this name.
    #[error("another process uses the lab called {0}; wait for it, or choose another --name")]
    Busy(String),
    /// The arguments are wrong.
    #[error("{0}")]
    Usage(String),
    /// A program could not be started.
    #[error("{command}: {why}")]
    NotStarted {
        /// The command line.
        command: String,
        /// The system's error.
        why: String,
    },
    /// A program failed.
    #[error("{command}: {status}\n{output}")]
    Failed {
        /// The command line.
        command: String,
        /// Its exit status.
        status: ExitStatus,
        /// Its output.
        output: String,
    },
    /// A program exceeded its time limit.
    #[error("{command}: no end after {} s", limit.as_secs())]
    TooSlow {
        /// The command line.
        command: String,
        /// The limit.
        limit: Duration,
    },
    /// A process of the lab ended early, or with an error.
    #[error("{command}: {how}\n{tail}")]
    Died {
        /// The command line.
        command: String,
        /// How it ended.
        how: String,
        /// The end of its log.
        tail: String,
    },
    /// The lab is not in the required state.
    #[error("{0}")]
    Setup(String),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The user interrupted the lab.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// Results could not be printed or written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Results could not be kept for the pages.
    #[error(transparent)]
    Pages(#[from] PagesError),
}

impl LabError {
    /// Names the file of a system's error.
    fn file(path: impl AsRef<Path>) -> impl Fn(io::Error) -> Self {
        move |error| Self::File { path: path.as_ref().to_owned(), error }
    }

    /// The exit status for this error.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted(_) => status::INTERRUPTED,
            Self::Missing(_)
            | Self::Exists(_)
            | Self::Absent(_)
            | Self::Busy(_)
            | Self::Usage(_)
            | Self::Pages(PagesError::Refused(_)) => status::USAGE,
            _ => status::FAILURE,
        }
    }
}

/// Runs a command; its exit status.
///
/// # Errors
/// [`LabError`] if it did not complete.
pub fn run(command: &LabCommand, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    match command {
        LabCommand::Run(args) => rounds::run(args, console, interrupt),
        LabCommand::Outages(args) => outages::run(args, console, interrupt),
        LabCommand::Up(args) => lab::up(args, console, interrupt),
        LabCommand::Test(args) => rounds::test(args, console, interrupt),
        LabCommand::Down(args) => lab::down(args, console),
        LabCommand::BaseStation(args) => base_station::run(args, console, interrupt),
        LabCommand::DamagedFrames(args) => damaged_frames::run(args, console, interrupt),
        LabCommand::ReplayedFrames(args) => replayed_frames::run(args, console, interrupt),
        LabCommand::Router(args) => router_lab::run(args, console, interrupt),
        LabCommand::FileServer => http::run(console, interrupt),
        LabCommand::Streams(args) => streams::run(args, console, interrupt),
        LabCommand::MeshStreams(args) => streams::mesh::run(args, console, interrupt),
        LabCommand::Suspend(args) => suspend::run(args, console, interrupt),
        LabCommand::Reaper(args) => site::reap(args),
    }
}
