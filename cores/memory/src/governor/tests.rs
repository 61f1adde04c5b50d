use super::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A host with other programs, a group in it, and a process that has resident what it was given (as its caches are
/// full), and some more.
struct World {
    governor: Governor,
    seconds: u64,
    host: u64,
    /// Bytes that other programs have, and the group's limit if it has one.
    programs: u64,
    limit: Option<u64>,
    stalled: f64,
    others: Others,
    wishes: Vec<MemoryWish>,
    /// How far caches are filled, and bytes that no OSD counts.
    filled: f64,
    uncounted: u64,
    shares: Vec<MemoryShare>,
}

impl World {
    fn new(host: u64, osds: usize) -> Self {
        Self {
            governor: Governor::new(),
            seconds: 0,
            host,
            programs: host / 64,
            limit: None,
            stalled: 0.0,
            others: Others::default(),
            wishes: vec![MemoryWish { most: MemoryWish::MOST, fixed: false }; osds],
            filled: 1.0,
            uncounted: 0,
            shares: Vec::new(),
        }
    }

    fn resident(&self) -> u64 {
        (self.given() as f64 * self.filled) as u64 + self.uncounted
    }

    fn given(&self) -> u64 {
        self.shares.iter().map(|share| share.bytes).sum()
    }

    fn available(&self) -> u64 {
        self.host.saturating_sub(self.programs + self.others.resident + self.resident())
    }

    fn second(&mut self) {
        self.seconds += 1;
        let domain = |bound, size, available| Domain { bound, size, available, stalled: self.stalled, others: self.others };
        let mut domains = vec![domain(MemoryBound::Host, self.host, self.available())];
        domains.extend(self.limit.map(|limit| domain(MemoryBound::Group, limit, limit.saturating_sub(self.resident()))));
        let reading = Reading { at: Mono(self.seconds * 1_000_000_000), resident: self.resident(), domains };
        self.shares = self.governor.decide(&reading, &self.wishes);
    }

    fn run(&mut self, seconds: u64) -> Vec<u64> {
        (0..seconds).for_each(|_| self.second());
        self.shares.iter().map(|share| share.bytes / MIB).collect()
    }
}

#[test]
fn a_large_host_gives_each_osd_as_much_as_it_wants_at_once() {
    assert_eq!(World::new(24 * GIB, 3).run(1), [4096; 3]);
    assert_eq!(World::new(24 * GIB, 1).run(100), [4096]);
}

#[test]
fn a_host_of_2_gib_keeps_a_quarter_for_others_whether_caches_are_full_or_not() {
    for filled in [0.0, 0.5, 1.0] {
        let mut world = World::new(2 * GIB, 3);
        world.filled = filled;
        assert_eq!((world.run(1), world.run(300)), (vec![512; 3], vec![512; 3]), "{filled}");
        assert_eq!(world.shares[0].bound, MemoryBound::Host);
    }
}

#[test]
fn a_group_of_512_mib_bounds_all_of_its_osds_and_keeps_a_reserve() {
    let mut world = World::new(24 * GIB, 3);
    world.limit = Some(512 * MIB);
    world.uncounted = 30 * MIB;
    world.run(60);
    assert!(world.resident() <= 448 * MIB && world.given() >= 400 * MIB, "{} of {}", world.resident(), world.given());
    assert_eq!(world.shares[0].bound, MemoryBound::Group);
    assert!(!world.governor.short());
}

#[test]
fn the_narrowest_of_nested_groups_counts() {
    let group = |size| Domain { bound: MemoryBound::Group, size, available: size, stalled: 0.0, others: Others::default() };
    let reading = Reading { at: Mono(1), resident: 0, domains: vec![group(8 * GIB), group(GIB), group(2 * GIB)] };
    let wish = MemoryWish { most: MemoryWish::MOST, fixed: false };
    assert_eq!(Governor::new().decide(&reading, &[wish])[0].bytes, 896 * MIB);
}

#[test]
fn nothing_known_means_as_much_as_is_wanted() {
    let reading = Reading { at: Mono(1), resident: 0, domains: vec![] };
    let shares = Governor::new().decide(&reading, &[MemoryWish { most: MemoryWish::MOST, fixed: false }]);
    assert_eq!(shares, [MemoryShare { bytes: MemoryWish::MOST, bound: MemoryBound::Wish }]);
}

#[test]
fn a_limit_that_is_lowered_counts_at_once_and_one_that_is_raised_after_ten_seconds() {
    let mut world = World::new(24 * GIB, 2);
    world.limit = Some(4 * GIB);
    assert_eq!(world.run(5), [1792; 2]);
    world.limit = Some(GIB);
    assert_eq!(world.run(1), [448; 2]);
    world.run(20);
    world.limit = Some(2 * GIB);
    assert_eq!(world.run(10), [448; 2]);
    assert_eq!(world.run(2), [896; 2]);
}

#[test]
fn another_program_that_eats_memory_is_given_way_and_what_it_leaves_is_taken_again() {
    let mut world = World::new(16 * GIB, 2);
    assert_eq!(world.run(3), [4096; 2]);
    // A program that takes half a GiB in a second never meets a host without memory.
    while world.programs < 12 * GIB {
        world.programs += GIB / 2;
        assert!(world.available() > 0, "after {} s", world.seconds);
        world.second();
    }
    assert!(world.available() >= 2 * GIB - GIB / 8 && world.run(1)[0] <= GIB / MIB, "{}", world.available());
    world.programs = GIB;
    assert!(world.run(9)[0] <= GIB / MIB);
    assert_eq!(world.run(3), [4096; 2]);
}

#[test]
fn short_gaps_are_not_taken() {
    let mut world = World::new(2 * GIB, 1);
    world.programs = GIB;
    let before = world.run(30);
    for _ in 0..20 {
        world.programs = GIB / 2;
        assert_eq!(world.run(9), before);
        world.programs = GIB;
        assert_eq!(world.run(1), before);
    }
}

#[test]
fn a_share_that_stands_does_not_swing() {
    let mut world = World::new(2 * GIB, 3);
    (world.uncounted, world.programs) = (60 * MIB, 700 * MIB);
    world.run(60);
    let mut seen = std::collections::BTreeSet::new();
    for second in 0..600 {
        world.filled = f64::from(second % 100) / 100.0;
        world.second();
        seen.insert(world.shares[0].bytes / MIB);
    }
    let (least, most) = (*seen.first().unwrap(), *seen.last().unwrap());
    assert!(most - least <= most / 8 && seen.len() <= 6, "{seen:?}");
}

#[test]
fn what_nobody_counts_is_taken_off_until_it_is_gone() {
    let mut world = World::new(2 * GIB, 1);
    world.uncounted = 400 * MIB;
    world.run(30);
    assert!(world.resident() <= 3 * GIB / 2 + 50 * MIB, "{}", world.resident() / MIB);
    world.uncounted = 0;
    assert!(world.run(900)[0] > 1400);
}

#[test]
fn a_share_that_was_lowered_is_given_back_in_a_while_and_that_is_no_waste() {
    let mut world = World::new(24 * GIB, 1);
    world.limit = Some(2 * GIB);
    world.run(20);
    world.limit = Some(GIB);
    for lag in (0..8).rev() {
        world.uncounted = lag * 100 * MIB;
        world.second();
    }
    assert_eq!((world.governor.waste(), world.run(20)), (0, vec![896]));
}

#[test]
fn servers_of_one_host_share_fairly_whoever_came_first() {
    let mut first = World::new(2 * GIB, 1);
    first.run(20);
    let mut second = World::new(2 * GIB, 1);
    for _ in 0..60 {
        first.others = Others { osds: 1, resident: second.resident() };
        first.second();
        second.others = Others { osds: 1, resident: first.resident() };
        second.second();
        assert!(second.available() > 0);
    }
    assert_eq!((first.run(1), second.run(1)), (vec![768], vec![768]));
}

#[test]
fn many_osds_have_at_least_what_they_need_to_work_and_it_is_told_that_this_is_too_much() {
    let mut world = World::new(2 * GIB, 40);
    assert_eq!(world.run(30), [64; 40]);
    assert!(world.governor.short());
    let mut world = World::new(16 * GIB, 40);
    assert!(world.run(30).iter().all(|share| (290..=308).contains(share)) && !world.governor.short());
}

#[test]
fn a_ceiling_leaves_the_rest_to_others_and_what_is_fixed_is_theirs() {
    let mut world = World::new(4 * GIB, 3);
    world.wishes[1].most = 256 * MIB;
    assert_eq!(world.run(3), [1408, 256, 1408]);
    world.wishes[1] = MemoryWish { most: 2 * GIB, fixed: true };
    assert_eq!(world.run(3), [512, 2048, 512]);
    world.wishes[1] = MemoryWish { most: 5 * GIB, fixed: true };
    assert_eq!(world.run(3), [64, 5120, 64]);
    assert_eq!(world.shares[1].bound, MemoryBound::Wish);
    // More than usual is given to who asks for it, if it is there.
    let mut world = World::new(64 * GIB, 1);
    world.wishes[0].most = 20 * GIB;
    assert_eq!(world.run(1), [20 << 10]);
}

#[test]
fn tasks_that_wait_for_memory_count_where_little_is_available() {
    let mut world = World::new(2 * GIB, 1);
    world.programs = 400 * MIB;
    let before = world.run(20)[0];
    world.stalled = 30.0;
    assert!(world.run(3)[0] <= before - 200, "{before}");
    let mut large = World::new(24 * GIB, 1);
    large.stalled = 30.0;
    assert_eq!(large.run(3), [4096]);
}
