//! All tasks, and the loops that do them: those of one pool one after the other, those of several pools beside each
//! other, so that nobody's task waits for an image of somebody else that takes for ever.

use super::reach::{self, By};
use super::task::{Refs, Task};
use super::text::{indented, line};
use super::{Action, DEFAULT_POOL, Desk, May, answer, refused};
use crate::progress::Note;
use grammar::{Outcome, Refusal, Reply, refuse};
use images::image::{self, Image};
use images::migrate::{self, Migration};
use images::{Fail, Io, Optional, Place, Progress, flatten, remove, trash};
use messages::class::rbd::migration_state;
use monstate::state::Change;
use node::Level;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{Errno, UTime};

/// The object that keeps the tasks of a pool and namespace.
const OBJECT: &str = "rbd_task";
/// Tasks of one pool and namespace that may wait.
const MOST: usize = 1024;
/// Largest number of a task. Numbers are read from pools, where others may have written them.
const MOST_SEQUENCE: u64 = 1 << 60;
/// Bytes of a stored task: names of pool, namespace and image, and a sentence.
const LONGEST: usize = 4 << 10;
/// Done tasks that are remembered, so that a command that is sent again gets the same answer.
const REMEMBERED: usize = 50;

/// All tasks of the manager.
#[derive(Default)]
pub(super) struct Tasks {
    waiting: BTreeMap<u64, Task>,
    done: VecDeque<Task>,
    sequence: u64,
    /// Pools whose tasks a loop does.
    at_work: BTreeSet<String>,
}

impl Tasks {
    fn find(&self, refs: &Refs) -> Option<&Task> {
        self.waiting.values().rev().chain(self.done.iter().rev()).find(|t| t.refs.is(refs))
    }

    fn by_id(&self, id: &str) -> Option<&Task> {
        self.waiting.values().find(|t| t.id == id)
    }

    /// Returns true if tasks of a pool wait.
    fn wait_in(&self, pool: &str) -> bool {
        self.waiting.values().any(|t| t.refs.pool == pool)
    }

    /// The next task of a pool to try.
    fn due(&self, pool: &str, now: UTime) -> Option<&Task> {
        let mut here = self.waiting.values().filter(|t| t.refs.pool == pool);
        here.find(|t| !t.cancelled && t.again.is_none_or(|again| again <= now))
    }

    /// Returns how many tasks wait in a pool and namespace.
    fn count(&self, pool: &str, nspace: &str) -> usize {
        self.waiting.values().filter(|t| t.refs.pool == pool && t.refs.nspace == nspace).count()
    }

