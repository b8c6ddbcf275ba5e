//! Names by the log of a process; over NATS they are in the target `nats`.

use super::shared::{KIND, ask, change, configure, names_are_shared, start, wait};
use scalebricks_admin::model::switch::Change;
use scalebricks_daemon::switch::running::ChangeError;
use scalebricks_engine::remote::{ClientOptions, Endpoint, RemoteEngine};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// An engine process, which does not outlive its test.
struct Process(Child);

impl Process {
    fn start(data: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scalebricks"));
        command.args(["engine", "run", "--data"]).arg(data).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn switches_share_names_by_an_engine_process_and_outlive_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("log");
    let socket = data.join("engine.sock");
    let process = Process::start(&data);
    let log = RemoteEngine::connect(Endpoint::Unix(socket.clone()), ClientOptions::default()).unwrap();
    let engine = format!("engine = \"unix:{}\"", socket.display());
    names_are_shared(&engine, &log);

    // Gone, it is missed and said to be; what was read stays. Then it comes back.
    let configuration = configure(folder.path(), KIND, &engine);
    let switch = start(&configuration);
    wait("it follows", || switch.has_all_names());
    drop(process);
    wait("it is missed", || switch.view().fault.is_some());
    assert_eq!(switch.list().len(), 1_029);
    let process = Process::start(&data);
    wait("it is read again", || switch.view().fault.is_none());
    let there_already = ask(&switch, &[change(Change::Add, 1, "drop")]);
    assert!(matches!(there_already, Err(ChangeError::Refused(..))), "{there_already:?}");
    ask(&switch, &[change(Change::Remove, 1, "")]).unwrap();
    assert_eq!(switch.list().len(), 1_028);
    drop(process);
}
