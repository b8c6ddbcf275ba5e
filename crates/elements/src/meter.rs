//! `Meter`.

use crate::header;
use scalebricks_graph::element::{BindError, HandlerError};
use scalebricks_graph::{Binder, Class, Control, Element, Frame, HandlerId, Out, SlotList, element};
use scalebricks_io::PacketBuf;
use std::time::Duration;

/// The length of an epoch, after which the average is updated.
const EPOCH: Duration = Duration::from_millis(10);
const EPOCHS_A_SECOND: f64 = 100.0;

/// The weight of an epoch's rate in the average.
const WEIGHT: f64 = 1.0 / 16.0;

element! {
    /// Sends all packets to one output, chosen by their arrival rate: below the first rate to output 0, from the first
    /// rate on to output 1, and so on. If that output is unconnected, it drops them. The rate is an exponentially
    /// weighted moving average in which each 10 ms have a weight of 1/16. Packets of an exempt code point (RFC 2474)
    /// are counted, but always leave by output 0.
    pub struct Meter as "Meter" { rates: Vec<u64>, exempt: Option<u8>, connected: Vec<bool>, average: Average, }
    inputs { push "in": "Packets.", }
    outputs { push "slow": "Packets below the first rate.", push "fast" [ZeroOrMore]: "Packets at or above a rate.", }
    params MeterParams {
        /// Packets per second, in ascending order.
        rates: Vec<u64> = Vec::new(),
        /// The code point of exempt IPv4 packets, such as 48 of routing protocols. It is read where the graph has
        /// located an IP header.
        exempt: Option<u8> = None,
    }
    example { "10", "1000", "EXEMPT 48", }
    drops { OVER_RATE = "over_rate": "The rate was exceeded and the output for that rate is unconnected.", }
    counters { EXEMPTED = "exempted": "Exempt packets while the first rate was exceeded.", }
    handlers {
        read RATE = "rate": "Average packets per second.",
        write RESET = "reset": "Sets the average to 0.",
    }
    keeps { average, }
}

/// An average over epochs.
#[derive(Debug, Clone, Copy, Default)]
struct Average {
    per_second: f64,
    /// The number of the current epoch, and its packet count.
    epoch: u128,
    count: u32,
}

impl Average {
    /// Packets per second, up to the last complete epoch.
    fn at(&mut self, now: Duration) -> f64 {
        let epoch = now.as_nanos() / EPOCH.as_nanos();
        let over = epoch.saturating_sub(self.epoch);
        if over > 0 {
            let rate = f64::from(std::mem::take(&mut self.count)) * EPOCHS_A_SECOND;
            self.per_second += (rate - self.per_second) * WEIGHT;
            // The other epochs had no packets.
            let others = i32::try_from(over - 1).unwrap_or(i32::MAX);
            self.per_second *= (1.0 - WEIGHT).powi(others);
            self.epoch = epoch;
        }
        self.per_second
    }
}

impl Class for Meter {
    fn make(params: MeterParams) -> Result<Self, String> {
        let MeterParams { rates, exempt } = params;
        if rates.is_empty() || !rates.is_sorted_by(|a, b| a < b) {
            return Err("expected rates in ascending order".to_owned());
        }
        match exempt {
            Some(dscp) if dscp >= 64 => Err(format!("a code point is below 64, not {dscp}")),
            _ => Ok(Self { rates, exempt, connected: Vec::new(), average: Average::default() }),
        }
    }
}

impl Control for Meter {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        if binder.outputs() > self.rates.len() + 1 {
            let (rates, outputs) = (self.rates.len(), binder.outputs());
            return Err(BindError::Refused(format!("{rates} rates for {outputs} outputs")));
        }
        self.connected = (0..=self.rates.len()).map(|output| binder.is_connected(output)).collect();
        Ok(())
    }

    fn read(&self, _: HandlerId) -> String {
        format!("{:.1}", self.average.per_second)
    }

    fn write(&mut self, _: HandlerId, _: &str) -> Result<(), HandlerError> {
        self.average.per_second = 0.0;
        Ok(())
    }
}

