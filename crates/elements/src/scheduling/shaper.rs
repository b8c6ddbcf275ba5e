//! `Shaper`.

crate::paced::shaper! {
    /// Limits the rate at which packets are pulled. After a pause, the packets of 20 ms go at once. It stands between a
    /// queue and the element that pulls.
    Shaper as "Shaper", ShaperParams, Packets of u32: "Packets per second.", "1000"
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;
    use proptest::prelude::*;
    use std::time::Duration;

    /// A queue of packets of these lengths before an element that limits their rate.
    fn rig(limiter: &[&str; 2], lengths: &[usize]) -> Rig {
        let rig = Rig::with_buffers(3_000, 1, |builder| {
            builder.declare("q", "Queue", &["3000"]).declare("s", limiter[0], &limiter[1..]);
            if limiter[0].contains("Unqueue") {
                builder.chain(&["in", "q", "s", "out0"]);
            } else {
                builder.declare("u", "Unqueue", &["BURST 100"]).chain(&["in", "q", "s", "u", "out0"]);
            }
        })
        .unwrap();
        rig.send(lengths.iter().enumerate().map(|(at, &length)| {
            let mut packet = (at as u16).to_be_bytes().to_vec();
            packet.resize(length, 0);
            packet
        }));
        rig
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Between any two moments no more passes than the rate, one burst, and for bytes one packet; in the end as
        /// much as the rate allows. Packets keep their order.
        #[test]
        fn no_more_passes_than_the_rate_says_and_no_less(
            class in 0..4usize,
            rate in 100..5_000u64,
            steps in prop::collection::vec(1..40u64, 20..60),
            lengths in prop::collection::vec(60..1_000usize, 600),
        ) {
            let name = ["Shaper", "BandwidthShaper", "RatedUnqueue", "BandwidthRatedUnqueue"][class];
            let is_bytes = name.starts_with("Bandwidth");
            // Bytes have the same rate in packets, about.
            let rate = if is_bytes { rate * 500 } else { rate };
            let (unit, text) = (if is_bytes { "Bps" } else { "" }, rate.to_string());
            let mut rig = rig(&[name, &format!("{text}{unit}")], &lengths);
            let (mut at, mut passed, mut next, mut taken) = (0u64, vec![(0, 0)], 0, 0);
            for step in steps {
                at += step;
                // Turns are so many that what a turn takes in is no limit.
                for _ in 0..12 {
                    rig.turn_at(Duration::from_millis(at));
                }
                for packet in rig.got(0) {
                    prop_assert_eq!(u16::from_be_bytes([packet[0], packet[1]]), next);
                    next += 1;
                    taken += if is_bytes { packet.len() as u64 } else { 1 };
                }
                passed.push((at, taken));
            }
            let longest = if is_bytes { 1_000 } else { 1 };
            let burst = (rate / 50).max(1);
            for (place, (from, before)) in passed.iter().enumerate() {
                for (to, after) in &passed[place..] {
                    prop_assert!(after - before <= (to - from) * rate / 1_000 + burst + longest);
                }
            }
            // Steps of up to 40 ms may lose what a burst cannot hold.
            let kept: u64 = passed.windows(2).map(|two| ((two[1].0 - two[0].0) * rate / 1_000).min(burst)).sum();
            prop_assert!(usize::from(next) == lengths.len() || taken + longest + passed.len() as u64 >= kept);
        }
    }

    #[test]
    fn the_rate_can_be_changed_and_is_kept_in_a_new_graph() {
        let mut rig = rig(&["Shaper", "1000"], &[60; 500]);
        let ms = Duration::from_millis;
        let passed = |rig: &mut Rig, at| {
            rig.turn_at(ms(at));
            rig.got(0).len()
        };
        assert_eq!([5, 6, 16].map(|at| passed(&mut rig, at)), [20, 1, 10]);
        rig.write("s", "rate", "100").unwrap();
        assert_eq!([20, 26, 36].map(|at| passed(&mut rig, at)), [0, 1, 1]);
        assert!(rig.write("s", "rate", "fast").is_err());
        rig.replace(|builder| {
            builder.declare("q", "Queue", &["3000"]).declare("s", "Shaper", &["100"]).declare(
                "u",
                "Unqueue",
                &[],
            );
            builder.chain(&["in", "q", "s", "u", "out0"]);
        });
        assert_eq!([37, 46].map(|at| passed(&mut rig, at)), [0, 1]);
        assert_eq!(rig.read("s", "rate"), "100");
    }

    #[test]
    fn a_rated_unqueue_has_a_limit_and_can_be_stopped() {
        let mut rig = rig(&["RatedUnqueue", "100000"], &[60; 100]);
        rig.turn();
        rig.turn();
        assert_eq!(rig.got(0).len(), 100);
        rig.write("s", "active", "false").unwrap();
        rig.send([[1; 9]]);
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.number("s", "count")), (0, 100));
    }
}
