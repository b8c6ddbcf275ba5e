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

pub mod columns;
pub mod lines;

use columns::{Column, Columns, FlowParser};
use csv::{ByteRecord, ReaderBuilder};
use scalebricks_apps::gateway::FlowSpec;
use scalebricks_console::Progress;
use scalebricks_types::{ClusterSize, FlowKey, KeyProfile};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::net::Ipv4Addr;

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

impl Reading<'_> {
    /// The flows of a file, in its order. Cost: about a microsecond a line.
    ///
    /// # Errors
    /// [`FlowFileError`].
    pub fn read(&self, file: impl Read, progress: &Progress) -> Result<Vec<FlowSpec>, FlowFileError> {
        let mut flows = Vec::new();
        self.for_each(file, progress, |flow| flows.push(flow))?;
        Ok(flows)
    }

    /// Hands over the flows of a file, in its order. After an error what was handed over is not to be used.
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
        let mut reader = reader(file);
        let places = Places::of(reader.byte_headers()).map_err(FlowFileError::Header)?;
        places.check(self.profile).map_err(FlowFileError::Header)?;
        let (mut told, mut count) = (Vec::new(), 0);
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
            let flow = parser.flow(&Line { places: &places, record: &record }).and_then(|flow| {
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
        if count > 0 { Err(FlowFileError::Lines { told, count }) } else { Ok(()) }
    }
}

/// A reader of flow files, as all use it.
pub fn reader<R: Read>(file: R) -> csv::Reader<R> {
    ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(file)
}

/// Where each column is in a file.
#[derive(Debug, Clone, Copy)]
pub struct Places([Option<usize>; Column::ALL.len()]);

impl Places {
    /// Where a header has them.
    ///
    /// # Errors
    /// What is wrong with the header.
    pub fn of(header: Result<&ByteRecord, csv::Error>) -> Result<Self, String> {
        let mut places = [None; Column::ALL.len()];
        for (place, name) in header.map_err(|error| error.to_string())?.iter().enumerate() {
            let name = String::from_utf8_lossy(name);
            let Some(column) = Column::named(&name) else {
                let names = Column::ALL.map(Column::name).join(", ");
                return Err(format!("no column is called '{name}'; there are {names}"));
            };
            if places[column as usize].replace(place).is_some() {
                return Err(format!("two columns are called '{name}'"));
            }
        }
        Ok(Self(places))
    }

    fn check(&self, profile: KeyProfile) -> Result<(), String> {
        let is_missing = |column: &Column| self.0[*column as usize].is_none() && column.is_needed(profile);
        match Column::ALL.into_iter().find(is_missing) {
            Some(missing) => Err(format!("no column '{}'", missing.name())),
            None => Ok(()),
        }
    }
}

/// A line, by columns.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// Where the columns are.
    pub places: &'a Places,
    /// What stands there.
    pub record: &'a ByteRecord,
}

impl Columns for Line<'_> {
    fn text(&self, column: Column) -> Result<Option<Cow<'_, str>>, String> {
        let Some(bytes) = self.places.0[column as usize].and_then(|place| self.record.get(place)) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(bytes).map_err(|_| format!("{} is not text", column.name()))?;
        Ok(Some(Cow::Borrowed(text)))
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
