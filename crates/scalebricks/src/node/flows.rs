//! Flow files: which flow is pinned where, one a line, in CSV with a header.
//!
//! | column | content |
//! |---|---|
//! | `ue` | address of the UE, IPv4 or IPv6 |
//! | `remote`, `remote_port`, `ue_port`, `protocol` | the rest of the five-tuple, where five-tuples are the keys: address, ports, `tcp`, `udp` or a number |
//! | `node` | number of the handling node |
//! | `base_station` | tunnel address of the base station |
//! | `uplink_teid`, `downlink_teid` | the tunnel at the gateway's end and at the base station's; decimal, or hexadecimal after `0x` |
//! | `qfi` | QoS flow, 0 to 63; may be empty or left out |
//!
//! Every line that cannot be used is named with its number and what is wrong with it; a file with such a line is not used.

use csv::{ByteRecord, ReaderBuilder};
use scalebricks_console::Progress;
use scalebricks_dataplane::FlowSpec;
use scalebricks_dataplane::flow::BaseStationId;
use scalebricks_types::{ClusterSize, FiveTuple, FlowKey, KeyProfile, NodeId, Qfi, Teid};
use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// Bad lines that are told of; of the others, how many.
const TOLD: usize = 20;

/// Lines between two looks at the progress bar.
const STEP: usize = 1 << 14;

/// A line that cannot be used.
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
    /// Its header.
    Header(String),
    /// Some lines: the first, and how many there are.
    Lines {
        /// The first of them.
        told: Vec<BadLine>,
        /// All.
        count: usize,
    },
}

impl fmt::Display for FlowFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(reason) => write!(f, "line 1: {reason}"),
            Self::Lines { told, count } => {
                for BadLine { line, reason } in told {
                    writeln!(f, "line {line}: {reason}")?;
                }
                write!(f, "{count} bad {}", if *count == 1 { "line" } else { "lines" })?;
                if *count > told.len() { write!(f, ", the first {} shown", told.len()) } else { Ok(()) }
            }
        }
    }
}

impl std::error::Error for FlowFileError {}

/// What flows are read for.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// What of a downstream packet is its key.
    pub profile: KeyProfile,
    /// How many nodes there are.
    pub size: ClusterSize,
    /// The tunnel addresses of the base stations, in the cluster's order.
    pub base_stations: &'a [Ipv4Addr],
}

const COLUMNS: [&str; 10] = [
    "ue",
    "remote",
    "remote_port",
    "ue_port",
    "protocol",
    "node",
    "base_station",
    "uplink_teid",
    "downlink_teid",
    "qfi",
];
const UE: usize = 0;
const REMOTE: usize = 1;
const REMOTE_PORT: usize = 2;
const UE_PORT: usize = 3;
const PROTOCOL: usize = 4;
const NODE: usize = 5;
const BASE_STATION: usize = 6;
const UPLINK: usize = 7;
const DOWNLINK: usize = 8;
const QFI: usize = 9;

impl Reading<'_> {
    /// The flows of a file, in its order. Cost: about a microsecond a line.
    ///
    /// # Errors
    /// [`FlowFileError`].
    pub fn read(&self, file: impl Read, progress: &Progress) -> Result<Vec<FlowSpec>, FlowFileError> {
        let mut reader = ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(file);
        let header = reader.byte_headers().map_err(|error| FlowFileError::Header(error.to_string()))?;
        let columns = self.columns(header).map_err(FlowFileError::Header)?;
        let stations: HashMap<Ipv4Addr, u16> = self.base_stations.iter().copied().zip(0..).collect();
        let (mut flows, mut told, mut count) = (Vec::new(), Vec::new(), 0);
        let mut seen: HashMap<FlowKey, u64> = HashMap::new();
        let mut record = ByteRecord::new();
        let (mut lines, mut shown) = (0, 0);
        loop {
            let line = match reader.read_byte_record(&mut record) {
                Ok(false) => break,
                Ok(true) => record.position().map_or(0, csv::Position::line),
                Err(error) => {
                    let line = error.position().map_or(0, csv::Position::line);
                    told.push(BadLine { line, reason: error.to_string() });
                    count += 1;
                    break;
                }
            };
            let flow = self.flow(&columns, &stations, &record).and_then(|flow| {
                for (key, what) in [(flow.key, "key"), (FlowKey::teid(flow.uplink_teid), "uplink_teid")] {
                    if let Some(before) = seen.insert(key, line) {
                        return Err(format!("the same {what} as line {before}"));
                    }
                }
                Ok(flow)
            });
            match flow {
                Ok(flow) => flows.push(flow),
                Err(reason) => {
                    count += 1;
                    if told.len() < TOLD {
                        told.push(BadLine { line, reason });
                    }
                }
            }
            lines += 1;
            if lines % STEP == 0 {
                progress.add(reader.position().byte() - shown);
                shown = reader.position().byte();
            }
        }
        if count > 0 { Err(FlowFileError::Lines { told, count }) } else { Ok(flows) }
    }

    /// Where each of [`COLUMNS`] is.
    fn columns(&self, header: &ByteRecord) -> Result<[Option<usize>; COLUMNS.len()], String> {
        let mut places = [None; COLUMNS.len()];
        for (place, name) in header.iter().enumerate() {
            let name = String::from_utf8_lossy(name);
            let Some(column) = COLUMNS.iter().position(|column| *column == name) else {
                return Err(format!("no column is called '{name}'; there are {}", COLUMNS.join(", ")));
            };
            if places[column].replace(place).is_some() {
                return Err(format!("two columns are called '{name}'"));
            }
        }
        let tuple = [REMOTE, REMOTE_PORT, UE_PORT, PROTOCOL];
        let unneeded =
            |column: &usize| *column == QFI || self.profile == KeyProfile::Ue && tuple.contains(column);
        match (0..COLUMNS.len()).find(|column| places[*column].is_none() && !unneeded(column)) {
            Some(missing) => Err(format!("no column '{}'", COLUMNS[missing])),
            None => Ok(places),
        }
    }

    fn flow(
        &self,
        columns: &[Option<usize>; COLUMNS.len()],
        stations: &HashMap<Ipv4Addr, u16>,
        record: &ByteRecord,
    ) -> Result<FlowSpec, String> {
        let fields = Fields { columns, record };
        let ue: IpAddr = fields.parse(UE, "an IPv4 or IPv6 address")?;
        let key = match self.profile {
            KeyProfile::Ue => FlowKey::ue(ue),
            KeyProfile::Flow5 => {
                let src: IpAddr = fields.parse(REMOTE, "an IPv4 or IPv6 address")?;
                let protocol = match fields.text(PROTOCOL)? {
                    "tcp" => 6,
                    "udp" => 17,
                    _ => fields.parse(PROTOCOL, "tcp, udp or a number up to 255")?,
                };
                let src_port = fields.parse(REMOTE_PORT, "a port, 0 to 65535")?;
                let dst_port = fields.parse(UE_PORT, "a port, 0 to 65535")?;
                FlowKey::five_tuple(&FiveTuple { src, dst: ue, protocol, src_port, dst_port })
                    .ok_or_else(|| format!("ue {ue} and remote {src} are of two families"))?
            }
        };
        let number: usize = fields.parse(NODE, "the number of a node")?;
        if number >= self.size.get() {
            return Err(format!("node {number} of a cluster of {} (numbered from 0)", self.size.get()));
        }
        let station: Ipv4Addr = fields.parse(BASE_STATION, "an IPv4 address")?;
        let base_station = stations
            .get(&station)
            .map(|&station| BaseStationId(station))
            .ok_or_else(|| format!("base_station {station} is not in the configuration"))?;
        let qfi = match fields.optional(QFI)? {
            None | Some("") => None,
            Some(_) => {
                let qfi: u8 = fields.parse(QFI, "0 to 63, or nothing")?;
                Some(Qfi::new(qfi).map_err(|_| format!("qfi {qfi} is not 0 to 63"))?)
            }
        };
        Ok(FlowSpec {
            key,
            uplink_teid: fields.teid(UPLINK)?,
            downlink_teid: fields.teid(DOWNLINK)?,
            base_station,
            qfi,
            node: NodeId::new(number as u8), // below the size of a cluster
        })
    }
}

