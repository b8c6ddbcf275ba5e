//! `PollDevice`.

use crate::from_device::{FromDevice, FromDeviceParams};
use crate::shared_names::{counters, drops, handlers};
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{
    Class, Control, Element, Environment, Frame, HandlerId, Meta, Out, Supply, Upstream, element,
};
use scalebricks_io::{BURST, PacketBuf};
use std::any::Any;

element! {
    /// The same as `FromDevice`, under the name that Click configurations use for polling drivers.
    #[derive(Debug)]
    pub struct PollDevice<P> as "PollDevice" { inner: FromDevice<P>, }
    outputs { push "out": "Packets.", }
    params PollDeviceParams {
        /// The device's name.
        devname: String,
        /// Most packets per turn. Click's default is 8.
        burst: usize = BURST,
        /// Whether it is active from the start.
        active: bool = true,
        /// Not used.
        promisc: bool = true,
        /// Not used.
        headroom: usize = 0,
    }
    drops { TOO_LONG = drops::LONG_FRAME, }
    counters { NO_BUFFER = counters::NO_BUFFER, }
    handlers {
        read COUNT = handlers::COUNT,
        read ACTIVE = handlers::ACTIVE,
        write SET_ACTIVE = handlers::SET_ACTIVE,
        write RESET = "reset_counts": "Sets `count` to 0.",
    }
    hooks { Begin, }
}

impl<P: PacketBuf + 'static> Class for PollDevice<P> {
    fn make(params: PollDeviceParams) -> Result<Self, String> {
        let PollDeviceParams { devname, burst, active, promisc, headroom } = params;
        let (sniffer, snaplen, method) = (false, 0, String::new());
        let params = FromDeviceParams { devname, burst, active, promisc, sniffer, snaplen, headroom, method };
        Ok(Self { inner: FromDevice::make(params)? })
    }
}

/// Drop reasons, counters and handlers are those of `FromDevice`, in the same order.
const _: () = {
    let (own, inner) = (PollDevice::<()>::SPEC, FromDevice::<()>::SPEC);
    assert!(own.handlers.len() == inner.handlers.len() && own.counters.len() == inner.counters.len());
    assert!(own.drops.len() == inner.drops.len());
};

impl<P: PacketBuf + 'static> Control for PollDevice<P> {
    fn read(&self, handler: HandlerId) -> String {
        self.inner.read(handler)
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        self.inner.write(handler, value)
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        self.inner.take_over(&mut before.inner);
    }
}

impl<P: PacketBuf + 'static> Element<P> for PollDevice<P> {
    fn begin(&mut self, upstream: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        self.inner.begin(upstream, frame, out);
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        self.inner.open(world)
    }

    fn supply(&self) -> Option<Supply> {
        self.inner.supply()
    }

    fn fault(&self) -> Option<String> {
        self.inner.fault()
    }

    fn held(&self) -> usize {
        self.inner.held()
    }

    fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        self.inner.drain(to);
    }
}
