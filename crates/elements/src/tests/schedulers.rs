//! Compares schedulers with slow reference models over plain queues.

use crate::rig::Rig;
use proptest::prelude::*;
use scalebricks_graph::Builder;
use scalebricks_io::Packet;
use std::collections::VecDeque;

const INPUTS: usize = 3;

/// One queue per input; the first byte of a packet is the number of its input.
fn fill<'a>(class: &'a str, args: &'a [&'a str], burst: usize) -> impl Fn(&mut Builder<Packet>) + 'a {
    move |builder| {
        builder.declare("c", "Classifier", &["0/00", "0/01", "0/02"]).declare("s", class, args);
        builder.declare("u", "Unqueue", &[&format!("BURST {burst}")]).chain(&["in", "c"]);
        for input in 0..INPUTS {
            let queue = format!("q{input}");
            builder
                .declare(&queue, "Queue", &[])
                .connect("c", input, &queue, 0)
                .connect(&queue, 0, "s", input);
        }
        builder.chain(&["s", "u", "out0"]);
    }
}

/// The state that a scheduler decides from.
#[derive(Debug, Default)]
struct Twin {
    queues: [VecDeque<Vec<u8>>; INPUTS],
    next: usize,
    deficits: [usize; INPUTS],
}

impl Twin {
    fn push(&mut self, packet: Vec<u8>) {
        self.queues[usize::from(packet[0])].push_back(packet);
    }

    /// The next packet of the first queue that has one.
    fn prio(&mut self) -> Option<Vec<u8>> {
        self.queues.iter_mut().find_map(VecDeque::pop_front)
    }

    /// The next packet of the first queue from `next` on that has one.
    fn round_robin(&mut self) -> Option<Vec<u8>> {
        let turn = (self.next..self.next + INPUTS).map(|at| at % INPUTS);
        let input = turn.into_iter().find(|&input| !self.queues[input].is_empty())?;
        self.next = (input + 1) % INPUTS;
        self.queues[input].pop_front()
    }

    /// Round after round: the first packet that its queue's deficit covers.
    fn drr(&mut self, quantum: usize) -> Option<Vec<u8>> {
        if self.queues.iter().all(VecDeque::is_empty) {
            // All inputs were tried in vain, and the first is tried next.
            (0..INPUTS).for_each(|_| self.visit_next(quantum));
            return None;
        }
        loop {
            let deficit = &mut self.deficits[self.next];
            match self.queues[self.next].front() {
                Some(packet) if packet.len() <= *deficit => {
                    *deficit -= packet.len();
                    return self.queues[self.next].pop_front();
                }
                _ => self.visit_next(quantum),
            }
        }
    }

    fn visit_next(&mut self, quantum: usize) {
        if self.queues[self.next].is_empty() {
            self.deficits[self.next] = 0;
        }
        self.next = (self.next + 1) % INPUTS;
        self.deficits[self.next] += quantum;
    }
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    (0..INPUTS as u8, 1..1_500usize).prop_map(|(input, length)| vec![input; length])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn each_scheduler_sends_what_its_twin_does(
        steps in prop::collection::vec(prop::collection::vec(packet(), 0..12), 1..30),
        class in 0..3usize,
        burst in 1..9usize,
        quantum in 1..3_000usize,
    ) {
        let args = [format!("QUANTUM {quantum}")];
        let (name, args) = match class {
            0 => ("PrioSched", vec![]),
            1 => ("RoundRobinSched", vec![]),
            _ => ("DRRSched", args.iter().map(String::as_str).collect()),
        };
        let mut rig = Rig::new(1, fill(name, &args, burst));
        let mut twin = Twin::default();
        twin.deficits[0] = quantum;
        for packets in steps {
            rig.send(packets.iter().cloned());
            for packet in packets {
                twin.push(packet);
            }
            rig.turn();
            let mut expected = Vec::new();
            while expected.len() < burst {
                let next = match class {
                    0 => twin.prio(),
                    1 => twin.round_robin(),
                    _ => twin.drr(quantum),
                };
                let Some(packet) = next else { break };
                expected.push(packet);
            }
            prop_assert_eq!(rig.got(0), expected, "{}", name);
        }
        prop_assert_eq!(rig.worker.graph().held(), twin.queues.iter().map(VecDeque::len).sum::<usize>());
    }

    /// While two inputs always have packets, in no interval does one send more than a quantum and two packets more
    /// bytes than the other (Shreedhar and Varghese, SIGCOMM'95, §4).
    #[test]
    fn deficit_round_robin_is_fair_in_bytes(
        lengths in prop::collection::vec(prop::collection::vec(40..1_500usize, 120), INPUTS),
        quantum in 1..3_000u16,
    ) {
        let quantum_text = format!("QUANTUM {quantum}");
        let args = [quantum_text.as_str()];
        let mut rig = Rig::new(1, fill("DRRSched", &args, 1));
        for (input, lengths) in lengths.iter().enumerate() {
            rig.send(lengths.iter().map(|&length| vec![input as u8; length]));
        }
        let (mut sent, mut differences) = ([0i64; INPUTS], Vec::new());
        for _ in 0..150 {
            rig.turn();
            for packet in rig.got(0) {
                sent[usize::from(packet[0])] += i64::try_from(packet.len()).unwrap();
            }
            if ["q0", "q1", "q2"].iter().all(|queue| rig.number(queue, "length") > 0) {
                differences.push([sent[0] - sent[1], sent[1] - sent[2], sent[2] - sent[0]]);
            }
        }
        prop_assert!(differences.len() > 20);
        let bound = i64::from(quantum) + 2 * 1_500;
        for pair in 0..INPUTS {
            let (least, most) = (differences.iter().map(|one| one[pair]).min(), differences.iter().map(|one| one[pair]).max());
            prop_assert!(most.unwrap_or(0) - least.unwrap_or(0) <= bound);
        }
    }
}

#[test]
fn deficit_round_robin_keeps_its_packets_in_a_new_graph_of_as_many_inputs() {
    let mut rig = Rig::new(1, fill("DRRSched", &["100"], 1));
    rig.send([vec![0; 90], vec![0; 90], vec![1; 300], vec![2; 90]]);
    rig.turn();
    rig.replace(fill("DRRSched", &["100"], 9));
    (0..3).for_each(|_| {
        rig.turn();
    });
    assert_eq!((rig.heads(0), rig.worker.graph().held()), (vec![0, 2, 0, 1], 0));
    assert!(Rig::with_buffers(9, 1, fill("DRRSched", &["0"], 1)).is_err());
}
