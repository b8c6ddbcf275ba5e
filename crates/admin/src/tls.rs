//! Files for TLS, in the PEM format: for the admin server, its clients, and NATS clients.

use rustls::client::WantsClientCert;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file cannot be used for TLS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct TlsFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

fn bad(path: &Path, what: &impl ToString) -> TlsFileError {
    TlsFileError { path: path.to_owned(), what: what.to_string() }
}

/// The certificates of a file, at least one.
///
/// # Errors
/// [`TlsFileError`].
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| bad(path, &error))?;
    if found.is_empty() { Err(bad(path, &"no certificate in the file")) } else { Ok(found) }
}

/// The private key of a file.
///
/// # Errors
/// [`TlsFileError`].
pub fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| bad(path, &error))
}

/// A client configuration that trusts only the certificates of a file.
///
/// # Errors
/// [`TlsFileError`].
pub fn trust(path: &Path) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsFileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| bad(path, &error))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| bad(path, &error))?;
    Ok(builder.with_root_certificates(roots))
}

/// Checks a client's files: its trusted authorities (`None`: those of the system), and its certificate with its key.
///
/// # Errors
/// [`TlsFileError`].
pub fn check(authorities: Option<&Path>, identity: Option<&(PathBuf, PathBuf)>) -> Result<(), TlsFileError> {
    if let Some(path) = authorities {
        trust(path)?;
    }
    if let Some((certificate, private)) = identity {
        let (chain, own) = (certificates(certificate)?, key(private)?);
        let pair = rustls::sign::CertifiedKey::from_der(chain, own, &ring::default_provider());
        pair.map_err(|error| bad(private, &format!("not the key of {}: {error}", certificate.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a", "b"] {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
            std::fs::write(path(&format!("{name}.crt")), made.cert.pem()).unwrap();
            std::fs::write(path(&format!("{name}.key")), made.signing_key.serialize_pem()).unwrap();
        }
        std::fs::write(path("empty"), "").unwrap();
        let pair = |certificate: &str, key: &str| (path(certificate), path(key));
        assert_eq!(check(None, None), Ok(()));
        assert_eq!(check(Some(&path("a.crt")), Some(&pair("b.crt", "b.key"))), Ok(()));
        let error = |authorities: Option<&str>, identity: Option<(PathBuf, PathBuf)>| {
            check(authorities.map(path).as_deref(), identity.as_ref()).unwrap_err().to_string()
        };
        assert!(error(Some("empty"), None).ends_with("empty: no certificate in the file"));
        assert!(error(Some("none"), None).contains("none: "));
        assert!(error(None, Some(pair("a.crt", "b.key"))).contains("not the key of"));
        assert!(error(None, Some(pair("a.crt", "empty"))).contains("empty: "));
        assert!(error(None, Some(pair("none", "a.key"))).contains("none: "));
    }
}
