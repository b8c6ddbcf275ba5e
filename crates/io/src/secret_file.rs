//! Files with secrets, read only if their permissions keep others out.

use rustix::process::geteuid;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zeroize::Zeroizing;

/// Reads a secret file of at most `longest` bytes, without the line end behind it.
///
/// # Errors
/// Why not, without the path: the file cannot be read, is no regular file, is too long, or other users than its owner and
/// group have any right to it.
pub fn read(path: &Path, longest: usize) -> Result<Vec<u8>, String> {
    let mut file = open(path)?;
    if file.metadata().map_err(text)?.mode() & 0o007 != 0 {
        return Err("everybody may read it: chmod o-rwx".to_owned());
    }
    let mut bytes = Vec::new();
    contents(&mut file, longest, &mut bytes)?;
    Ok(bytes)
}

/// Reads a secret file that only its owner may read, and whose owner is the user of the process or root. The bytes are
/// overwritten when they are dropped.
///
/// # Errors
/// As [`read`]; also if the owner is another user, or the group has any right to the file.
pub fn read_private(path: &Path, longest: usize) -> Result<Zeroizing<Vec<u8>>, String> {
    let mut file = open(path)?;
    let metadata = file.metadata().map_err(text)?;
    if metadata.mode() & 0o077 != 0 {
        return Err("others than its owner may read it: chmod 600".to_owned());
    }
    if ![0, geteuid().as_raw()].contains(&metadata.uid()) {
        return Err(format!("it belongs to user {}: chown it to the user of this process", metadata.uid()));
    }
    // Room for all of it, so that no copy stays behind where the vector grows.
    let mut bytes = Zeroizing::new(Vec::with_capacity(longest.min(metadata.len() as usize) + 8));
    contents(&mut file, longest, &mut bytes)?;
    Ok(bytes)
}

#[expect(clippy::needless_pass_by_value, reason = "the argument of map_err")]
fn text(error: std::io::Error) -> String {
    error.to_string()
}

fn open(path: &Path) -> Result<File, String> {
    // Before it is opened: opening a pipe would wait for a writer.
    if !fs::metadata(path).map_err(text)?.is_file() {
        return Err("not a regular file".to_owned());
    }
    File::open(path).map_err(text)
}

fn contents(file: &mut File, longest: usize, bytes: &mut Vec<u8>) -> Result<(), String> {
    file.take(longest as u64 + 3).read_to_end(bytes).map_err(text)?;
    let end = bytes.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
    if end > longest {
        return Err(format!("longer than {longest} bytes"));
    }
    bytes.truncate(end);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_private_file_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let read = |mode: u32, longest| {
            fs::write(&path, "key\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read_private(&path, longest).map(|bytes| bytes.to_vec())
        };
        assert_eq!((read(0o600, 3), read(0o400, 9)), (Ok(b"key".to_vec()), Ok(b"key".to_vec())));
        for mode in [0o640, 0o604, 0o620, 0o601] {
            assert!(read(mode, 9).unwrap_err().contains("chmod 600"), "{mode:o}");
        }
        assert_eq!(read(0o600, 2).unwrap_err(), "longer than 2 bytes");
        assert!(read_private(folder.path(), 9).unwrap_err().contains("not a regular file"));
        assert!(read_private(&folder.path().join("none"), 9).unwrap_err().contains("No such file"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        // Only root can give a file away.
        if geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert!(read_private(&path, 9).unwrap_err().contains("belongs to user 65534"));
        }
    }
}
