//! Flow files: CSV with a header, one pinned flow per line.
//!
//! | column | content |
//! |---|---|
//! | `ue` | address of the UE, IPv4 or IPv6 |
//! | `remote`, `remote_port`, `ue_port`, `protocol` | the rest of the five-tuple, where five-tuples are the keys: address, ports, `tcp`, `udp` or a number |
//! | `node` | number of the handling node |
//! | `base_station` | tunnel address of the base station |
//! | `uplink_teid`, `downlink_teid` | TEID at the gateway and at the base station; decimal, or hexadecimal after `0x` |
//! | `qfi` | QoS flow, 0 to 63; may be empty or left out |
//!
//! The pins of a firewall or NAT have the columns `ue`, the IPv4 address of an inside host, and `node`.
//!
//! A file with a bad line is not used. The error names each bad line with its number and what is wrong.

pub mod columns;

use columns::{COLUMNS, FlowParser, FlowRecord, is_needed};
use csv::{ReaderBuilder, StringRecord};
use scalebricks_apps::gateway::FlowSpec;
use scalebricks_console::Progress;
use scalebricks_types::{ClusterSize, FlowKey, KeyProfile};
use serde::Deserialize;
use serde::de::value::{Error, MapDeserializer};
use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::net::Ipv4Addr;

/// Most bad lines that an error shows; it counts the others.
const SHOWN: usize = 20;

/// Lines between two updates of the progress bar.
const STEP: usize = 1 << 14;

/// A bad line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, the header being 1.
    pub line: u64,
    /// What is wrong.
    pub reason: String,
}

/// Why a flow file cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum FlowFileError {
    /// The header is wrong.
    Header(String),
    /// Lines are wrong.
    Lines {
        /// The first of them.
        shown: Vec<BadLine>,
        /// Their number.
        count: usize,
    },
}

impl fmt::Display for FlowFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(reason) => write!(f, "line 1: {reason}"),
            Self::Lines { shown, count } => {
                for BadLine { line, reason } in shown {
                    writeln!(f, "line {line}: {reason}")?;
                }
                write!(f, "{count} bad {}", if *count == 1 { "line" } else { "lines" })?;
                if *count > shown.len() { write!(f, ", the first {} shown", shown.len()) } else { Ok(()) }
            }
        }
    }
}

impl std::error::Error for FlowFileError {}

/// The records of a flow file, with their lines.
pub struct FlowReader<R> {
    csv: csv::Reader<R>,
    header: StringRecord,
    row: StringRecord,
    has_failed: bool,
}

impl<R: Read> FlowReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`FlowFileError::Header`]: an unknown column, a column that occurs twice, or a missing one.
    pub fn new(file: R, profile: KeyProfile) -> Result<Self, FlowFileError> {
        let mut csv = ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(file);
        let header = csv.headers().map_err(|error| FlowFileError::Header(error.to_string()))?.clone();
        let names: Vec<&str> = header.iter().collect();
        let wrong = if let Some(name) = names.iter().find(|name| !COLUMNS.contains(name)) {
            Some(format!("no column is called '{name}'; there are {}", COLUMNS.join(", ")))
        } else if let Some(at) = (1..names.len()).find(|&at| names[..at].contains(&names[at])) {
            Some(format!("two columns are called '{}'", names[at]))
        } else {
            let missing = COLUMNS.iter().find(|name| is_needed(name, profile) && !names.contains(name));
            missing.map(|name| format!("no column '{name}'"))
        };
        match wrong {
            Some(reason) => Err(FlowFileError::Header(reason)),
            None => Ok(Self { csv, header, row: StringRecord::new(), has_failed: false }),
        }
    }
}

impl<R: Read> Iterator for FlowReader<R> {
    type Item = (u64, Result<FlowRecord, String>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        match self.csv.read_record(&mut self.row) {
            Ok(false) => None,
            Ok(true) => {
                let line = self.row.position().map_or(0, csv::Position::line);
                let cells = MapDeserializer::<_, Error>::new(self.header.iter().zip(&self.row));
                Some((line, FlowRecord::deserialize(cells).map_err(|error| error.to_string())))
            }
            Err(error) => {
                self.has_failed = error.is_io_error();
                Some((error.position().map_or(0, csv::Position::line), Err(error.to_string())))
            }
        }
    }
}

