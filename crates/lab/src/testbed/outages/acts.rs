//! How outages are made and undone.

#![expect(clippy::unnecessary_wraps, reason = "all acts have one signature")]

use super::scene::Scene;
use crate::testbed::LabError;
use crate::testbed::network::ControlEnd;
use crate::testbed::plan::{ControlNet, Link};
use rustix::process::Signal;
use scalebricks_types::NodeId;
use std::thread;
use std::time::Duration;

type Done = Result<(), LabError>;

/// The thread that forwards at a node with one worker.
const WORKER: &str = "worker-0";

/// The threads of a node's control plane.
const CONTROL: &str = "control";

/// How long a server of the log is away.
const SERVER_AWAY: Duration = Duration::from_secs(4);

/// How long a server of the log is back before the next goes.
const SERVER_BACK: Duration = Duration::from_secs(3);

/// How long what was begun before an outage may take once it is over.
const IMPORT: Duration = Duration::from_secs(15);

pub const fn nothing(_: &mut Scene<'_, '_>) -> Done {
    Ok(())
}

fn ends(scene: &Scene<'_, '_>) -> (ControlEnd, ControlEnd) {
    (ControlEnd::Node(scene.place.node), ControlEnd::Node(scene.place.peer))
}

pub fn cut_control_pair(scene: &mut Scene<'_, '_>) -> Done {
    let (a, b) = ends(scene);
    scene.lab.network().set_control_pair(a, b, false)
}

pub fn heal_control_pair(scene: &mut Scene<'_, '_>) -> Done {
    let (a, b) = ends(scene);
    scene.lab.network().set_control_pair(a, b, true)
}

pub fn cut_control_way(scene: &mut Scene<'_, '_>) -> Done {
    let (from, to) = ends(scene);
    scene.lab.network().set_control_way(from, to, false)
}

pub fn heal_control_way(scene: &mut Scene<'_, '_>) -> Done {
    let (from, to) = ends(scene);
    scene.lab.network().set_control_way(from, to, true)
}

/// The cuts between two halves of the nodes.
fn set_split(scene: &Scene<'_, '_>, is_open: bool) -> Done {
    let nodes: Vec<NodeId> = scene.lab.plan.size.nodes().collect();
    let (left, right) = nodes.split_at(nodes.len() / 2);
    for (a, b) in left.iter().flat_map(|a| right.iter().map(move |b| (*a, *b))) {
        scene.lab.network().set_control_pair(ControlEnd::Node(a), ControlEnd::Node(b), is_open)?;
    }
    Ok(())
}

pub fn split_control(scene: &mut Scene<'_, '_>) -> Done {
    set_split(scene, false)
}

pub fn heal_split(scene: &mut Scene<'_, '_>) -> Done {
    set_split(scene, true)
}

pub fn cut_control_of_all(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_bridge(ControlNet::Mesh.bridge(), false)
}

pub fn heal_control_of_all(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_bridge(ControlNet::Mesh.bridge(), true)
}

pub fn cut_control_link(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_control_port(scene.place.node, false)
}

pub fn heal_control_link(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_control_port(scene.place.node, true)
}

pub fn cut_fabric_link(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_port(Link::Fabric, scene.place.node, false)
}

pub fn heal_fabric_link(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_port(Link::Fabric, scene.place.node, true)
}

pub fn cut_fabric_pair(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_fabric_pair(scene.place.node, scene.place.peer, false)
}

pub fn heal_fabric_pair(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_fabric_pair(scene.place.node, scene.place.peer, true)
}

pub fn cut_ran_link(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_port(Link::Ran, scene.place.node, false)
}

pub fn heal_ran_link(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_port(Link::Ran, scene.place.node, true)
}

pub fn cut_internet_link(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_port(Link::Internet, scene.place.node, false)
}

pub fn heal_internet_link(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_port(Link::Internet, scene.place.node, true)
}

pub fn lose_next_hop(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_member(Link::Internet, scene.place.node, false)
}

pub fn return_next_hop(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_member(Link::Internet, scene.place.node, true)
}

pub fn lose_ran_switch(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_bridge(Link::Ran.bridge(), false)
}

pub fn return_ran_switch(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_bridge(Link::Ran.bridge(), true)
}

