use super::*;
use crate::node::config::Problem;

const EXAMPLE: &str = include_str!("../../../../../../examples/router/node.toml");

fn refused(text: &str) -> Vec<String> {
    RouterFile::parse(text).unwrap_err().iter().map(Problem::to_string).collect()
}

#[test]
fn the_example_is_valid_and_its_links_default_to_three_nths() {
    let file = RouterFile::parse(EXAMPLE).unwrap();
    assert_eq!((file.size.get(), file.id.get(), file.ports.len(), file.links.len()), (4, 0, 1, 3));
    assert_eq!((file.port_rate, file.link_rate), (10_000_000_000 / 8, 7_500_000_000 / 8));
    assert_eq!(file.steering, Steering::Flowlets);
    let slow = EXAMPLE.replace("port_rate = \"10G\"", "port_rate = \"10G\"\nlink_rate = \"2.5G\"");
    assert_eq!(RouterFile::parse(&slow).unwrap().link_rate, 312_500_000);
}

#[test]
fn all_problems_are_reported_with_their_lines() {
    let wrong = r#"
[router]
node = 4
nodes = 4
port_rate = "ten"
secret = "short"
queue = 0
mtu = 100

[[port]]
device = "net_tap0"
mac = "ff:ff:ff:ff:ff:ff"
addresses = ["192.0.2.1/24", "192.0.2.1/24", "224.0.0.1/4", "nowhere"]

[[port]]
device = "net_tap0"

[[link]]
node = 7
device = "net_tap1"

[[link]]
node = 1
device = "net_tap2"

[[link]]
node = 1
device = "net_tap3"

[control]
engine = "somewhere"
name = "router"

[feeder.fpm]
listen = "127.0.0.1:0"
quiet_ms = 1
keep_s = 0

[worker]
mode = "split"
"#;
    let problems = refused(wrong);
    for what in [
        "line 3: router.node: 4 in a router of 4 nodes",
        "line 5: router.port_rate: bits per second: not a number",
        "line 6: router.secret: not 32 hexadecimal digits",
        "line 7: router.queue: 0 is not 1 to",
        "line 8: router.mtu: 100 is not 1280 to 9600",
        "line 12: port.mac: 'ff:ff:ff:ff:ff:ff' is not a unicast address",
        "line 13: port.addresses: 192.0.2.1 occurs twice",
        "line 13: port.addresses: 224.0.0.1 is not the address of a host",
        "line 13: port.addresses: 'nowhere' is not an address",
        "line 16: port.device: 'net_tap0' is used twice",
        "line 16: port.addresses: a port has one IPv4 address",
        "line 19: link.node: 7 is not another node",
        "link.node: a second link to node 1",
        "link: no [[link]] to node 0, 2, 3",
        "control.engine: 'somewhere'",
        "feeder.fpm.listen: port 0",
        "feeder.fpm.quiet_ms: 1 is not",
        "feeder.fpm.keep_s: 0 is not",
        "worker.mode: all workers",
    ] {
        assert!(
            problems.iter().any(|problem| problem.contains(what)),
            "{what} is not in\n{}",
            problems.join("\n")
        );
    }
    let none = refused(
        "[router]\nnode = 0\nnodes = 1\nport_rate = \"1G\"\nsecret = \"000102030405060708090a0b0c0d0e0f\"\n[control]\nengine = \"directory:log\"\nname = \"r\"\n",
    );
    assert!(none.len() == 1 && none[0].contains("0 [[port]] sections"), "{none:?}");
}

#[test]
fn one_node_alone_is_a_router_without_links() {
    let text = "[router]\nnode = 0\nnodes = 1\nport_rate = \"1G\"\nsecret = \"000102030405060708090a0b0c0d0e0f\"\n[control]\nengine = \"directory:log\"\nname = \"r\"\n\
                [[port]]\ndevice = \"net_tap0\"\naddresses = [\"192.0.2.1/24\"]\n";
    let file = RouterFile::parse(text).unwrap();
    assert_eq!((file.links.len(), file.link_rate), (0, 0));
    assert_eq!(file.admin, PathBuf::from("/run/scalebricks/router0.sock"));
}
