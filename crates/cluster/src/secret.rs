//! Secrets in files and environment variables: keys, tokens, passwords.
//!
//! A configuration file never contains a secret, as it is copied, shown and kept under version control.

pub use scalebricks_io::secret_file::read;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::{Path, PathBuf};

/// Longest password or token, bytes.
const LONGEST: usize = 4096;

/// The place of a secret in a configuration: `{ file = "PATH" }` or `{ env = "NAME" }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretAt {
    /// In a file that only its owner and group may read.
    File(PathBuf),
    /// In an environment variable of the process.
    Env(String),
}

impl SecretAt {
    /// The same with its file found by `beside`.
    #[must_use]
    pub fn with_file(self, beside: impl Fn(&Path) -> PathBuf) -> Self {
        match self {
            Self::File(path) => Self::File(beside(&path)),
            Self::Env(name) => Self::Env(name),
        }
    }

    /// Reads the secret: text of 1 to 4,096 bytes.
    ///
    /// # Errors
    /// What is wrong, with the name of the file or variable, and never with the secret.
    pub fn read(&self) -> Result<String, String> {
        let (place, text) = match self {
            Self::File(path) => {
                let place = path.display().to_string();
                let bytes = read(path, LONGEST).map_err(|what| format!("{place}: {what}"))?;
                (place, String::from_utf8(bytes).map_err(|_| ()))
            }
            Self::Env(name) => {
                let place = format!("environment variable {name}");
                let value = std::env::var_os(name).ok_or_else(|| format!("{place}: not set"))?;
                (place, value.into_string().map_err(|_| ()))
            }
        };
        let text = text.map_err(|()| format!("{place}: not UTF-8"))?;
        match text.len() {
            0 => Err(format!("{place}: empty")),
            len if len > LONGEST => Err(format!("{place}: longer than {LONGEST} bytes")),
            _ => Ok(text),
        }
    }
}

impl<'de> Deserialize<'de> for SecretAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Place;
        impl<'de> Visitor<'de> for Place {
            type Value = SecretAt;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("{ file = \"PATH\" } or { env = \"NAME\" }")
            }

            // Not the error of serde, which would print the secret.
            fn visit_str<E: Error>(self, _secret: &str) -> Result<SecretAt, E> {
                Err(E::custom(
                    "a secret must not be in this file: write { file = \"PATH\" }, a file that only its owner may read, \
                     or { env = \"NAME\" }",
                ))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SecretAt, A::Error> {
                let place = match map.next_key::<String>()?.as_deref() {
                    Some("file") => SecretAt::File(map.next_value()?),
                    Some("env") => SecretAt::Env(map.next_value()?),
                    Some(other) => return Err(A::Error::unknown_field(other, &["file", "env"])),
                    None => {
                        return Err(A::Error::custom(
                            "empty: write { file = \"PATH\" } or { env = \"NAME\" }",
                        ));
                    }
                };
                match map.next_key::<String>()? {
                    None => Ok(place),
                    Some(_) => Err(A::Error::custom("one place only: file or env")),
                }
            }
        }
        deserializer.deserialize_any(Place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[derive(Debug, Deserialize)]
    struct Holder {
        password: SecretAt,
    }

    fn parse(text: &str) -> Result<SecretAt, String> {
        let parsed = toml::from_str::<Holder>(&format!("password = {text}"));
        parsed.map(|holder| holder.password).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_secret_is_in_a_file_or_the_environment_and_never_in_the_configuration() {
        assert_eq!(parse("{ file = \"a\" }"), Ok(SecretAt::File("a".into())));
        assert_eq!(parse("{ env = \"A\" }"), Ok(SecretAt::Env("A".to_owned())));
        let refused = parse("\"hunter2\"").unwrap_err();
        assert!(refused.contains("{ file = ") && !refused.contains("hunter2"), "{refused}");
        for wrong in ["{}", "{ file = \"a\", env = \"A\" }", "{ fiel = \"a\" }", "7", "[\"hunter2\"]"] {
            let refused = parse(wrong).unwrap_err();
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }

    #[test]
    fn a_secret_file_is_for_its_owner_and_holds_something() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let read = |bytes: &[u8], mode: u32| {
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            SecretAt::File(path.clone()).read()
        };
        assert_eq!(read(b"hunter2\r\n", 0o600).as_deref(), Ok("hunter2"));
        assert_eq!(read(&[b'x'; LONGEST], 0o640).map(|text| text.len()), Ok(LONGEST));
        for (bytes, mode, expected) in [
            (&b"hunter2"[..], 0o604, "password: everybody may read it: chmod o-rwx"),
            (b"hunter2", 0o602, "chmod"),
            (b"\n", 0o600, "password: empty"),
            (b"\xff", 0o600, "password: not UTF-8"),
            (&[b'x'; LONGEST + 1], 0o600, "longer than 4096 bytes"),
            (&[b'x'; 2 * LONGEST], 0o600, "longer than 4096 bytes"),
        ] {
            let told = read(bytes, mode).unwrap_err();
            assert!(told.contains(expected) && !told.contains("hunter2"), "{told}");
        }
        let directory = SecretAt::File(folder.path().to_owned()).read().unwrap_err();
        assert!(directory.contains("not a regular file"), "{directory}");
        let missing = SecretAt::File(folder.path().join("no")).read().unwrap_err();
        assert!(missing.contains("/no: No such file"), "{missing}");
        let unset = SecretAt::Env("SCALEBRICKS_NO_SUCH_SECRET".to_owned()).read().unwrap_err();
        assert_eq!(unset, "environment variable SCALEBRICKS_NO_SUCH_SECRET: not set");
    }
}