fn set_all_links(scene: &Scene<'_, '_>, is_up: bool) -> Done {
    let (network, node) = (scene.lab.network(), scene.place.node);
    network.set_control_port(node, is_up)?;
    Link::ALL.iter().try_for_each(|link| network.set_port(*link, node, is_up))
}

pub fn cut_all_links(scene: &mut Scene<'_, '_>) -> Done {
    set_all_links(scene, false)
}

pub fn heal_all_links(scene: &mut Scene<'_, '_>) -> Done {
    set_all_links(scene, true)
}

fn hold(scene: &mut Scene<'_, '_>, threads: &str) -> Done {
    let node = scene.process(scene.place.node)?;
    let holder = scene.lab.processes().halt(node, threads)?;
    scene.held.push(holder);
    Ok(())
}

pub fn stop_worker(scene: &mut Scene<'_, '_>) -> Done {
    hold(scene, WORKER)
}

pub fn stop_control(scene: &mut Scene<'_, '_>) -> Done {
    hold(scene, CONTROL)
}

pub fn let_go(scene: &mut Scene<'_, '_>) -> Done {
    scene.held.drain(..).try_for_each(|mut holder| {
        // One that had ended held nothing.
        let held = holder.ended();
        holder.kill();
        held
    })
}

pub fn stop_node(scene: &mut Scene<'_, '_>) -> Done {
    scene.process(scene.place.node)?.signal(Signal::STOP)
}

pub fn resume_node(scene: &mut Scene<'_, '_>) -> Done {
    scene.process(scene.place.node)?.signal(Signal::CONT)
}

pub fn kill_node(scene: &mut Scene<'_, '_>) -> Done {
    scene.kill(scene.place.node)
}

pub fn start_node(scene: &mut Scene<'_, '_>) -> Done {
    scene.start(scene.place.node)
}

pub fn kill_all(scene: &mut Scene<'_, '_>) -> Done {
    let nodes: Vec<NodeId> = scene.lab.plan.size.nodes().collect();
    nodes.into_iter().try_for_each(|node| scene.kill(node))
}

pub fn start_all(scene: &mut Scene<'_, '_>) -> Done {
    let nodes: Vec<NodeId> = scene.lab.plan.size.nodes().collect();
    nodes.into_iter().try_for_each(|node| scene.start(node))
}

pub fn drain_node(scene: &mut Scene<'_, '_>) -> Done {
    let node = scene.place.node;
    scene.tell_another(node, |other| other.drain(node.get().into(), true).map(drop))
}

pub fn undrain_node(scene: &mut Scene<'_, '_>) -> Done {
    let node = scene.place.node;
    scene.tell_another(node, |other| other.undrain(node.get().into()).map(drop))
}

pub fn stop_log(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.log().signal(Signal::STOP)?;
    let import = scene.lab.processes().start_import()?;
    scene.held.push(import);
    Ok(())
}

pub fn resume_log(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.log().signal(Signal::CONT)?;
    let interrupt = scene.interrupt;
    // Flows that were handed over meanwhile are with all nodes then.
    scene.held.drain(..).try_for_each(|import| import.await_end(IMPORT, interrupt))
}

pub fn kill_log(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.log().kill();
    Ok(())
}

pub fn start_log(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.start_log()
}

pub fn cut_log(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_log_way(scene.place.node, false)
}

pub fn heal_log(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_log_way(scene.place.node, true)
}

pub fn restart_without_log(scene: &mut Scene<'_, '_>) -> Done {
    scene.lab.network().set_log_way(scene.place.node, false)?;
    scene.kill(scene.place.node)?;
    scene.start(scene.place.node)
}

/// Kills the node, and lets it come back with its flows.
pub fn die_and_return(scene: &mut Scene<'_, '_>) -> Done {
    let node = scene.place.node;
    scene.kill(node)?;
    scene.await_absence(node)?;
    scene.start(node)?;
    scene.await_order()?;
    scene.lab.processes().import_at_last()
}

pub fn kill_servers_in_turn(scene: &mut Scene<'_, '_>) -> Done {
    let servers: Vec<u8> = scene.lab.plan.servers().collect();
    for server in servers {
        scene.lab.log().kill_server(server);
        thread::sleep(SERVER_AWAY);
        scene.lab.start_log_server(server)?;
        thread::sleep(SERVER_BACK);
    }
    Ok(())
}
