//! All tasks, and the loop that does them one after the other.

use super::task::{Refs, Task};
use super::text::{indented, line};
use super::{Action, DEFAULT_POOL, Desk, May, answer, refused};
use crate::progress::Note;
use grammar::{Outcome, Refusal, Reply, refuse};
use images::image::{self, Image};
use images::migrate::{self, Migration};
use images::{Fail, Io, Optional, Place, Progress, flatten, remove, trash};
use messages::class::rbd::migration_state;
use node::Level;
use std::collections::{BTreeMap, VecDeque};
use types::{Errno, UTime};

/// The object that keeps the tasks of a pool and namespace.
const OBJECT: &str = "rbd_task";
/// Done tasks that are remembered, so that a command that is sent again gets the same answer.
const REMEMBERED: usize = 50;

/// All tasks of the manager.
#[derive(Default)]
pub(super) struct Tasks {
    waiting: BTreeMap<u64, Task>,
    done: VecDeque<Task>,
    sequence: u64,
    /// Whether the loop runs.
    at_work: bool,
}

impl Tasks {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn find(&self, refs: &Refs) -> Option<&Task> {
        self.waiting.values().rev().chain(self.done.iter().rev()).find(|t| t.refs.is(refs))
    }

    fn by_id(&self, id: &str) -> Option<&Task> {
        self.waiting.values().find(|t| t.id == id)
    }

    /// The next task to try.
    fn due(&self, now: UTime) -> Option<&Task> {
        self.waiting.values().find(|t| !t.cancelled && t.again.is_none_or(|again| again <= now))
    }

    fn finish(&mut self, sequence: u64, well: bool) {
        let Some(task) = self.waiting.remove(&sequence) else { return };
        if well && !task.cancelled {
            self.done.push_back(task);
            while self.done.len() > REMEMBERED {
                self.done.pop_front();
            }
        }
    }

    /// How far the running task is, from 0 to 1, by its id.
    pub(super) fn share(&self) -> Option<(&str, f64)> {
        let running = self.waiting.values().find_map(|t| Some((t, t.running.as_ref()?)));
        running.map(|(task, progress)| (task.id.as_str(), progress.share()))
    }
}

/// Parses `[POOL/[NAMESPACE/]]IMAGE`: pool, namespace, image.
fn parse_spec(spec: &str) -> Result<(String, String, String), Refusal> {
    let parts: Vec<&str> = spec.split('/').collect();
    let good = parts.iter().all(|p| !p.is_empty()) && !parts.last().is_some_and(|p| p.contains('@'));
    match parts[..] {
        [image] if good => Ok((DEFAULT_POOL.into(), String::new(), image.into())),
        [pool, image] if good => Ok((pool.into(), String::new(), image.into())),
        [pool, nspace, image] if good => Ok((pool.into(), nspace.into(), image.into())),
        _ => refuse!(EINVAL, "Invalid image spec: {spec}"),
    }
}

fn shown(pool: &str, nspace: &str, image: &str) -> String {
    if nspace.is_empty() { format!("{pool}/{image}") } else { format!("{pool}/{nspace}/{image}") }
}

fn place(io: &Io, pool: &str, nspace: &str) -> Result<Place, Refusal> {
    match io.map().map_err(refused)?.pool_by_name(pool) {
        Some((id, _)) => Ok(Place::new(id, nspace)),
        None => refuse!(ENOENT, "[errno 2] RADOS object not found (error opening pool '{pool}')"),
    }
}

