//! Tasks: what is to be done to images, one after the other.

use super::text::{indented, line};
use super::{Action, DEFAULT_POOL, Desk, May, answer, image_pools};
use crate::commands::{Outcome, Refusal, Reply, refuse};
use images::image::{self, Image};
use images::{Fail, Io, Optional, Place, Progress, flatten, remove, trash};
use node::Level;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{Errno, UTime};

/// The object that keeps a pool's and namespace's tasks.
const OBJECT: &str = "rbd_task";
/// How long a task that failed is left alone: so long for each attempt, at most ten times as long.
const RETRY: Duration = Duration::from_secs(30);
const RETRY_MOST: u32 = 10;
/// Tasks that are done and remembered: a command that is sent again gets the same answer.
const REMEMBERED: usize = 50;

/// What a task is about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refs {
    action: Action,
    pool: String,
    nspace: String,
    image_name: Option<String>,
    image_id: Option<String>,
}

impl Action {
    fn text(self) -> &'static str {
        match self {
            Self::Flatten => "flatten",
            Self::Remove => "remove",
            Self::TrashRemove => "trash remove",
            Self::Migration(text) => text,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Flatten, Self::Remove, Self::TrashRemove].into_iter().find(|a| a.text() == text)
    }
}

impl Refs {
    fn to_json(&self) -> Value {
        let mut all = Map::new();
        let mut put = |name: &str, value: &str| drop(all.insert(name.into(), value.into()));
        put("action", self.action.text());
        put("pool_name", &self.pool);
        put("pool_namespace", &self.nspace);
        if let Some(name) = &self.image_name {
            put("image_name", name);
        }
        if let Some(id) = &self.image_id {
            put("image_id", id);
        }
        all.into()
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            action: Action::parse(value.get("action")?.as_str()?)?,
            pool: text("pool_name")?,
            nspace: text("pool_namespace")?,
            image_name: text("image_name"),
            image_id: text("image_id"),
        })
    }

    /// Whether an order for `asked` is the same; an image that does not exist any more has no id.
    fn is(&self, asked: &Self) -> bool {
        let id = asked.image_id.is_none() || asked.image_id == self.image_id;
        id && Self { image_id: None, ..self.clone() } == Self { image_id: None, ..asked.clone() }
    }

    fn image(&self) -> &str {
        self.image_name.as_deref().or(self.image_id.as_deref()).unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
struct Task {
    sequence: u64,
    id: String,
    message: String,
    refs: Refs,
    /// Of the last attempt that failed.
    why: Option<String>,
    attempts: u32,
    again: Option<UTime>,
    /// While it runs.
    running: Option<Progress>,
    cancelled: bool,
}

impl Task {
    fn new(sequence: u64, id: String, message: String, refs: Refs) -> Self {
        Self { sequence, id, message, refs, why: None, attempts: 0, again: None, running: None, cancelled: false }
    }

    fn key(&self) -> String {
        format!("{:016X}", self.sequence)
    }

    fn to_json(&self) -> Value {
        let mut all = json!({"sequence": self.sequence, "id": self.id, "message": self.message, "refs": self.refs.to_json()});
        if let Some(why) = &self.why {
            all["retry_message"] = json!(why);
        }
        if self.attempts > 0 {
            all["retry_attempts"] = json!(self.attempts);
        }
        if let Some(again) = self.again {
            all["retry_time"] = json!(again.iso().trim_end_matches("+0000"));
        }
        if let Some(progress) = &self.running {
            all["in_progress"] = json!(true);
            all["progress"] = json!(progress.share());
        }
        if self.cancelled {
            all["canceled"] = json!(true);
        }
        all
    }

    /// As it is stored: what is only known to the manager that runs it is left out.
    fn to_store(&self) -> String {
        line(&Self::new(self.sequence, self.id.clone(), self.message.clone(), self.refs.clone()).to_json())
    }

    fn from_store(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let field = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let refs = Refs::from_json(value.get("refs")?)?;
        Some(Self::new(value.get("sequence")?.as_u64()?, field("id")?, field("message")?, refs))
    }
}

/// All tasks.
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

    /// The next one to try.
    fn due(&self, now: UTime) -> Option<&Task> {
        self.waiting.values().find(|t| !t.cancelled && t.again.is_none_or(|again| again <= now))
    }

    fn finish(&mut self, sequence: u64, well: bool) {
        let Some(mut task) = self.waiting.remove(&sequence) else { return };
        if well && !task.cancelled {
            task.running = None;
            self.done.push_back(task);
            while self.done.len() > REMEMBERED {
                self.done.pop_front();
            }
        }
    }
}

