//! `--app router`: nodes of the cluster router in this process, joined by links with queues in virtual time. Every packet
//! that leaves is checked.
//!
//! | module | content |
//! |---|---|
//! | [`capture`] | the packets of a capture in place of it |
//! | [`traffic`] | packets of a synthetic backbone mix to the networks of a routing table |
//! | [`mod@run`] | one way of spreading, one traffic matrix |
//! | [`report`] | the results as JSON and table |

pub mod capture;
pub mod report;
pub mod run;
pub mod traffic;

use self::report::Report;
use self::run::RouterRun;
use self::traffic::{Destinations, Spread};
use crate::demo::args::DemoArgs;
use scalebricks_apps::router::cluster::{RouterError, Steering};
use scalebricks_apps::router::network::NetworkError;
use scalebricks_apps::router::routes::{self, Announcement, Exits, RoutesError};
use scalebricks_console::interrupt::{Interrupt, Interrupted};
use scalebricks_console::output::{Console, OutputError};
use scalebricks_console::quantity::count;
use scalebricks_io::capture::CaptureError;
use scalebricks_tables::lpm::Params;
use scalebricks_types::{ClusterSize, IdError};
use std::fs::File;
use std::path::{Path, PathBuf};

/// External ports per node.
pub const PORTS: u8 = 1;

/// The rate of a port, bytes per second: 1 Gb/s.
pub const PORT_RATE: u64 = 125_000_000;

/// The load of each input, per cent of the port.
pub const LOAD_PERCENT: u64 = 75;

/// Next hops per node.
const NEXT_HOPS: u16 = 64;

/// Routes of a generated table, as many as the Internet had in 2014, and networks that announce them.
const ROUTES: usize = 512_000;
const ORIGINS: u32 = 47_000;

/// Where results go unless another file is named.
const JSON: &str = "out/router.json";