/// Takes a task on. One that is known already is answered, not doubled.
pub(super) async fn add(desk: &Desk, action: Action, spec: &str, may: &May) -> Outcome {
    let io = desk.io();
    let (pool, nspace, name) = parse_spec(spec)?;
    if !may(&pool, &nspace) {
        refuse!(EACCES, "not authorized on pool={pool}, namespace={nspace}");
    }
    let at = place(io, &pool, &nspace)?;
    let what = shown(&pool, &nspace, &name);
    let mut refs = Refs { action, pool, nspace, image_name: Some(name.clone()), image_id: None };
    if action == Action::TrashRemove {
        (refs.image_name, refs.image_id) = (None, Some(name.clone()));
        if let Some(task) = desk.0.tasks.borrow().find(&refs) {
            return answer(line(&task.to_json()));
        }
        if trash::get(io, &at, &name).await.is_err() {
            refuse!(ENOENT, "[errno 2] RBD image not found (error retrieving image from trash)");
        }
        return enter(desk, &at, format!("Removing image {what} from trash"), refs).await;
    }
    if matches!(action, Action::MigrationExecute | Action::MigrationCommit | Action::MigrationAbort) {
        let migration = migrate::by_name(io, &at, &name).await.map_err(refused)?;
        refs.image_id = migration.as_ref().map(|m| m.target.1.clone());
        if let Some(task) = desk.0.tasks.borrow().find(&refs) {
            return answer(line(&task.to_json()));
        }
        let message = may_go_on(io, action, &what, migration)?;
        return enter(desk, &at, message, refs).await;
    }
    let found = look(io, &at, &name).await.map_err(refused)?;
    refs.image_id = found.as_ref().map(|image| image.id.clone());
    if let Some(task) = desk.0.tasks.borrow().find(&refs) {
        return answer(line(&task.to_json()));
    }
    let Some(image) = found else { refuse!(ENOENT, "[errno 2] RBD image not found (Image {what} does not exist)") };
    match action {
        Action::Flatten if image.overlap.is_none_or(|overlap| overlap == 0) => {
            refuse!(ENOENT, "[errno 2] RBD image not found (Image {what} does not have a parent)")
        }
        Action::Remove if !image.snaps.is_empty() => {
            refuse!(EBUSY, "[errno 16] RBD image is busy (Image {what} has snapshots)")
        }
        Action::Flatten => enter(desk, &at, format!("Flattening image {what}"), refs).await,
        _ => enter(desk, &at, format!("Removing image {what}"), refs).await,
    }
}

async fn look(io: &Io, at: &Place, name: &str) -> Result<Option<Image>, Fail> {
    match image::id_of(io, at, name).await {
        Ok(id) => Image::open(io, at, &id).await.map(Some),
        Err(fail) if fail.errno == Errno::ENOENT => Ok(None),
        Err(fail) => Err(fail),
    }
}

/// Checks whether a step of a migration can be made, and gives its name.
fn may_go_on(io: &Io, action: Action, what: &str, migration: Option<Migration>) -> Result<String, Refusal> {
    let Some(migration) = migration else { refuse!(EINVAL, "[errno 22] RBD invalid argument (Image {what} is not migrating)") };
    if let Some(refusal) = migration.refusal() {
        return Err(refused(refusal));
    }
    let (spec, (at, _)) = (&migration.spec, &migration.target);
    match action {
        Action::MigrationExecute if ![migration_state::PREPARED, migration_state::EXECUTING].contains(&spec.state) => {
            refuse!(EINVAL, "[errno 22] RBD invalid argument (Image {what} is not in ready state)")
        }
        Action::MigrationExecute => {
            let map = io.map().map_err(refused)?;
            let name = |pool, nspace: &[u8], image: &[u8]| {
                let pool = map.pool_name.get(&pool).map_or("", String::as_str);
                shown(pool, &String::from_utf8_lossy(nspace), &String::from_utf8_lossy(image))
            };
            let from = name(spec.pool, &spec.namespace, &spec.image_name);
            let to = name(at.pool, at.nspace.as_bytes(), what.rsplit('/').next().unwrap_or_default().as_bytes());
            Ok(format!("Migrating image {from} to {to}"))
        }
        Action::MigrationCommit if spec.state != migration_state::EXECUTED => {
            refuse!(EINVAL, "[errno 22] RBD invalid argument (Image {what} has not completed migration)")
        }
        Action::MigrationCommit => Ok(format!("Committing image migration for {what}")),
        _ => Ok(format!("Aborting image migration for {what}")),
    }
}

/// Writes a task down. Then it counts.
async fn enter(desk: &Desk, at: &Place, message: String, refs: Refs) -> Outcome {
    let sequence = {
        let mut tasks = desk.0.tasks.borrow_mut();
        tasks.sequence += 1;
        tasks.sequence
    };
    let task = Task::new(sequence, desk.io().uuid(), message, refs);
    desk.io().omap_set(at, OBJECT, task.key(), task.to_store()).await.map_err(refused)?;
    let text = task.to_store();
    desk.0.tasks.borrow_mut().waiting.insert(sequence, task);
    work(desk);
    answer(text)
}

