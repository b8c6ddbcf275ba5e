//! `Paint`.

use crate::shared_names::handlers;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Control, HandlerId, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

element! {
    /// Sets every packet's paint annotation.
    pub struct Paint as "Paint" {
        pub(crate) color: u8,
        // Whether a handler has set it.
        pub(crate) is_set: Arc<AtomicBool>,
    }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "The same, painted.", }
    params PaintParams {
        /// The paint.
        color: u8,
    }
    example { "1", }
    handlers { read COLOR = handlers::PAINT, write SET = "color": "Sets the paint.", }
    makes |params| Self { color: params.color, is_set: Arc::default() },
}

impl Control for Paint {
    fn read(&self, _: HandlerId) -> String {
        self.color.to_string()
    }

    fn write(&mut self, _: HandlerId, value: &str) -> Result<(), HandlerError> {
        self.is_set.store(true, Ordering::Relaxed);
        self.color = value
            .trim()
            .parse()
            .map_err(|_| HandlerError::Value(format!("no number below 256: {value:?}")))?;
        Ok(())
    }
}

impl<P: PacketBuf> PerPacket<P> for Paint {
    fn each(&mut self, _: &mut P, meta: &mut Meta, _: PacketContext<'_>) -> Verdict {
        meta.paint = self.color;
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn packets_are_painted_as_it_is_set() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("p", "Paint", &["COLOR 3"]).chain(&["in", "p", "out0"]);
        });
        rig.send([b"a", b"b"]);
        rig.turn();
        rig.write("p", "color", "255").unwrap();
        rig.send([b"c"]);
        rig.turn();
        assert_eq!((rig.paints(0), rig.read("p", "color")), (vec![3, 3, 255], "255".into()));
        assert!(rig.write("p", "color", "256").is_err());
    }
}
