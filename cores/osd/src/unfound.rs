//! Commands about objects that nobody has: `ceph pg PGID list_unfound` and `ceph pg PGID mark_unfound_lost
//! revert|delete`.
//!
//! Names and layout are those that `ceph` of release 16 shows. The group does the work (`pg::Pg::mark_unfound_lost`).

use crate::Osd;
use crate::commands::{Answer, find_pg};
use grammar::Args;
use node::Now;
use pg::{Gone, MaybeHas, Mercy, UnfoundPage};
use serde_json::{Value, json};
use types::{CopyId, Errno, Feature, HObject, SnapId};

/// Objects in one answer (`osd_command_max_records`).
const MOST: usize = 256;

/// Returns what is unfound in a group, from an object on.
pub(crate) fn list(osd: &mut Osd, now: Now, args: &Args) -> Answer {
    let id = match find_pg(osd, args) {
        Ok(id) => id,
        Err(answer) => return answer,
    };
    let after = match args.opt("offset").filter(|text| !text.is_empty()).map(parse_object) {
        None => None,
        Some(Some(object)) => Some(object),
        Some(None) => return Answer::error(Errno::EINVAL, "the offset is not an object as this command shows them"),
    };
    let mut page = UnfoundPage::default();
    osd.call_group(now, id, |pg, ctx| page = pg.list_unfound(ctx, after.as_ref(), MOST));
    Answer::json(describe(&page))
}

fn describe(page: &UnfoundPage) -> Value {
    let object = |unfound: &pg::UnfoundObject| {
        json!({
            "oid": object_json(&unfound.object),
            "need": unfound.need.to_string(),
            "have": "0'0",
            "flags": "none",
            "clean_regions": "clean_offsets: [], clean_omap: 0, new_object: 1",
            "locations": [],
        })
    };
    let status = |(copy, how): &(CopyId, MaybeHas)| json!({ "osd": copy.to_string(), "status": status_of(*how) });
    json!({
        "num_missing": page.missing,
        "num_unfound": page.unfound,
        "objects": page.objects.iter().map(object).collect::<Vec<_>>(),
        "state": if page.active { "Active" } else { "NotActive" },
        "available_might_have_unfound": page.active,
        "might_have_unfound": page.maybe.iter().map(status).collect::<Vec<_>>(),
        "more": page.more,
    })
}

fn status_of(how: MaybeHas) -> &'static str {
    match how {
        MaybeHas::Answered => "already probed",
        MaybeHas::Asked => "querying",
        MaybeHas::Down => "osd is down",
        MaybeHas::Gone => "osd does not exist",
    }
}

/// An object as Ceph shows it: the head's snapshot id is -2.
fn object_json(object: &HObject) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    json!({
        "oid": text(&object.name),
        "key": text(&object.key),
        "snapid": object.snap.0.cast_signed(),
        "hash": object.hash,
        "max": i32::from(object.max),
        "pool": object.pool,
        "namespace": text(&object.nspace),
    })
}

fn parse_object(text: &str) -> Option<HObject> {
    let value: Value = serde_json::from_str(text).ok()?;
    let bytes = |name: &str| Some(value[name].as_str()?.as_bytes().to_vec().into());
    Some(HObject {
        pool: value["pool"].as_i64()?,
        hash: u32::try_from(value["hash"].as_u64()?).ok()?,
        nspace: bytes("namespace")?,
        key: bytes("key")?,
        name: bytes("oid")?,
        snap: SnapId(value["snapid"].as_i64()?.cast_unsigned()),
        max: value["max"].as_i64().is_some_and(|max| max != 0),
    })
}

/// Gives up what is unfound in a group.
pub(crate) fn mark_lost(osd: &mut Osd, now: Now, args: &Args) -> Answer {
    let id = match find_pg(osd, args) {
        Ok(id) => id,
        Err(answer) => return answer,
    };
    let mercy = match args.str("mulcmd") {
        "revert" => Mercy::Revert,
        "delete" => Mercy::Delete,
        other => return Answer::error(Errno::EINVAL, format!("mode must be 'revert' or 'delete'; '{other}' is neither")),
    };
    let mut gone = Gone::NotActive;
    osd.call_group(now, id, |pg, ctx| gone = pg.mark_unfound_lost(ctx, mercy));
    match gone {
        Gone::NotActive => Answer::error(Errno::EAGAIN, "this OSD does not lead the group, or the group does not serve"),
        Gone::LowLevel(level) => {
            let needed = Feature::LostEntries.level();
            let text =
                format!("the cluster's level is {level}; objects can be given up from level {needed} on: see 'ceph nacre level'");
            Answer::error(Errno::EPERM, text)
        }
        Gone::NotBuilt => Answer::error(Errno::EOPNOTSUPP, "objects of erasure-coded pools cannot be given up yet"),
        Gone::Nothing => Answer::said("pg has no unfound objects"),
        Gone::Unheard { objects, osds } => {
            let names: Vec<String> = osds.iter().map(|osd| format!("osd.{osd}")).collect();
            let who = match names.is_empty() {
                true => "some have not answered yet".to_owned(),
                false => format!(
                    "{} may have them: start it, wait for its answer, or give it up with 'ceph osd lost'",
                    names.join(", ")
                ),
            };
            let text = format!("pg has {objects} unfound objects but we haven't probed all sources, not marking lost: {who}");
            Answer::error(Errno::EINVAL, text)
        }
        Gone::Marked(objects) => {
            osd.reporter.hurry();
            Answer::said(format!("pg has {objects} objects unfound and apparently lost marking"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{EVersion, Locator};

    #[test]
    fn a_list_has_cephs_layout_and_its_objects_are_read_again() {
        let at = Locator { nspace: "ns".into(), ..Locator::pool(3) };
        let object = HObject::head("name".into(), &at);
        let unfound = pg::UnfoundObject { object: object.clone(), need: EVersion::new(7, 12) };
        let maybe = vec![(CopyId::whole(2), MaybeHas::Down), (CopyId::whole(4), MaybeHas::Answered)];
        let page = UnfoundPage { missing: 2, unfound: 1, objects: vec![unfound], more: false, active: true, maybe };
        let shown = describe(&page);
        assert_eq!((&shown["num_missing"], &shown["num_unfound"], &shown["more"]), (&json!(2), &json!(1), &json!(false)));
        assert_eq!(shown["objects"][0]["need"], "7'12");
        assert_eq!(shown["objects"][0]["oid"]["snapid"], -2);
        assert_eq!(shown["might_have_unfound"][0], json!({ "osd": "2", "status": "osd is down" }));
        assert_eq!(parse_object(&shown["objects"][0]["oid"].to_string()), Some(object));
        assert!(["", "{}", "7", r#"{"oid":"a"}"#].iter().all(|text| parse_object(text).is_none()));
    }
}