/// Lists one task, or all that the one who asks may see.
pub(super) fn list(desk: &Desk, id: Option<&str>, may: &May) -> Outcome {
    let tasks = desk.0.tasks.borrow();
    let visible = |t: &&Task| may(&t.refs.pool, &t.refs.nspace);
    match id.filter(|id| !id.is_empty()) {
        Some(id) => match tasks.by_id(id).filter(visible) {
            Some(task) => answer(indented(&task.to_json())),
            None => refuse!(ENOENT, "No such task {id}"),
        },
        None => answer(indented(&tasks.waiting.values().filter(visible).map(Task::to_json).collect())),
    }
}

/// Ends a task, now or at its next step.
pub(super) async fn cancel(desk: &Desk, id: &str, may: &May) -> Outcome {
    let found = desk.0.tasks.borrow().by_id(id).filter(|t| may(&t.refs.pool, &t.refs.nspace)).cloned();
    let Some(task) = found else { refuse!(ENOENT, "No such task {id}") };
    let at = place(desk.io(), &task.refs.pool, &task.refs.nspace)?;
    // A task that is not written down is not begun again, whatever happens.
    desk.io().omap_remove(&at, OBJECT, task.key()).await.optional().map_err(refused)?;
    let mut tasks = desk.0.tasks.borrow_mut();
    let Some(now) = tasks.waiting.get_mut(&task.sequence) else { return Ok(Reply::default()) };
    now.cancelled = true;
    desk.note(Note::Failed(now.id.clone(), now.about(), "Operation canceled".into()));
    match &now.running {
        Some(progress) => progress.cancel(),
        None => tasks.finish(task.sequence, false),
    }
    Ok(Reply::default())
}

/// Reads the tasks of all pools.
pub(super) async fn load(desk: &Desk) -> Result<(), Fail> {
    let io = desk.io();
    for (pool, name) in io.pools()? {
        for nspace in io.namespaces(pool).await? {
            let at = Place::new(pool, nspace);
            for (key, value) in io.omap(&at, OBJECT).await? {
                match std::str::from_utf8(&value).ok().and_then(Task::from_store) {
                    Some(task) => {
                        let mut tasks = desk.0.tasks.borrow_mut();
                        tasks.sequence = tasks.sequence.max(task.sequence);
                        tasks.waiting.insert(task.sequence, task);
                    }
                    None => {
                        let key = String::from_utf8_lossy(&key);
                        desk.say(Level::Warn, format!("task {key} of pool {name} is none that is known here; it stays"));
                    }
                }
            }
        }
    }
    work(desk);
    Ok(())
}

/// Starts the loop if there is something to do and it does not run.
fn work(desk: &Desk) {
    let mut tasks = desk.0.tasks.borrow_mut();
    if tasks.is_empty() || std::mem::replace(&mut tasks.at_work, true) {
        return;
    }
    let desk = desk.clone();
    desk.clone().spawn(async move {
        loop {
            let next = desk.0.tasks.borrow().due(desk.io().now()).cloned();
            match next {
                Some(task) => attempt(&desk, task).await,
                None if desk.0.tasks.borrow().is_empty() => break,
                None => desk.pause().await,
            }
        }
        desk.0.tasks.borrow_mut().at_work = false;
    });
}

async fn attempt(desk: &Desk, task: Task) {
    let (io, refs) = (desk.io(), &task.refs);
    let Ok(at) = place(io, &refs.pool, &refs.nspace) else {
        desk.say(Level::Info, format!("task {}: its pool is gone, and it with it", task.id));
        return desk.0.tasks.borrow_mut().finish(task.sequence, false);
    };
    let progress = Progress::default();
    if let Some(task) = desk.0.tasks.borrow_mut().waiting.get_mut(&task.sequence) {
        task.running = Some(progress.clone());
        desk.note(Note::Begun(task.id.clone(), task.about()));
    }
    let result = execute(io, &at, refs, &progress).await;
    let cancelled = desk.0.tasks.borrow().waiting.get(&task.sequence).is_none_or(|t| t.cancelled);
    let over = match &result {
        Ok(()) => true,
        Err(fail) => cancelled || is_final(refs.action, fail),
    };
    let text = result.as_ref().err().map(|fail| task.text_of(fail));
    desk.say(Level::Info, format!("task {} ({}): {}", task.id, task.message, text.as_deref().unwrap_or("done")));
    match text {
        None => desk.note(Note::Done(task.id.clone())),
        Some(_) if cancelled => {}
        Some(text) => desk.note(Note::Failed(task.id.clone(), task.about(), text)),
    }
    // While the task is written down it may be done twice, which changes nothing.
    let erased = if over { io.omap_remove(&at, OBJECT, task.key()).await.optional() } else { Ok(None) };
    let mut tasks = desk.0.tasks.borrow_mut();
    let well = result.is_ok();
    if let Some(task) = tasks.waiting.get_mut(&task.sequence) {
        task.tried(result.err().or(erased.as_ref().err().cloned()).as_ref(), io.now());
    }
    if over && erased.is_ok() {
        tasks.finish(task.sequence, well);
    }
}