/// Why the demonstration did not complete.
#[derive(Debug, thiserror::Error)]
pub enum RouterDemoError {
    /// The user interrupted it.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The number of nodes is impossible.
    #[error(transparent)]
    Usage(#[from] IdError),
    /// The file of routes cannot be opened.
    #[error("cannot open {path}: {source}", path = .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// The routes cannot be used.
    #[error("{path}: {source}", path = .path.display())]
    Routes {
        /// The file.
        path: PathBuf,
        /// The error.
        source: RoutesError,
    },
    /// The capture cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// The error.
        source: CaptureError,
    },
    /// The capture has no IP packets.
    #[error("{path} has no IP packets", path = .0.display())]
    NoPackets(PathBuf),
    /// The cluster could not be created.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// The run failed.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// No network of the table leaves at some node.
    #[error("no route leads to node {0}: take a larger table or fewer --nodes")]
    NoRoute(usize),
    /// The results could not be printed or written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Reads the routes of a BGP table: text or MRT, plain or compressed with gzip.
fn read(path: &Path) -> Result<Vec<Announcement>, RouterDemoError> {
    let file = File::open(path).map_err(|source| RouterDemoError::Open { path: path.to_owned(), source })?;
    routes::read(file).map_err(|source| RouterDemoError::Routes { path: path.to_owned(), source })
}

/// Runs all ways of spreading with all traffic matrices.
///
/// # Errors
/// [`RouterDemoError`].
pub fn run(args: &DemoArgs, console: &Console, interrupt: &Interrupt) -> Result<Report, RouterDemoError> {
    let size = ClusterSize::new(usize::from(args.nodes))?;
    let (routes, source) = match &args.routes {
        Some(path) => (read(path)?, path.display().to_string()),
        None => (routes::generate(ROUTES, ORIGINS, args.seed), "generated".to_owned()),
    };
    let exits = Exits { size, ports: PORTS, next_hops: NEXT_HOPS };
    let full = |source| RouterDemoError::Routes { path: args.routes.clone().unwrap_or_default(), source };
    let table = exits.table(&routes, Params::FAST).map_err(full)?;
    let captured = args.pcap.as_deref().map(capture::packets).transpose()?;
    let packets = captured.as_ref().map_or(args.packets, |packets| packets.len() as u64);
    let input = match &args.pcap {
        Some(path) => format!("{} at the first port", path.display()),
        None => "a synthetic backbone mix".to_owned(),
    };
    console.note(&format!(
        "{} routes ({source}) on {} nodes in a full mesh, a port of 1 Gb/s each, links of 3R/N (valiant: 2R/N)\n\
         {} packets a run: {input}, at {LOAD_PERCENT} % of each port; time is virtual",
        count(table.len() as u64),
        size.get(),
        count(packets),
    ));
    let destinations = Destinations::new(&routes, &table, args.seed);
    let mut results = Vec::new();
    for spread in Spread::ALL {
        for steering in Steering::ALL {
            let (seed, capture) = (args.seed, captured.as_deref());
            let run = RouterRun { size, steering, spread, packets, seed, capture };
            let progress = console.progress(&run.name(), packets);
            results.push(run.execute(&destinations, &exits, &progress, interrupt)?);
            progress.finish();
        }
    }
    let report = Report::new(size.get(), table.len(), source, args.seed, results);
    args.result.write(&report, Some(Path::new(JSON)), console)?;
    args.result.print(&report, Report::table, console)?;
    for problem in report.problems() {
        console.error(&problem);
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn every_packet_of_a_small_run_leaves_as_it_should() {
        let size = ClusterSize::new(3).unwrap();
        let routes = routes::generate(2_000, 300, 1);
        let exits = Exits { size, ports: PORTS, next_hops: NEXT_HOPS };
        let table = exits.table(&routes, Params::SMALL).unwrap();
        let destinations = Destinations::new(&routes, &table, 1);
        let console = Console::new(true);
        let mut results = Vec::new();
        for spread in Spread::ALL {
            for steering in Steering::ALL {
                let run = RouterRun { size, steering, spread, packets: 6_000, seed: 1, capture: None };
                let progress = console.progress(&run.name(), run.packets);
                results.push(run.execute(&destinations, &exits, &progress, &Interrupt::default()).unwrap());
            }
        }
        let report = Report::new(3, table.len(), "generated".to_owned(), 1, results);
        assert!(report.is_clean() && report.problems().is_empty(), "{:?}", report.problems());
        for run in &report.runs {
            assert!(run.nodes_mean > 1.5 && run.nodes_max <= 3 && run.jain > 0.999, "{run:?}");
        }
        let [direct, flowlets] = [&report.runs[4], &report.runs[5]];
        assert!(flowlets.sequences < direct.sequences, "{direct:?} {flowlets:?}");
        let table = report.table();
        for want in ["each to the next", "flowlets", "reordered sequences", "least share"] {
            assert!(table.contains(want), "{want} is missing in\n{table}");
        }
    }

    #[test]
    fn a_packet_that_leaves_wrongly_is_a_problem() {
        let size = ClusterSize::new(3).unwrap();
        let routes = routes::generate(500, 300, 1);
        let exits = Exits { size, ports: PORTS, next_hops: NEXT_HOPS };
        let table = exits.table(&routes, Params::SMALL).unwrap();
        let destinations = Destinations::new(&routes, &table, 1);
        // The nodes know other next hops than the audit expects: none.
        let none = Exits { next_hops: 0, ..exits };
        let run = RouterRun {
            size,
            steering: Steering::Direct,
            spread: Spread::Any,
            packets: 500,
            seed: 1,
            capture: None,
        };
        let progress = Console::new(true).progress("", 500);
        let result = run.execute(&destinations, &none, &progress, &Interrupt::default()).unwrap();
        assert!(!result.is_clean() && result.dropped == 500, "{result:?}");
        let report = Report::new(3, 500, String::new(), 1, vec![result]);
        assert!(
            !report.is_clean() && report.problems()[0].contains("500 dropped"),
            "{:?}",
            report.problems()
        );
    }

    #[test]
    fn a_capture_is_routed_in_place_of_the_mix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap");
        let mut writer = scalebricks_io::CaptureWriter::create(&path).unwrap();
        for at in 0..400u16 {
            let builder =
                etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9);
            let mut frame = Vec::new();
            builder.udp(at % 7, 9).write(&mut frame, &[0; 300]).unwrap();
            writer.write_frame(std::time::Duration::from_micros(u64::from(at)), &frame).unwrap();
        }
        writer.write_frame(std::time::Duration::from_secs(1), &[0; 60]).unwrap();
        writer.finish().unwrap();
        let packets = capture::packets(&path).unwrap();
        assert_eq!((packets.len(), packets[7].flow, packets[7].number), (400, 0, 1));
        let size = ClusterSize::new(3).unwrap();
        let routes = routes::generate(500, 300, 1);
        let exits = Exits { size, ports: PORTS, next_hops: NEXT_HOPS };
        let table = exits.table(&routes, Params::SMALL).unwrap();
        let destinations = Destinations::new(&routes, &table, 1);
        let (steering, spread, capture) = (Steering::Flowlets, Spread::Next, Some(&packets[..]));
        let run = RouterRun { size, steering, spread, packets: 400, seed: 1, capture };
        let progress = Console::new(true).progress("", 400);
        let result = run.execute(&destinations, &exits, &progress, &Interrupt::default()).unwrap();
        assert!(result.is_clean() && result.flows == 7, "{result:?}");
        assert!(capture::packets(&folder.path().join("b.pcap")).is_err());
    }

    #[test]
    fn routes_are_read_plain_and_compressed_and_errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a.txt"), "10.0.0.0/8 7\n").unwrap();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"10.0.0.0/8 7\n").unwrap();
        std::fs::write(path("a.txt.gz"), encoder.finish().unwrap()).unwrap();
        assert_eq!(read(&path("a.txt")).unwrap(), read(&path("a.txt.gz")).unwrap());
        std::fs::write(path("b.txt"), "x\n").unwrap();
        for name in ["b.txt", "c.txt"] {
            assert!(read(&path(name)).unwrap_err().to_string().contains(name));
        }
    }
}
