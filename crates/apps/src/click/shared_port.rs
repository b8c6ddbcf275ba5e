//! Ports of devices, which graphs have one after the other.

use scalebricks_io::{Burst, PacketBuf, RxPort, TxPort};
use std::sync::{Arc, Mutex, PoisonError};

/// A port. The graph that runs and the one that is about to take its place both have it, on one worker: nobody ever waits for
/// the lock.
pub(super) struct SharedPort<T: ?Sized>(Arc<Mutex<Box<T>>>);

impl<T: ?Sized> SharedPort<T> {
    pub(super) fn new(port: Box<T>) -> Self {
        Self(Arc::new(Mutex::new(port)))
    }
}

impl<T: ?Sized> Clone for SharedPort<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P: PacketBuf> RxPort<P> for SharedPort<dyn RxPort<P>> {
    fn rx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).rx_burst(burst) // a port keeps itself in order
    }
}

impl<P: PacketBuf> TxPort<P> for SharedPort<dyn TxPort<P>> {
    fn tx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).tx_burst(burst) // a port keeps itself in order
    }
}