async fn execute(io: &Io, at: &Place, refs: &Refs, progress: &Progress) -> Result<(), Fail> {
    match refs.action {
        Action::Flatten => {
            let id = image::id_of(io, at, refs.image()).await?;
            flatten::flatten(io, at, &id, progress).await
        }
        Action::Remove => remove::by_name(io, at, refs.image(), refs.image_id.as_deref(), progress).await,
        Action::TrashRemove => remove::from_trash(io, at, refs.image(), progress).await,
        Action::MigrationExecute => {
            let (at, id) = target(io, at, refs).await?;
            migrate::execute(io, &at, &id, progress).await
        }
        Action::MigrationCommit => {
            let (at, id) = target(io, at, refs).await?;
            migrate::commit(io, &at, &id, progress).await
        }
        Action::MigrationAbort => {
            let (at, id) = target(io, at, refs).await?;
            migrate::abort(io, &at, &id, progress).await
        }
    }
}

/// Finds the target of a migration. One that no name leads to was left by an earlier attempt.
async fn target(io: &Io, at: &Place, refs: &Refs) -> Result<(Place, String), Fail> {
    let found = migrate::by_name(io, at, refs.image()).await?.map(|migration| migration.target);
    match (found, &refs.image_id) {
        (Some((at, id)), Some(wanted)) if id == *wanted => Ok((at, id)),
        (_, Some(wanted)) => Ok((at.clone(), wanted.clone())),
        (_, None) => Err(Fail::new(Errno::ENOENT, "the task does not say which image it is for")),
    }
}

/// Says whether another attempt makes no sense: the work is done already, or cannot be done.
fn is_final(action: Action, fail: &Fail) -> bool {
    let remove = matches!(action, Action::Remove | Action::TrashRemove);
    [Errno::ENOENT, Errno::EOPNOTSUPP].contains(&fail.errno) || fail.errno == Errno::EINVAL && !remove
}

#[cfg(test)]
mod tests {
    use super::super::task::tests::refs;
    use super::*;

    #[test]
    fn the_same_order_is_found_again() {
        let mut tasks = Tasks::default();
        tasks.waiting.insert(1, Task::new(1, "x".into(), "m".into(), refs(Some("1183"))));
        assert!(tasks.find(&refs(Some("1183"))).is_some() && tasks.find(&refs(None)).is_some());
        assert!(tasks.find(&refs(Some("77"))).is_none(), "another image by the same name");
        tasks.finish(1, true);
        assert!(tasks.is_empty() && tasks.find(&refs(None)).is_some(), "what was done is remembered");
        tasks.waiting.insert(2, Task::new(2, "y".into(), "m".into(), refs(Some("88"))));
        tasks.finish(2, false);
        assert!(tasks.find(&refs(Some("88"))).is_none(), "what failed is not");
    }

    #[test]
    fn specs() {
        let text = |spec| parse_spec(spec).ok().map(|(p, n, i)| format!("{p}|{n}|{i}"));
        assert_eq!(text("i").as_deref(), Some("rbd||i"));
        assert_eq!(text("p/i").as_deref(), Some("p||i"));
        assert_eq!(text("p/n/i").as_deref(), Some("p|n|i"));
        for bad in ["", "/", "p/", "/i", "p//i", "a/b/c/d", "p/i@s", "i@s"] {
            assert_eq!(text(bad), None, "{bad}");
        }
    }
}