/// A line, by columns.
struct Fields<'a> {
    columns: &'a [Option<usize>; COLUMNS.len()],
    record: &'a ByteRecord,
}

impl<'a> Fields<'a> {
    fn optional(&self, column: usize) -> Result<Option<&'a str>, String> {
        let Some(bytes) = self.columns[column].and_then(|place| self.record.get(place)) else {
            return Ok(None);
        };
        std::str::from_utf8(bytes).map(Some).map_err(|_| format!("{} is not text", COLUMNS[column]))
    }

    fn text(&self, column: usize) -> Result<&'a str, String> {
        self.optional(column)?.ok_or_else(|| format!("{} is missing", COLUMNS[column]))
    }

    fn parse<T: FromStr>(&self, column: usize, allowed: &str) -> Result<T, String> {
        let text = self.text(column)?;
        text.parse().map_err(|_| format!("{} '{text}' is not {allowed}", COLUMNS[column]))
    }

    fn teid(&self, column: usize) -> Result<Teid, String> {
        let text = self.text(column)?;
        let number = match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let teid = number.filter(|&number| number > 0);
        teid.map(Teid::new).ok_or_else(|| {
            format!("{} '{text}' is not 1 to 4294967295 or 0x1 to 0xffffffff", COLUMNS[column])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_console::Console;
    use std::net::Ipv6Addr;

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
            ("10.0.0.2,0,10.9.0.1,2,1,64\n", "qfi 64 is not 0 to 63"),
            ("10.0.0.2,0,10.9.0.1\n", "uplink_teid is missing"),
            ("10.0.0.1,0,10.9.0.1,2,1,\n", "the same key as line 2"),
            ("10.0.0.2,0,10.9.0.1,1,1,\n", "the same uplink_teid as line 2"),
            ("\u{e9},0,10.9.0.1,1,1,\n", "ue '\u{e9}' is not an IPv4 or IPv6 address"),
        ] {
            let error = read(KeyProfile::Ue, &format!("{header}{good}{line}")).unwrap_err();
            let told = vec![BadLine { line: 3, reason: reason.to_owned() }];
            assert_eq!(error, FlowFileError::Lines { told, count: 1 }, "{line}");
            assert_eq!(error.to_string(), format!("line 3: {reason}\n1 bad line"));
        }
    }

    #[test]
    fn of_many_bad_lines_the_first_are_told_and_all_are_counted() {
        let bad = "x,0,10.9.0.1,1,1\n".repeat(100);
        let error = read(KeyProfile::Ue, &format!("ue,node,base_station,uplink_teid,downlink_teid\n{bad}"))
            .unwrap_err();
        let FlowFileError::Lines { told, count } = &error else { panic!("{error}") };
        assert_eq!((told.len(), *count, told[19].line), (20, 100, 21));
        assert!(error.to_string().ends_with("100 bad lines, the first 20 shown"));
    }

    #[test]
    fn a_header_says_what_it_lacks_or_has_too_much() {
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
