//! Paced UDP from each of several hosts to each other one, over both families.

use super::datagram::{Datagram, Way};
use super::{AFTER, END, Outgoing, StreamReport, StreamSocket, receive, report, send};
use crate::testbed::LabError;
use crate::testbed::args::MeshStreamsArgs;
use crate::testbed::plan::Family;
use scalebricks_console::{Console, Interrupt, status};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread;

/// The number of the flow between two hosts, of at most 128.
pub const fn flow_number(from: u8, to: u8, family: Family) -> u16 {
    ((from as u16) << 8) | ((to as u16) << 1) | family as u16
}

/// Sends to all other hosts and receives from them until it is interrupted, and prints its report. Prints `ready` before it
/// sends.
///
/// # Errors
/// [`LabError`] if its sockets cannot be opened, or an address is missing.
pub fn run(args: &MeshStreamsArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let addresses = |family: Family| args.address.iter().copied().filter(move |address| family.has(*address));
    let [v4, v6] = Family::ALL.map(|family| addresses(family).collect::<Vec<IpAddr>>());
    let here = usize::from(args.host);
    if v4.len() != v6.len() || here >= v4.len() {
        return Err(LabError::Usage("each host needs an address of each family".to_owned()));
    }
    let failed = |error: io::Error| LabError::Setup(format!("cannot open the streams' sockets: {error}"));
    let sockets = [(&v4, Family::V4), (&v6, Family::V6)].map(|(hosts, family)| {
        Ok((Arc::new(StreamSocket::bind(hosts[here], None, family)?), hosts.clone(), family))
    });
    let sockets = sockets.into_iter().collect::<io::Result<Vec<_>>>().map_err(failed)?;
    let shared = Arc::new(Mutex::new(Some(StreamReport::default())));
    for (socket, hosts, family) in &sockets {
        let (socket, hosts, family, shared) =
            (Arc::clone(socket), hosts.clone(), *family, Arc::clone(&shared));
        let host = args.host;
        // The thread ends with the process, because it waits in a system call.
        thread::spawn(move || {
            receive(&socket.socket, &shared, |datagram, from| belongs(datagram, from, host, &hosts, family));
        });
    }
    console.result("ready")?;
    let flows: Vec<Outgoing<'_>> = sockets
        .iter()
        .flat_map(|(socket, hosts, family)| {
            let others = (0_u8..).zip(hosts).filter(|(to, _)| *to != args.host);
            others.map(|(to, address)| Outgoing {
                flow: flow_number(args.host, to, *family),
                way: Way::Up,
                from: &socket.socket,
                to: SocketAddr::new(*address, super::PORT),
            })
        })
        .collect();
    let sent = send(&flows, interrupt);
    thread::sleep(AFTER);
    report(sent, &shared, console)?;
    console.result(END)?;
    Ok(status::SUCCESS)
}

/// Whether a datagram arrived at its destination from its sender.
fn belongs(datagram: &Datagram, from: IpAddr, here: u8, hosts: &[IpAddr], family: Family) -> bool {
    let sender = (datagram.flow >> 8) as u8; // at most 255
    let is_of = datagram.way == Way::Up && datagram.flow == flow_number(sender, here, family);
    is_of && sender != here && hosts.get(usize::from(sender)) == Some(&from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_host_accepts_a_datagram_and_only_from_its_sender() {
        let hosts: Vec<IpAddr> = (0..4).map(|host| IpAddr::from([10, host, 0, 2])).collect();
        let datagram =
            Datagram { flow: flow_number(2, 3, Family::V4), way: Way::Up, sequence: 1, sent_us: 2 };
        assert!(belongs(&datagram, hosts[2], 3, &hosts, Family::V4));
        assert!(!belongs(&datagram, hosts[1], 3, &hosts, Family::V4), "another sender");
        assert!(!belongs(&datagram, hosts[2], 1, &hosts, Family::V4), "another's");
        assert!(!belongs(&datagram, hosts[2], 3, &hosts, Family::V6), "another family's");
        let own = Datagram { flow: flow_number(3, 3, Family::V4), ..datagram };
        assert!(!belongs(&own, hosts[3], 3, &hosts, Family::V4));
    }
}
