//! Publishes and receives pulses through the engine: see [`scalebricks_control::membership`].

use super::event::Event;
use futures_util::StreamExt;
use scalebricks_control::engine::{Engine, EngineError};
use scalebricks_control::membership::PULSE;
use scalebricks_types::NodeId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// The topic. A message is the node's number in one octet.
const TOPIC: &str = "cluster.pulse";

/// Time between two attempts to subscribe.
const PATIENCE: Duration = Duration::from_millis(500);

/// The tasks that publish and receive pulses. Dropping it ends them.
pub(super) struct Pulses {
    engine: Arc<dyn Engine>,
    events: mpsc::Sender<Event>,
    due: mpsc::Sender<()>,
    publishing: AbortHandle,
    listening: Option<AbortHandle>,
}

impl Pulses {
    /// Pulses of this node, on the current runtime.
    pub(super) fn new(node: NodeId, engine: Arc<dyn Engine>, events: mpsc::Sender<Event>) -> Self {
        let (due, pulses) = mpsc::channel(1);
        let publishing = tokio::spawn(publish(Arc::clone(&engine), node, pulses)).abort_handle();
        Self { engine, events, due, publishing, listening: None }
    }

    /// Publishes a pulse. Skipped while the engine does not answer.
    pub(super) fn publish(&self) {
        let _left_out = self.due.try_send(());
    }

    /// Starts or stops passing the pulses of all nodes to the actor.
    pub(super) fn listen(&mut self, listens: bool) {
        if let Some(task) = self.listening.take() {
            task.abort();
        }
        if listens {
            let task = tokio::spawn(listen(Arc::clone(&self.engine), self.events.clone()));
            self.listening = Some(task.abort_handle());
        }
    }
}

impl Drop for Pulses {
    fn drop(&mut self) {
        self.publishing.abort();
        if let Some(task) = &self.listening {
            task.abort();
        }
    }
}

async fn publish(engine: Arc<dyn Engine>, node: NodeId, mut due: mpsc::Receiver<()>) {
    while due.recv().await.is_some() {
        match tokio::time::timeout(PULSE, engine.publish(TOPIC, Arc::from([node.get()]))).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "cannot publish a pulse"),
            Err(_) => tracing::debug!("cannot publish a pulse: the engine does not answer"),
        }
    }
}

async fn listen(engine: Arc<dyn Engine>, events: mpsc::Sender<Event>) {
    loop {
        if let Err(error) = receive(&*engine, &events).await {
            tracing::debug!(%error, "cannot receive pulses");
        }
        if events.is_closed() {
            return;
        }
        tokio::time::sleep(PATIENCE).await;
    }
}

/// Runs until the subscription or the actor ends.
async fn receive(engine: &dyn Engine, events: &mpsc::Sender<Event>) -> Result<(), EngineError> {
    let mut pulses = engine.subscribe(TOPIC).await?;
    while let Some(pulse) = pulses.next().await {
        let &[node] = &*pulse else { continue };
        if events.send(Event::Pulsed(NodeId::new(node))).await.is_err() {
            break;
        }
    }
    Ok(())
}