    /// A number that no task has that waits.
    fn number(&mut self) -> u64 {
        loop {
            self.sequence += 1;
            if !self.waiting.contains_key(&self.sequence) {
                return self.sequence;
            }
        }
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

    /// Under which names it is kept who ordered the tasks that wait.
    pub(super) fn notes(&self) -> BTreeSet<String> {
        self.waiting.values().map(Task::note).collect()
    }

    /// Returns how far running tasks are, from 0 to 1, by their ids.
    pub(super) fn shares(&self) -> impl Iterator<Item = (&str, f64)> {
        self.waiting.values().filter_map(|t| Some((t.id.as_str(), t.running.as_ref()?.share())))
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

/// An answer, and what must be durable before it is given.
type Taken = Result<(Reply, Vec<Change>), Refusal>;

/// Takes a task on. One that is known already is answered, not doubled.
pub(super) async fn add(desk: &Desk, action: Action, spec: &str, may: &May, by: By) -> Taken {
    let (pool, nspace, name) = parse_spec(spec)?;
    if !may(&pool, &nspace) {
        refuse!(EACCES, "not authorized on pool={pool}, namespace={nspace}");
    }
    let at = place(desk.io(), &pool, &nspace)?;
    let io = &desk.io_for(&by, &at);
    let what = shown(&pool, &nspace, &name);
    let mut refs = Refs { action, pool, nspace, image_name: Some(name.clone()), image_id: None };
    if action == Action::TrashRemove {
        (refs.image_name, refs.image_id) = (None, Some(name.clone()));
        if let Some(known) = again(desk, &refs, &by) {
            return known;
        }
        if trash::get(io, &at, &name).await.is_err() {
            refuse!(ENOENT, "[errno 2] RBD image not found (error retrieving image from trash)");
        }
        return enter(desk, &at, format!("Removing image {what} from trash"), refs, by).await;
    }
    if matches!(action, Action::MigrationExecute | Action::MigrationCommit | Action::MigrationAbort) {
        let migration = migrate::by_name(io, &at, &name).await.map_err(refused)?;
        refs.image_id = migration.as_ref().map(|m| m.target.1.clone());
        if let Some(known) = again(desk, &refs, &by) {
            return known;
        }
        let message = may_go_on(io, action, &what, migration)?;
        return enter(desk, &at, message, refs, by).await;
    }
    let found = look(io, &at, &name).await.map_err(refused)?;
    refs.image_id = found.as_ref().map(|image| image.id.clone());
    if let Some(known) = again(desk, &refs, &by) {
        return known;
    }
    let Some(image) = found else { refuse!(ENOENT, "[errno 2] RBD image not found (Image {what} does not exist)") };
    match action {
        Action::Flatten if image.overlap.is_none_or(|overlap| overlap == 0) => {
            refuse!(ENOENT, "[errno 2] RBD image not found (Image {what} does not have a parent)")
        }
        Action::Remove if !image.snaps.is_empty() => {
            refuse!(EBUSY, "[errno 16] RBD image is busy (Image {what} has snapshots)")
        }
        Action::Flatten => enter(desk, &at, format!("Flattening image {what}"), refs, by).await,
        _ => enter(desk, &at, format!("Removing image {what}"), refs, by).await,
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

/// Answers an order for a task that is known already. One that nobody is known to have ordered gets the rights of who
/// orders it now.
fn again(desk: &Desk, refs: &Refs, by: &By) -> Option<Taken> {
    let mut tasks = desk.0.tasks.borrow_mut();
    let sequence = tasks.find(refs)?.sequence;
    let Some(task) = tasks.waiting.get_mut(&sequence) else {
        let done = tasks.find(refs).map(Task::to_json)?;
        return Some(answer(line(&done)).map(|reply| (reply, Vec::new())));
    };
    let mut changes = Vec::new();
    if task.by == By::Nobody {
        task.by = by.clone();
        changes.push(reach::note(&task.note(), by, &task.to_store()));
    }
    Some(answer(line(&task.to_json())).map(|reply| (reply, changes)))
}

/// Writes a task down. Then it counts. Who ordered it is durable before the answer; if that fails, the task stays
/// within its pool.
async fn enter(desk: &Desk, at: &Place, message: String, refs: Refs, by: By) -> Taken {
    let sequence = {
        let mut tasks = desk.0.tasks.borrow_mut();
        if tasks.count(&refs.pool, &refs.nspace) >= MOST {
            refuse!(EAGAIN, "{MOST} tasks of pool {} and this namespace wait already", refs.pool);
        }
        tasks.number()
    };
    let task = Task { by, ..Task::new(sequence, desk.io().uuid(), message, refs) };
    let text = task.to_store();
    if text.len() > LONGEST {
        refuse!(ENAMETOOLONG, "the names of the image are too long");
    }
    desk.io_for(&By::Nobody, at).omap_set(at, OBJECT, task.key(), text.clone()).await.map_err(refused)?;
    let mut changes = vec![reach::note(&task.note(), &task.by, &text)];
    desk.0.tasks.borrow_mut().waiting.insert(sequence, task);
    changes.extend(desk.forgotten());
    work(desk);
    Ok((answer(text)?, changes))
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

/// Reads the tasks of all pools. One pool whose tasks cannot be read keeps no other one's waiting.
pub(super) async fn load(desk: &Desk) -> Result<(), Fail> {
    let (io, mut found) = (desk.io(), Vec::new());
    for (pool, name) in io.pools()? {
        let nspaces = match io.namespaces(pool).await {
            Ok(nspaces) => nspaces,
            Err(fail) => {
                desk.say(Level::Error, format!("tasks of pool {name} cannot be read: {fail}"));
                continue;
            }
        };
        for nspace in nspaces {
            let at = Place::new(pool, nspace);
            match io.omap(&at, OBJECT).await {
                Ok(all) => found.extend(all.iter().filter_map(|(key, value)| stored(desk, &at, &name, key, value)).take(MOST)),
                Err(fail) => {
                    desk.say(Level::Error, format!("tasks of pool {name}, namespace '{}' cannot be read: {fail}", at.nspace));
                }
            }
        }
    }
    take_up(desk, found);
    work(desk);
    Ok(())
}

/// Reads a stored task. Whoever may write in the pool and namespace may have written it: it counts for that place
/// alone, and who ordered it is what the monitors know.
fn stored(desk: &Desk, at: &Place, pool: &str, key: &[u8], value: &[u8]) -> Option<Task> {
    let text = std::str::from_utf8(value).ok().filter(|text| text.len() <= LONGEST).unwrap_or_default();
    let task = Task::from_store(text).filter(|task| {
        let here = task.refs.pool == pool && task.refs.nspace == at.nspace;
        let shown = !task.message.chars().chain(task.id.chars()).any(char::is_control);
        here && shown && task.key().as_bytes() == key && task.sequence <= MOST_SEQUENCE
    });
    let Some(mut task) = task else {
        let key = String::from_utf8_lossy(&key[..key.len().min(64)]).escape_default().to_string();
        let what = format!("task {key} of pool {pool}, namespace '{}' is none that is known here; it stays", at.nspace);
        desk.say(Level::Warn, what);
        return None;
    };
    task.by = reach::noted(&desk.0.keys.borrow(), &task.note(), text);
    Some(task)
}

/// Takes stored tasks up: those first that somebody is known to have ordered. A number that one of them has is nobody
/// else's.
fn take_up(desk: &Desk, mut found: Vec<Task>) {
    found.sort_by_key(|task| task.by == By::Nobody);
    let mut tasks = desk.0.tasks.borrow_mut();
    for task in found {
        if tasks.waiting.contains_key(&task.sequence) {
            desk.say(
                Level::Warn,
                format!("task {} of pool {} has the number of another one; it stays", task.key(), task.refs.pool),
            );
            continue;
        }
        if task.by != By::Nobody {
            tasks.sequence = tasks.sequence.max(task.sequence);
        }
        tasks.waiting.insert(task.sequence, task);
    }
}

/// Starts a loop for each pool that has tasks and none.
fn work(desk: &Desk) {
    let mut tasks = desk.0.tasks.borrow_mut();
    let pools: BTreeSet<String> = tasks.waiting.values().map(|task| task.refs.pool.clone()).collect();
    for pool in pools {
        if !tasks.at_work.insert(pool.clone()) {
            continue;
        }
        let desk = desk.clone();
        desk.clone().spawn(async move {
            loop {
                let next = desk.0.tasks.borrow().due(&pool, desk.io().now()).cloned();
                match next {
                    Some(task) => attempt(&desk, task).await,
                    None if desk.0.tasks.borrow().wait_in(&pool) => desk.pause().await,
                    None => break,
                }
            }
            desk.0.tasks.borrow_mut().at_work.remove(&pool);
        });
    }
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
    let by = desk.0.tasks.borrow().waiting.get(&task.sequence).map_or(By::Nobody, |task| task.by.clone());
    let result = execute(&desk.io_for(&by, &at), &at, refs, &progress).await;
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
    use bytes::Bytes;
    use std::sync::Arc;

    /// Keys of the monitors' state.
    type Keys = BTreeMap<String, Bytes>;

    #[test]
    fn the_same_order_is_found_again() {
        let mut tasks = Tasks::default();
        tasks.waiting.insert(1, Task::new(1, "x".into(), "m".into(), refs(Some("1183"))));
        assert!(tasks.find(&refs(Some("1183"))).is_some() && tasks.find(&refs(None)).is_some());
        assert!(tasks.find(&refs(Some("77"))).is_none(), "another image by the same name");
        tasks.finish(1, true);
        assert!(tasks.waiting.is_empty() && tasks.find(&refs(None)).is_some(), "what was done is remembered");
        tasks.waiting.insert(2, Task::new(2, "y".into(), "m".into(), refs(Some("88"))));
        tasks.finish(2, false);
        assert!(tasks.find(&refs(Some("88"))).is_none(), "what failed is not");
    }

    fn desk(keys: &Keys) -> Desk {
        let desk = Desk::new(images::Works::<()>::new([3; 16]).io());
        desk.0.keys.replace(Arc::new(keys.clone()));
        desk
    }

    fn task(sequence: u64, pool: &str, nspace: &str) -> Task {
        let refs = Refs { pool: pool.into(), nspace: nspace.into(), ..refs(None) };
        Task::new(sequence, "d1425528".into(), "m".into(), refs)
    }

    /// Keeps who ordered a task, as a change of the state does.
    fn keep(keys: &mut Keys, task: &Task, by: &By) {
        let Change::Key { key, value } = reach::note(&task.note(), by, &task.to_store()) else { panic!("a key") };
        match value {
            Some(value) => drop(keys.insert(key, value)),
            None => drop(keys.remove(&key)),
        }
    }

    #[test]
    fn a_stored_task_counts_for_its_own_place_alone() {
        let at = Place::new(7, "t1");
        let good = task(4, "a", "t1");
        let cases: &[(&str, String, String, bool)] = &[
            ("its own", good.key(), good.to_store(), true),
            ("another pool", good.key(), task(4, "secret", "t1").to_store(), false),
            ("another namespace", good.key(), task(4, "a", "").to_store(), false),
            ("another number", "0000000000000005".into(), good.to_store(), false),
            ("the largest number", task(u64::MAX, "a", "t1").key(), task(u64::MAX, "a", "t1").to_store(), false),
            ("a long text", good.key(), good.to_store().replace("\"m\"", &format!("{:?}", "m".repeat(LONGEST))), false),
            ("a text for terminals", good.key(), good.to_store().replace("\"m\"", "\"\\u001b[2J\""), false),
            ("no task", good.key(), "{}".into(), false),
        ];
        for (what, key, value, taken) in cases {
            let desk = desk(&Keys::new());
            assert_eq!(stored(&desk, &at, "a", key.as_bytes(), value.as_bytes()).is_some(), *taken, "{what}");
            assert_eq!(desk.take_log().len(), usize::from(!*taken), "{what}: it is said");
        }
    }

    #[test]
    fn who_ordered_a_stored_task_is_known_to_the_monitors_alone() {
        let (at, good) = (Place::new(7, "t1"), task(4, "a", "t1"));
        let vm = By::Entity("client.vm".parse().expect("a name"));
        let mut keys = Keys::new();
        let read = |keys: &Keys, text: &str| {
            let desk = desk(keys);
            let found = stored(&desk, &at, "a", good.key().as_bytes(), text.as_bytes()).expect("a task");
            take_up(&desk, vec![found]);
            let by = desk.0.tasks.borrow().waiting[&4].by.clone();
            (desk, by)
        };
        for by in [vm, By::Everybody, By::Nobody] {
            keep(&mut keys, &good, &by);
            assert_eq!(read(&keys, &good.to_store()).1, by);
        }
        // Somebody wrote another task under its name.
        keep(&mut keys, &good, &By::Everybody);
        let forged = good.to_store().replace("\"a\", \"pool_namespace", "\"a\",  \"pool_namespace");
        assert_eq!(read(&keys, &forged).1, By::Nobody);
        // What was kept goes when its task is done.
        let (desk, by) = read(&keys, &good.to_store());
        assert!(by == By::Everybody && desk.forgotten().is_empty());
        desk.0.tasks.borrow_mut().finish(4, true);
        let gone = desk.forgotten();
        assert!(matches!(&gone[..], [Change::Key { key, value: None }] if key == "nacre/order/task/d1425528"), "{gone:?}");
    }

    #[test]
    fn forged_tasks_keep_no_other_one_out() {
        let desk = desk(&Keys::new());
        let vm = By::Entity("client.vm".parse().expect("a name"));
        let forged = (1..=MOST as u64).map(|n| task(n, "a", "t1")).chain([task(MOST_SEQUENCE, "a", "t1")]);
        let real = Task { by: vm, id: "real".into(), ..task(9, "rbd", "") };
        take_up(&desk, forged.chain([real]).collect());
        let mut tasks = desk.0.tasks.borrow_mut();
        assert_eq!(tasks.by_id("real").map(|task| task.sequence), Some(9));
        // Numbers go on where those ended that somebody ordered, and meet no other one.
        assert_eq!(tasks.number(), MOST as u64 + 1);
        // Nor does one pool wait for another one.
        assert_eq!(tasks.due("rbd", UTime::ZERO).map(|task| task.sequence), Some(9));
        assert!(tasks.due("a", UTime::ZERO).is_some() && tasks.due("b", UTime::ZERO).is_none());
        assert_eq!((tasks.count("a", "t1"), tasks.count("rbd", "")), (MOST, 1));
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
