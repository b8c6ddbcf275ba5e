//! Our tunnel with strongSwan's userspace ESP as the far end, in UDP (RFC 3948). This kernel has no ESP of its own, and strongSwan
//! installs associations only from IKE, which this project does not have. So two daemons of strongSwan negotiate; the keys are
//! read from the log of the left one, which is then killed, and our router takes its place with these keys.
//!
//! ```text
//!     a ──────────── left ──────────────────────────────── right ──────────── b
//!  10.0.1.2   10.0.1.1  192.0.2.1                192.0.2.2 charon  10.0.2.1   10.0.2.2
//!            charon, then our router
//! ```

use super::ScenarioRun;
use super::machines::Machines;
use super::process::{Device, Router};
use super::tunnel::{self, A, B};
use crate::testbed::LabError;
use crate::testbed::ends::{Ends, Stream, Verdict};
use crate::testbed::exec::Cmd;
use crate::testbed::nodes::Process;
use crate::testbed::site::Role;
use crate::testbed::state;
use crate::testbed::tools;
use std::path::Path;
use std::time::Duration;

/// strongSwan's daemon.
const CHARON: &str = "/usr/sbin/charon-systemd";

/// Where its plugins lie.
const PLUGINS: &str = "/usr/lib/ipsec/plugins";

/// Its userspace ESP, AES-GCM, and x25519.
const NEEDED_PLUGINS: [&str; 3] = ["kernel-libipsec", "gcm", "openssl"];

/// The Debian packages.
const PACKAGES: &str =
    "charon-systemd strongswan-swanctl libcharon-extra-plugins libstrongswan-standard-plugins";

/// MTU of all cables, octets.
const MTU: u16 = 1_500;

/// strongSwan's TUN has this MTU, octets.
const FAR_MTU: u16 = 1_400;

/// Octets of a file; a quick one has a tenth.
const FILE: u64 = 5_000_000;

const UDP: Stream = Stream::Udp { rate: "5M", most_lost_per_mille: 0.0 };

/// A suite by our name and in strongSwan's words, with the longest inner packet in octets.
const SUITES: [(&str, &str, u16); 2] =
    [("aes-128-gcm", "aes128gcm16", 1_438), ("aes-128-cbc-hmac-sha1-96", "aes128-sha1", 1_422)];

/// Both ends: machine, own address, the other's, own network, the other's.
const ENDS: [[&str; 5]; 2] = [
    ["left", "192.0.2.1", "192.0.2.2", "10.0.1.0/24", "10.0.2.0/24"],
    ["right", "192.0.2.2", "192.0.2.1", "10.0.2.0/24", "10.0.1.0/24"],
];

/// What a daemon negotiated, by its log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Negotiated {
    /// SPIs of what it receives and what it sends.
    spis: [u32; 2],
    /// Keys of what the initiator and the responder send.
    keys: [String; 2],
    /// The same for authentication, if the suite has such keys.
    auth_keys: Option<[String; 2]>,
}

/// Builds the tunnel with each suite, and checks it; why not, if strongSwan is missing.
///
/// # Errors
/// [`LabError`] if not all checks could be made.
pub fn check(run: &mut ScenarioRun<'_>) -> Result<Option<String>, LabError> {
    let has_plugin = |name: &str| Path::new(PLUGINS).join(format!("libstrongswan-{name}.so")).exists();
    if !Path::new(CHARON).exists()
        || !tools::is_there("swanctl")
        || !NEEDED_PLUGINS.into_iter().all(has_plugin)
    {
        return Ok(Some(format!("no strongSwan (on Debian: apt-get install {PACKAGES})")));
    }
    for suite in SUITES {
        run.note(suite.0);
        build(run.machines)?;
        let left = negotiate(run.machines, suite.1)?;
        let negotiated = left.log();
        // As a crash: the other end is not told, and keeps its associations.
        left.kill_at_once();
        let negotiated = Negotiated::read(&negotiated)
            .ok_or_else(|| LabError::Setup("no keys in the log of strongSwan".to_owned()))?;
        let router = take_over(run.machines, suite, &negotiated)?;
        one(run, suite, router)?;
        run.clear()?;
    }
    Ok(None)
}

