//! The levels of schedules: everything, a pool, a namespace, an image.

use super::{Kind, refused};
use grammar::{Refusal, refuse};
use images::{Io, Place, image, is_for_images, mirror};
use types::{Errno, PoolId};

/// A level. A part that is not named stands for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) pool: Option<PoolId>,
    pub(super) nspace: Option<String>,
    pub(super) image: Option<String>,
    /// The level as people write it.
    pub(super) name: String,
}

impl Level {
    /// The key under which it is stored: `POOL`, `POOL/NAMESPACE`, `POOL/NAMESPACE/IMAGE-ID`.
    pub(super) fn key(&self) -> String {
        let parts = [self.pool.map(|p| p.to_string()), self.nspace.clone(), self.image.clone()];
        parts.into_iter().map_while(|part| part).collect::<Vec<_>>().join("/")
    }

    /// Says whether this level lies within another, larger one.
    pub(super) fn is_within(&self, other: &Level) -> bool {
        self.depth() > other.depth() && other.covers(self.pool, self.nspace.as_deref(), self.image.as_deref())
    }

    /// Number of parts that it names.
    pub(super) fn depth(&self) -> usize {
        usize::from(self.pool.is_some()) + usize::from(self.nspace.is_some()) + usize::from(self.image.is_some())
    }

    /// Says whether all parts that it names are these.
    pub(super) fn covers(&self, pool: Option<PoolId>, nspace: Option<&str>, image: Option<&str>) -> bool {
        (self.pool.is_none() || self.pool == pool)
            && (self.nspace.is_none() || self.nspace.as_deref() == nspace)
            && (self.image.is_none() || self.image.as_deref() == image)
    }

    /// Says whether an object of a listing belongs to the level. Unlike for schedules, an empty namespace stands for
    /// all.
    pub(super) fn matches(&self, pool: PoolId, nspace: &str, image: Option<&str>) -> bool {
        self.pool.is_none_or(|p| p == pool)
            && self.nspace.as_deref().is_none_or(|n| n.is_empty() || n == nspace)
            && (self.image.is_none() || self.image.as_deref() == image)
    }
}

/// Pool, namespace and image of `''`, `POOL/`, `POOL/NAMESPACE/`, `POOL/IMAGE`, `POOL//IMAGE` or
/// `POOL/NAMESPACE/IMAGE`.
type Parts<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>);

fn parts(name: &str) -> Option<Parts<'_>> {
    if name.is_empty() {
        return Some((None, None, None));
    }
    let (pool, rest) = name.split_once('/')?;
    let (nspace, image) = match rest.split_once('/') {
        Some((nspace, image)) => (Some(nspace), image),
        None => (None, rest),
    };
    let good = !pool.is_empty() && !image.contains(['/', '@']);
    good.then_some((Some(pool), nspace, Some(image).filter(|i| !i.is_empty())))
}

/// Finds the level that people wrote.
pub(super) async fn by_name(io: &Io, kind: Kind, name: &str) -> Result<Level, Refusal> {
    match resolve(io, kind, name).await {
        Ok(level) => Ok(level),
        Err(why) if why.errno == Errno::EINVAL => refuse!(EINVAL, "Invalid level spec {name}: {}", why.text),
        Err(why) => Err(why),
    }
}

async fn resolve(io: &Io, kind: Kind, name: &str) -> Result<Level, Refusal> {
    let Some((pool, nspace, image_name)) = parts(name) else { refuse!(EINVAL, "failed to parse {name}") };
    if image_name.is_some() && kind == Kind::Purge {
        refuse!(EINVAL, "invalid name {name}: image level is not allowed");
    }
    let mut level = Level { name: name.to_owned(), ..Level::default() };
    let Some(pool_name) = pool else { return Ok(level) };
    let map = io.map().map_err(refused)?;
    let Some((pool, _)) = map.pool_by_name(pool_name) else { refuse!(EINVAL, "pool {pool_name} does not exist") };
    if !is_for_images(&map, pool) {
        refuse!(EINVAL, "{pool_name} is not an RBD pool");
    }
    level.pool = Some(pool);
    if nspace.is_none() && image_name.is_none() {
        return Ok(level);
    }
    let at = Place::new(pool, nspace.unwrap_or_default());
    level.nspace = Some(at.nspace.clone());
    check_namespace(io, kind, &at).await?;
    if let Some(image_name) = image_name {
        let id = match image::id_of(io, &at, image_name).await {
            Err(fail) if fail.errno == Errno::ENOENT => refuse!(EINVAL, "image {image_name} does not exist"),
            other => other.map_err(refused)?,
        };
        if !mirror::is_by_snapshots(io, &at, &id).await.map_err(refused)? {
            refuse!(EINVAL, "image {image_name} is not in snapshot mirror mode");
        }
        level.image = Some(id);
        if at.nspace.is_empty() {
            level.name = format!("{pool_name}/{image_name}");
        }
    }
    Ok(level)
}

