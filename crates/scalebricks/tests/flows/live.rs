//! Live packets: real connections between the kernels of two network namespaces. Creating namespaces requires rights;
//! without them the tests are skipped, unless `REQUIRE_NAMESPACES` is set.

use super::records;
use crate::harness::{refused, text};
use crate::router::{Namespaces, ip};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longer than a segment that a card or the kernel takes at once.
const LONG: usize = 300_000;

/// Two namespaces: a client, and a server whose interface `port` is watched.
fn net(test: &str) -> Option<Namespaces> {
    let made = || {
        let net = Namespaces::new(test, &["c", "s"])?;
        let (client, server) = (&net.0[0], &net.0[1]);
        ip(&format!("-n {server} link add port type veth peer name host netns {client}"))?;
        for (namespace, device, number) in [(client, "host", 1), (server, "port", 2)] {
            ip(&format!("-n {namespace} link set {device} addrgenmode none up"))?;
            ip(&format!("-n {namespace} addr add 192.0.2.{number}/24 dev {device}"))?;
        }
        ip(&format!("-n {server} addr add 2001:db8::2/64 dev port nodad"))?;
        ip(&format!("-n {client} addr add 2001:db8::1/64 dev host nodad"))?;
        Ok(net)
    };
    match made() {
        Ok(net) => Some(net),
        Err(error) if std::env::var_os("REQUIRE_NAMESPACES").is_none() => {
            let error: String = error;
            let _ = writeln!(io::stderr(), "skipped: no network namespace ({error}); run as root");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Runs on a thread of its own in a namespace.
fn within<T: Send>(namespace: &str, run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let file = File::open(format!("/run/netns/{namespace}")).unwrap();
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            run()
        });
        thread.join().unwrap()
    })
}

/// The program in a namespace, which reads packets of a port. Killed on drop.
struct Run(Option<Child>);

impl Run {
    fn start(namespace: &str, folder: &std::path::Path, arguments: &[&str]) -> Self {
        let child = Command::new("ip")
            .args(["netns", "exec", namespace, env!("CARGO_BIN_EXE_scalebricks"), "flows"])
            .args(arguments)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut run = Self(Some(child));
        // It comes when the port is open.
        let line = run.line();
        assert!(line.starts_with("flows of "), "{line}");
        run
    }

    /// The next line of standard error; the others stay in the pipe.
    fn line(&mut self) -> String {
        let error = self.0.as_mut().unwrap().stderr.as_mut().unwrap();
        let (mut line, mut byte) = (Vec::new(), [0]);
        while line.last() != Some(&b'\n') && error.read(&mut byte).unwrap() == 1 {
            line.push(byte[0]);
        }
        text(&line)
    }

    /// Ends it by a signal.
    fn end(&mut self, signal: Signal) -> Output {
        let child = self.0.take().unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait_with_output().unwrap()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _gone = (child.kill(), child.wait());
        }
    }
}

/// A server that answers a line with so many bytes, and closes after the client.
fn serve(listener: &TcpListener, connections: usize) {
    for stream in listener.incoming().take(connections) {
        std::thread::spawn(move || {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream.write_all(&vec![b'x'; line.trim().parse().unwrap()]).unwrap();
            let _until_the_client_closes = stream.read(&mut [0; 1]);
        });
    }
}

/// Asks for so many bytes, and waits for them.
fn ask(server: &str, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    writeln!(stream, "{bytes}").unwrap();
    stream.read_exact(&mut vec![0; bytes]).unwrap();
    stream
}

/// Everything that a client does: three connections, a refused one, and UDP with and without an answer.
fn traffic(net: &Namespaces) -> TcpStream {
    let any: SocketAddr = "[::]:80".parse().unwrap();
    let (listener, answers) =
        within(&net.0[1], || (TcpListener::bind(any).unwrap(), UdpSocket::bind("192.0.2.2:53").unwrap()));
    let server = std::thread::spawn(move || serve(&listener, 3));
    let open = within(&net.0[0], || {
        let closed = ask("192.0.2.2:80", LONG);
        closed.shutdown(Shutdown::Write).unwrap();
        assert_eq!((&closed).read(&mut [0; 1]).unwrap(), 0, "the server closes");
        let reset = ask("[2001:db8::2]:80", 1_000);
        set_socket_linger(&reset, Some(Duration::ZERO)).unwrap();
        drop(reset);
        assert!(TcpStream::connect("192.0.2.2:81").is_err());
        let socket = UdpSocket::bind("192.0.2.1:0").unwrap();
        socket.send_to(b"question", "192.0.2.2:53").unwrap();
        let (_, client) = answers.recv_from(&mut [0; 8]).unwrap();
        answers.send_to(b"answer", client).unwrap();
        socket.recv_from(&mut [0; 8]).unwrap();
        ask("192.0.2.2:80", 7)
    });
    server.join().unwrap();
    open
}

