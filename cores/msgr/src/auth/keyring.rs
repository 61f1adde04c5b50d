//! Keyring files: entities with their keys and rights, in Ceph's text format.

use super::Key;
use settings::file::FileError;
use std::collections::BTreeMap;
use std::fmt;
use types::EntityName;

/// Record of one entity in the auth database.
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

/// Reason why a text is no keyring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyringError {
    /// It is no file of options at all.
    File(FileError),
    /// A section is no entity's: its heading.
    Name(String),
    /// A field of an entity is unknown, or its value is not a key: the entity and the field.
    Field(String, String),
    /// An entity has no key.
    NoKey(String),
}

impl fmt::Display for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(why) => why.fmt(f),
            Self::Name(name) => write!(f, "bad entity name in keyring: {name}"),
            Self::Field(name, field) => write!(f, "error setting modifier for [{name}] type={field}"),
            Self::NoKey(name) => write!(f, "[{name}] has no key"),
        }
    }
}

impl std::error::Error for KeyringError {}

impl Keyring {
    /// Parses a keyring file by the rules of [`settings::file`]. As in Ceph, a section `[global]` and the field `auid`
    /// are skipped, and blanks and underscores in the names of fields are the same.
    ///
    /// # Errors
    /// The text breaks those rules, a section is no entity, a field is unknown or is no key, or an entity has no key.
    pub fn parse(text: &[u8]) -> Result<Self, KeyringError> {
        let sections = settings::file::read(text).map_err(KeyringError::File)?;
        let mut entities = BTreeMap::new();
        for (heading, fields) in sections.into_iter().filter(|(heading, _)| heading != "global") {
            let name: EntityName = heading.parse().map_err(|_| KeyringError::Name(heading.clone()))?;
            let (mut key, mut caps) = (None, BTreeMap::new());
            for (field, value) in fields {
                let wrong = || KeyringError::Field(heading.clone(), field.replace('_', " "));
                match field.split_once('_') {
                    None if field == "key" => key = Some(Key::from_base64(&value).map_err(|_| wrong())?),
                    None if field == "auid" => {}
                    Some(("caps", service)) if !service.is_empty() => {
                        caps.insert(service.replace('_', " "), value);
                    }
                    _ => return Err(wrong()),
                }
            }
            entities.insert(name, EntityKey { key: key.ok_or(KeyringError::NoKey(heading))?, caps });
        }
        Ok(Self { entities })
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
        let ring = Keyring::parse(TEXT.as_bytes()).unwrap();
        let admin = &ring.entities[&"client.admin".parse().unwrap()];
        assert_eq!(admin.caps["mon"], "allow command \"x\"");
        assert_eq!(admin.caps["mgr"], "allow *");
        let printed = ring.to_string();
        assert!(
            printed.starts_with("[osd.0]\n\tkey = AQDqKnRgDqB6EhAAWKQwMDAwMDAwMDAwMDAwMA==\n[client.admin]\n\tkey = "),
            "{printed}"
        );
        assert!(printed.ends_with("\tcaps mgr = \"allow *\"\n\tcaps mon = \"allow command \\\"x\\\"\"\n"), "{printed}");
        assert_eq!(Keyring::parse(printed.as_bytes()), Ok(ring));
    }

    #[test]
    fn keyrings_of_other_tools_are_read() {
        let caps = |text: &str| {
            let ring = Keyring::parse(text.as_bytes()).unwrap();
            ring.entities[&"client.a".parse().unwrap()].caps.clone()
        };
        let key = "key = AQDqKnRgDqB6EhAAWKQwMDAwMDAwMDAwMDAwMA==";
        // As Rook writes it; with a comment, a joined line, another section, an old field.
        assert_eq!(caps(&format!("[client.a]\n{key}\n\tcaps mon = 'allow r'\n"))["mon"], "allow r");
        let text = format!("# by hand\n[global]\nx = y\n[client.a] # me\n  {key}\nauid = 0\ncaps_osd = allow \\\n *\n");
        assert_eq!(caps(&text)["osd"], "allow  *");
        assert_eq!(caps(&format!("[client.a]\n{key}\ncaps mon = \"allow command \\\"x\\\"\"\n"))["mon"], "allow command \"x\"");
    }

    #[test]
    fn faults_are_named() {
        let fault = |text: &str| Keyring::parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(fault("\nkey = x\n"), "parse error: expected 'a section, an assignment or the end' in line 2");
        assert_eq!(fault("[client.a]\n[client.b"), "parse error: expected ']' in line 2");
        assert_eq!(fault("[client.a]\nkey = zzz\n"), "error setting modifier for [client.a] type=key");
        assert_eq!(fault("[client.a]\nsecret = x\n"), "error setting modifier for [client.a] type=secret");
        assert_eq!(fault("[client.a]\n"), "[client.a] has no key");
        assert_eq!(fault("[nobody]\n"), "bad entity name in keyring: nobody");
        assert_eq!(fault("[client.a]\ncaps mon = \"x\n"), "parse error: expected 'closing quote' in line 2");
    }
}
