//! Sends damaged frames to the nodes over all links: captured frames with octets changed, removed or added.

use super::LabError;
use super::args::DamagedFramesArgs;
use super::context::{poll, until_interrupted};
use super::plan::{NodePort, Plan};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_elements::gateway::fabric::mac::FabricMac;
use scalebricks_io::CaptureReader;
use scalebricks_types::NodeId;
use scalebricks_wire::{MacAddr, ethernet};
use std::path::Path;
use std::thread;
use std::time::Duration;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// Frames of the capture that are used.
const CORPUS: usize = 20_000;

/// Longest frame, octets.
const LONGEST: usize = 1514;

/// Octets of the two addresses, which determine where a frame goes.
const ADDRESSES: usize = 12;

/// Time until the interfaces must be up.
const START: Duration = Duration::from_secs(10);

/// Frames between two pauses, so that nodes receive the frames and do not lose them for lack of buffers.
const BURST: u64 = 64;

/// The interface that sends to a bridge.
pub fn interface(port: NodePort) -> String {
    format!("storm-{}", port.interface())
}

/// Sends frames from interfaces that the lab adds to the bridges. Prints `ready` when the interfaces exist, and `done` after
/// the last frame.
///
/// # Errors
/// [`LabError`].
pub fn run(args: &DamagedFramesArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let corpora = corpora(&args.corpus)?;
    let mut devices = Vec::new();
    for port in NodePort::ALL {
        let device = DeviceBuilder::new().name(interface(port)).layer(Layer::L2).build_sync();
        devices
            .push(device.map_err(|error| LabError::Setup(format!("cannot create an interface: {error}")))?);
    }
    console.result("ready")?;
    let mut random = SmallRng::seed_from_u64(args.seed);
    devices.iter().try_for_each(|device| await_up(device, interrupt))?;
    for number in 0..args.count {
        let place = random.random_range(0..devices.len());
        let corpus = &corpora[place];
        if corpus.is_empty() {
            continue;
        }
        let mut frame = corpus[random.random_range(0..corpus.len())].clone();
        damage(&mut frame, &mut random);
        // A full queue loses some of many frames.
        drop(devices[place].send(&frame));
        if number % BURST == 0 {
            interrupt.check()?;
            thread::sleep(Duration::from_micros(500));
        }
    }
    console.result("done")?;
    until_interrupted(interrupt);
    Ok(status::SUCCESS)
}

/// Waits until the interface can send.
///
/// # Errors
/// [`LabError::Setup`] if it comes up too late.
pub fn await_up(device: &SyncDevice, interrupt: &Interrupt) -> Result<(), LabError> {
    // Unused addresses, and an ethertype for experiments.
    let frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5][..], &[0; 46]].concat();
    let up = poll(START, Duration::from_millis(20), interrupt, || Ok(device.send(&frame).ok()))?;
    up.map(drop).ok_or_else(|| LabError::Setup("an interface does not come up".to_owned()))
}

/// The captured frames that were sent to nodes, by port.
fn corpora(path: &Path) -> Result<[Vec<Vec<u8>>; 3], LabError> {
    let unreadable = |error| LabError::Setup(format!("{}: {error}", path.display()));
    let mut corpora = [Vec::new(), Vec::new(), Vec::new()];
    for frame in CaptureReader::open(path).map_err(unreadable)?.take(CORPUS) {
        let frame = frame.map_err(unreadable)?;
        if let Some(port) = port(&frame.data) {
            corpora[port as usize].push(frame.data.clone());
        }
    }
    Ok(corpora)
}

/// The node's port to which a frame was sent.
fn port(frame: &[u8]) -> Option<NodePort> {
    let to = ethernet::destination(frame)?;
    if FabricMac::is_marked(to) {
        return Some(NodePort::Fabric);
    }
    let MacAddr([.., node]) = to;
    NodePort::ALL.into_iter().find(|port| Plan::mac(NodeId::new(node), *port) == to)
}

/// Changes, cuts, extends or replaces what follows the addresses, and sometimes changes an octet of them.
fn damage(frame: &mut Vec<u8>, random: &mut SmallRng) {
    match random.random_range(0..10) {
        0 => frame.truncate(random.random_range(ADDRESSES..=frame.len().max(ADDRESSES))),
        1 => {
            let start = frame.len();
            frame.resize(random.random_range(start..=LONGEST.max(start)), 0);
            random.fill_bytes(&mut frame[start..]);
        }
        2 => {
            let start = ADDRESSES.min(frame.len());
            random.fill_bytes(&mut frame[start..]);
        }
        kind => {
            // Most changes are in the headers, which come first.
            let (from, to) = if kind == 3 { (0, frame.len()) } else { (ADDRESSES, frame.len().min(100)) };
            for _ in 0..random.random_range(1..=8) {
                if from < to {
                    let place = random.random_range(from..to);
                    frame[place] = random.random();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_elements::gateway::OutputPort;

    #[test]
    fn frames_are_sorted_by_the_port_that_they_are_sent_to() {
        let frame = |to: MacAddr| [&to.octets()[..], &[0; 50]].concat();
        for (place, kind) in NodePort::ALL.into_iter().enumerate() {
            let to = Plan::mac(NodeId::new(3), kind);
            assert_eq!((port(&frame(to)), kind as usize), (Some(kind), place));
        }
        let fabric = FabricMac::handling(NodeId::new(1), OutputPort::Internet).encode();
        assert_eq!(port(&frame(fabric)), Some(NodePort::Fabric));
        assert_eq!(port(&frame(MacAddr([0xff; 6]))), None);
        assert_eq!(port(&[2]), None);
    }

    #[test]
    fn damage_is_of_every_kind_and_never_too_long() {
        let mut random = SmallRng::seed_from_u64(1);
        let original = vec![7; 90];
        let (mut shorter, mut longer, mut same) = (0, 0, 0);
        for _ in 0..1000 {
            let mut frame = original.clone();
            damage(&mut frame, &mut random);
            assert!((ADDRESSES..=LONGEST).contains(&frame.len()));
            shorter += u32::from(frame.len() < original.len());
            longer += u32::from(frame.len() > original.len());
            same += u32::from(frame.len() == original.len() && frame != original);
        }
        assert!(shorter > 50 && longer > 50 && same > 500, "{shorter} {longer} {same}");
    }
}
