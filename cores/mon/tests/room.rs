//! Room for the state: what makes it larger is refused before the store is full, and what makes it smaller goes on.

mod common;

use common::World;
use std::time::Duration;
use types::Errno;

fn set(world: &mut World, key: usize) -> (i32, String) {
    let value = "v".repeat(60_000);
    world.call(&format!(r#"{{"prefix":"config-key set","key":"k{key}","val":"{value}"}}"#))
}

fn add(world: &mut World, client: usize) -> (i32, String) {
    let caps = vec!["allow r"; 4000].join(", ");
    world.call(&format!(r#"{{"prefix":"auth add","entity":"client.n{client}","caps":["mon","{caps}"]}}"#))
}

/// Returns how many of these are taken before one is refused, and what is said then.
fn fill(world: &mut World, mut one: impl FnMut(&mut World, usize) -> (i32, String)) -> (usize, String) {
    for n in 0..1000 {
        let (result, text) = one(world, n);
        if result != 0 {
            assert_eq!(result, Errno::ENOSPC.wire(), "{n}: {text}");
            return (n, text);
        }
    }
    panic!("nothing is refused");
}

fn health(world: &mut World) -> String {
    world.pass(Duration::from_secs(1));
    world.ok(r#"{"prefix":"health","detail":"detail"}"#)
}

/// The disk has 8 MiB, an area of it half of that.
#[test]
fn a_full_state_takes_only_what_makes_it_smaller_and_the_monitor_lives() {
    let mut world = World::new();
    world.boot_osd(0);
    world.pass(Duration::from_secs(1));
    let (keys, why) = fill(&mut world, set);
    assert!((10..20).contains(&keys) && why.contains("stored values may take"), "{keys}: {why}");
    assert!(!health(&mut world).contains("MON_STATE_LARGE"));
    assert_eq!(set(&mut world, 3).0, 0, "in the place of another one");

    let (clients, why) = fill(&mut world, add);
    assert!((20..80).contains(&clients) && why.contains("only what makes it smaller"), "{clients}: {why}");
    let told = health(&mut world);
    assert!(told.contains("MON_STATE_LARGE") && told.contains("% avail") == told.contains("MON_DISK"), "{told}");
    let pool = r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#;
    assert!(world.refused(Errno::ENOSPC.0, pool).contains("MON_STATE_LARGE"));
    world.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert_eq!(world.fatal, None);

    // A start finds all of it, and refuses as before.
    let mut world = World::with(common::config(mon::AuthMode::None), world.disk.clone());
    assert_eq!(world.fatal, None);
    world.pass(Duration::from_secs(1));
    assert_eq!(add(&mut world, clients).0, Errno::ENOSPC.wire());
    for n in 0..4 {
        world.ok(&format!(r#"{{"prefix":"config-key rm","key":"k{n}"}}"#));
        world.ok(&format!(r#"{{"prefix":"auth rm","entity":"client.n{n}"}}"#));
    }
    assert_eq!((add(&mut world, clients).0, set(&mut world, 0).0), (0, 0), "there is room again");
    assert_eq!(world.fatal, None);
}
