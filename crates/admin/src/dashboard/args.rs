//! Arguments of `scalebricks dashboard`.

use super::{Access, Nodes, Place, Source};
use crate::client::Target;
use crate::client::sockets::runtime_directory;
use crate::commands::CommandError;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Description of `scalebricks dashboard`.
pub const ABOUT: &str = "\
Serves a page for the browser that shows a running cluster: its nodes, rates, drops, tables, partitions, moves and failures, \
finds flows, and draws the path of a packet. It asks the nodes over their admin interfaces, and changes nothing.

Who has the token gets the data: without --listen-token-file, a new one is made and printed as part of the page's address. \
An address other than loopback needs TLS.";

/// Examples of `scalebricks dashboard`.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks dashboard
      All nodes with a socket in /run/scalebricks; open the address that it prints.
  scalebricks dashboard --tcp gw0.example.net:9470 --tcp gw1.example.net:9470 --ca ca.pem --token-file token
      Nodes on other machines.
  scalebricks dashboard --listen 192.0.2.5:9471 --listen-certificate page.pem --listen-key page.key --listen-token-file page-token
      For browsers on other machines: https://192.0.2.5:9471/, which asks for the token.
  ssh -L 9471:127.0.0.1:9471 gw0.example.net scalebricks dashboard
      The same without a certificate.

Exit status:
  0 ended by Ctrl-C    1 cannot be served    2 wrong usage";

/// Arguments of `dashboard`.
#[derive(Debug, Args)]
pub struct DashboardArgs {
    /// Address and port of the page
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9471")]
    pub listen: SocketAddr,

    /// Certificate chain of the page, PEM: serves HTTPS
    #[arg(long, value_name = "FILE", requires = "listen_key", requires = "listen_token_file")]
    pub listen_certificate: Option<PathBuf>,

    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "listen_certificate")]
    pub listen_key: Option<PathBuf>,

    /// File with the token that browsers must give [default: a new one, which is printed]
    #[arg(long, value_name = "FILE")]
    pub listen_token_file: Option<PathBuf>,

    /// Unix socket of a node; repeat it for several [default: node*.sock in /run/scalebricks]
    #[arg(long, value_name = "PATH", help_heading = "The nodes")]
    pub socket: Vec<PathBuf>,

    /// Address of a node, with its certificate's host name, over TLS; repeat it for several
    #[arg(
        long,
        value_name = "HOST:PORT",
        requires = "ca",
        requires = "token_file",
        help_heading = "The nodes"
    )]
    pub tcp: Vec<String>,

    /// Trusted certificates of the nodes, PEM
    #[arg(long, value_name = "FILE", requires = "tcp", help_heading = "The nodes")]
    pub ca: Option<PathBuf>,

    /// File with the nodes' token
    #[arg(long, value_name = "FILE", requires = "tcp", help_heading = "The nodes")]
    pub token_file: Option<PathBuf>,

    /// Seconds to wait for a node's answer
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=60), help_heading = "The nodes")]
    pub timeout: u32,
}

impl DashboardArgs {
    /// Where the page is served.
    ///
    /// # Errors
    /// [`CommandError::Usage`] for an address that needs TLS.
    pub(super) fn place(&self) -> Result<Place, CommandError> {
        let access = match (&self.listen_certificate, &self.listen_key, &self.listen_token_file) {
            (Some(certificate), Some(key), Some(token)) => {
                Access::Tls { certificate: certificate.clone(), key: key.clone(), token: token.clone() }
            }
            (_, _, token) if self.listen.ip().is_loopback() => Access::Local(token.clone()),
            _ => {
                return Err(CommandError::Usage(format!(
                    "--listen {}: other machines reach this address, which needs --listen-certificate, --listen-key and \
                     --listen-token-file",
                    self.listen
                )));
            }
        };
        Ok(Place { address: self.listen, access })
    }

    /// The nodes.
    pub(super) fn nodes(&self) -> Nodes {
        let sockets = self.socket.iter().cloned().map(Target::Unix);
        let tcp = self.tcp.iter().filter_map(|address| {
            let (ca, token) = (self.ca.clone()?, self.token_file.clone()?);
            Some(Target::Tls { address: address.clone(), ca, token })
        });
        let named: Vec<Target> = sockets.chain(tcp).collect();
        let source =
            if named.is_empty() { Source::Directory(runtime_directory()) } else { Source::Named(named) };
        Nodes::new(source, Duration::from_secs(u64::from(self.timeout)))
    }
}
