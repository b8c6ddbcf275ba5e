//! NATS servers of a test.

use scalebricks_engine::nats::{JetStream, Options};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Path of a `nats-server`; `None` if there is none and tests may be skipped.
pub fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/nats.sh");
        let output = Command::new(script).arg("path").output().unwrap();
        if output.status.success() {
            return Some(PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()));
        }
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(std::env::var_os("REQUIRE_NATS").is_none_or(|value| value != "1"), "required: {why}");
        say(&format!("skipped: {}", why.trim().replace('\n', "; ")));
        None
    };
    PROGRAM.get_or_init(find).as_deref()
}

/// Writes a line to standard error, which the test runner does not capture: scripts/test.sh reads it.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Different free ports.
pub fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// Servers on free ports, with their files in a temporary directory.
#[derive(Debug)]
pub struct Cluster {
    directory: TempDir,
    ports: Vec<u16>,
    running: Mutex<Vec<Option<Child>>>,
    /// Kills the servers when this process ends without dropping this value: its input is closed then.
    guard: Child,
}

impl Cluster {
    /// `None`: skipped.
    pub fn start(count: usize) -> Option<Self> {
        Self::start_with(
            count,
            "jetstream { store_dir: \"DIRECTORY\", sync_interval: always }\nmax_payload: 2MB\n",
        )
    }

    /// Starts servers with other lines in the configuration.
    pub fn start_with(count: usize, lines: &str) -> Option<Self> {
        program()?;
        let directory = tempfile::tempdir().unwrap();
        let ports = free_ports(2 * count);
        let routes: Vec<_> = ports[count..].iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let at = directory.path().display().to_string();
        for n in 0..count {
            let lines = lines.replace("DIRECTORY", &format!("{at}/{n}"));
            let routes = if count > 1 {
                let port = ports[count + n];
                format!(
                    "cluster {{ name: test, listen: \"127.0.0.1:{port}\", routes: [{}] }}",
                    routes.join(", ")
                )
            } else {
                String::new()
            };
            let config = format!(
                "server_name: s{n}\nlisten: \"127.0.0.1:{}\"\npid_file: \"{at}/{n}.pid\"\nlog_file: \"{at}/{n}.log\"\n{lines}{routes}\n",
                ports[n]
            );
            fs::write(directory.path().join(format!("{n}.conf")), config).unwrap();
        }
        let guard =
            "cat >/dev/null; for f in \"$0\"/*.pid; do kill -9 \"$(cat \"$f\")\"; done; rm -rf \"$0\"";
        let guard = Command::new("sh")
            .args(["-c", guard, &at])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let running = Mutex::new((0..count).map(|_| None).collect());
        let cluster = Self { directory, ports: ports[..count].to_vec(), running, guard };
        (0..count).for_each(|n| cluster.start_server(n));
        Some(cluster)
    }

    pub fn start_server(&self, n: usize) {
        let config = self.directory.path().join(format!("{n}.conf"));
        let child = Command::new(program().unwrap())
            .arg("-c")
            .arg(config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.running.lock().unwrap()[n] = Some(child);
        let address = SocketAddr::from(([127, 0, 0, 1], self.ports[n]));
        let began = Instant::now();
        while std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "server {n} does not start");
            sleep(Duration::from_millis(20));
        }
        let _ = writeln!(io::stderr(), "nats-server s{n} answers at {address}");
    }

    /// Kills a server with SIGKILL.
    pub fn kill_server(&self, n: usize) {
        let mut child = self.running.lock().unwrap()[n].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_file(self.directory.path().join(format!("{n}.pid"))).unwrap();
    }

    pub fn options(&self, prefix: &str) -> Options {
        Options {
            servers: self.ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect(),
            prefix: prefix.to_owned(),
            replicas: if self.ports.len() < 3 { 1 } else { 3 },
            ..Options::default()
        }
    }

    /// Opens an engine; retries, as servers that have just started need time to elect a leader.
    pub async fn open(&self, prefix: &str) -> JetStream {
        self.open_with(self.options(prefix)).await
    }

    /// Opens an engine that soon accepts a log that lost entries.
    pub async fn open_credulous(&self, prefix: &str) -> JetStream {
        let (timeout, lost_after) = (Duration::from_secs(2), Duration::from_secs(2));
        self.open_with(Options { timeout, lost_after, ..self.options(prefix) }).await
    }

    async fn open_with(&self, options: Options) -> JetStream {
        let began = Instant::now();
        loop {
            match JetStream::connect(options.clone()).await {
                Ok(engine) => return engine,
                Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error}"),
            }
        }
    }

    /// Sends a JetStream request without the engine; retries during elections.
    pub fn ask(&self, what: &str, body: &Value) -> Value {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let began = Instant::now();
        runtime.block_on(async {
            loop {
                let answer = async {
                    let client = async_nats::connect(self.options("").servers).await.ok()?;
                    client.request(format!("$JS.API.{what}"), body.to_string().into()).await.ok()
                };
                if let Some(answer) = answer.await {
                    return serde_json::from_slice(&answer.payload).unwrap();
                }
                assert!(began.elapsed() < Duration::from_secs(60), "no answer to {what}");
                sleep(Duration::from_millis(100));
            }
        })
    }

    /// Publishes without the engine.
    pub fn publish(&self, subject: &str, text: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = async_nats::connect(self.options("").servers).await.unwrap();
            let answer = client.request(subject.to_owned(), text.to_owned().into()).await;
            assert!(answer.unwrap().payload.starts_with(b"{\"stream\""));
        });
    }

    /// The server that leads a stream.
    pub fn leader(&self, stream: &str) -> usize {
        let began = Instant::now();
        loop {
            let info = self.ask(&format!("STREAM.INFO.{stream}"), &json!({}));
            if let Some(name) = info["cluster"]["leader"].as_str() {
                return name.trim_start_matches('s').parse().unwrap();
            }
            assert!(began.elapsed() < Duration::from_secs(60), "no leader: {info}");
        }
    }

    pub fn remove_streams(&self, prefix: &str) {
        let names = self.ask("STREAM.NAMES", &json!({ "subject": format!("{prefix}.>") }));
        for name in names["streams"].as_array().into_iter().flatten() {
            self.ask(&format!("STREAM.DELETE.{}", name.as_str().unwrap()), &json!({}));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for mut child in self.running.lock().unwrap().drain(..).flatten() {
            child.kill().ok();
            child.wait().ok();
        }
        // The system may have reused the pids.
        for n in 0..self.ports.len() {
            fs::remove_file(self.directory.path().join(format!("{n}.pid"))).ok();
        }
        drop(self.guard.stdin.take());
        self.guard.wait().ok();
    }
}
