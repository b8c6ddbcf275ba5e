//! The header checks of `CheckIPHeader`, `CheckIPHeader2` and `IPInputCombo`.

use crate::header;
use crate::plain::{BadSources, is_sum_right, without_options};
use crate::values::{Ips, Prefixes, broadcast};
use scalebricks_graph::Meta;
use scalebricks_graph::args::{ArgError, Args, Param};
use scalebricks_io::PacketBuf;
use scalebricks_wire::ParseError;
use scalebricks_wire::ipv4::{Ipv4, MIN_HEADER_LEN, header_checksum_ok};
use std::net::Ipv4Addr;

/// What is wrong with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    Short,
    Version,
    HeaderLength,
    Length,
    Checksum,
    Source,
}

/// How often each fault was found.
#[derive(Debug, Default)]
pub(crate) struct HeaderFaults([u64; 6]);

impl HeaderFaults {
    pub(crate) const fn note(&mut self, fault: HeaderFault) {
        self.0[fault as usize] += 1;
    }

    /// Click's `drop_details`: one line per fault.
    pub(crate) fn details(&self) -> String {
        const TEXTS: [&str; 6] = [
            "minuscule packet",
            "bad IP version",
            "bad IP header length",
            "bad IP length",
            "bad IP checksum",
            "bad source address",
        ];
        let lines: Vec<String> =
            self.0.iter().zip(TEXTS).map(|(count, text)| format!("{count}\t{text}")).collect();
        lines.join("\n")
    }
}

/// Which packets are valid.
#[derive(Debug, Default)]
pub(crate) struct HeaderRules {
    pub(crate) sums: bool,
    pub(crate) bad_src: BadSources,
    pub(crate) good_dst: Vec<Ipv4Addr>,
}

impl HeaderRules {
    /// Builds the rules from Click's keywords. `INTERFACES` gives both sources and destinations.
    pub(crate) fn new(
        sums: bool,
        interfaces: Option<Prefixes>,
        bad_src: Option<Ips>,
        good_dst: Option<Ips>,
    ) -> Self {
        let mut rules = Self {
            sums,
            bad_src: BadSources::new(bad_src.unwrap_or_default().0),
            good_dst: good_dst.unwrap_or_default().0,
        };
        if let Some(Prefixes(interfaces)) = interfaces {
            rules.never_sources();
            rules.bad_src.extend(interfaces.iter().filter_map(|prefix| broadcast(*prefix)));
            rules.good_dst.extend(interfaces.iter().map(|prefix| prefix.address));
        }
        rules
    }

    /// Adds the addresses that no packet may come from.
    pub(crate) fn never_sources(&mut self) {
        self.bad_src.extend([Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST]);
    }

    /// Checks the header at `offset`, trims the packet to its stated length, records where its headers are, and returns
    /// its destination.
    #[inline]
    pub(crate) fn apply<P: PacketBuf>(
        &self,
        packet: &mut P,
        meta: &mut Meta,
        offset: usize,
    ) -> Result<Ipv4Addr, HeaderFault> {
        let bytes = packet.data().get(offset..).unwrap_or_default();
        let (dst, header_len, total) = if let Some((dst, total)) = self.ordinary(bytes) {
            (dst, MIN_HEADER_LEN, total)
        } else {
            let ip = self.check(bytes)?;
            (ip.dst(), ip.header_len(), ip.total_len())
        };
        header::note(meta, offset, header_len, total);
        packet.truncate(offset + total);
        Ok(dst)
    }

    /// Destination and length of a valid packet without options and from no unusual source: most packets, in fewer steps
    /// than [`check`](Self::check).
    #[inline(always)]
    fn ordinary(&self, bytes: &[u8]) -> Option<(Ipv4Addr, usize)> {
        let (fixed, total) = without_options(bytes)?;
        let [.., a, b, c, d, e, f, g, h] = *fixed;
        let is_valid =
            !self.bad_src.contains(Ipv4Addr::new(a, b, c, d)) && (!self.sums || is_sum_right(fixed));
        is_valid.then_some((Ipv4Addr::new(e, f, g, h), total))
    }

    #[inline(never)]
    fn check<'a>(&self, bytes: &'a [u8]) -> Result<Ipv4<'a>, HeaderFault> {
        if bytes.len() < MIN_HEADER_LEN {
            return Err(HeaderFault::Short);
        }
        let ip = Ipv4::parse(bytes).map_err(|error| match error {
            ParseError::BadVersion => HeaderFault::Version,
            ParseError::BadHeaderLength => HeaderFault::HeaderLength,
            _ => HeaderFault::Length,
        })?;
        if self.sums && !header_checksum_ok(bytes) {
            return Err(HeaderFault::Checksum);
        }
        if self.bad_src.contains(ip.src()) && !self.good_dst.contains(&ip.dst()) {
            return Err(HeaderFault::Source);
        }
        Ok(ip)
    }
}

/// Arguments without keyword: the header's offset, preceded in Click's old syntax by invalid source addresses.
#[derive(Debug, Clone, Default)]
pub struct HeaderPosition {
    pub(crate) offset: Option<u16>,
    pub(crate) bad_src: Option<Ips>,
}

