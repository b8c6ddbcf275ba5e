//! Figures 9 and 11: packets a second from port to port: the destination address of each is read and looked up, its next hop
//! written, and the packet sent out where its action says. Then the same by the switch itself, with all that it looks at and counts.
//!
//! Packets lie in memory and go round: the port that takes one makes it the next one of another name and puts it behind all
//! others, inline. What that costs is measured in the same round and subtracted, as in the benchmark of the gateway.

mod movers;
mod rotation;

use super::fibs::{Asker, Fib, NameFib};
use super::{add_point, millions, paper};
use crate::error::BenchError;
use crate::figures::exhibit::{Chart, Scale, Sheet};
use crate::gateway::ring::ROTATION;
use crate::gateway::slab::Slab;
use crate::rounds::{Found, Turn, alternate};
use crate::row::{Metric, Row, Subject};
use crate::session::Session;
use crate::{pin, timing};
use movers::{Whole, forward, idle, switch, turn};
use rotation::{Rotation, Rule, Stations};
use scalebricks_console::quantity::short_count;
use scalebricks_dataplane::flat::FlatFib;
use scalebricks_io::{BURST, PacketBuf};
use std::sync::Arc;

/// Octets of a frame.
const FRAMES: [usize; 2] = [64, 1500];
/// Bytes a name, all tables of a size: most are the control side's of the switch while its table is built.
const NAME_BYTES: u64 = 540;
const STRUCTURES: [Fib; 3] = [Fib::OTHELLO, Fib::SetSep, Fib::Cuckoo];
/// What rows begin with.
const VARIANT: &str = "forwarding, frames of ";

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let value_bits = options.value_bits(&[8], &[8]).first().copied().unwrap_or(8);
    for names in options.keys(&[262_144], &[262_144, 1_000_000, 4_000_000, 16_000_000]) {
        if session.fits(names, NAME_BYTES)? {
            one(session, names, value_bits)?;
        }
    }
    show(session);
    Ok(())
}

fn one(session: &mut Session<'_>, names: u64, value_bits: u8) -> Result<(), BenchError> {
    let busy = session.busy("building");
    let stations = Arc::new(Stations::new(names, value_bits));
    let (mut tables, mut switches) = (Vec::new(), Vec::new());
    for fib in STRUCTURES.into_iter().filter(|&fib| fib != Fib::SetSep || value_bits <= 8) {
        session.check()?;
        tables.push((fib, fib.build(&stations.set, pin::cores())?));
    }
    for whole in Whole::ALL {
        session.check()?;
        switches.push((whole, whole.fib(&stations)?));
    }
    drop(busy);
    let scene = Scene { stations, tables, switches };
    for octets in FRAMES {
        // Packets of their own for each length: those of DPDK come one after the other in their memory, too.
        scene.measure(session, Slab::new(ROTATION).packets, octets, "")?;
        #[cfg(feature = "dpdk")]
        {
            crate::gateway::dpdk::start(0)?;
            scene.measure(session, crate::gateway::dpdk::packets(ROTATION)?, octets, ", mbufs")?;
        }
    }
    Ok(())
}

/// What packets of one size of tables go through.
struct Scene {
    stations: Arc<Stations>,
    tables: Vec<(Fib, Box<dyn NameFib>)>,
    switches: Vec<(Whole, Arc<FlatFib>)>,
}

impl Scene {
    /// Measures all tables with these packets.
    fn measure<P: PacketBuf + 'static>(
        &self,
        session: &mut Session<'_>,
        packets: Vec<P>,
        octets: usize,
        whose: &str,
    ) -> Result<(), BenchError> {
        let mut rotation = Rotation::new(packets, &self.stations, octets);
        let packets = session.options().pick(200_000, 4_000_000);
        let set = &self.stations.set;
        let subject = |structure: &str, fib: Option<Fib>| Subject {
            format: fib.and_then(Fib::format),
            variant: Some(format!("{VARIANT}{octets} bytes{whose}")),
            value_bits: Some(set.value_bits),
            threads: Some(1),
            batch: Some(BURST),
            ..session.subject(structure, set.len() as u64)
        };
        // What the last round of this took is what is subtracted in the round.
        let bare = std::cell::Cell::new(0.0_f64);
        let bare = &bare;
        let time = |seconds: f64| seconds * 1e9 / (packets / BURST * BURST) as f64;
        let net = move |seconds: f64, rotation: &mut Rotation<P>| {
            if bare.get().is_nan() {
                bare.set(time(timing::pinned(|| idle(rotation, packets))?.1));
            }
            // If nothing is left, either may have been disturbed: the next try takes both times anew.
            let net = timing::net("forwarding", time(seconds), bare.get());
            let net = net.inspect_err(|_| bare.set(f64::NAN))?;
            Ok(Found { figures: vec![net, 1e9 / net], table_bytes: None })
        };
        let rows =
            |subject: Subject| vec![(subject.clone(), Metric::PacketTime), (subject, Metric::PacketRate)];
        let alone = (subject("generator and sink", None), Metric::PacketTime);
        let mut turns = vec![Turn::several(vec![alone], move |rotation: &mut Rotation<P>| {
            let ((), seconds) = timing::pinned(|| idle(rotation, packets))?;
            bare.set(time(seconds));
            Ok(bare.get().into())
        })];
        for (fib, table) in &self.tables {
            judge_table(*fib, &mut *table.asker(), &rotation, set.len())?;
            let subject =
                Subject { table_bytes: Some(table.table_bytes()), ..subject(fib.name(), Some(*fib)) };
            turns.push(Turn::several(rows(subject), move |rotation: &mut Rotation<P>| {
                let ((), seconds) = timing::pinned(|| forward(rotation, &mut *table.asker(), packets))?;
                net(seconds, rotation)
            }));
        }
        for (whole, fib) in &self.switches {
            judge_switch(*whole, fib, &rotation, set.len())?;
            let subject =
                Subject { table_bytes: Some(fib.table_bytes() as u64), ..subject(whole.name(), None) };
            let mut switch = switch(fib, &rotation)?;
            turns.push(Turn::several(rows(subject), move |rotation: &mut Rotation<P>| {
                let ((), seconds) = timing::pinned(|| turn(&mut switch, packets))?;
                net(seconds, rotation)
            }));
        }
        alternate(session, &mut rotation, turns)
    }
}