/// The only flow for which this holds.
fn only(flows: &[Value], is_it: impl Fn(&Value) -> bool) -> &Value {
    let found: Vec<&Value> = flows.iter().filter(|flow| is_it(flow)).collect();
    let [one] = found[..] else { panic!("{} of {flows:#?}", found.len()) };
    one
}

/// The time since 1970, nanoseconds.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// Judges the flows of [`traffic`], which began at this time.
fn judge(flows: &[Value], began_ns: u64) {
    let ended_ns = now_ns();
    let stream = |flow: &Value, way: &str| flow["tcp"]["stream_bytes"][way].as_u64().unwrap();
    let web = |flow: &Value| flow["destination_port"] == 80;
    let closed = only(flows, |flow| web(flow) && flow["ended"] == "closed");
    assert_eq!((stream(closed, "forward"), stream(closed, "reverse")), (7, LONG as u64), "{closed}");
    // Headers of the packets as the kernel saw them, and each byte once: nothing was lost or seen twice.
    let packets = closed["packets"]["reverse"].as_u64().unwrap();
    let headers = closed["bytes"]["reverse"].as_u64().unwrap() - LONG as u64;
    assert!((40 * packets..=80 * packets).contains(&headers), "{closed}");
    let reset = only(flows, |flow| web(flow) && flow["ended"] == "reset");
    assert_eq!(reset["source"], "2001:db8::1");
    assert_eq!((reset["tcp"]["reset_by"].as_str(), stream(reset, "reverse")), (Some("forward"), 1_000));
    let open = only(flows, |flow| web(flow) && flow["ended"] == "input_ended");
    assert_eq!((open["state"].as_str(), stream(open, "reverse")), (Some("established"), 7));
    let refused = only(flows, |flow| flow["destination_port"] == 81);
    assert_eq!(
        (refused["state"].as_str(), refused["tcp"]["reset_by"].as_str()),
        (Some("reset"), Some("reverse"))
    );
    let udp = only(flows, |flow| flow["protocol"] == "udp" && flow["destination_port"] == 53);
    assert_eq!(udp["state"], "two_way");
    assert_eq!((udp["bytes"]["forward"].as_u64(), udp["bytes"]["reverse"].as_u64()), (Some(36), Some(34)));
    for flow in [closed, reset, open, refused, udp] {
        assert!(flow["anomalies"].get("gap").is_none(), "{flow}");
        let times = [&flow["first_ns"], &flow["last_ns"]].map(|time| time.as_u64().unwrap());
        assert!(times.is_sorted() && began_ns <= times[0] && times[1] <= ended_ns, "{flow}");
    }
}

#[test]
fn connections_between_two_kernels_are_flows_and_ctrl_c_writes_them() {
    let Some(net) = net("flows-int") else { return };
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--port", "port", "--log", "log", "--ipfix", "ipfix", "--streams", "streams"];
    let mut run = Run::start(&net.0[1], folder.path(), &arguments);
    let began_ns = now_ns();
    let open = traffic(&net);
    let ended = run.end(Signal::INT);
    drop(open);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let flows = records(&fs::read_to_string(folder.path().join("log")).unwrap());
    judge(&flows, began_ns);
    let summary = text(&ended.stdout);
    assert!(
        summary.contains("\nport port: ") && summary.contains(" 0 of them dropped by the port"),
        "{summary}"
    );
    assert!(!summary.contains("malformed") && !summary.contains("checksum"), "{summary}");
    let closed = only(&flows, |flow| flow["ended"] == "closed");
    let stream = folder.path().join(format!("streams/{:06}-reverse", closed["flow"].as_u64().unwrap()));
    assert!(fs::read(stream).unwrap() == vec![b'x'; LONG]);
    let records = fs::metadata(folder.path().join("ipfix")).unwrap().len();
    assert!(records > 60 * flows.len() as u64, "{records} bytes of IPFIX");
}

