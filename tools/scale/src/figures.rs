//! What is measured.

use crate::cluster::{Cluster, Size};
use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};
use types::PgState;

/// Processor time of this thread, nanoseconds.
pub fn meter() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the kernel has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// One row of a table: what was done, and what it took.
#[derive(Clone, Debug)]
pub struct Row {
    /// What happened.
    pub what: String,
    /// Processor time of the monitor.
    pub taken: Duration,
    /// Virtual time.
    pub time: Duration,
    /// OSD maps that were made.
    pub maps: u32,
    /// Messages that OSDs sent to the monitor.
    pub told: u64,
    /// Groups that these reported.
    pub groups: u64,
}

/// Takes rows from one moment to the next.
struct Watch {
    taken: Duration,
    now: Duration,
    epoch: u32,
    told: u64,
    groups: u64,
    rows: Vec<Row>,
}

impl Watch {
    fn new(cluster: &Cluster) -> Self {
        let mut watch = Self { taken: Duration::ZERO, now: Duration::ZERO, epoch: 0, told: 0, groups: 0, rows: Vec::new() };
        watch.again(cluster);
        watch
    }

    fn again(&mut self, cluster: &Cluster) {
        let crowd = cluster.crowd.borrow();
        (self.taken, self.now) = (cluster.taken(), cluster.world.now());
        (self.epoch, self.told, self.groups) = (crowd.map().map_or(0, |map| map.epoch), crowd.told, crowd.groups_told);
    }

    fn row(&mut self, cluster: &Cluster, what: impl Into<String>) {
        let row = {
            let crowd = cluster.crowd.borrow();
            Row {
                what: what.into(),
                taken: cluster.taken() - self.taken,
                time: cluster.world.now() - self.now,
                maps: cluster.epoch() - self.epoch,
                told: crowd.told - self.told,
                groups: crowd.groups_told - self.groups,
            }
        };
        self.rows.push(row);
        self.again(cluster);
    }
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| what happens | processor ms | seconds | maps | messages | groups reported |\n|---|---|---|---|---|---|\n",
    );
    for row in rows {
        text += &format!(
            "| {} | {:.1} | {:.1} | {} | {} | {} |\n",
            row.what,
            row.taken.as_secs_f64() * 1e3,
            row.time.as_secs_f64(),
            row.maps,
            row.told,
            row.groups
        );
    }
    text
}

/// A cluster whose groups are all clean, with rows of how it came to be.
///
/// # Errors
/// It did not.
pub fn made(size: Size) -> Result<(Cluster, Vec<Row>), String> {
    let mut cluster = Cluster::new(size, meter);
    cluster.start_monitor()?;
    let mut watch = Watch::new(&cluster);
    cluster.start_osds()?;
    watch.row(&cluster, format!("{} OSDs boot at once", size.osds));
    cluster.make_pools()?;
    watch.row(&cluster, format!("{} groups are made", size.all_groups()));
    Ok((cluster, watch.rows))
}

/// A host is lost: its OSDs are marked down, the groups serve again without them; then they are marked out, and the
/// groups move.
///
/// # Errors
/// Something that should follow did not.
pub fn host_lost(cluster: &mut Cluster) -> Result<Vec<Row>, String> {
    let all = cluster.size.all_groups();
    let mut watch = Watch::new(cluster);
    cluster.world.run_for(Duration::from_secs(10));
    watch.row(cluster, "nothing, for ten seconds");
    let lost = cluster.lose_host(cluster.size.hosts() / 2);
    let up = cluster.size.osds - lost.len();
    cluster.wait("the lost OSDs are down", |crowd| crowd.map().is_some_and(|map| map.osd_counts().1 == up))?;
    watch.row(cluster, format!("{} OSDs of a host are lost; until all are marked down", lost.len()));
    cluster.wait("all groups serve", |crowd| crowd.count(PgState::ACTIVE) == all)?;
    cluster.world.run_for(Duration::from_secs(3));
    watch.row(cluster, "their groups peer; until all serve and three seconds more");
    let inside = move |crowd: &crate::crowd::Crowd| crowd.map().is_some_and(|map| map.osd_counts().2 <= up);
    cluster.wait("the lost OSDs are out", inside)?;
    watch.row(cluster, "until they are marked out");
    cluster.wait("all groups are clean", |crowd| crowd.count(PgState::CLEAN) == all)?;
    cluster.world.run_for(Duration::from_secs(3));
    watch.row(cluster, "their groups move; until all are clean and three seconds more");
    Ok(watch.rows)
}