impl HeaderPosition {
    fn add(&mut self, text: &str) -> Option<()> {
        let is_first = match u16::read(text) {
            Some(offset) => self.offset.replace(offset).is_none(),
            None => self.bad_src.replace(Ips::read(text)?).is_none(),
        };
        is_first.then_some(())
    }
}

impl Param for HeaderPosition {
    const KIND: &'static str = "a number below 65536; before it, IP addresses";

    fn read(text: &str) -> Option<Self> {
        let mut place = Self::default();
        place.add(text)?;
        Some(place)
    }

    fn take(args: &mut Args<'_>, name: &str) -> Result<Option<Self>, ArgError> {
        let mut place = Self::default();
        while let Some(text) = args.next(name) {
            let wrong =
                || ArgError::Value { param: name.to_owned(), text: text.to_owned(), kind: Self::KIND };
            place.add(text).ok_or_else(wrong)?;
        }
        Ok(Some(place))
    }
}

/// Declares a class that checks headers.
macro_rules! check_ip_header {
    ($(#[doc = $doc:literal])+ $name:ident as $class:literal, $params:ident, $sums:literal) => {
        scalebricks_graph::element! {
            $(#[doc = $doc])+
            pub struct $name as $class {
                pub(crate) rules: $crate::ip_check::HeaderRules, pub(crate) offset: usize, faults: $crate::ip_check::HeaderFaults,
                dst: scalebricks_graph::Handle<DstIp>, side: $crate::side_output::SideOutput,
            }
            inputs { agnostic "in": "Packets with an IPv4 header.", }
            outputs { agnostic "out": "Valid packets.", push "bad" [Optional]: "Invalid packets; dropped if unconnected.", }
            params $params {
                /// Offset of the header; 0 by default. As an argument without keyword it may follow the addresses of
                /// `BADSRC`, to which 0.0.0.0 and 255.255.255.255 are then added: Click's old syntax.
                offset: Option<$crate::ip_check::HeaderPosition> = None,
                /// The router's addresses: they are added to `GOODDST`, and their networks' broadcast addresses,
                /// 0.0.0.0 and 255.255.255.255 to `BADSRC`.
                interfaces: Option<$crate::values::Prefixes> = None,
                /// Source addresses of which a packet is invalid.
                badsrc: Option<$crate::values::Ips> = None,
                /// Destinations for which such a source is valid.
                gooddst: Option<$crate::values::Ips> = None,
                /// Whether to verify the header's checksum.
                checksum: bool = $sums,
                /// No effect: faults are counted, not printed.
                verbose: bool = false,
                /// No effect: details are always kept.
                details: bool = false,
            }
            writes { DstIp on "out", IpHeader on "out", }
            drops {
                SHORT = crate::shared_names::drops::TOO_SHORT,
                VERSION = crate::shared_names::drops::BAD_VERSION,
                HEADER_LENGTH = crate::shared_names::drops::BAD_HEADER_LENGTH,
                LENGTH = crate::shared_names::drops::BAD_LENGTH,
                CHECKSUM = crate::shared_names::drops::BAD_CHECKSUM,
                SOURCE = crate::shared_names::drops::BAD_SOURCE,
            }
            counters { DROPS = "drops": "Invalid packets.", }
            handlers { read DETAILS = "drop_details": "Faults and their counts, one per line.", }
            binds { dst, side, }
        }

        impl scalebricks_graph::Class for $name {
            fn make(params: $params) -> Result<Self, String> {
                let $params { offset, interfaces, badsrc, gooddst, checksum, verbose: _, details: _ } = params;
                let mut rules = $crate::ip_check::HeaderRules::new(checksum, interfaces, badsrc, gooddst);
                let place = offset.unwrap_or_default();
                if let Some($crate::values::Ips(old)) = place.bad_src {
                    rules.never_sources();
                    rules.bad_src.extend(old);
                }
                Ok(Self {
                    rules,
                    offset: usize::from(place.offset.unwrap_or(0)),
                    faults: Default::default(),
                    dst: Default::default(),
                    side: Default::default(),
                })
            }
        }

        impl scalebricks_graph::Control for $name {
            fn read(&self, _: scalebricks_graph::HandlerId) -> String {
                self.faults.details()
            }
        }

        impl $name {
            fn each<P: scalebricks_io::PacketBuf>(
                &mut self,
                packet: &mut P,
                meta: &mut scalebricks_graph::Meta,
                dst: &mut DstIp,
                out: &scalebricks_graph::Out<'_>,
            ) -> scalebricks_graph::Verdict {
                use $crate::ip_check::HeaderFault;
                let fault = match self.rules.apply(packet, meta, self.offset) {
                    Ok(address) => {
                        *dst = DstIp(address);
                        return scalebricks_graph::Verdict::ON;
                    }
                    Err(fault) => fault,
                };
                self.faults.note(fault);
                out.count(Self::DROPS, 1);
                self.side.verdict(match fault {
                    HeaderFault::Short => Self::SHORT,
                    HeaderFault::Version => Self::VERSION,
                    HeaderFault::HeaderLength => Self::HEADER_LENGTH,
                    HeaderFault::Length => Self::LENGTH,
                    HeaderFault::Checksum => Self::CHECKSUM,
                    HeaderFault::Source => Self::SOURCE,
                })
            }
        }

        $crate::agnostic::per_destination!($name);
    };
}

pub(crate) use check_ip_header;