#[test]
fn several_cores_and_sigterm_give_the_same() {
    let Some(net) = net("flows-term") else { return };
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--port", "port", "--log", "-", "--cores", "2", "--interval", "0.1"];
    let mut run = Run::start(&net.0[1], folder.path(), &arguments);
    let began_ns = now_ns();
    let open = traffic(&net);
    let line = run.line();
    assert!(
        line.starts_with("port, ") && line.contains(" packets/s, ") && line.contains("bit/s; "),
        "{line}"
    );
    let ended = run.end(Signal::TERM);
    drop(open);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    judge(&records(&text(&ended.stdout)), began_ns);
    let lines = text(&ended.stderr);
    assert!(lines.contains("\nport port: "), "the summary: {lines}");
}

/// Flows are written while they last, and those that end when they end, not at the end of the run.
#[test]
fn records_come_while_the_run_goes_on() {
    let Some(net) = net("flows-active") else { return };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let arguments = ["--port", "port", "--log", "log", "--active-timeout", "1", "--timeout", "time-wait=0"];
    let mut run = Run::start(&net.0[1], folder.path(), &arguments);
    let open = traffic(&net);
    let written = || records(&fs::read_to_string(&log).unwrap_or_default());
    let has = |flow: &Value, ended: &str, bytes: u64| {
        flow["ended"] == ended && flow["tcp"]["stream_bytes"]["reverse"] == bytes
    };
    crate::harness::until("a record of the closed connection and of the open one", || {
        let flows = written();
        flows.iter().any(|flow| has(flow, "closed", LONG as u64))
            && flows.iter().any(|flow| has(flow, "active_timeout", 7))
    });
    let ended = run.end(Signal::INT);
    drop(open);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let flows = written();
    let last = only(&flows, |flow| has(flow, "input_ended", 7));
    let before = flows.iter().find(|flow| has(flow, "active_timeout", 7)).unwrap();
    assert_eq!(before["flow"], last["flow"], "the same flow");
    assert!(text(&ended.stdout).contains("\nrecords of flows that lasted: active_timeouts "));
}

