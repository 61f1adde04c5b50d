//! The history of a day, of several leaders, and of what nobody should have kept.

use super::*;

/// A history in which the cluster wrote `ops` a second and pool 3 lost a byte a second of its room, from and until a time in seconds.
fn lived(history: &mut History, from: u64, until: u64, ops: f64) -> Vec<(String, Bytes)> {
    let mut kept = Vec::new();
    history.kept.get_or_insert(from / KEPT_SECS);
    for secs in (from..until).step_by(FINE_SECS as usize) {
        history.see(secs, (None, "write_ops"), ops);
        history.see(secs, (Some(3), "stored"), secs as f64);
        history.see(secs, (Some(3), "room"), 1e6 - secs as f64);
        for change in history.keep(secs) {
            let Change::Key { key, value: Some(value) } = change else { panic!("a value is kept") };
            kept.push((key, value));
        }
    }
    kept
}

const DAY: u64 = 86_400;

#[test]
fn a_day_is_kept_and_no_more() {
    let mut history = History::default();
    let kept = lived(&mut history, 0, 3 * DAY, 7.0);
    assert_eq!(kept.len() as u64, 3 * DAY / KEPT_SECS - 1);
    let keys: BTreeSet<&String> = kept.iter().map(|(key, _)| key).collect();
    assert_eq!(keys.len() as u64, CHUNKS, "{keys:?}");
    for series in history.series.values() {
        assert!(series.coarse.known() <= COARSE && series.fine.known() <= FINE);
    }
    assert_eq!(history.known(), DAY);
    let told = history.dump(3 * DAY);
    assert_eq!(told["day"]["write_ops"].as_array().map(Vec::len), Some(96));
    assert!(told["day"]["write_ops"].as_array().is_some_and(|all| all.iter().all(|v| *v == 7.0)), "{told}");
    assert!(told["lately"]["write_ops"].as_array().is_some_and(|all| all.len() == 60 && all.iter().all(|v| *v == 7.0)), "{told}");
    assert!(bytes_at_most() < 8 << 20, "{}", bytes_at_most());
}

#[test]
fn a_new_leader_goes_on_where_the_last_one_ended() {
    let (mut first, mut stored) = (History::default(), BTreeMap::new());
    stored.extend(lived(&mut first, 10 * DAY, 11 * DAY - 100, 7.0));
    let mut second = History::default();
    second.recall(stored.values());
    assert!(second.known() > DAY - 4 * KEPT_SECS, "{}", second.known());
    // Nobody led for an hour; then it goes on.
    stored.extend(lived(&mut second, 11 * DAY + 3600, 11 * DAY + 7200, 9.0));
    let told = second.dump(11 * DAY + 7200);
    let day: Vec<Option<f64>> = told["day"]["write_ops"].as_array().unwrap().iter().map(Value::as_f64).collect();
    let count = |wanted: Option<f64>| day.iter().filter(|v| **v == wanted).count();
    assert_eq!((count(Some(7.0)), count(None), count(Some(9.0))), (87, 5, 4), "{day:?}");
    let mut third = History::default();
    third.recall(stored.values());
    let again = third.dump(11 * DAY + 7200);
    // The last quarter of an hour was not over yet, and the oldest value was written over.
    let part = |told: &Value| told["day"]["write_ops"].as_array().unwrap()[STEPS as usize..95].to_vec();
    assert_eq!(part(&again), part(&told));
    // The same is foretold, by the next leader, too.
    second.foretell(11 * DAY + 7200);
    third.foretell(11 * DAY + 7200);
    let (of_second, of_third) = (second.forecast(3).unwrap(), third.forecast(3).unwrap());
    let left = 1e6 - (11 * DAY + 7200) as f64;
    assert!((of_second.soonest - left).abs() < 2000.0, "{of_second:?} {left}");
    assert!((of_second.soonest - of_third.soonest).abs() < 2000.0, "{of_second:?} {of_third:?}");
}

#[test]
fn clocks_that_jump_break_nothing() {
    let mut history = History::default();
    for (secs, value) in [(1000 * DAY, 5.0), (3, 1.0), (1000 * DAY + 10, 7.0), (40_000 * DAY, 9.0), (u64::from(u32::MAX), 2.0)] {
        history.see(secs, (None, "used"), value);
        history.foretell(secs);
        history.keep(secs);
        history.dump(secs);
    }
    assert!(history.series.values().all(|series| series.coarse.known() <= COARSE));
    history.see(5, (None, "used"), f64::NAN);
}

#[test]
fn what_is_no_history_is_left_out() {
    let bad = [
        "",
        "x",
        "[]",
        "{}",
        r#"{"version":2,"from":1,"series":{}}"#,
        r#"{"version":1,"from":-1,"series":{"used":[1]}}"#,
        r#"{"version":1,"from":18446744073709551615,"series":{"used":[1]}}"#,
        r#"{"version":1,"from":1,"series":[1]}"#,
        r#"{"version":1,"from":1,"series":{"nothing":[1],"1.nothing":[1],"x.stored":[1],"used":[null,"a",{}]}}"#,
    ];
    let mut history = History::default();
    let bad: Vec<Bytes> = bad.iter().map(|text| Bytes::from(text.as_bytes().to_vec())).collect();
    for value in &bad {
        history.recall(std::iter::once(value));
        assert!(history.series.is_empty(), "{value:?}");
    }
    let long = Bytes::from(format!(r#"{{"version":1,"from":1,"series":{{"used":[{}]}}}}"#, "1,".repeat(500) + "1"));
    history.recall(std::iter::once(&long));
    assert_eq!(history.series.len(), 1);
    assert_eq!(history.series[&(None, "used")].coarse.known() as u64, STEPS * KEPT_SECS / COARSE_SECS, "what is longer is cut");
}

#[test]
fn what_a_leader_saw_in_part_is_not_kept() {
    let mut history = History { began: 10 * DAY + 5, ..History::default() };
    assert!(lived(&mut history, 10 * DAY + 5, 10 * DAY + KEPT_SECS + 20, 7.0).is_empty());
    assert_eq!(lived(&mut history, 10 * DAY + KEPT_SECS + 20, 10 * DAY + 2 * KEPT_SECS + 20, 7.0).len(), 1);
}