/// `[POOL/[NAMESPACE/]]IMAGE`: pool, namespace, image.
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
    match io.map()?.pool_by_name(pool) {
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
    let found = look(io, &at, &name).await?;
    refs.image_id = found.as_ref().map(|image| image.id.clone());
    if let Some(task) = desk.0.tasks.borrow().find(&refs) {
        return answer(line(&task.to_json()));
    }
    if let Action::Migration(step) = action {
        return refuse_migration(&what, step, found);
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

fn refuse_migration(what: &str, step: &str, image: Option<Image>) -> Outcome {
    use messages::class::rbd::feature;
    if !image.is_some_and(|image| image.has(feature::MIGRATING)) {
        refuse!(EINVAL, "[errno 22] RBD invalid argument (Image {what} is not migrating)");
    }
    let step = step.trim_start_matches("migrate ");
    refuse!(EOPNOTSUPP, "the manager does not migrate images; run: rbd migration {step} {what}")
}

/// Writes a task down, then it counts.
async fn enter(desk: &Desk, at: &Place, message: String, refs: Refs) -> Outcome {
    let sequence = {
        let mut tasks = desk.0.tasks.borrow_mut();
        tasks.sequence += 1;
        tasks.sequence
    };
    let task = Task::new(sequence, desk.io().uuid(), message, refs);
    desk.io().omap_set(at, OBJECT, task.key(), task.to_store()).await?;
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
    // Not written down any more, it is not begun again whatever happens.
    desk.io().omap_remove(&at, OBJECT, task.key()).await.optional()?;
    let mut tasks = desk.0.tasks.borrow_mut();
    let Some(now) = tasks.waiting.get_mut(&task.sequence) else { return Ok(Reply::default()) };
    now.cancelled = true;
    match &now.running {
        Some(progress) => progress.cancel(),
        None => tasks.finish(task.sequence, false),
    }
    Ok(Reply::default())
}

/// Reads the tasks of all pools.
pub(super) async fn load(desk: &Desk) -> Result<(), Fail> {
    let io = desk.io();
    for (pool, name) in image_pools(io)? {
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

/// Sees to it that the loop runs if there is something to do.
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
    }
    let result = execute(io, &at, refs, &progress).await;
    let cancelled = desk.0.tasks.borrow().waiting.get(&task.sequence).is_none_or(|t| t.cancelled);
    let over = match &result {
        Ok(()) => true,
        Err(fail) => cancelled || is_final(refs.action, fail),
    };
    let text = match &result {
        Ok(()) => "done".to_owned(),
        Err(fail) => fail.to_string(),
    };
    desk.say(Level::Info, format!("task {} ({}): {text}", task.id, task.message));
    // As long as it is written down it may be done twice, which changes nothing.
    let erased = if over { io.omap_remove(&at, OBJECT, task.key()).await.optional() } else { Ok(None) };
    let mut tasks = desk.0.tasks.borrow_mut();
    if over && erased.is_ok() {
        return tasks.finish(task.sequence, result.is_ok());
    }
    if let Some(task) = tasks.waiting.get_mut(&task.sequence) {
        task.running = None;
        task.why = result.err().or(erased.err()).map(|fail| fail.to_string());
        task.attempts += 1;
        task.again = Some(io.now().plus(RETRY * task.attempts.min(RETRY_MOST)));
    }
}

async fn execute(io: &Io, at: &Place, refs: &Refs, progress: &Progress) -> Result<(), Fail> {
    match refs.action {
        Action::Flatten => {
            let id = image::id_of(io, at, refs.image()).await?;
            flatten::flatten(io, at, &id, progress).await
        }
        Action::Remove => remove::by_name(io, at, refs.image(), progress).await,
        Action::TrashRemove => trash::remove(io, at, refs.image(), progress).await,
        Action::Migration(_) => Err(Fail::new(Errno::EOPNOTSUPP, "the manager does not migrate images")),
    }
}

/// Whether trying again makes no sense: what was to be done is done, or cannot be.
fn is_final(action: Action, fail: &Fail) -> bool {
    fail.errno == Errno::ENOENT || action == Action::Flatten && fail.errno == Errno::EINVAL
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refs(id: Option<&str>) -> Refs {
        Refs {
            action: Action::Remove,
            pool: "rbd".into(),
            nspace: "".into(),
            image_name: Some("a".into()),
            image_id: id.map(str::to_owned),
        }
    }

    #[test]
    fn what_is_stored_is_the_answer_and_can_be_read() {
        let task = Task::new(1, "d1425528-2b0d-4efa-9b08-afb8323ee8e7".into(), "Removing image rbd/a".into(), refs(Some("1183")));
        let text = task.to_store();
        assert_eq!(
            text,
            r#"{"sequence": 1, "id": "d1425528-2b0d-4efa-9b08-afb8323ee8e7", "message": "Removing image rbd/a", "refs": {"action": "remove", "pool_name": "rbd", "pool_namespace": "", "image_name": "a", "image_id": "1183"}}"#
        );
        let read = Task::from_store(&text).expect("reads");
        assert_eq!((read.to_store(), read.key()), (text, "0000000000000001".to_string()));
        for bad in ["", "{}", "[]", r#"{"sequence": 1, "id": "x", "message": "m", "refs": {"action": "eat"}}"#] {
            assert!(Task::from_store(bad).is_none(), "{bad}");
        }
    }

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