/// On the loopback interface each packet is sent and comes in; it counts once. A terminal shows the table.
#[test]
fn a_terminal_shows_a_table_of_the_loopback_interface() {
    let Some(net) = net("flows-tty") else { return };
    let here = &net.0[0];
    if let Err(error) = Command::new("script").arg("--version").output() {
        let _ = writeln!(io::stderr(), "skipped: no `script` ({error}); install bsdutils");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_scalebricks");
    let command = format!("stty cols 160 rows 40; exec {program} flows --port lo --log log --count 1000");
    let shown = Command::new("ip")
        .args(["netns", "exec", here, "script", "-qefc", &command, "/dev/null"])
        .current_dir(folder.path())
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut run = Run(Some(shown));
    within(here, || {
        let (near, far) =
            (UdpSocket::bind("127.0.0.1:5001").unwrap(), UdpSocket::bind("127.0.0.1:5002").unwrap());
        near.connect("127.0.0.1:5002").unwrap();
        far.set_nonblocking(true).unwrap();
        while run.0.as_mut().unwrap().try_wait().unwrap().is_none() {
            near.send(&[0; 72]).unwrap();
            let _empty = far.recv(&mut [0; 72]);
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let ended = run.0.take().unwrap().wait_with_output().unwrap();
    let shown = text(&ended.stdout);
    assert_eq!(ended.status.code(), Some(0), "{shown}");
    let row = shown.lines().find(|line| line.contains("127.0.0.1:5001") && line.contains("one_way"));
    assert!(row.is_some() && shown.contains("packets/s") && shown.contains("\u{1b}["), "{shown}");
    let flows = records(&fs::read_to_string(folder.path().join("log")).unwrap());
    let flow = only(&flows, |flow| flow["protocol"] == "udp");
    assert_eq!(
        (flow["packets"]["forward"].as_u64(), flow["bytes"]["forward"].as_u64()),
        (Some(1_000), Some(100_000))
    );
}

/// A device of DPDK that plays a capture gives the flows of the capture.
#[cfg(feature = "dpdk")]
#[test]
fn a_device_of_dpdk_gives_the_same_flows() {
    use std::collections::BTreeMap;
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    let file = File::open(super::sample()).unwrap();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    fs::write(folder.path().join("sample.pcap"), bytes).unwrap();
    let flows = |input: [&str; 2], more: &[&str]| {
        let arguments = [&["flows", "--log", "-", "-q"], &input[..], more].concat();
        let mut flows = BTreeMap::new();
        for flow in records(&crate::harness::said(folder.path(), &arguments)) {
            let ends = ["protocol", "source", "source_port", "destination", "destination_port"];
            let key = ends.map(|end| flow[end].to_string());
            flows.entry(key).or_insert_with(Vec::new).push((flow["packets"].clone(), flow["bytes"].clone()));
        }
        flows
    };
    let frames = scalebricks_io::CaptureReader::open(folder.path().join("sample.pcap")).unwrap().count();
    let device = "net_pcap0,rx_pcap=sample.pcap";
    let played = flows(["--port", device], &["--count", &frames.to_string()]);
    assert_eq!(played, flows(["--pcap", "sample.pcap"], &[]));
}

#[test]
fn wrong_ports_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (status, error) = refused(folder.path(), &["flows", "--port", "no-such"]);
    assert_eq!(status, 1);
    assert!(
        error.contains("there is no network interface 'no-such'; there are ") && error.contains("lo"),
        "{error}"
    );
    let wrong: [&[&str]; 6] = [
        &["--port", "lo", "--pcap", "x"],
        &["--port", "lo", "--port", "lo"],
        &["--port", "lo", "--duration", "0"],
        &["--port", "lo", "--count", "0"],
        &["--pcap", "x", "--interval", "1"],
        &[],
    ];
    for arguments in wrong {
        let (status, error) = refused(folder.path(), &[&["flows"], arguments].concat());
        assert_eq!(status, 2, "{arguments:?}: {error}");
    }
    let Some(net) = net("flows-wrong") else { return };
    // Without rights, as a user of no privileges in the namespace.
    let program = env!("CARGO_BIN_EXE_scalebricks");
    let in_port = |command: &[&str]| {
        Command::new("ip").args(["netns", "exec", &net.0[1]]).args(command).output().unwrap()
    };
    let denied =
        in_port(&["setpriv", "--bounding-set=-all", "--inh-caps=-all", program, "flows", "--port", "port"]);
    let error = text(&denied.stderr);
    assert!(
        denied.status.code() == Some(1) && error.contains("need the right CAP_NET_RAW: run as root"),
        "{error}"
    );
    let checked = in_port(&[program, "flows", "--port", "port", "--verify-checksums"]);
    assert!(checked.status.code() == Some(2) && text(&checked.stderr).contains("before its card fills in"));
    // A port that goes away: what was seen is written. The packet is sent until a record shows that it was read, because
    // the first one may wait for the neighbour's address, and a removed interface takes it along.
    let arguments = ["--port", "port", "--log", "log", "--active-timeout", "1"];
    let mut run = Run::start(&net.0[1], folder.path(), &arguments);
    let seen = |ended: &str| {
        let flows = records(&fs::read_to_string(folder.path().join("log")).unwrap_or_default());
        flows.iter().any(|flow| flow["destination_port"] == 9 && flow["ended"] == ended)
    };
    crate::harness::until("a record of the packet", || {
        within(&net.0[0], || {
            UdpSocket::bind("192.0.2.1:5000").unwrap().send_to(b"?", "192.0.2.2:9").unwrap()
        });
        seen("active_timeout")
    });
    ip(&format!("-n {} link del host", net.0[0])).unwrap();
    let ended = run.0.take().unwrap().wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(text(&ended.stderr).contains("interface port was removed"), "{}", text(&ended.stderr));
    assert!(seen("input_ended"), "{}", fs::read_to_string(folder.path().join("log")).unwrap());
}