impl<P: PacketBuf> Element<P> for Meter {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let rate = self.average.at(out.now());
        self.average.count = self.average.count.saturating_add(batch.len() as u32);
        let output = self.rates.partition_point(|&from| from as f64 <= rate);
        if let (1.., Some(exempt)) = (output, self.exempt) {
            batch.filter_map(|slot| {
                let ip = header::packet(frame.packet(&slot).data(), frame.meta(&slot));
                if ip.is_none_or(|ip| ip.dscp_ecn() >> 2 != exempt) {
                    return Some(slot);
                }
                out.count(Self::EXEMPTED, 1);
                out.push(0, slot);
                None
            });
        }
        if self.connected.get(output) == Some(&true) {
            out.all(output, batch);
        } else {
            out.drop_all(batch, Self::OVER_RATE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, ipv4_of};
    use proptest::prelude::*;

    fn rig(outputs: usize, args: &[&str]) -> Result<Rig, String> {
        let rig = Rig::with_buffers(1_000, outputs, |builder| {
            builder.declare("ip", "MarkIPHeader", &[]).declare("m", "Meter", args).chain(&["in", "ip", "m"]);
            for at in 0..outputs {
                builder.connect("m", at, &format!("out{at}"), 0);
            }
        });
        rig.map_err(|errors| errors.to_string())
    }

    /// Sends packets of these code points; how many came to each output.
    fn send<const OUTPUTS: usize>(rig: &mut Rig, at: Duration, code_points: &[u8]) -> [usize; OUTPUTS] {
        rig.send(code_points.iter().map(|dscp| ipv4_of(|header| header.dscp_ecn = dscp << 2, b"abc")));
        rig.turn_at(at);
        std::array::from_fn(|output| rig.got(output).len())
    }

    #[test]
    fn packets_over_the_rate_are_dropped_but_for_those_that_are_exempt() {
        let mut rig = rig(1, &["1000", "EXEMPT 48"]).unwrap();
        let ms = Duration::from_millis;
        assert_eq!(send(&mut rig, ms(1), &[0; 90]), [90]);
        assert_eq!(send(&mut rig, ms(9), &[0; 70]), [70], "the epoch is not over");
        // 160 packets in 10 ms, for a sixteenth.
        assert_eq!(send(&mut rig, ms(11), &[0, 48, 0, 48, 48]), [3]);
        assert_eq!(["over_rate", "exempted"].map(|name| rig.number("m", name)), [2, 3]);
        assert_eq!(rig.read("m", "rate"), "1000.0");
        rig.write("m", "reset", "").unwrap();
        assert_eq!(send(&mut rig, ms(12), &[0; 4]), [4]);
    }

    #[test]
    fn rates_ascend_and_outputs_are_as_many_at_most() {
        let refused = |outputs, args: &[&str]| rig(outputs, args).err().unwrap();
        assert!(refused(1, &[]).contains("ascending") && refused(1, &["5", "5"]).contains("ascending"));
        assert!(refused(3, &["5"]).contains("1 rates for 3 outputs"));
        assert!(refused(1, &["5", "EXEMPT 64"]).contains("below 64"));
    }

    /// The average, epoch by epoch from the first on.
    fn slow(arrivals: &[u64], now: u64) -> f64 {
        (0..now / 10).fold(0.0, |average, epoch| {
            let count = arrivals.iter().filter(|&&at| at / 10 == epoch).count();
            average + (count as f64 * 100.0 - average) / 16.0
        })
    }

    proptest! {
        #[test]
        fn the_average_is_that_of_all_epochs_one_by_one(
            steps in prop::collection::vec((0..80u64, 1..90usize), 1..40),
        ) {
            let (mut rig, mut now, mut arrivals) = (rig(3, &["200", "900"]).unwrap(), 0, Vec::new());
            for (step, packets) in steps {
                now += step;
                let average = slow(&arrivals, now);
                let got: [usize; 3] = send(&mut rig, Duration::from_millis(now), &vec![0; packets]);
                // Both add up in another order.
                if [200.0, 900.0].iter().all(|rate: &f64| (average - rate).abs() > 1e-6) {
                    let output = usize::from(average >= 200.0) + usize::from(average >= 900.0);
                    prop_assert_eq!(got[output], packets);
                }
                let told: f64 = rig.read("m", "rate").parse().unwrap();
                prop_assert!((told - average).abs() < 0.051, "{told} is not {average}");
                arrivals.extend(std::iter::repeat_n(now, packets));
            }
        }
    }
}
