//! A worker's ports. They belong to the worker and thus survive the replacement of a graph.

use crate::frame::Frame;
use scalebricks_io::{Burst, PacketBuf, Port};

/// A worker's ports, by [`PortId`](crate::PortId).
pub type Ports<P> = Vec<Box<dyn Port<P>>>;

impl<P: PacketBuf> Frame<P> {
    /// Receives a burst from a port into a `burst` output of the running element and returns it. A port that the worker
    /// does not have delivers no packets.
    ///
    /// # Panics
    /// If the class has no such output.
    #[inline(always)]
    pub fn receive(&mut self, port: usize, output: usize, mut seen: impl FnMut(&Burst<P>)) -> usize {
        let Self { ports, watch, outs, .. } = self;
        let (number, Some(port)) = (port, ports.get_mut(port)) else { return 0 };
        outs[output].fill(|burst| {
            let before = burst.len();
            let came = port.rx_burst(burst);
            if watch.has_ports() {
                watch.received(number, burst, before);
            }
            seen(burst);
            came
        })
    }

    /// Sends packets by a port, in order; returns how many it took. The others stay in the burst.
    #[inline(always)]
    pub fn transmit(&mut self, port: usize, burst: &mut Burst<P>) -> usize {
        let Self { ports, watch, .. } = self;
        let (number, Some(port)) = (port, ports.get_mut(port)) else { return 0 };
        if watch.has_ports() {
            return watch.sending(number, burst, |burst| port.tx_burst(burst));
        }
        port.tx_burst(burst)
    }
}
