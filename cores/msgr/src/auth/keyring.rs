//! Keyring files: entities with their keys and rights, in Ceph's text format.

use super::Key;
use std::collections::BTreeMap;
use std::fmt;
use types::EntityName;

/// What the auth database holds about one entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityKey {
    /// Its secret.
    pub key: Key,
    /// Its rights by service: `mon`, `osd`, `mgr`, `mds`.
    pub caps: BTreeMap<String, String>,
}

/// Entities with keys and rights; printed as `ceph auth export` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring {
    /// By name.
    pub entities: BTreeMap<EntityName, EntityKey>,
}

/// Why a text is no keyring: whose fault, and in which line (from 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyringError {
    /// Line number.
    pub line: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl fmt::Display for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the keyring: {}", self.line, self.what)
    }
}

impl std::error::Error for KeyringError {}

/// A section as far as it was read: where it begins, its key, its rights.
type Section = (usize, Option<Key>, BTreeMap<String, String>);

impl Keyring {
    /// Parses a keyring file. Unknown fields (`auid`) are skipped; an entity without a key is refused.
    pub fn parse(text: &str) -> Result<Self, KeyringError> {
        let mut entities: BTreeMap<EntityName, Section> = BTreeMap::new();
        let mut current: Option<EntityName> = None;
        for (index, raw) in text.lines().enumerate() {
            let fail = |what| KeyringError { line: index + 1, what };
            let line = raw.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[') {
                let name = name.strip_suffix(']').ok_or(fail("'[' without ']'"))?;
                let name: EntityName = name.trim().parse().map_err(|_| fail("not an entity's name"))?;
                entities.entry(name.clone()).or_insert((index + 1, None, BTreeMap::new()));
                current = Some(name);
                continue;
            }
            let (field, value) = line.split_once('=').ok_or(fail("neither a section nor an assignment"))?;
            let section =
                current.as_ref().and_then(|name| entities.get_mut(name)).ok_or(fail("assignment before any section"))?;
            // Ceph takes spaces and underscores in field names as the same.
            let words: Vec<&str> = field.split([' ', '_', '\t']).filter(|w| !w.is_empty()).collect();
            match words[..] {
                ["key"] => section.1 = Some(Key::from_base64(value).map_err(|_| fail("not a key"))?),
                ["caps", service] => {
                    section.2.insert(service.into(), unquote(value).ok_or(fail("quote without its end"))?);
                }
                _ => {}
            }
        }
        let entities = entities.into_iter().map(|(name, (line, key, caps))| {
            let key = key.ok_or(KeyringError { line, what: "entity without a key" })?;
            Ok((name, EntityKey { key, caps }))
        });
        Ok(Self { entities: entities.collect::<Result<_, _>>()? })
    }
}

/// A value as written: bare, or in double quotes with backslash escapes.
fn unquote(value: &str) -> Option<String> {
    let value = value.trim();
    let Some(quoted) = value.strip_prefix('"') else { return Some(value.into()) };
    let mut out = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return Some(out),
            '\\' => out.push(chars.next()?),
            c => out.push(c),
        }
    }
}

/// Writes one section, as `ceph auth get` prints it.
pub fn write_section(f: &mut impl fmt::Write, name: &EntityName, entity: &EntityKey) -> fmt::Result {
    writeln!(f, "[{name}]\n\tkey = {}", entity.key.to_base64())?;
    for (service, caps) in &entity.caps {
        writeln!(f, "\tcaps {service} = \"{}\"", caps.replace('\\', "\\\\").replace('"', "\\\""))?;
    }
    Ok(())
}

impl fmt::Display for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entities.iter().try_for_each(|(name, entity)| write_section(f, name, entity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[osd.0]\n\tkey = AQDqKnRgDqB6EhAAWKQwMDAwMDAwMDAwMDAwMA==\n\n[client.admin]\n\
        \tkey = AQDqKnRgDqB6EhAAWKQxMTExMTExMTExMTExMQ==\n\tauid = 0\n\tcaps mgr = \"allow *\"\n\tcaps mon = \"allow command \\\"x\\\"\"\n";

    #[test]
    fn a_keyring_reads_and_prints() {
        let ring = Keyring::parse(TEXT).unwrap();
        let admin = &ring.entities[&"client.admin".parse().unwrap()];
        assert_eq!(admin.caps["mon"], "allow command \"x\"");
        assert_eq!(admin.caps["mgr"], "allow *");
        let printed = ring.to_string();
        assert!(
            printed.starts_with("[osd.0]\n\tkey = AQDqKnRgDqB6EhAAWKQwMDAwMDAwMDAwMDAwMA==\n[client.admin]\n\tkey = "),
            "{printed}"
        );
        assert!(printed.ends_with("\tcaps mgr = \"allow *\"\n\tcaps mon = \"allow command \\\"x\\\"\"\n"), "{printed}");
        assert_eq!(Keyring::parse(&printed), Ok(ring));
    }

    #[test]
    fn faults_are_named_with_their_line() {
        let fault = |text| Keyring::parse(text).unwrap_err();
        assert_eq!(fault("\nkey = x"), KeyringError { line: 2, what: "assignment before any section" });
        assert_eq!(fault("[client.a]\n[client.b").line, 2);
        assert_eq!(fault("[client.a]\nkey = zzz"), KeyringError { line: 2, what: "not a key" });
        assert_eq!(fault("[client.a]\n"), KeyringError { line: 1, what: "entity without a key" });
        assert_eq!(fault("[nobody]\n"), KeyringError { line: 1, what: "not an entity's name" });
        assert_eq!(fault("[client.a]\ncaps mon = \"x"), KeyringError { line: 2, what: "quote without its end" });
    }
}
