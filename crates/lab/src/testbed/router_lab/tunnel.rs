//! Two ends of an ESP tunnel, by the configuration of `examples/router`, between two hosts. A bridge is the path between the ends;
//! what crosses it is captured and read by tshark with the keys.
//!
//! ```text
//!     a ──────────── left ──────────── path ──────────── right ──────────── b
//!  10.0.1.2   10.0.1.1  192.0.2.1    (bridge)     192.0.2.2  10.0.2.1   10.0.2.2
//! ```

use super::ScenarioRun;
use super::machines::Machines;
use super::process::{Device, Router};
use super::secrets::{PING_PATTERN, Secrets};
use crate::testbed::LabError;
use crate::testbed::capture::{self, Dump};
use crate::testbed::context::poll;
use crate::testbed::ends::{Ends, Stream, Verdict};
use crate::testbed::exec::Cmd;
use crate::testbed::site::Role;
use crate::testbed::state;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

/// The configuration of both ends.
const CONFIGURATION: &str = include_str!("../../../../../examples/router/ipsec.click");

/// MTU of all cables, octets.
const MTU: u16 = 1_500;

/// Octets of the file whose transfer is captured.
const SECRET_FILE: usize = 300_000;

/// Octets of the other files; a quick one has a tenth.
const FILE: u64 = 10_000_000;

/// Paced UDP, which must arrive.
const UDP: Stream = Stream::Udp { rate: "10M", most_lost_per_mille: 0.0 };

/// The host inside the left network.
pub const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 2));
/// The host inside the right network.
pub const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2));

/// The interface that sends captured frames once more.
const AGAIN: &str = "again";

