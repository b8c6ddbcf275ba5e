//! Tests of both ends of associations.

mod batches;
mod files;
mod peers;
mod tunnel;
mod vectors;

use super::file;
use super::inbound::{Inbound, OpenError, Opening, Outer};
use super::inner::Inner;
use super::outbound::{Outbound, SealError, Sealing};
use super::sa::Sa;
use scalebricks_io::{Packet, PacketBuf, Pool};

/// Keys of the tests, in hexadecimal digits.
pub(super) const GCM_KEY: &str = "000102030405060708090a0b0c0d0e0f10111213";
pub(super) const CBC_KEY: &str = "202122232425262728292a2b2c2d2e2f";
pub(super) const AUTH_KEY: &str = "303132333435363738393a3b3c3d3e3f40414243";

/// A section of a file, with these other lines.
pub(super) fn section(name: &str, is_gcm: bool, is_v6: bool, lines: &str) -> String {
    let suite = if is_gcm {
        format!("suite = \"aes-128-gcm\"\nkey = \"{GCM_KEY}\"")
    } else {
        format!("suite = \"aes-128-cbc-hmac-sha1-96\"\nkey = \"{CBC_KEY}\"\nauth_key = \"{AUTH_KEY}\"")
    };
    let [src, dst] = if is_v6 { ["2001:db8::1", "2001:db8::2"] } else { ["192.0.2.1", "192.0.2.2"] };
    format!(
        "[[sa]]\nname = \"{name}\"\nspi = 0x1001\n{suite}\nsrc = \"{src}\"\ndst = \"{dst}\"\nselectors = [{{ src = \
         \"10.0.0.0/16\", dst = \"10.0.0.0/16\" }}, {{ src = \"2001:db8:1::/48\", dst = \"2001:db8:2::/48\" }}]\n{lines}\n"
    )
}

/// The only association of a file.
pub(super) fn sa(is_gcm: bool, is_v6: bool, lines: &str) -> Sa {
    file::parse(&section("a", is_gcm, is_v6, lines)).unwrap().remove(0)
}

/// A packet with these bytes, encrypted.
pub(super) fn sealed(end: &mut Outbound, pool: &mut Pool, bytes: &[u8]) -> Result<Packet, SealError> {
    let mut packet = pool.packet(bytes).unwrap();
    let mut one = [Sealing { at: 0, inner: Inner::read(bytes).unwrap(), result: Ok(()) }];
    end.seal_many(std::slice::from_mut(&mut packet), &mut one);
    one[0].result.map(|()| packet)
}

/// The inner packet of an ESP packet.
pub(super) fn opened(end: &mut Inbound, packet: &mut Packet) -> Result<Vec<u8>, OpenError> {
    let Outer::Esp(place) = Outer::read(packet.data()) else { panic!("{:?}", Outer::read(packet.data())) };
    assert!(end.takes(&place), "{place:?}");
    let mut one = [Opening { at: 0, place, result: Ok(()) }];
    end.open_many(std::slice::from_mut(packet), &mut one);
    one[0].result.map(|()| packet.data().to_vec())
}
