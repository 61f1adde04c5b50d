//! Commands that let placement groups recover or backfill before others, or in their turn again. Words are Ceph's.

use super::{Cx, Row, row};
use grammar::{Args, Outcome, Refusal, Reply, refuse};
use manager::soft::all_pgs;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, OsdId, PgId, PgState};

pub(super) const ROWS: &[Row] = &[
    row("pg force-recovery <pgid:Pgid n=N>", "recover placement groups first", "pg", "rw", |cx, a| groups(cx, a, &RECOVERY)),
    row("pg force-backfill <pgid:Pgid n=N>", "backfill placement groups first", "pg", "rw", |cx, a| groups(cx, a, &BACKFILL)),
    row("pg cancel-force-recovery <pgid:Pgid n=N>", "recover placement groups in their turn", "pg", "rw", |cx, a| {
        groups(cx, a, &NO_RECOVERY)
    }),
    row("pg cancel-force-backfill <pgid:Pgid n=N>", "backfill placement groups in their turn", "pg", "rw", |cx, a| {
        groups(cx, a, &NO_BACKFILL)
    }),
    row("osd pool force-recovery <who:Poolname n=N>", "recover pools first", "osd", "rw", |cx, a| pools(cx, a, &RECOVERY)),
    row("osd pool force-backfill <who:Poolname n=N>", "backfill pools first", "osd", "rw", |cx, a| pools(cx, a, &BACKFILL)),
    row("osd pool cancel-force-recovery <who:Poolname n=N>", "recover pools in their turn", "osd", "rw", |cx, a| {
        pools(cx, a, &NO_RECOVERY)
    }),
    row("osd pool cancel-force-backfill <who:Poolname n=N>", "backfill pools in their turn", "osd", "rw", |cx, a| {
        pools(cx, a, &NO_BACKFILL)
    }),
];

/// Kind of what is asked for.
struct Wish {
    /// The instruction to the OSD.
    prefix: &'static str,
    /// States of a group that has a use for it: any of these.
    useful: PgState,
    /// The state of a group that was asked before.
    forced: PgState,
    /// True if it is taken back.
    cancel: bool,
    /// Line for a group that has no use for it.
    idle: &'static str,
    /// Line for a group that was asked before.
    again: &'static str,
}

const RECOVERY: Wish = Wish {
    prefix: "force-recovery",
    useful: PgState::DEGRADED.with(PgState::RECOVERY_WAIT).with(PgState::RECOVERING),
    forced: PgState::FORCED_RECOVERY,
    cancel: false,
    idle: "doesn't require recovery",
    again: "recovery already forced",
};

const BACKFILL: Wish = Wish {
    prefix: "force-backfill",
    useful: PgState::DEGRADED.with(PgState::BACKFILL_WAIT).with(PgState::BACKFILLING),
    forced: PgState::FORCED_BACKFILL,
    cancel: false,
    idle: "doesn't require backfilling",
    again: "backfill already forced",
};

const NO_RECOVERY: Wish = Wish { prefix: "cancel-force-recovery", cancel: true, idle: "recovery not forced", ..RECOVERY };
const NO_BACKFILL: Wish = Wish { prefix: "cancel-force-backfill", cancel: true, idle: "backfill not forced", ..BACKFILL };

fn groups(cx: &mut Cx<'_>, args: &Args, wish: &Wish) -> Outcome {
    let mut pgs = BTreeSet::new();
    for name in args.list("pgid") {
        let Ok(pg) = name.parse::<PgId>() else { refuse!(EINVAL, "invalid pgid '{name}'") };
        pgs.insert(pg);
    }
    force(cx, pgs, wish)
}

fn pools(cx: &mut Cx<'_>, args: &Args, wish: &Wish) -> Outcome {
    let mut pgs = BTreeSet::new();
    for name in args.list("who") {
        let Some(id) = cx.state.pool_id(name) else { refuse!(ENOENT, "unrecognized pool '{name}'") };
        pgs.extend(all_pgs(cx.state).filter(|pg| pg.pool == id));
    }
    force(cx, pgs, wish)
}

/// Instructs the OSDs that lead these groups, as far as the groups have a use for it. As Ceph 16.2 does, it fails only
/// if nobody is instructed, and not because of groups that have no use for it.
fn force(cx: &mut Cx<'_>, pgs: BTreeSet<PgId>, wish: &Wish) -> Outcome {
    let mut by_osd: BTreeMap<OsdId, Vec<String>> = BTreeMap::new();
    let (mut said, mut fault) = (String::new(), None);
    for pg in pgs {
        if cx.state.osdmap.pool(pg.pool).is_none_or(|p| pg.seed >= p.pg_num) {
            said.push_str(&format!("pg {pg} does not exist; "));
            fault = Some(Errno::ENOENT);
            continue;
        }
        let is = cx.soft.pg_state(cx.state, pg);
        let (forced, wanted) = (is.has(wish.forced), wish.cancel || is.any(wish.useful));
        match super::pg::primary(cx, pg) {
            _ if !wanted || wish.cancel && !forced => said.push_str(&format!("pg {pg} {}; ", wish.idle)),
            _ if !wish.cancel && forced => {
                said.push_str(&format!("pg {pg} {}; ", wish.again));
                fault = Some(Errno::EINVAL);
            }
            Ok(osd) => {
                cx.instruct.push((osd, json!({"prefix": wish.prefix, "pgid": pg.to_string()})));
                by_osd.entry(osd).or_default().push(pg.to_string());
            }
            Err(refusal) => said.push_str(&format!("{}; ", refusal.text)),
        }
    }
    if let Some(errno) = fault.filter(|_| by_osd.is_empty()) {
        return Err(Refusal::new(errno, said));
    }
    for (osd, pgs) in by_osd {
        said.push_str(&format!("instructing pg(s) [{}] on osd.{osd} to {}; ", pgs.join(","), wish.prefix));
    }
    Ok(Reply::status(said + "\n"))
}
