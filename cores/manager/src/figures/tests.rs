use super::*;
use monstate::state::genesis;
use std::sync::Arc;
use types::UTime;

/// A cluster with the pools `images` (1) and `elsewhere` (2), both for images, and `other` (3).
fn state() -> State {
    let config = monstate::config::Config::bare(types::Fsid([7; 16]), "a");
    let mut state = genesis::state(&config, UTime::ZERO);
    let mut map = (*state.osdmap).clone();
    for (id, name, application) in [(1, "images", "rbd"), (2, "elsewhere", "rbd"), (3, "other", "rgw")] {
        let mut pool = maps::Pool::default();
        pool.application_metadata.insert(application.into(), BTreeMap::new());
        map.pools.insert(id, pool);
        map.pool_name.insert(id, name.into());
    }
    state.osdmap = Arc::new(map);
    state
}

fn at(secs: u64) -> Now {
    Now { mono: Mono(secs * 1_000_000_000), wall: UTime { sec: 1_000 + secs as u32, nsec: 0 } }
}

fn figures(pool: PoolId, nspace: &str, id: &str, ops: u64) -> ImageFigures {
    ImageFigures {
        pool,
        nspace: nspace.to_owned().into(),
        image: id.to_owned().into(),
        write_ops: ops,
        write_bytes: ops * 4096,
        write_nanos: ops * 2_000_000,
        ..ImageFigures::default()
    }
}

fn spec(text: &str) -> Spec {
    Spec::parse(text).unwrap()
}

fn all_named(images: &mut Images, now: Now, ids: Vec<Image>) {
    let names = ids.iter().map(|i| (i.id.clone(), format!("name-{}", i.id))).collect();
    images.named(now.mono, ids, Some(&names));
}

#[test]
fn specs_are_read_as_ceph_reads_them() {
    let pair = |pool: &str, nspace: &str| Spec(Some((pool.into(), nspace.into())));
    assert_eq!([spec(""), spec("p"), spec("p/n")], [Spec(None), pair("p", ""), pair("p", "n")]);
    for bad in ["/", "p/", "/n", "a/b/c"] {
        assert_eq!(Spec::parse(bad).unwrap_err().text, format!("Invalid pool spec: {bad}"));
    }
}

#[test]
fn rates_are_of_the_last_period_and_counters_of_all_since_the_first_look() {
    let (state, mut images) = (state(), Images::default());
    images.report(&state, &[figures(1, "", "early", 100)]);
    images.look(at(0).mono, spec(""));
    assert_eq!(images.tick(at(0).mono), Wanted { tell: true, names: Vec::new() });
    images.report(&state, &[figures(1, "", "a", 10), figures(2, "ns", "b", 40), figures(3, "", "no", 9)]);
    let wanted = images.tick(at(1).mono);
    assert_eq!((wanted.tell, wanted.names.len()), (false, 2), "what was before the look, and other pools, do not count");
    all_named(&mut images, at(1), wanted.names);
    let stats = |images: &Images, secs| images.answer(&state, at(secs), &spec(""), Kind::Stats, "write_ops");
    assert_eq!(stats(&images, 1)["stats"], json!([]), "no period is over yet");
    images.tick(at(2).mono);
    let expected = json!({
        "timestamp": 1002.0,
        "stat_descriptors": FIGURES,
        "pool_descriptors": {"0": "elsewhere/ns", "1": "images"},
        "stats": [
            {"0/name-b": [20.0, 0.0, 81920.0, 0.0, 2e6, 0.0]},
            {"1/name-a": [5.0, 0.0, 20480.0, 0.0, 2e6, 0.0]},
        ],
    });
    assert_eq!(stats(&images, 2), expected);
    images.report(&state, &[figures(1, "", "a", 5)]);
    images.tick(at(7).mono);
    assert_eq!(stats(&images, 7)["stats"], json!([{"0/name-a": [1.0, 0.0, 4096.0, 0.0, 2e6, 0.0]}]));
    let counters = images.answer(&state, at(7), &spec(""), Kind::Counters, "write_ops");
    assert_eq!(counters["counter_descriptors"], json!(FIGURES));
    let list = counters["counters"].as_array().unwrap();
    assert_eq!(list[0], json!({"0/name-a": [15, 0, 61440, 0, 30_000_000, 0]}));
    assert_eq!(list[1], json!({"1/name-b": [40, 0, 163_840, 0, 80_000_000, 0]}));
}

#[test]
fn each_look_sees_its_own_pool_and_namespace() {
    let (state, mut images) = (state(), Images::default());
    for text in ["images", "elsewhere/ns", "other"] {
        images.look(at(0).mono, spec(text));
    }
    images.report(&state, &[figures(1, "", "a", 1), figures(1, "ns", "x", 1), figures(2, "ns", "b", 1), figures(3, "", "c", 1)]);
    let names = images.tick(at(0).mono).names;
    all_named(&mut images, at(0), names);
    let seen = |text: &str| images.answer(&state, at(1), &spec(text), Kind::Counters, "write_ops")["counters"].to_string();
    for (text, name) in [("images", "name-a"), ("elsewhere/ns", "name-b"), ("other", "name-c")] {
        assert_eq!(seen(text).matches("name-").count(), 1, "{text}");
        assert!(seen(text).contains(name), "{text}");
    }
    assert_eq!(seen("elsewhere"), "[]", "nobody looked at that");
}