async fn check_namespace(io: &Io, kind: Kind, at: &Place) -> Result<(), Refusal> {
    if at.nspace.is_empty() {
        return Ok(());
    }
    if !io.namespaces(at.pool).await.map_err(refused)?.contains(&at.nspace) {
        refuse!(EINVAL, "namespace {} does not exist", at.nspace);
    }
    if kind == Kind::Mirror && !mirror::is_by_image(io, at).await.map_err(refused)? {
        refuse!(EINVAL, "namespace {} is not in mirror image mode", at.nspace);
    }
    Ok(())
}

/// Finds the level that is stored under a key. EINVAL: what it names is gone, or is not what the schedule needs any
/// more.
pub(super) async fn by_key(io: &Io, kind: Kind, key: &str) -> Result<Level, Refusal> {
    let mut parts = key.splitn(3, '/');
    let Some(Ok(pool)) = parts.next().map(str::parse::<PoolId>) else { refuse!(EINVAL, "failed to parse: {key}") };
    let (nspace, image_id) = (parts.next(), parts.next());
    let map = io.map().map_err(refused)?;
    let (Some(pool_name), true) = (map.pool_name.get(&pool), is_for_images(&map, pool)) else {
        refuse!(EINVAL, "pool {pool} does not exist")
    };
    let mut level = Level { pool: Some(pool), name: format!("{pool_name}/"), ..Level::default() };
    let Some(nspace) = nspace else { return Ok(level) };
    let at = Place::new(pool, nspace);
    check_namespace(io, kind, &at).await?;
    level.nspace = Some(nspace.to_owned());
    if !nspace.is_empty() || image_id.is_none() {
        level.name.push_str(&format!("{nspace}/"));
    }
    if let Some(id) = image_id {
        let Some(name) = image::name_of(io, &at, id).await.map_err(refused)? else {
            refuse!(EINVAL, "image {id} does not exist")
        };
        if !mirror::is_by_snapshots(io, &at, id).await.map_err(refused)? {
            refuse!(EINVAL, "image {id} is not in snapshot mirror mode");
        }
        level.image = Some(id.to_owned());
        level.name.push_str(&name);
    }
    Ok(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(pool: Option<PoolId>, nspace: Option<&str>, image: Option<&str>) -> Level {
        Level { pool, nspace: nspace.map(str::to_owned), image: image.map(str::to_owned), name: String::new() }
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(parts(""), Some((None, None, None)));
        assert_eq!(parts("p/"), Some((Some("p"), None, None)));
        assert_eq!(parts("p/n/"), Some((Some("p"), Some("n"), None)));
        assert_eq!(parts("p/i"), Some((Some("p"), None, Some("i"))));
        assert_eq!(parts("p//i"), Some((Some("p"), Some(""), Some("i"))));
        assert_eq!(parts("p/n/i"), Some((Some("p"), Some("n"), Some("i"))));
        for bad in ["p", "/", "/i", "p/n/i/x", "p/i@s", "p/n/i@s"] {
            assert_eq!(parts(bad), None, "{bad}");
        }
    }

    #[test]
    fn levels_lie_within_larger_ones() {
        let all = level(None, None, None);
        let pool = level(Some(5), None, None);
        let nspace = level(Some(5), Some("n"), None);
        let default = level(Some(5), Some(""), None);
        let image = level(Some(5), Some("n"), Some("1f"));
        assert_eq!([all.key(), pool.key(), nspace.key(), image.key()], ["", "5", "5/n", "5/n/1f"]);
        assert_eq!([default.key(), level(Some(5), Some(""), Some("1f")).key()], ["5/", "5//1f"]);
        for (inner, outer) in [(&pool, &all), (&nspace, &all), (&nspace, &pool), (&image, &nspace), (&default, &pool)] {
            assert!(inner.is_within(outer) && !outer.is_within(inner), "{inner:?} {outer:?}");
        }
        assert!(!image.is_within(&default) && !nspace.is_within(&level(Some(6), None, None)) && !pool.is_within(&pool));
    }
}