/// Sends every name once, and the rotation, and looks at each packet.
fn judge<P: PacketBuf>(
    structure: &str,
    rule: Rule,
    rotation: &Rotation<P>,
    names: usize,
    moving: impl FnOnce(usize),
) -> Result<(), BenchError> {
    let packets = (names + ROTATION).next_multiple_of(BURST);
    let (judged, right) = rotation.judge(rule, || moving(packets));
    if (judged, right, rotation.len()) != (packets, packets, ROTATION) {
        let problem = format!(
            "of {packets} packets {judged} came out, {right} of them where and as they should; {} of {ROTATION} are left",
            rotation.len()
        );
        return Err(BenchError::check(structure, problem));
    }
    Ok(())
}

fn judge_table<P: PacketBuf>(
    fib: Fib,
    asker: &mut dyn Asker,
    rotation: &Rotation<P>,
    names: usize,
) -> Result<(), BenchError> {
    judge(fib.name(), Rule::Rewritten, rotation, names, |packets| forward(rotation, asker, packets))
}

fn judge_switch<P: PacketBuf + 'static>(
    whole: Whole,
    fib: &FlatFib,
    rotation: &Rotation<P>,
    names: usize,
) -> Result<(), BenchError> {
    let mut switch = switch(fib, rotation)?;
    judge(whole.name(), whole.rule(), rotation, names, |packets| turn(&mut switch, packets))
}

fn show(session: &mut Session<'_>) {
    let heads = ["names", "frames", "structure", "paper", "ns a packet", "Mpps", "Gb/s"];
    let mut sheet = Sheet::new("concise-figure-9", &heads);
    let title = "Packets forwarded a second, one core, without generator and sink";
    let mut chart = Chart::new(
        "concise-figure-9",
        title,
        ("names", Scale::Doublings),
        ("million packets a second", Scale::Linear),
    );
    let rows: Vec<Row> = session.rows().to_vec();
    for pair in rows.windows(2) {
        let [time, rate] = pair else { continue };
        let Some(frames) = rate.subject.variant.as_deref().and_then(|variant| variant.strip_prefix(VARIANT))
        else {
            continue;
        };
        if (time.metric, rate.metric) != (Metric::PacketTime, Metric::PacketRate) {
            continue;
        }
        let octets: f64 = frames.split(' ').next().and_then(|octets| octets.parse().ok()).unwrap_or(0.0);
        sheet.rows.push(vec![
            short_count(rate.subject.keys),
            frames.to_owned(),
            rate.subject.structure.clone(),
            paper::NOT_GIVEN.to_owned(),
            format!("{:.1} ({:.1}–{:.1})", time.median, time.min, time.max),
            millions(&rate.summary()),
            format!("{:.1}", rate.median * octets * 8.0 / 1e9),
        ]);
        add_point(
            &mut chart,
            &format!("{}, {frames}", rate.subject.structure),
            rate.subject.keys as f64,
            rate,
            1e6,
        );
    }
    session.tabulate(sheet);
    session.show(chart);
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_types::KeyHash;

    struct Constant(u16);

    impl Asker for Constant {
        fn ask(&mut self, _: &[KeyHash], actions: &mut [u16]) {
            actions.fill(self.0);
        }
    }

    #[test]
    fn packets_go_where_their_names_say() {
        let stations = Arc::new(Stations::new(1000, 5));
        for octets in FRAMES {
            let rotation = Rotation::new(Slab::new(ROTATION).packets, &stations, octets);
            for fib in STRUCTURES {
                let table = fib.build(&stations.set, 1).unwrap();
                judge_table(fib, &mut *table.asker(), &rotation, 1000).unwrap();
            }
            for whole in Whole::ALL {
                judge_switch(whole, &whole.fib(&stations).unwrap(), &rotation, 1000).unwrap();
            }
            assert!(judge_table(Fib::OTHELLO, &mut Constant(3), &rotation, 1000).is_err());
            assert_eq!(rotation.len(), ROTATION, "none is lost");
        }
    }

    #[test]
    fn a_switch_that_does_something_else_is_found_out() {
        let (stations, others) = (Arc::new(Stations::new(1000, 5)), Stations::new(900, 5));
        let rotation = || Rotation::new(Slab::new(ROTATION).packets, &stations, 64);
        let routes = Whole::Routes.fib(&stations).unwrap();
        assert!(judge_switch(Whole::Forwards, &routes, &rotation(), 1000).is_err(), "routed instead");
        let fewer = Whole::Forwards.fib(&others).unwrap();
        assert!(
            judge_switch(Whole::Forwards, &fewer, &rotation(), 1000).is_err(),
            "not known: flooded, or dropped"
        );
    }
}
