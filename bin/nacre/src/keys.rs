//! Secrets and the files that hold them.

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes)).context("read /dev/urandom")?;
    Ok(bytes)
}

/// A random id of version 4.
pub(crate) fn random_uuid() -> Result<[u8; 16]> {
    let mut id = random::<16>()?;
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    Ok(id)
}

/// A key as keyrings show it: kind 1 (AES-128), time of creation, length and secret, all little-endian, in base64.
pub(crate) fn to_text(key: &[u8; 16]) -> String {
    let mut bytes = vec![1, 0];
    let created = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    bytes.extend_from_slice(&(created.as_secs() as u32).to_le_bytes());
    bytes.extend_from_slice(&created.subsec_nanos().to_le_bytes());
    bytes.extend_from_slice(&16u16.to_le_bytes());
    bytes.extend_from_slice(key);
    STANDARD.encode(bytes)
}

/// The secret of a key as keyrings show it.
pub(crate) fn from_text(text: &str) -> Option<[u8; 16]> {
    let bytes = STANDARD.decode(text).ok()?;
    let (head, secret) = bytes.split_at_checked(12)?;
    if head[..2] != [1, 0] || head[10..] != [16, 0] {
        return None;
    }
    secret.try_into().ok()
}

/// The key of `entity` in the keyring at `path`; made, with the file, if there is none.
pub(crate) fn load_or_make(path: &Path, entity: &str, caps: &[(&str, &str)]) -> Result<[u8; 16]> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, entity).with_context(|| format!("{} has no usable key of {entity}", path.display())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let key = random::<16>()?;
            write_private(path, &keyring(entity, &key, caps))?;
            Ok(key)
        }
        Err(e) => Err(e).with_context(|| format!("read {}", path.display())),
    }
}

/// The key of `entity` in the keyring at `path`.
pub(crate) fn load(path: &Path, entity: &str) -> Result<[u8; 16]> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    parse(&text, entity).with_context(|| format!("{} has no usable key of {entity}", path.display()))
}

/// Writes a keyring with a key that the cluster has.
pub(crate) fn keep(path: &Path, entity: &str, key: &[u8; 16], caps: &[(&str, &str)]) -> Result<()> {
    write_private(path, &keyring(entity, key, caps))
}

fn parse(text: &str, entity: &str) -> Result<[u8; 16]> {
    let mut ours = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            ours = name == entity;
        } else if ours
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == "key"
        {
            return from_text(value.trim()).context("the key is not an AES-128 key in base64");
        }
    }
    bail!("no section [{entity}] with a key")
}

/// Returns the number of the first line, from 1, that Ceph's reader of keyrings does not understand.
pub(crate) fn malformed(text: &str) -> Option<usize> {
    let fine = |line: &str| {
        let line = line.trim();
        line.is_empty() || line.starts_with(['#', ';']) || line.starts_with('[') && line.contains(']') || line.contains('=')
    };
    text.lines().position(|line| !fine(line)).map(|at| at + 1)
}

fn keyring(entity: &str, key: &[u8; 16], caps: &[(&str, &str)]) -> String {
    let caps: String = caps.iter().map(|(service, cap)| format!("\tcaps {service} = \"{cap}\"\n")).collect();
    format!("[{entity}]\n\tkey = {}\n{caps}", to_text(key))
}

/// Writes a file that only its owner can read; whole, or not at all.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    write_whole(path, text, 0o600)
}

/// The same for bytes that are no text.
pub(crate) fn write_private_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    write_bytes(path, bytes, 0o600)
}

/// Writes a file; whole, or not at all, also if the machine stops.
pub(crate) fn write_whole(path: &Path, text: &str, mode: u32) -> Result<()> {
    write_bytes(path, text.as_bytes(), mode)
}

fn write_bytes(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    // Processes of one folder may write the same file at the same time.
    temporary.push(format!(".{}.new", std::process::id()));
    let temporary = Path::new(&temporary);
    let write = || -> std::io::Result<()> {
        let _ = std::fs::remove_file(temporary);
        let mut file = File::options().write(true).create_new(true).mode(mode).open(temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(temporary, path)?;
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    };
    write().with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keyrings_are_kept_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keyring");
        let key = load_or_make(&path, "client.admin", &[("mon", "allow *")]).unwrap();
        assert_eq!(load_or_make(&path, "client.admin", &[]).unwrap(), key);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("[client.admin]\n\tkey = AQ") && text.contains("caps mon = \"allow *\""), "{text}");
        assert!(load_or_make(&path, "osd.0", &[]).is_err());
        std::fs::write(&path, "[osd.0]\nkey = short\n").unwrap();
        assert!(load_or_make(&path, "osd.0", &[]).is_err());
    }

    #[test]
    fn a_line_that_clients_refuse_is_found() {
        assert_eq!(malformed(&keyring("client.admin", &[7; 16], &[("mon", "allow *")])), None);
        assert_eq!(malformed("# mine\n\n[client.a]\n\tkey = AAAA\nexporting keyring\n[client.b]\n"), Some(5));
    }

    #[test]
    fn keys_in_the_form_of_ceph_authtool_are_read() {
        let text = "[osd.7]\n\tkey = AAAA\n[mon.]\n\tkey = AQAApRhqBQAAABAAAAECAwQFBgcICQoLDA0ODw==\n";
        assert_eq!(parse(text, "mon.").unwrap(), std::array::from_fn(|i| i as u8));
        assert!(parse(text, "osd.7").is_err());
    }
}
