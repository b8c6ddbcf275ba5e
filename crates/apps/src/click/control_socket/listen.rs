//! Control sockets: one thread per socket, and one per client.

use super::protocol::{ClientSession, GREETING};
use super::request_handler::RequestHandler;
use super::{Config, ControlError, config};
use crate::click::Router;
use crate::directory::Directory;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most concurrent clients of a socket. More are refused.
const CLIENTS: usize = 16;

/// How often a thread checks whether to end.
const LOOK: Duration = Duration::from_millis(50);

/// How long a client may take to receive a reply.
const WRITE: Duration = Duration::from_secs(5);

/// The address of a control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A file.
    Unix(PathBuf),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A client's connection.
trait Stream: Read + Write + Send + 'static {
    fn set_times(&self) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn set_times(&self) -> io::Result<()> {
        self.set_nonblocking(false)?;
        self.set_nodelay(true)?;
        self.set_read_timeout(Some(LOOK))?;
        self.set_write_timeout(Some(WRITE))
    }
}

impl Stream for UnixStream {
    fn set_times(&self) -> io::Result<()> {
        self.set_nonblocking(false)?;
        self.set_read_timeout(Some(LOOK))?;
        self.set_write_timeout(Some(WRITE))
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn bind(place: &ListenAddress) -> io::Result<Self> {
        match place {
            ListenAddress::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(listener))
            }
            ListenAddress::Unix(path) => {
                // Left by a process that has ended: no process answers there.
                if path.exists()
                    && UnixStream::connect(path)
                        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
                {
                    std::fs::remove_file(path)?;
                }
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(listener))
            }
        }
    }

    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Tcp(listener) => Ok(Box::new(listener.accept()?.0)),
            Self::Unix(listener) => Ok(Box::new(listener.accept()?.0)),
        }
    }
}

/// What the threads of a socket share.
struct SocketState {
    directory: Arc<Directory>,
    is_readonly: bool,
    clients: AtomicUsize,
    stop: Arc<AtomicBool>,
}

/// A socket that listens until it is dropped.
#[derive(Debug)]
struct Socket {
    config: Config,
    place: ListenAddress,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Socket {
    fn open(config: Config, directory: &Arc<Directory>) -> Result<Self, ControlError> {
        let listener = Listener::bind(&config.place)
            .map_err(|error| ControlError::Listen { place: config.place.clone(), error })?;
        let place = match &listener {
            Listener::Tcp(listener) => listener.local_addr().map_or(config.place.clone(), ListenAddress::Tcp),
            Listener::Unix(_) => config.place.clone(),
        };
        let (directory, is_readonly) = (Arc::clone(directory), config.is_readonly);
        let mut socket = Self { config, place, stop: Arc::default(), thread: None };
        let stop = Arc::clone(&socket.stop);
        let shared = Arc::new(SocketState { directory, is_readonly, clients: AtomicUsize::new(0), stop });
        let thread = std::thread::Builder::new().name("control-socket".to_owned());
        socket.thread = Some(thread.spawn(move || accept(&listener, &shared)).map_err(ControlError::Thread)?);
        Ok(socket)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed); // nothing is published with it
        // A panic in the thread was already reported.
        drop(self.thread.take().map(JoinHandle::join));
        if let ListenAddress::Unix(path) = &self.place {
            drop(std::fs::remove_file(path));
        }
    }
}

/// The control sockets of a router. Dropping it closes them.
#[derive(Debug, Default)]
pub struct ControlServer {
    sockets: Vec<Socket>,
}

/// The control sockets of a configuration that is about to run.
#[derive(Debug)]
pub(in crate::click) struct Prepared {
    /// Which of the current sockets stay.
    stays: Vec<bool>,
    new: Vec<Socket>,
}

impl ControlServer {
    /// Listens on all control sockets of a configuration.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn start(router: &Router, directory: &Arc<Directory>) -> Result<Self, ControlError> {
        let mut server = Self::default();
        let prepared = server.prepare(router, directory)?;
        server.adopt(prepared);
        Ok(server)
    }

    /// Listens on the control sockets that another configuration has and this one does not.
    ///
    /// # Errors
    /// [`ControlError`].
    pub(in crate::click) fn prepare(
        &self,
        router: &Router,
        directory: &Arc<Directory>,
    ) -> Result<Prepared, ControlError> {
        let mut prepared = Prepared { stays: vec![false; self.sockets.len()], new: Vec::new() };
        for texts in router.control_sockets() {
            // They were checked when the configuration was read.
            let Ok(config) = config(texts) else { continue };
            let mut there = self.sockets.iter().zip(&mut prepared.stays);
            match there.find(|(socket, stays)| !**stays && socket.config == config) {
                Some((_, stays)) => *stays = true,
                None => prepared.new.push(Socket::open(config, directory)?),
            }
        }
        Ok(prepared)
    }

    /// Closes the sockets that the other configuration does not have. Clients of the others stay connected.
    pub(in crate::click) fn adopt(&mut self, prepared: Prepared) {
        let mut stays = prepared.stays.into_iter();
        self.sockets.retain(|_| stays.next().unwrap_or_default());
        self.sockets.extend(prepared.new);
    }

    /// The addresses it listens on; for port 0, the port that the system chose.
    pub fn places(&self) -> impl Iterator<Item = &ListenAddress> {
        self.sockets.iter().map(|socket| &socket.place)
    }
}

fn accept(listener: &Listener, shared: &Arc<SocketState>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !shared.stop.load(Ordering::Relaxed) {
        let Ok(stream) = listener.accept() else {
            std::thread::sleep(LOOK);
            continue;
        };
        threads.retain(|thread| !thread.is_finished());
        if shared.clients.load(Ordering::Relaxed) >= CLIENTS {
            continue;
        }
        shared.clients.fetch_add(1, Ordering::Relaxed);
        let own = Arc::clone(shared);
        let serve = move || {
            // A disconnecting client is not an error.
            drop(serve(stream, &own));
            own.clients.fetch_sub(1, Ordering::Relaxed);
        };
        match std::thread::Builder::new().name("control-client".to_owned()).spawn(serve) {
            Ok(thread) => threads.push(thread),
            Err(_) => drop(shared.clients.fetch_sub(1, Ordering::Relaxed)),
        }
    }
    for thread in threads {
        drop(thread.join());
    }
}

fn serve(mut stream: Box<dyn Stream>, shared: &SocketState) -> io::Result<()> {
    stream.set_times()?;
    stream.write_all(GREETING.as_bytes())?;
    let mut handlers =
        RequestHandler { directory: Arc::clone(&shared.directory), is_readonly: shared.is_readonly };
    let mut session = ClientSession::new();
    let mut bytes = [0; 4_096];
    while !shared.stop.load(Ordering::Relaxed) {
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(len) => session.feed(&bytes[..len]),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        }
        while let Some(reply) = session.next(&mut handlers) {
            stream.write_all(&reply)?;
        }
        if session.is_closed() {
            return Ok(());
        }
    }
    Ok(())
}
