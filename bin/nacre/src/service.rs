//! Services of a process: what runs in it and serves somebody. A new one is a value of this trait that `up` adds to its list.

use runtime::Caller;

/// Something that runs.
pub(crate) trait Service {
    /// Its name, which no other service of the process has: `osd.0`, `mon.a`.
    fn name(&self) -> &str;

    /// Returns its kind, by which the process treats it.
    fn kind(&self) -> Kind;

    /// For requests, if it is a machine: the admin socket and the page ask by it.
    fn caller(&self) -> Option<&Caller>;

    /// Returns true if it serves. It is asked again and again until then, so it must answer soon.
    fn serves(&self) -> bool;

    /// Tells it to stop. Returns true if it is over then; if not, [`crate::events::Event::Ended`] tells when it is.
    fn stop(&mut self) -> bool;
}

/// Kind of a service. They start in this order, and stop in the other: who stops later is there for who stops earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A monitor, with the manager's duties.
    Monitor,
    /// An OSD.
    Osd,
    /// Pages that are shown over HTTP.
    Front,
}

/// Rule by which the line that says `ready` waits for services of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Until each serves.
    ForAll,
    /// Until each serves; or for a while, if at least one does.
    ForOthers,
    /// Not at all.
    No,
}

impl Kind {
    /// All, in the order in which they start.
    pub(crate) const ALL: [Self; 3] = [Kind::Monitor, Kind::Osd, Kind::Front];

    /// Returns what people call it, if it is counted for them.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Kind::Monitor => Some("monitor"),
            Kind::Osd => Some("OSD"),
            Kind::Front => None,
        }
    }

    /// Returns how it is waited for.
    pub(crate) fn waits(self) -> Waits {
        match self {
            Kind::Monitor => Waits::ForAll,
            Kind::Osd => Waits::ForOthers,
            Kind::Front => Waits::No,
        }
    }

    /// Returns true if the process ends with the last of this kind.
    pub(crate) fn is_vital(self) -> bool {
        matches!(self, Kind::Monitor | Kind::Osd)
    }
}
