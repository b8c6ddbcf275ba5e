//! Device ports, which pass from one graph to the next.

use scalebricks_io::{Burst, PacketBuf, RxPort, TxPort};
use std::sync::{Arc, Mutex, PoisonError};

/// A port held by both the running graph and the one about to replace it, on one worker: the lock is never contended.
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner).rx_burst(burst) // a port stays consistent
    }
}

impl<P: PacketBuf> TxPort<P> for SharedPort<dyn TxPort<P>> {
    fn tx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).tx_burst(burst) // a port stays consistent
    }
}
