//! Damaged frames, thrown at nodes from all sides: what was captured, with some octets changed, cut or added.

use super::LabError;
use super::args::FramesArgs;
use super::plan::{Link, Plan};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_elements::gateway::fabric::mac::FabricMac;
use scalebricks_io::CaptureReader;
use scalebricks_types::NodeId;
use scalebricks_wire::{MacAddr, ethernet};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// Frames of the capture that are used.
const CORPUS: usize = 20_000;

/// Longest frame, octets.
const LONGEST: usize = 1514;

/// Octets of the two addresses, which say where a frame goes.
const ADDRESSES: usize = 12;

/// How long the interfaces may take to be up.
const START: Duration = Duration::from_secs(10);

/// Frames between two rests: the nodes shall see them, and not lose them for want of room.
const BURST: u64 = 64;

/// The interface that leads to a bridge.
pub fn interface(link: Link) -> String {
    format!("storm-{}", link.at_node())
}

/// Throws frames at the nodes, from interfaces that somebody else joins to the bridges.
///
/// # Errors
/// [`LabError`].
pub fn run(args: &FramesArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let corpora = corpora(&args.corpus)?;
    let made = |error: io::Error| LabError::Setup { what: format!("cannot make an interface: {error}") };
    let devices =
        Link::ALL.map(|link| DeviceBuilder::new().name(interface(link)).layer(Layer::L2).build_sync());
    let [internet, ran, fabric] = devices;
    let devices = [internet.map_err(made)?, ran.map_err(made)?, fabric.map_err(made)?];
    console.result("ready")?;
    let mut random = SmallRng::seed_from_u64(args.seed);
    await_up(&devices, interrupt)?;
    for number in 0..args.count {
        let link = random.random_range(0..devices.len());
        let corpus = &corpora[link];
        if corpus.is_empty() {
            continue;
        }
        let mut frame = corpus[random.random_range(0..corpus.len())].clone();
        damage(&mut frame, &mut random);
        // A full queue is no matter: there are more.
        drop(devices[link].send(&frame));
        if number % BURST == 0 {
            interrupt.check()?;
            thread::sleep(Duration::from_micros(500));
        }
    }
    console.result("done")?;
    // Until whoever started us has seen that.
    while interrupt.check().is_ok() {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(status::SUCCESS)
}

fn await_up(devices: &[SyncDevice; 3], interrupt: &Interrupt) -> Result<(), LabError> {
    let began = Instant::now();
    // To nobody, from nobody, of a type that nobody knows.
    let frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5][..], &[0; 46]].concat();
    for device in devices {
        while let Err(error) = device.send(&frame) {
            interrupt.check()?;
            if began.elapsed() > START {
                return Err(LabError::Setup { what: format!("an interface does not come up: {error}") });
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// Frames for nodes, by link.
fn corpora(path: &Path) -> Result<[Vec<Vec<u8>>; 3], LabError> {
    let told = |what: String| LabError::Setup { what: format!("{}: {what}", path.display()) };
    let reader = CaptureReader::open(path).map_err(|error| told(error.to_string()))?;
    let mut corpora = [Vec::new(), Vec::new(), Vec::new()];
    for frame in reader.take(CORPUS) {
        let frame = frame.map_err(|error| told(error.to_string()))?;
        if let Some(link) = link(&frame.data) {
            corpora[link as usize].push(frame.data.clone());
        }
    }
    Ok(corpora)
}

/// The link on which a frame goes to a node.
fn link(frame: &[u8]) -> Option<Link> {
    let to = ethernet::destination(frame)?;
    if FabricMac::is_marked(to) {
        return Some(Link::Fabric);
    }
    let MacAddr([.., node]) = to;
    Link::ALL.into_iter().find(|link| Plan::mac(NodeId::new(node), *link) == to)
}

/// Changes, cuts, lengthens or replaces what is behind the addresses, and now and then an octet of them.
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
            // Headers are in front: most damage is there.
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
    fn frames_are_sorted_by_the_node_s_address_they_go_to() {
        let frame = |to: MacAddr| [&to.octets()[..], &[0; 50]].concat();
        for (place, kind) in Link::ALL.into_iter().enumerate() {
            let to = Plan::mac(NodeId::new(3), kind);
            assert_eq!((link(&frame(to)), kind as usize), (Some(kind), place));
        }
        let fabric = FabricMac::handling(NodeId::new(1), OutputPort::Internet).encode();
        assert_eq!(link(&frame(fabric)), Some(Link::Fabric));
        assert_eq!(link(&frame(MacAddr([0xff; 6]))), None);
        assert_eq!(link(&[2]), None);
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