/// The cluster that flows are read for.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// The key of downstream packets.
    pub profile: KeyProfile,
    /// The number of nodes.
    pub size: ClusterSize,
    /// The tunnel addresses of the base stations, in the cluster's order.
    pub base_stations: &'a [Ipv4Addr],
}

impl Reading<'_> {
    /// Returns the flows of a file, in its order. Cost: about a microsecond per line.
    ///
    /// # Errors
    /// [`FlowFileError`].
    pub fn read(&self, file: impl Read, progress: &Progress) -> Result<Vec<FlowSpec>, FlowFileError> {
        let mut flows = Vec::new();
        self.for_each(file, progress, |flow| flows.push(flow))?;
        Ok(flows)
    }

    /// Calls `each` with the flows of a file, in its order. After an error the flows passed so far must not be used.
    ///
    /// # Errors
    /// [`FlowFileError`].
    pub fn for_each(
        &self,
        file: impl Read,
        progress: &Progress,
        mut each: impl FnMut(FlowSpec),
    ) -> Result<(), FlowFileError> {
        let parser = FlowParser::new(self.profile, self.size, self.base_stations);
        let mut reader = FlowReader::new(file, self.profile)?;
        let (mut shown, mut count) = (Vec::new(), 0);
        let mut seen: HashMap<FlowKey, u64> = HashMap::new();
        let (mut lines, mut progressed) = (0, 0);
        while let Some((line, record)) = reader.next() {
            let flow = record.and_then(|record| parser.flow(&record)).and_then(|flow| {
                for (key, what) in [(flow.key, "key"), (FlowKey::teid(flow.uplink_teid), "uplink_teid")] {
                    if let Some(before) = seen.insert(key, line) {
                        return Err(format!("the same {what} as line {before}"));
                    }
                }
                Ok(flow)
            });
            match flow {
                Ok(flow) => each(flow),
                Err(reason) => {
                    count += 1;
                    if shown.len() < SHOWN {
                        shown.push(BadLine { line, reason });
                    }
                }
            }
            lines += 1;
            if lines % STEP == 0 {
                let read = reader.csv.position().byte();
                progress.add(read - progressed);
                progressed = read;
            }
        }
        if count > 0 { Err(FlowFileError::Lines { shown, count }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_console::Console;
    use scalebricks_elements::gateway::flow::BaseStationId;
    use scalebricks_types::{NodeId, Qfi, Teid};
    use std::net::{IpAddr, Ipv6Addr};

    const STATIONS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2)];

    fn read(profile: KeyProfile, text: &str) -> Result<Vec<FlowSpec>, FlowFileError> {
        let reading = Reading { profile, size: ClusterSize::new(4).unwrap(), base_stations: &STATIONS };
        reading.read(text.as_bytes(), &Console::new(true).progress("flows", text.len() as u64))
    }

    #[test]
    fn columns_come_in_any_order_and_qfi_may_be_left_out() {
        let text = "node,ue,base_station,uplink_teid,downlink_teid\n3,10.1.0.7,10.9.0.2,7,0x1F\n0,2001:db8::5,10.9.0.1,8,9\n";
        let flows = read(KeyProfile::Ue, text).unwrap();
        assert_eq!(flows.len(), 2);
        assert_eq!((flows[0].node, flows[0].base_station), (NodeId::new(3), BaseStationId(1)));
        assert_eq!(
            (flows[0].uplink_teid, flows[0].downlink_teid, flows[0].qfi),
            (Teid::new(7), Teid::new(31), None)
        );
        assert_eq!(flows[0].key, FlowKey::ue(IpAddr::from([10, 1, 0, 7])));
        let ue: Ipv6Addr = "2001:db8::5".parse().unwrap();
        assert_eq!(flows[1].key, FlowKey::ue(ue.into()));
    }

    #[test]
    fn a_five_tuple_is_that_of_the_downstream_packet() {
        let text = "protocol,remote,remote_port,ue,ue_port,node,base_station,uplink_teid,downlink_teid,qfi\n\
                    udp, 192.0.2.1, 53, 10.1.0.7, 4000, 1, 10.9.0.1, 1, 2, 9\n";
        let flows = read(KeyProfile::Flow5, text).unwrap();
        let [remote, ue] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(10, 1, 0, 7)];
        assert_eq!(flows[0].key, FlowKey::five_tuple_v4(remote, ue, 17, 53, 4000));
        assert_eq!(flows[0].qfi, Qfi::new(9).ok());
    }

    #[test]
    fn every_bad_line_is_named_with_its_number_and_reason() {
        let header = "ue,node,base_station,uplink_teid,downlink_teid,qfi\n";
        let good = "10.0.0.1,0,10.9.0.1,1,1,\n";
        for (line, reason) in [
            ("10.0.0.300,0,10.9.0.1,2,1,\n", "ue '10.0.0.300' is not an IPv4 or IPv6 address"),
            ("10.0.0.2,4,10.9.0.1,2,1,\n", "node 4 of a cluster of 4 (numbered from 0)"),
            ("10.0.0.2,0,10.9.9.9,2,1,\n", "base_station 10.9.9.9 is not in the configuration"),
            ("10.0.0.2,0,10.9.0.1,0,1,\n", "uplink_teid '0' is not 1 to 4294967295 or 0x1 to 0xffffffff"),
            ("10.0.0.2,0,10.9.0.1,2,1,64\n", "qfi '64' is not 0 to 63, or empty"),
            ("10.0.0.2,0,10.9.0.1\n", "uplink_teid is missing"),
            ("10.0.0.1,0,10.9.0.1,2,1,\n", "the same key as line 2"),
            ("10.0.0.2,0,10.9.0.1,1,1,\n", "the same uplink_teid as line 2"),
            ("\u{e9},0,10.9.0.1,1,1,\n", "ue '\u{e9}' is not an IPv4 or IPv6 address"),
        ] {
            let error = read(KeyProfile::Ue, &format!("{header}{good}{line}")).unwrap_err();
            let shown = vec![BadLine { line: 3, reason: reason.to_owned() }];
            assert_eq!(error, FlowFileError::Lines { shown, count: 1 }, "{line}");
            assert_eq!(error.to_string(), format!("line 3: {reason}\n1 bad line"));
        }
    }

    #[test]
    fn the_first_bad_lines_are_shown_and_all_are_counted() {
        let bad = "x,0,10.9.0.1,1,1\n".repeat(100);
        let error = read(KeyProfile::Ue, &format!("ue,node,base_station,uplink_teid,downlink_teid\n{bad}"))
            .unwrap_err();
        let FlowFileError::Lines { shown, count } = &error else { panic!("{error}") };
        assert_eq!((shown.len(), *count, shown[19].line), (20, 100, 21));
        assert!(error.to_string().ends_with("100 bad lines, the first 20 shown"));
    }

    #[test]
    fn a_wrong_header_is_refused() {
        for (profile, header, reason) in [
            (KeyProfile::Ue, "ue,node,base_station,uplink_teid", "no column 'downlink_teid'"),
            (KeyProfile::Flow5, "ue,node,base_station,uplink_teid,downlink_teid", "no column 'remote'"),
            (KeyProfile::Ue, "ue,ue", "two columns are called 'ue'"),
        ] {
            assert_eq!(read(profile, header).unwrap_err(), FlowFileError::Header(reason.to_owned()));
        }
        let error = read(KeyProfile::Ue, "ue,color").unwrap_err().to_string();
        assert!(error.starts_with("line 1: no column is called 'color'; there are ue, remote"), "{error}");
        assert_eq!(read(KeyProfile::Ue, "").unwrap_err(), FlowFileError::Header("no column 'ue'".to_owned()));
    }
}