fn build(machines: Machines<'_>) -> Result<(), LabError> {
    for (machine, role) in
        [("a", Role::Host), ("left", Role::KernelRouter), ("right", Role::KernelRouter), ("b", Role::Host)]
    {
        machines.add(machine, role)?;
    }
    machines.cable(("a", "net"), ("left", "eth0"), MTU)?;
    machines.cable(("left", "eth1"), ("right", "eth1"), MTU)?;
    machines.cable(("right", "eth0"), ("b", "net"), MTU)?;
    // Our router will have the same addresses, so that its neighbours notice no change.
    for (interface, mac) in [("eth0", "02:00:00:00:01:00"), ("eth1", "02:00:00:00:01:01")] {
        machines.ip("left", &format!("link set {interface} address {mac}"))?;
    }
    for (machine, interface, address) in [
        ("a", "net", "10.0.1.2/24"),
        ("left", "eth0", "10.0.1.1/24"),
        ("left", "eth1", "192.0.2.1/24"),
        ("right", "eth1", "192.0.2.2/24"),
        ("right", "eth0", "10.0.2.1/24"),
        ("b", "net", "10.0.2.2/24"),
    ] {
        machines.addresses(machine, interface, &[address])?;
    }
    machines.routes("a", &[("default", "10.0.1.1")])?;
    machines.routes("b", &[("default", "10.0.2.1")])
}

/// Starts both daemons, and lets the left one negotiate the tunnel; the left daemon.
fn negotiate(machines: Machines<'_>, proposal: &str) -> Result<Process, LabError> {
    let site = machines.0;
    let mut daemons = Vec::new();
    for [machine, own, other, network, far] in ENDS {
        let file = |suffix: &str| site.path(format!("{machine}.{suffix}"));
        let (socket, settings) = (format!("unix://{}", file("vici").display()), file("strongswan.conf"));
        let log = file("charon.log");
        let text = format!(
            "charon-systemd {{\n  load = random nonce aes sha1 sha2 hmac kdf gcm gmp curve25519 openssl kernel-libipsec \
             kernel-netlink socket-default vici\n  journal {{ default = -1 }}\n  filelog {{ main {{\n path = {}\n \
             flush_line = yes\n default = 1\n chd = 4 }} }}\n  plugins {{ vici {{ socket = {socket} }} }}\n}}\n",
            log.display()
        );
        state::write_secret(&settings, text.as_bytes())?;
        // The daemon appends to its log, which has the keys: those of the suite before must not be read again.
        state::write_secret(&log, b"")?;
        let connections = format!(
            "connections {{ tunnel {{\n version = 2\n local_addrs = {own}\n remote_addrs = {other}\n encap = yes\n mobike = no\n \
             proposals = aes128-sha256-x25519\n rekey_time = 0\n local {{ auth = psk\n id = {own} }}\n remote {{ auth = psk\n \
             id = {other} }}\n children {{ net {{\n local_ts = {network}\n remote_ts = {far}\n esp_proposals = {proposal}\n \
             rekey_time = 0 }} }} }} }}\nsecrets {{ ike-1 {{ id-1 = {own}\n id-2 = {other}\n secret = \"of this lab alone\" }} }}\n"
        );
        state::write_secret(&file("swanctl.conf"), connections.as_bytes())?;
        let command = Cmd::new("env").arg(format!("STRONGSWAN_CONF={}", settings.display())).arg(CHARON);
        let command = command.inside(&machines.namespace(machine));
        let child = command.start(&file("charon.out"))?;
        daemons.push(Process::new(command.line(), child, log).await_word("spawning", site.interrupt)?);
        let load = format!("--load-all --file {} --uri {socket}", file("swanctl.conf").display());
        swanctl(machines, machine, &load)?;
    }
    let socket = format!("unix://{}", site.path("left.vici").display());
    swanctl(machines, "left", &format!("--initiate --child net --timeout 20 --uri {socket}"))?;
    Ok(daemons.swap_remove(0))
}

fn swanctl(machines: Machines<'_>, machine: &str, line: &str) -> Result<(), LabError> {
    let settings = machines.0.path(format!("{machine}.strongswan.conf"));
    let command = Cmd::new("env").arg(format!("STRONGSWAN_CONF={}", settings.display())).arg("swanctl");
    // The daemon opens its socket shortly after it logs.
    let mut last = Ok(());
    for _ in 0..20 {
        last = command.clone().words(line).limit(Duration::from_secs(30)).run(machines.0.interrupt).map(drop);
        match &last {
            Err(LabError::Failed { .. }) => std::thread::sleep(Duration::from_millis(100)),
            _ => break,
        }
    }
    last
}