/// One of the product's OSDs, and all that share groups with it, among stand-ins: what it takes when nothing happens,
/// when a host is lost that shares groups with it, and when it starts again.
///
/// # Errors
/// Something that should follow did not.
pub fn peering(size: Size) -> Result<String, String> {
    // Who shares groups with osd.0 is the same in a second cluster that is made in the same way.
    let (first, _) = made(size)?;
    let (groups, others) = first.crowd.borrow().shared_by(0);
    drop(first);
    let real = others.iter().copied().chain([0]).collect();
    let mut cluster = Cluster::with_real(size, meter, &real);
    cluster.start_monitor()?;
    cluster.start_osds()?;
    let host = cluster.osds[0];
    let taken = |cluster: &Cluster| cluster.world.taken(host);
    let mut text = String::from("| what happens to an OSD | processor ms | OSD maps |\n|---|---|---|\n");
    let mut before = (taken(&cluster), cluster.epoch());
    let mut row = |cluster: &Cluster, what: &str| {
        let ms = (taken(cluster) - before.0).as_secs_f64() * 1e3;
        text += &format!("| {what} | {ms:.1} | {} |\n", cluster.epoch() - before.1);
        before = (taken(cluster), cluster.epoch());
    };
    for pool in 0..size.pools {
        let groups = size.groups;
        cluster.command(&format!(
            r#"{{"prefix":"osd pool create","pool":"p{pool}","pg_num":{groups},"pgp_num":{groups},"size":3}}"#
        ))?;
    }
    cluster.world.run_for(Duration::from_secs(15));
    let (again, _) = cluster.crowd.borrow().shared_by(0);
    if again != groups {
        return Err("the second cluster places groups elsewhere than the first".into());
    }
    row(&cluster, &format!("{} groups are made, which it shares with {} OSDs", groups.len(), others.len()));
    cluster.world.run_for(Duration::from_secs(10));
    row(&cluster, "nothing, for ten seconds");
    let per_host = size.per_host() as i32;
    let shares = |n: usize| others.iter().filter(|osd| **osd / per_host == n as i32).count();
    let most = (1..size.hosts()).max_by_key(|n| shares(*n)).unwrap_or(1);
    let lost = cluster.lose_host(most);
    let up = size.osds - lost.len();
    cluster.wait("the lost OSDs are down", |crowd| crowd.map().is_some_and(|map| map.osd_counts().1 == up))?;
    cluster.world.run_for(Duration::from_secs(7));
    let serves = |cluster: &mut Cluster| -> Result<usize, String> {
        let answer = cluster.command(r#"{"prefix":"pg ls-by-primary","osd":"osd.0","states":["active"],"format":"json"}"#)?;
        let value: serde_json::Value = serde_json::from_str(&answer).map_err(|e| e.to_string())?;
        Ok(value["pg_stats"].as_array().map_or(0, Vec::len))
    };
    let led =
        cluster.crowd.borrow().map().map_or(0, |map| groups.iter().filter(|pg| map.placed(**pg).acting_primary == 0).count());
    let active = serves(&mut cluster)?;
    if active != led {
        return Err(format!("osd.0 leads {led} groups, {active} of them serve"));
    }
    row(&cluster, &format!("a host is lost with {} OSDs that share groups with it; ten seconds", shares(most)));
    cluster.world.run_for(Duration::from_secs(10));
    row(&cluster, "nothing, for ten seconds");
    cluster.world.crash(host, sim::world::Crash::Process);
    cluster.world.run_for(Duration::from_secs(5));
    row(&cluster, "it is away for five seconds");
    cluster.world.start(host);
    cluster.world.run_for(Duration::from_secs(5));
    row(&cluster, &format!("it starts with {} groups; five seconds", groups.len()));
    Ok(text)
}

/// Returns what commands take, and how large their answers are.
///
/// # Errors
/// One of them is refused.
pub fn commands(cluster: &mut Cluster) -> Result<String, String> {
    let mut text = String::from("| command | processor ms | KiB |\n|---|---|---|\n");
    for command in [
        r#""prefix":"status""#,
        r#""prefix":"status","format":"json""#,
        r#""prefix":"health","detail":"detail""#,
        r#""prefix":"osd tree""#,
        r#""prefix":"osd df""#,
        r#""prefix":"osd df","output_method":"tree""#,
        r#""prefix":"osd dump""#,
        r#""prefix":"df""#,
        r#""prefix":"pg stat""#,
        r#""prefix":"pg dump""#,
        r#""prefix":"pg dump","format":"json""#,
        r#""prefix":"pg ls""#,
        r#""prefix":"pg dump_stuck""#,
        r#""prefix":"balancer status""#,
    ] {
        let before = cluster.taken();
        let answer = cluster.command(&format!("{{{command}}}"))?;
        let taken = (cluster.taken() - before).as_secs_f64() * 1e3;
        text += &format!("| `{}` | {taken:.1} | {} |\n", command.replace('"', ""), answer.len() >> 10);
    }
    Ok(text)
}

/// So many changes of the map, as commands that come together by `depth`; what the monitor takes of them; then it
/// starts again.
///
/// # Errors
/// One is refused.
pub fn changes(cluster: &mut Cluster, count: usize, depth: usize) -> Result<String, String> {
    let (taken, from, epoch, wall) = (cluster.taken(), cluster.world.now(), cluster.epoch(), Instant::now());
    let mut done = 0;
    let mut given = 0;
    let mut refused = None;
    while done < count {
        while given < count && given - done < depth {
            let (pool, value) = (given % cluster.size.pools, given / cluster.size.pools % 2);
            let command = format!(r#"{{"prefix":"osd pool set","pool":"p{pool}","var":"noscrub","val":"{value}"}}"#);
            cluster.world.call(cluster.mon, &command);
            given += 1;
        }
        cluster.world.run_for(Duration::from_micros(200));
        for (_, _, result, text) in cluster.world.take_answers() {
            done += 1;
            if result != 0 {
                refused = Some(text);
            }
        }
        if let Some(why) = refused {
            return Err(format!("a change is refused: {why}"));
        }
        if cluster.world.now() > from + Duration::from_secs(3_600) {
            return Err("changes hang".into());
        }
    }
    let (time, maps) = (cluster.world.now() - from, cluster.epoch() - epoch);
    let taken = cluster.taken() - taken;
    let mut text = String::from("| what | value |\n|---|---|\n");
    let mut add = |what: &str, value: String| text += &format!("| {what} | {value} |\n");
    add("changes, given so many at a time", format!("{count}, {depth}"));
    add("maps", maps.to_string());
    add("processor time for each change", format!("{:.3} ms", taken.as_secs_f64() * 1e3 / count as f64));
    add("changes a second by processor time", format!("{:.0}", count as f64 / taken.as_secs_f64()));
    add("changes a second of virtual time", format!("{:.0}", count as f64 / time.as_secs_f64()));
    add("wall clock of the whole simulation", format!("{:.1} s", wall.elapsed().as_secs_f64()));
    let counters = cluster.world.disk(cluster.mon, 0).counters;
    add("disk writes of the monitor", counters.writes.to_string());
    let before = cluster.taken();
    cluster.world.crash(cluster.mon, sim::world::Crash::Process);
    let again = Instant::now();
    cluster.start_monitor()?;
    add("processor time of its start", format!("{:.0} ms", (cluster.taken() - before).as_secs_f64() * 1e3));
    add("wall clock of its start", format!("{:.0} ms", again.elapsed().as_secs_f64() * 1e3));
    Ok(text)
}