#[test]
fn names_are_looked_up_once_and_again_after_a_while() {
    let (state, mut images) = (state(), Images::default());
    images.look(at(0).mono, spec(""));
    images.report(&state, &[figures(1, "", "a", 1), figures(1, "", "gone", 1)]);
    let asked = images.tick(at(0).mono).names;
    assert_eq!(asked.len(), 2);
    assert_eq!(images.tick(at(1).mono).names, [], "they are being looked up");
    images.named(at(1).mono, asked.clone(), None);
    assert_eq!(images.tick(at(3).mono).names, []);
    assert_eq!(images.tick(at(6).mono).names, asked, "that had failed");
    images.named(at(6).mono, asked.clone(), Some(&BTreeMap::from([("a".to_string(), "first".to_string())])));
    let shown = |images: &Images| images.answer(&state, at(7), &spec(""), Kind::Counters, "write_ops")["counters"].clone();
    assert_eq!(shown(&images), json!([{"0/first": [1, 0, 4096, 0, 2_000_000, 0]}]), "one has no name");
    images.look(at(50).mono, spec(""));
    assert_eq!(images.tick(at(60).mono).names, []);
    assert_eq!(images.tick(at(66).mono).names, asked);
    images.named(at(66).mono, asked, Some(&BTreeMap::from([("a".to_string(), "second".to_string())])));
    assert!(shown(&images).to_string().contains("0/second"));
}

#[test]
fn osds_are_told_while_somebody_looks() {
    let mut images = Images::default();
    assert_eq!(images.tick(at(0).mono), Wanted::default());
    images.look(at(0).mono, spec(""));
    let told: Vec<u64> = (0..100).filter(|s| images.tick(at(*s).mono).tell).collect();
    assert_eq!(told, [0, 15, 30, 45]);
    assert!(images.looks.is_empty() && images.names.is_empty());
}

#[test]
fn looks_and_images_are_bounded() {
    let (state, mut images) = (state(), Images::default());
    images.look(at(0).mono, spec(""));
    (0..2 * SPECS).for_each(|n| images.look(at(0).mono, spec(&format!("pool{n}"))));
    assert_eq!(images.looks.len(), SPECS);
    let many: Vec<ImageFigures> = (0..IMAGES + 10).map(|n| figures(1, "", &n.to_string(), 1)).collect();
    images.report(&state, &many);
    let names = images.tick(at(2).mono).names;
    assert_eq!(names.len(), IMAGES);
    all_named(&mut images, at(2), names);
    let shown = images.answer(&state, at(3), &spec(""), Kind::Stats, "write_ops");
    assert_eq!(shown["stats"].as_array().map(Vec::len), Some(SHOWN));
}

#[test]
fn all_images_are_counted_always_and_named_while_somebody_sees_them() {
    let (state, mut images) = (state(), Images::default());
    images.report(&state, &[figures(1, "", "a", 10), figures(2, "ns", "b", 40), figures(3, "", "no", 9)]);
    assert_eq!(images.tick(at(0).mono), Wanted::default(), "nobody looks: OSDs are told nothing, and names are not looked up");
    assert!(images.rows().0.is_empty());
    images.see(at(1).mono);
    let wanted = images.tick(at(1).mono);
    assert_eq!((wanted.tell, wanted.names.len()), (false, 2));
    all_named(&mut images, at(1), wanted.names);
    images.report(&state, &[figures(1, "", "a", 5)]);
    images.tick(at(10).mono);
    let told = |images: &Images| -> Vec<(String, u64, f64)> {
        images.rows().0.into_iter().map(|row| (format!("{}/{}", row.nspace, row.name), row.sums[0], row.rates[0])).collect()
    };
    assert_eq!(told(&images), [("ns/name-b".to_owned(), 40, 4.0), ("/name-a".to_owned(), 15, 1.5)]);
    // Nobody sees them for a while: figures go on.
    images.tick(at(200).mono);
    images.report(&state, &[figures(1, "", "a", 1)]);
    assert!(told(&images).is_empty());
    images.see(at(201).mono);
    let wanted = images.tick(at(201).mono).names;
    let found = BTreeMap::from([("a".to_owned(), "new".to_owned())]);
    images.named(at(201).mono, wanted, Some(&found));
    assert_eq!(told(&images), [("/new".to_owned(), 16, 0.0)], "an image that is gone is forgotten");
    let mut without = state.clone();
    let mut map = (*without.osdmap).clone();
    map.pools.remove(&1);
    without.osdmap = Arc::new(map);
    images.prune(&without);
    assert!(told(&images).is_empty());
}