impl Negotiated {
    /// Reads the last negotiation in the log of the initiator.
    fn read(log: &str) -> Option<Self> {
        let keys = |what: &str| {
            Some([key(log, &format!("{what} initiator key"))?, key(log, &format!("{what} responder key"))?])
        };
        let spi = |what: &str| {
            let after = log.rsplit_once(&format!("adding {what} ESP SA"))?.1;
            let digits = after.split_once("SPI 0x")?.1.get(..8)?;
            u32::from_str_radix(digits, 16).ok()
        };
        Some(Self {
            spis: [spi("inbound")?, spi("outbound")?],
            keys: keys("encryption")?,
            auth_keys: keys("integrity"),
        })
    }

    /// The file of associations for the initiator's place.
    fn file(&self, suite: &str) -> String {
        let section = |name: &str, spi: u32, at: usize, [src, dst]: [&str; 2], [from, to]: [&str; 2]| {
            let auth = self
                .auth_keys
                .as_ref()
                .map_or_else(String::new, |keys| format!("auth_key = \"{}\"\n", keys[at]));
            format!(
                "[[sa]]\nname = \"{name}\"\nspi = {spi}\nsuite = \"{suite}\"\nkey = \"{}\"\n{auth}src = \"{src}\"\n\
                 dst = \"{dst}\"\nudp = {{}}\nselectors = [{{ src = \"{from}\", dst = \"{to}\" }}]\n",
                self.keys[at]
            )
        };
        let [left, right] = ENDS;
        section("left-to-right", self.spis[1], 0, [left[1], left[2]], [left[3], left[4]])
            + &section("right-to-left", self.spis[0], 1, [right[1], right[2]], [right[3], right[4]])
    }
}

/// The last key of a name in a log: `NAME => 20 bytes @ 0x…`, then lines of up to 16 octets in hexadecimal digits.
fn key(log: &str, name: &str) -> Option<String> {
    let after = log.rsplit_once(&format!("{name} => "))?.1;
    let (count, dump) = after.split_once(" bytes")?;
    let count: usize = count.parse().ok()?;
    let mut digits = String::new();
    for line in dump.lines().skip(1) {
        if digits.len() >= 2 * count {
            break;
        }
        let octets = line.split_once(": ")?.1.split_ascii_whitespace();
        let left = (count - digits.len() / 2).min(16);
        digits.extend(octets.take(left));
    }
    let is_key = digits.len() == 2 * count && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_key.then(|| digits.to_ascii_lowercase())
}

/// Starts our router in place of the left daemon.
fn take_over(
    machines: Machines<'_>,
    (suite, _, inner_mtu): (&str, &str, u16),
    negotiated: &Negotiated,
) -> Result<Router, LabError> {
    for interface in ["eth0", "eth1"] {
        machines.ip("left", &format!("addr flush dev {interface}"))?;
    }
    machines.ask("left", "sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.disable_ipv6=1")?;
    let keys = machines.0.path("sa.toml");
    state::write_secret(&keys, negotiated.file(suite).as_bytes())?;
    let line = format!("graph run {}", tunnel::arguments(machines, inner_mtu, false)?);
    Router::start(machines, "left", &line, Device::PacketSocket, &["eth0", "eth1"])
}

