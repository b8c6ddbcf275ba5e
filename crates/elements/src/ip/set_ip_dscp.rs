//! `SetIPDSCP`.

use crate::columns::IpHeader;
use crate::header;
use crate::shared_names::drops;
use scalebricks_graph::args::Param;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Class, Control, HandlerId, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;

element! {
    /// Sets the DSCP of packets (RFC 2474) and updates their checksums.
    pub struct SetIPDSCP as "SetIPDSCP" { dscp: u8, }
    inputs { agnostic "in": "IPv4 packets.", }
    outputs { agnostic "out": "The same packets with this code point.", }
    params SetIPDSCPParams {
        /// The code point, below 64.
        dscp: u8,
    }
    example { "9", }
    reads { IpHeader, }
    drops { NO_HEADER = drops::NO_HEADER, }
    handlers { read DSCP = "dscp": "The code point.", write SET = "dscp": "Sets the code point.", }
}

fn check(dscp: u8) -> Result<u8, String> {
    if dscp < 64 { Ok(dscp) } else { Err(format!("a code point is below 64, not {dscp}")) }
}

impl Class for SetIPDSCP {
    fn make(params: SetIPDSCPParams) -> Result<Self, String> {
        check(params.dscp).map(|dscp| Self { dscp })
    }
}

impl Control for SetIPDSCP {
    fn read(&self, _: HandlerId) -> String {
        self.dscp.to_string()
    }

    fn write(&mut self, _: HandlerId, value: &str) -> Result<(), HandlerError> {
        let dscp = u8::read(value.trim()).ok_or_else(|| format!("no code point: {value:?}"));
        self.dscp = dscp.and_then(check).map_err(HandlerError::Value)?;
        Ok(())
    }
}

impl<P: PacketBuf> PerPacket<P> for SetIPDSCP {
    fn each(&mut self, packet: &mut P, meta: &mut Meta, _: PacketContext<'_>) -> Verdict {
        let Some(header) = header::fixed_mut(packet.data_mut(), meta) else {
            return Verdict::Drop(Self::NO_HEADER);
        };
        header::set_word(header, 0, |word| word & !0xfc | u16::from(self.dscp) << 2);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv4_of};

    #[test]
    fn the_code_point_changes_and_congestion_bits_do_not() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("m", "MarkIPHeader", &[]).declare("s", "SetIPDSCP", &["46"]);
            builder.chain(&["in", "m", "s", "out0"]);
        });
        let with = |dscp_ecn| ipv4_of(|header| header.dscp_ecn = dscp_ecn, b"abc");
        rig.send([with(0), with(0xff)]);
        rig.turn();
        rig.write("s", "dscp", "0").unwrap();
        rig.send([with(0xfd)]);
        rig.turn();
        assert_eq!(rig.got(0), [with(46 << 2), with(46 << 2 | 3), with(1)]);
        assert!(rig.write("s", "dscp", "64").is_err() && rig.write("s", "dscp", "x").is_err());
        assert_eq!(rig.read("s", "dscp"), "0");
    }
}
