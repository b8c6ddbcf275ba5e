//! Device ports, which pass from one graph to the next.

use scalebricks_io::{Burst, PacketBuf, RxPort, TxPort};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A port that both the running graph and the one about to replace it may use, each by its own clone.
///
/// The first clone that is called takes the port, and keeps it until it is dropped; until then the others have no packets
/// and take none. So a call takes no lock. A worker [retires](scalebricks_graph::Element::retire) a graph's elements when it
/// replaces the graph, so its successor has the port from its first turn on.
pub(super) struct SharedPort<T: ?Sized> {
    /// The port while no clone has it.
    place: Arc<Mutex<Option<Box<T>>>>,
    own: Option<Box<T>>,
}

impl<T: ?Sized> SharedPort<T> {
    pub(super) fn new(port: Box<T>) -> Self {
        Self { place: Arc::new(Mutex::new(Some(port))), own: None }
    }

    fn place(&self) -> MutexGuard<'_, Option<Box<T>>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner) // a port is there or not
    }

    /// The port, unless another clone has it.
    #[inline(always)]
    fn port(&mut self) -> Option<&mut T> {
        if self.own.is_none() {
            self.take();
        }
        self.own.as_deref_mut()
    }

    #[cold]
    fn take(&mut self) {
        let port = self.place().take();
        self.own = port;
    }
}

impl<T: ?Sized> Clone for SharedPort<T> {
    fn clone(&self) -> Self {
        Self { place: Arc::clone(&self.place), own: None }
    }
}

impl<T: ?Sized> Drop for SharedPort<T> {
    fn drop(&mut self) {
        if let Some(port) = self.own.take() {
            *self.place() = Some(port);
        }
    }
}

impl<P: PacketBuf> RxPort<P> for SharedPort<dyn RxPort<P>> {
    fn rx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        self.port().map_or(0, |port| port.rx_burst(burst))
    }
}

impl<P: PacketBuf> TxPort<P> for SharedPort<dyn TxPort<P>> {
    fn tx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        self.port().map_or(0, |port| port.tx_burst(burst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_io::{Packet, Pool, memory_port_pair};

    #[test]
    fn one_clone_has_the_port_until_it_is_dropped() {
        let mut pool = Pool::new(10, 100).unwrap();
        let (mut far, near) = memory_port_pair::<Packet>(10);
        let kept = SharedPort::<dyn RxPort<Packet>>::new(Box::new(near));
        let (mut old, mut new) = (kept.clone(), kept.clone());
        let mut burst = Burst::new();
        far.send(pool.packet(&[1]).unwrap()).unwrap();
        assert_eq!(old.rx_burst(&mut burst), 1);
        far.send(pool.packet(&[2]).unwrap()).unwrap();
        assert_eq!(new.rx_burst(&mut burst), 0);
        drop(old);
        assert_eq!((new.rx_burst(&mut burst), burst[1].data()), (1, &[2][..]));
        far.send(pool.packet(&[3]).unwrap()).unwrap();
        drop(new);
        assert_eq!(kept.clone().rx_burst(&mut burst), 1);
    }
}