fn one(
    run: &mut ScenarioRun<'_>,
    (suite, _, inner_mtu): (&str, &str, u16),
    left: Router,
) -> Result<(), LabError> {
    let named = |check: &str| format!("{check} ({suite})");
    let machines = run.machines;
    let (a, b) = (machines.namespace("a"), machines.namespace("b"));
    let ends = Ends { site: run.site(), client: &a, from: A, server: &b, to: B };
    run.site().helper("file-server", "lab file-server", &b)?;
    run.add(named("first ping through the tunnel"), tunnel::first_ping(machines))?;
    run.add(named("ping"), ends.ping(FAR_MTU))?;
    run.add(named("ping from behind strongSwan"), ends.swapped().ping(FAR_MTU))?;
    // It arrives, although strongSwan sends the answer in fragments.
    let long = machines.ask("a", &format!("ping -4 -n -c 3 -i 0.1 -w 5 -M do -s {} {B}", inner_mtu - 28))?;
    run.add(named("the longest packet of our end"), Ok(tunnel::says(&long, "3 received")))?;
    let size = if run.is_quick { FILE / 10 } else { FILE };
    run.add(named("curl, download"), ends.fetch(size))?;
    run.add(named("curl, upload"), ends.send(size))?;
    run.add(named("iperf3 UDP, Mb/s"), ends.iperf3(UDP, 1))?;
    let [decrypted, encrypted] =
        [("decap", "decrypted"), ("encap", "encrypted")].map(|(one, name)| left.count(one, name));
    let (decrypted, encrypted) = (decrypted?, encrypted?);
    let says = format!("{encrypted} encrypted, {decrypted} decrypted");
    run.add(
        named("packets that crossed by ESP"),
        Ok(Verdict::new(decrypted > 100 && encrypted > 100, says)),
    )?;
    // strongSwan keeps the mapping of the NAT alive that it believes in, and sends IKE.
    let is_expected = |element: &str, reason: &str| {
        element == "other" || matches!(reason, "nat_keepalive" | "not_esp") || reason.contains("unresolved")
    };
    let drops = left.drops(is_expected)?;
    run.add(named("what our end dropped"), Ok(Verdict::of_problems(&drops, "nothing unexpected")))?;
    run.add(named("SIGINT"), left.end().map(|_| Verdict::new(true, "ended, and reported")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
13[CHD]   using AES_CBC for encryption
13[CHD] seed => 64 bytes @ 0x7ff11f9f2960
13[CHD]    0: 12 BE 6B DE 68 8F 53 41 44 83 FE 38 CF D8 34 41  ..k.h.SAD..8..4A
13[CHD] encryption initiator key => 16 bytes @ 0x7ff0ec003cb0
13[CHD]    0: B6 07 C8 56 9F 52 CB 94 23 FA D3 E9 7B B6 0A 45  ...V.R..#...{..E
13[CHD] encryption responder key => 16 bytes @ 0x7ff0ec003e70
13[CHD]    0: DD E3 3E DF CA D1 A9 F4 9C EC 83 82 52 8C B8 49  ..>.........R..I
13[CHD] integrity initiator key => 20 bytes @ 0x7ff0ec003cb0
13[CHD]    0: 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F 10  ................
13[CHD]   16: 11 12 AB CD                                      .... 99 99
13[CHD] integrity responder key => 20 bytes @ 0x7ff0ec003e70
13[CHD]    0: 21 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F 10  ................
13[CHD]   16: 11 12 13 14                                      ....
13[CHD] adding inbound ESP SA
13[CHD]   SPI 0x9fc68418, src 192.0.2.2 dst 192.0.2.1
13[CHD] adding outbound ESP SA
13[CHD]   SPI 0x6806fa24, src 192.0.2.1 dst 192.0.2.2
";

    #[test]
    fn keys_and_spis_are_read_from_a_log() {
        let read = Negotiated::read(LOG).unwrap();
        assert_eq!(read.spis, [0x9fc6_8418, 0x6806_fa24]);
        assert_eq!(read.keys, ["b607c8569f52cb9423fad3e97bb60a45", "dde33edfcad1a9f49cec8382528cb849"]);
        let auth = read.auth_keys.clone().unwrap();
        assert_eq!(auth[0], "0102030405060708090a0b0c0d0e0f101112abcd");
        let file = read.file("aes-128-cbc-hmac-sha1-96");
        let sent = file.split("[[sa]]").nth(1).unwrap();
        assert!(sent.contains(&format!("spi = {}", 0x6806_fa24_u32)) && sent.contains(&auth[0]), "{file}");
        assert!(Negotiated::read(&LOG.replace("B6 07", "B6")).is_none(), "a short key");
        assert!(Negotiated::read("").is_none());
        let before = LOG.replace("B6 07", "11 22").replace("0x9fc68418", "0x11223344");
        assert_ne!(Negotiated::read(&before).unwrap(), read);
        assert_eq!(Negotiated::read(&(before + LOG)).unwrap(), read, "the last negotiation");
        let gcm = LOG.replace("integrity", "other");
        assert_eq!(Negotiated::read(&gcm).unwrap().auth_keys, None);
    }
}
