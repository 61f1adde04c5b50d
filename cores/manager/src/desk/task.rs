//! A task: the work on one image, in the shape that Ceph's manager stores and shows it.

use super::Action;
use super::reach::By;
use super::text::line;
use crate::progress::About;
use images::{Fail, Progress};
use serde_json::{Map, Value, json};
use std::time::Duration;
use types::{Errno, UTime};

/// Time for which a failed task rests: so long for each attempt, at most ten times as long.
const RETRY: Duration = Duration::from_secs(30);
const RETRY_MOST: u32 = 10;

const ACTIONS: [Action; 6] = [
    Action::Flatten,
    Action::Remove,
    Action::TrashRemove,
    Action::MigrationExecute,
    Action::MigrationCommit,
    Action::MigrationAbort,
];

/// The image that a task is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refs {
    pub(super) action: Action,
    pub(super) pool: String,
    pub(super) nspace: String,
    pub(super) image_name: Option<String>,
    pub(super) image_id: Option<String>,
}

impl Action {
    fn text(self) -> &'static str {
        match self {
            Self::Flatten => "flatten",
            Self::Remove => "remove",
            Self::TrashRemove => "trash remove",
            Self::MigrationExecute => "migrate execute",
            Self::MigrationCommit => "migrate commit",
            Self::MigrationAbort => "migrate abort",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        ACTIONS.into_iter().find(|a| a.text() == text)
    }

    /// Returns what Ceph's library says when this work fails.
    fn failed(self) -> &'static str {
        match self {
            Self::Flatten => "error flattening image",
            Self::Remove => "error removing image",
            Self::TrashRemove => "error deleting image from trash",
            Self::MigrationExecute => "error executing migration",
            Self::MigrationCommit => "error committing migration",
            Self::MigrationAbort => "error aborting migration",
        }
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

    /// Says whether an order for `asked` is the same. An image that no longer exists has no id.
    pub(super) fn is(&self, asked: &Self) -> bool {
        let id = asked.image_id.is_none() || asked.image_id == self.image_id;
        id && Self { image_id: None, ..self.clone() } == Self { image_id: None, ..asked.clone() }
    }

    pub(super) fn image(&self) -> &str {
        self.image_name.as_deref().or(self.image_id.as_deref()).unwrap_or_default()
    }
}

/// The work on one image.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) sequence: u64,
    pub(super) id: String,
    pub(super) message: String,
    pub(super) refs: Refs,
    /// Reason why the last attempt failed.
    pub(super) why: Option<String>,
    pub(super) attempts: u32,
    pub(super) again: Option<UTime>,
    /// Its progress, while it runs.
    pub(super) running: Option<Progress>,
    pub(super) cancelled: bool,
    /// The one who ordered it. That is not stored with it.
    pub(super) by: By,
}

impl Task {
    pub(super) fn new(sequence: u64, id: String, message: String, refs: Refs) -> Self {
        Self { sequence, id, message, refs, why: None, attempts: 0, again: None, running: None, cancelled: false, by: By::Nobody }
    }

    /// The name under which the monitors keep who ordered it.
    pub(super) fn note(&self) -> String {
        format!("task/{}", self.id)
    }

    pub(super) fn key(&self) -> String {
        format!("{:016X}", self.sequence)
    }

    pub(super) fn to_json(&self) -> Value {
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

    /// Notes the end of an attempt. A failed one sets when the next may be made.
    pub(super) fn tried(&mut self, why: Option<&Fail>, now: UTime) {
        self.running = None;
        self.why = why.map(|fail| self.text_of(fail));
        self.attempts += 1;
        self.again = Some(now.plus(RETRY * self.attempts.min(RETRY_MOST)));
    }

    /// A failure as Ceph's library says it, with the cause.
    pub(super) fn text_of(&self, fail: &Fail) -> String {
        let (errno, context, what) = (fail.errno.0, self.refs.action.failed(), &fail.what);
        let kind = match fail.errno {
            Errno::EPERM => "RBD permission error",
            Errno::ENOENT => "RBD image not found",
            Errno::EBUSY => "RBD image is busy",
            Errno::EINVAL => "RBD invalid argument",
            Errno::EROFS => "RBD read-only image",
            Errno::ENOTEMPTY => "RBD image has snapshots",
            _ => return format!("[errno {errno}] {context}: {what}"),
        };
        format!("[errno {errno}] {kind} ({context}: {what})")
    }

    /// Returns what those hear who follow its progress.
    pub(super) fn about(&self) -> About {
        let mut refs = self.refs.to_json();
        refs["origin"] = json!("rbd_support");
        About { message: self.message.clone(), refs }
    }

    /// The task as it is stored, without what only this manager knows.
    pub(super) fn to_store(&self) -> String {
        line(&Self::new(self.sequence, self.id.clone(), self.message.clone(), self.refs.clone()).to_json())
    }

    pub(super) fn from_store(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let field = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let refs = Refs::from_json(value.get("refs")?)?;
        Some(Self::new(value.get("sequence")?.as_u64()?, field("id")?, field("message")?, refs))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A removal of the image `rbd/a`.
    pub(in super::super) fn refs(id: Option<&str>) -> Refs {
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
    fn an_attempt_says_when_the_next_one_is_and_why() {
        let mut task = Task::new(1, "x".into(), "m".into(), refs(None));
        let busy = Fail::new(Errno::EBUSY, "the image is open");
        for (attempt, wait) in [(1, 30), (2, 60), (3, 90)] {
            task.tried(Some(&busy), UTime { sec: 1000, nsec: 0 });
            assert_eq!((task.attempts, task.again.map(|at| at.sec)), (attempt, Some(1000 + wait)));
        }
        assert_eq!(task.why.as_deref(), Some("[errno 16] RBD image is busy (error removing image: the image is open)"));
        task.tried(Some(&Fail::new(Errno::EMLINK, "the image is in a group")), UTime::ZERO);
        assert_eq!(task.why.as_deref(), Some("[errno 31] error removing image: the image is in a group"));
    }
}