/// A suite with the keys of both directions.
struct Suite {
    name: &'static str,
    keys: [&'static str; 2],
    auth_keys: Option<[&'static str; 2]>,
    /// Longest inner packet, octets.
    inner_mtu: u16,
    /// Its algorithms in the words of tshark: encryption and authentication.
    tshark: [&'static str; 2],
}

const SUITES: [Suite; 2] = [
    Suite {
        name: "aes-128-gcm",
        keys: ["5cc1b7a6fbbc2e2d2ff4ac8ab98ccc1ed5a0a7ee", "f14dd7a0b39ea28e1c1a0c0da3c7c1c0b3a2f0d9"],
        auth_keys: None,
        inner_mtu: 1_446,
        tshark: ["AES-GCM with 16 octet ICV [RFC4106]", "NULL"],
    },
    Suite {
        name: "aes-128-cbc-hmac-sha1-96",
        keys: ["5cc1b7a6fbbc2e2d2ff4ac8ab98ccc1e", "f14dd7a0b39ea28e1c1a0c0da3c7c1c0"],
        auth_keys: Some([
            "9c0a51ff0e9e5a2a4b8e7cf1b6a3d2c4e5f60718",
            "0d1f2e3c4b5a69788796a5b4c3d2e1f00f1e2d3c",
        ]),
        inner_mtu: 1_438,
        tshark: ["AES-CBC [RFC3602]", "HMAC-SHA-1-96 [RFC2404]"],
    },
];

/// The directions: name, SPI, outer source and destination, inner networks.
const DIRECTIONS: [(&str, u32, [&str; 2], [&str; 2]); 2] = [
    ("left-to-right", 0x1001, ["192.0.2.1", "192.0.2.2"], ["10.0.1.0/24", "10.0.2.0/24"]),
    ("right-to-left", 0x1002, ["192.0.2.2", "192.0.2.1"], ["10.0.2.0/24", "10.0.1.0/24"]),
];

impl Suite {
    /// The file of both associations.
    fn file(&self) -> String {
        let sections = DIRECTIONS.iter().enumerate().map(|(at, (name, spi, outer, inner))| {
            let auth = self.auth_keys.map_or_else(String::new, |keys| format!("auth_key = \"{}\"\n", keys[at]));
            format!(
                "[[sa]]\nname = \"{name}\"\nspi = {spi}\nsuite = \"{}\"\nkey = \"{}\"\n{auth}src = \"{}\"\ndst = \"{}\"\n\
                 selectors = [{{ src = \"{}\", dst = \"{}\" }}]\n",
                self.name, self.keys[at], outer[0], outer[1], inner[0], inner[1]
            )
        });
        sections.collect()
    }

    /// The associations for tshark's preference `esp_sa`.
    fn entries(&self) -> impl Iterator<Item = String> + '_ {
        DIRECTIONS.iter().enumerate().map(|(at, (_, spi, outer, _))| {
            let auth = self.auth_keys.map_or_else(String::new, |keys| format!("0x{}", keys[at]));
            let [encryption, authentication] = self.tshark;
            format!(
                "uat:esp_sa:\"IPv4\",\"{}\",\"{}\",\"{spi:#010x}\",\"{encryption}\",\"0x{}\",\"{authentication}\",\"{auth}\"",
                outer[0], outer[1], self.keys[at]
            )
        })
    }
}

/// Builds the tunnel with each suite, and checks it.
///
/// # Errors
/// [`LabError`] if not all checks could be made.
pub fn check(run: &mut ScenarioRun<'_>) -> Result<(), LabError> {
    for suite in &SUITES {
        run.note(suite.name);
        build(run.machines)?;
        let keys = run.site().path("sa.toml");
        state::write_secret(&keys, suite.file().as_bytes())?;
        let ends = [("left", false), ("right", true)].map(|(machine, is_right)| {
            let line = format!("graph run {}", arguments(run.machines, suite.inner_mtu, is_right)?);
            Router::start(run.machines, machine, &line, Device::PacketSocket, &["eth0", "eth1"])
        });
        let [left, right] = ends;
        let routers = [left?, right?];
        let b = run.machines.namespace("b");
        run.site().helper("file-server", "lab file-server", &b)?;
        one(run, suite, routers)?;
        run.clear()?;
    }
    Ok(())
}

fn build(machines: Machines<'_>) -> Result<(), LabError> {
    for (machine, role) in [
        ("a", Role::Host),
        ("left", Role::Bare),
        ("path", Role::Bare),
        ("right", Role::Bare),
        ("b", Role::Host),
    ] {
        machines.add(machine, role)?;
    }
    for (a, b) in [
        (("a", "net"), ("left", "eth0")),
        (("left", "eth1"), ("path", "left")),
        (("right", "eth1"), ("path", "right")),
        (("b", "net"), ("right", "eth0")),
    ] {
        machines.cable(a, b, MTU)?;
    }
    machines.bridge("path", "br", &["left", "right"])?;
    for (host, address, gateway) in [("a", "10.0.1.2/24", "10.0.1.1"), ("b", "10.0.2.2/24", "10.0.2.1")] {
        machines.addresses(host, "net", &[address])?;
        machines.routes(host, &[("default", gateway)])?;
    }
    Ok(())
}

/// The configuration of an end, and its variables.
///
/// # Errors
/// [`LabError::File`].
pub fn arguments(machines: Machines<'_>, inner_mtu: u16, is_right: bool) -> Result<String, LabError> {
    let site = machines.0;
    let (file, keys) = (site.path("ipsec.click"), site.path("sa.toml"));
    state::write(&file, CONFIGURATION.as_bytes())?;
    let mut line = format!("{} --set KEYS={} --set INNER_MTU={}", file.display(), keys.display(), inner_mtu);
    if is_right {
        line += " --set INSIDE=10.0.2.1/24 --set INSIDE_MAC=02:00:00:00:02:00 --set OUTSIDE=192.0.2.2/24 \
                 --set OUTSIDE_MAC=02:00:00:00:02:01 --set SENDS=right-to-left --set RECEIVES=left-to-right";
    }
    Ok(line)
}

fn one(run: &mut ScenarioRun<'_>, suite: &Suite, [left, right]: [Router; 2]) -> Result<(), LabError> {
    let named = |check: &str| format!("{check} ({})", suite.name);
    let (machines, site, is_quick) = (run.machines, run.site(), run.is_quick);
    let (a, b) = (machines.namespace("a"), machines.namespace("b"));
    let ends = Ends { site, client: &a, from: A, server: &b, to: B };

    let [path, inside] = [("path", "path", "left"), ("inside", "b", "net")]
        .map(|(name, machine, port)| Dump::start(site, name, &machines.namespace(machine), [port]));
    let (path, inside) = (path?, inside?);
    run.add(named("first ping through the tunnel"), first_ping(machines))?;
    run.add(named("ping"), ends.ping(suite.inner_mtu))?;
    run.add(named("curl, small file"), ends.fetch(SECRET_FILE as u64))?;
    let (path, inside) = (path.finish()?, inside.finish()?);
    run.add(named("capture between the ends, read by tshark"), read(run, suite, &path))?;
    run.add(named("nothing in clear between the ends"), in_clear(&path, &inside))?;

    run.add(named("too big a packet is answered"), too_big(machines, suite.inner_mtu))?;
    run.add(named("a long packet that may be fragmented"), fragments(machines))?;
    machines.forget_path_mtus(&["a", "b"])?;
    let size = if is_quick { FILE / 10 } else { FILE };
    run.add(
        named("curl, upload with path MTU discovery"),
        ends.send(size).and_then(|sent| {
            let mtu = machines.path_mtu("a", B)?;
            let passed = sent.passed && mtu == Some(suite.inner_mtu);
            Ok(Verdict::new(passed, format!("{}; a learned {mtu:?}", sent.says)))
        }),
    )?;
    run.add(named("curl, download"), ends.fetch(size))?;
    if !is_quick {
        run.add(named("iperf3 TCP, Mb/s"), ends.iperf3(Stream::Tcp, 2))?;
    }
    run.add(named("iperf3 UDP, Mb/s"), ends.iperf3(UDP, if is_quick { 1 } else { 5 }))?;
    run.add(named("frames sent again are dropped as replays"), again(machines, &right, &path))?;
    run.add(named("ping after the replay"), ends.ping(suite.inner_mtu))?;
    let is_expected = |element: &str, reason: &str| {
        element == "other" || (element == "decap" && reason == "replay") || reason.contains("unresolved")
    };
    let mut drops = left.drops(is_expected)?;
    drops.extend(right.drops(is_expected)?);
    run.add(named("what the ends dropped"), Ok(Verdict::of_problems(&drops, "nothing unexpected")))?;
    let ended = left.end().and_then(|_| right.end());
    run.add(named("SIGINT"), ended.map(|_| Verdict::new(true, "both ended, and reported")))
}

/// Until the first packet passes, next hops are resolved on all cables.
///
/// # Errors
/// As [`Cmd::finish`].
pub fn first_ping(machines: Machines<'_>) -> Result<Verdict, LabError> {
    let ping = Cmd::new(&format!("ping -4 -n -c 1 -W 1 -s 48 -p {PING_PATTERN} {B}"))
        .inside(&machines.namespace("a"));
    let interrupt = machines.0.interrupt;
    let passed = poll(Duration::from_secs(30), Duration::from_millis(50), interrupt, || {
        Ok(ping.finish(interrupt)?.status.success().then_some(()))
    })?;
    Ok(Verdict::new(passed.is_some(), "answered"))
}

/// tshark, which shares no code with this project, decrypts every frame between the ends, and verifies that it is authentic.
fn read(run: &ScenarioRun<'_>, suite: &Suite, path: &Path) -> Result<Verdict, LabError> {
    let tshark = |lengths: &str| {
        let mut tshark = Cmd::new("tshark -n -T fields -E separator=; -E occurrence=a -E aggregator=,");
        for option in ["esp.enable_encryption_decode:TRUE", "esp.enable_authentication_check:TRUE"] {
            tshark = tshark.arg("-o").arg(option);
        }
        for entry in suite.entries() {
            tshark = tshark.arg("-o").arg(format!("{entry}{lengths}"));
        }
        for field in ["eth.type", "esp.spi", "esp.icv_good", "ip.src", "ip.dst", "ip.proto"] {
            tshark = tshark.arg("-e").arg(field);
        }
        tshark.arg("-r").arg(path.to_string_lossy()).limit(capture::READ).finish(run.site().interrupt)
    };
    let mut done = tshark("")?;
    if !done.status.success() {
        // Later versions also ask for the length of sequence numbers.
        done = tshark(",\"32-bit\",\"0\"")?;
    }
    if !done.status.success() {
        return Ok(Verdict::new(false, done.stderr));
    }
    let (mut decrypted, mut arp, mut wrong) = ([0_u64; 2], 0_u64, Vec::new());
    for line in done.text().lines() {
        let fields: Vec<&str> = line.split(';').collect();
        let direction = DIRECTIONS
            .iter()
            .position(|(_, spi, ..)| fields.get(1) == Some(&format!("{spi:#010x}").as_str()));
        let hosts = [[A, B], [B, A]].map(|pair| pair.map(|host| host.to_string()));
        match (fields.as_slice(), direction) {
            (["0x0806", ..], None) => arp += 1,
            ([_, _, good, src, dst, ..], Some(at))
                if matches!(*good, "1" | "True")
                    && *src == format!("{},{}", DIRECTIONS[at].2[0], hosts[at][0])
                    && *dst == format!("{},{}", DIRECTIONS[at].2[1], hosts[at][1]) =>
            {
                decrypted[at] += 1;
            }
            _ => wrong.push(line.to_owned()),
        }
    }
    wrong.truncate(3);
    let says = format!(
        "decrypted and authentic: {} and {}; ARP: {arp}; others: {wrong:?}",
        decrypted[0], decrypted[1]
    );
    Ok(Verdict::new(wrong.is_empty() && decrypted.iter().all(|count| *count > 20), says))
}

/// Nothing that was sent is in the capture between the ends. All of it is in that behind the tunnel, so it would be found.
fn in_clear(path: &Path, inside: &Path) -> Result<Verdict, LabError> {
    let secrets = Secrets::of_file(SECRET_FILE);
    let (outside, inside, all) = (secrets.found_in(path)?, secrets.found_in(inside)?, secrets.count());
    // A piece at the border of two packets is not found in either.
    let passed = outside == 0 && inside * 100 >= all * 90;
    Ok(Verdict::new(passed, format!("{outside} of {all} pieces found; inside, {inside} of {all}")))
}

/// Passed if a line of the output contains a text; the explanation is that line.
pub fn says(output: &str, what: &str) -> Verdict {
    let line = output.lines().find(|line| line.contains(what));
    Verdict::new(line.is_some(), line.unwrap_or_else(|| output.trim()))
}

fn too_big(machines: Machines<'_>, inner_mtu: u16) -> Result<Verdict, LabError> {
    machines.forget_path_mtus(&["a"])?;
    let output = machines.ask("a", &format!("ping -4 -n -c 1 -W 3 -M do -s {} {B}", inner_mtu + 1 - 28))?;
    Ok(says(&output, &format!("From 10.0.1.1 icmp_seq=1 Frag needed and DF set (mtu = {inner_mtu})")))
}

/// Fragments go through the tunnel one by one.
fn fragments(machines: Machines<'_>) -> Result<Verdict, LabError> {
    machines.forget_path_mtus(&["a"])?;
    let output = machines.ask("a", &format!("ping -4 -n -c 5 -i 0.02 -w 5 -M dont -s {} {B}", MTU - 28))?;
    Ok(says(&output, "5 received"))
}

/// Sends all captured frames again; the right end must drop those of its peer as replays.
fn again(machines: Machines<'_>, right: &Router, path: &Path) -> Result<Verdict, LabError> {
    let site = machines.0;
    let counts = || Ok::<_, LabError>((right.count("decap", "replay")?, right.count("decap", "decrypted")?));
    let (replays, decrypted) = counts()?;
    let only_left = site.path("again.pcapng");
    let select = format!("tshark -n -r {} -Y esp.spi==0x1001 -w {}", path.display(), only_left.display());
    Cmd::new(&select).limit(capture::READ).run(site.interrupt)?;
    let line = format!("lab replayed-frames --capture {} --interface {AGAIN}", only_left.display());
    let sender = site.helper("again", &line, &machines.namespace("path"))?;
    machines.ip("path", &format!("link set dev {AGAIN} mtu {MTU} addrgenmode none master br"))?;
    // Frames with another machine's address must not change the bridge's table.
    let bridge = Cmd::new(&format!("bridge link set dev {AGAIN} learning off"));
    bridge.inside(&machines.namespace("path")).run(site.interrupt)?;
    machines.ip("path", &format!("link set dev {AGAIN} up"))?;
    let sender = sender.await_word("done ", site.interrupt)?;
    let sent: u64 =
        sender.log().rsplit("done ").next().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    sender.kill();
    let dropped = poll(Duration::from_secs(5), Duration::from_millis(50), site.interrupt, || {
        Ok((right.count("decap", "replay")? - replays >= sent).then_some(()))
    })?;
    let (replays_after, decrypted_after) = counts()?;
    let (replays, accepted) = (replays_after - replays, decrypted_after - decrypted);
    let passed = sent > 20 && dropped.is_some() && replays == sent && accepted == 0;
    Ok(Verdict::new(passed, format!("{sent} sent again, {replays} dropped as replays, {accepted} accepted")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_elements::esp::file;

    #[test]
    fn the_files_of_all_suites_are_read_and_name_the_keys_of_both_directions() {
        for suite in &SUITES {
            let associations = file::parse(&suite.file()).unwrap();
            assert_eq!(associations.len(), DIRECTIONS.len(), "{}", suite.name);
            let entries: Vec<String> = suite.entries().collect();
            for ((entry, sa), key) in entries.iter().zip(&associations).zip(suite.keys) {
                let addresses = format!("\"{}\",\"{}\"", sa.src, sa.dst);
                assert!(entry.contains(key) && entry.contains(&addresses), "{entry}");
            }
        }
    }
}
