//! Stories of a few voters with perfect disks, over a network that the story orders.

use crate::*;
use bytes::Bytes;
use node::Mono;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// One member: the machine, what its disk has, what it applied.
struct Member {
    node: Node,
    disk: Saved,
    state: Vec<u8>,
    applied: Vec<Entry>,
    news: Vec<News>,
    reads: Vec<ReadId>,
    writes: usize,
    /// Writes take until this is false.
    stuck: bool,
}

#[derive(Default)]
struct World {
    now: u64,
    members: BTreeMap<u64, Member>,
    network: VecDeque<(u64, u64, Message)>,
    /// Members that nobody hears and who hear nobody.
    cut_off: Vec<u64>,
    /// Members remember each other's promises, and keep them on their disks.
    remembers: bool,
    /// Starts so far.
    starts: u64,
}

fn saved(voters: &[u64]) -> Saved {
    let voters = voters.iter().map(|v| VoterId(*v)).collect();
    Saved {
        base: Base { at: Position::default(), membership: Membership { voters, ..Membership::default() } },
        ..Saved::default()
    }
}

impl World {
    fn new(voters: &[u64]) -> Self {
        let mut world = World::default();
        voters.iter().for_each(|id| world.start(*id, saved(voters), Vec::new()));
        world
    }

    fn start(&mut self, id: u64, disk: Saved, state: Vec<u8>) {
        self.starts += 1;
        let life = if self.remembers { self.starts } else { 0 };
        let mut node = Node::new(Config { life, ..Config::new(VoterId(id), 7) }, disk.clone(), Mono(self.now));
        node.keep_marks(self.remembers);
        let (applied, news, reads) = (Vec::new(), Vec::new(), Vec::new());
        self.members.insert(id, Member { node, disk, state, applied, news, reads, writes: 0, stuck: false });
    }

    /// The member loses what is in memory.
    fn restart(&mut self, id: u64) {
        let member = self.members.remove(&id).unwrap();
        self.network.retain(|(from, to, _)| *from != id && *to != id);
        self.start(id, member.disk, member.state);
    }

    fn work(&mut self, id: u64) -> bool {
        let member = self.members.get_mut(&id).unwrap();
        let ready = member.node.ready(!member.stuck);
        let busy = ready.write.is_some() || ready.install.is_some() || !ready.send.is_empty() || !ready.committed.is_empty();
        if let Some(write) = ready.write {
            member.writes += 1;
            member.disk.hard = write.hard;
            member.disk.commit = write.commit;
            if let Some(from) = write.cut_from {
                member.disk.entries.retain(|e| e.index < from);
            }
            member.disk.entries.extend(write.entries);
            member.disk.marks = write.marks.unwrap_or_else(|| member.disk.marks.clone());
            member.node.persisted();
        }
        if let Some(install) = ready.install {
            (member.disk, member.state) = (install.saved, install.state.to_vec());
            member.applied.clear();
            member.node.persisted();
        }
        member.applied.extend(ready.committed);
        member.news.extend(ready.news);
        member.reads.extend(ready.reads);
        if ready.wants_state {
            let index = member.applied.last().map_or(0, |e| e.index);
            member.node.offer(index, Bytes::from(vec![5; 600_000]));
        }
        for (to, message) in ready.send {
            self.network.push_back((id, to.0, message));
        }
        busy
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            let ids: Vec<u64> = self.members.keys().copied().collect();
            let mut busy = false;
            ids.iter().for_each(|id| busy |= self.work(*id));
            while let Some((from, to, message)) = self.network.pop_front() {
                busy = true;
                let lost = self.cut_off.contains(&from) || self.cut_off.contains(&to);
                let wire = message.to_wire(&[1; 16], VoterId(from), VoterId(to));
                let (sender, read) = Message::from_wire(&wire, &[1; 16], VoterId(to)).unwrap();
                assert_eq!((sender, &read), (VoterId(from), &message), "what is read is what was written");
                if let Some(member) = self.members.get_mut(&to).filter(|_| !lost) {
                    member.node.step(Mono(self.now), VoterId(from), message);
                }
            }
            if !busy {
                return self.check();
            }
        }
        panic!("they never come to rest");
    }

    fn check(&self) {
        for member in self.members.values() {
            assert!(self.remembers || member.node.broken().is_none(), "{:?}", member.node.broken());
            member.disk.check().unwrap();
        }
    }

    fn pass(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 50 {
            self.now += 50_000_000;
            self.members.values_mut().for_each(|m| m.node.tick(Mono(self.now)));
            self.settle();
        }
    }

    fn leader(&self) -> Option<u64> {
        let free = |id: &&u64| !self.cut_off.contains(id);
        let mut leaders = self.members.iter().filter(|(_, m)| m.node.is_leader()).map(|(id, _)| id).filter(free);
        let leader = leaders.next().copied();
        assert_eq!(leaders.next(), None, "two leaders that hear each other");
        leader
    }

    fn elect(&mut self) -> u64 {
        self.pass(5 * SECOND);
        self.leader().expect("a leader")
    }

    fn node(&mut self, id: u64) -> &mut Node {
        &mut self.members.get_mut(&id).unwrap().node
    }

    fn propose(&mut self, id: u64, text: &'static str) -> Index {
        let index = self.node(id).propose(Bytes::from_static(text.as_bytes())).unwrap();
        self.settle();
        index
    }

    fn commands(&self, id: u64) -> Vec<&str> {
        let commands = self.members[&id].applied.iter().filter(|e| e.kind == Kind::Command);
        commands.map(|e| std::str::from_utf8(&e.data).unwrap()).collect()
    }
}

#[test]
fn one_voter_leads_at_once_without_a_timer_or_a_write_and_commits_what_is_durable() {
    let mut world = World::new(&[1]);
    assert_eq!(world.node(1).deadline(), Mono::NEVER);
    let ready = world.node(1).ready(true);
    assert!(ready.write.is_none() && ready.news == [News::Elected(1)]);
    let index = world.node(1).propose(Bytes::from_static(b"a")).unwrap();
    world.node(1).propose(Bytes::from_static(b"b")).unwrap();
    let ready = world.node(1).ready(true);
    let write = ready.write.unwrap();
    assert_eq!((write.entries.len(), write.hard.term, ready.committed.len()), (2, 1, 0), "the term goes with the first entries");
    world.node(1).propose(Bytes::from_static(b"c")).unwrap();
    assert!(world.node(1).ready(true).write.is_none(), "one write at a time");
    world.node(1).persisted();
    let ready = world.node(1).ready(true);
    assert_eq!((ready.committed.len(), ready.write.unwrap().entries.len()), (2, 1));
    world.node(1).read_index(ReadId(4)).unwrap();
    assert_eq!((index, world.node(1).ready(true).reads), (1, vec![ReadId(4)]));
}

#[test]
fn one_voter_that_starts_again_leads_in_a_new_term_and_has_everything_that_was_durable() {
    let mut world = World::new(&[1]);
    world.settle();
    world.propose(1, "a");
    world.restart(1);
    world.settle();
    assert_eq!((world.commands(1), world.members[&1].writes), (vec!["a"], 0));
    assert_eq!(world.node(1).term(), 2);
    assert!(world.node(1).is_leader());
}

#[test]
fn a_write_has_bounded_size_but_takes_a_large_entry_alone() {
    let mut world = World::new(&[1]);
    world.settle();
    world.node(1).propose(Bytes::from(vec![0; 3 << 20])).unwrap();
    world.node(1).propose(Bytes::from_static(b"small")).unwrap();
    assert_eq!(world.node(1).ready(true).write.unwrap().entries.len(), 1);
    world.node(1).persisted();
    assert_eq!(world.node(1).ready(true).write.unwrap().entries.len(), 1);
}

#[test]
fn three_voters_elect_one_of_them_and_all_apply_what_it_proposes() {
    let mut world = World::new(&[1, 2, 3]);
    let leader = world.elect();
    world.propose(leader, "a");
    world.propose(leader, "b");
    for id in 1..=3 {
        assert_eq!(world.commands(id), ["a", "b"], "member {id}");
        assert_eq!(world.node(id).leader(), Some(VoterId(leader)));
    }
    let follower = leader % 3 + 1;
    let refused = world.node(follower).propose(Bytes::new());
    assert_eq!(refused, Err(NotLeader(Some(VoterId(leader)))));
}

#[test]
fn without_a_majority_nothing_is_committed_and_the_leader_ends_its_reign() {
    let mut world = World::new(&[1, 2, 3]);
    let leader = world.elect();
    world.cut_off = vec![leader];
    world.propose(leader, "lost");
    assert!(world.commands(leader).is_empty());
    world.pass(5 * SECOND);
    assert!(!world.node(leader).is_leader());
    assert_eq!(world.members[&leader].news.last(), Some(&News::Deposed));
    let next = world.leader().expect("the others have one");
    world.propose(next, "kept");
    let term = world.node(next).term();
    world.cut_off.clear();
    world.pass(5 * SECOND);
    assert_eq!(world.leader(), Some(next), "who comes back does not disturb");
    assert_eq!(world.node(next).term(), term);
    (1..=3).for_each(|id| assert_eq!(world.commands(id), ["kept"], "member {id}"));
    let disk = &world.members[&leader].disk.entries;
    assert!(disk.iter().all(|e| e.data != "lost"), "the tail is cut on disk, too");
}

#[test]
fn a_vote_that_is_not_durable_is_not_told() {
    let mut world = World::new(&[1, 2, 3]);
    world.members.get_mut(&2).unwrap().stuck = true;
    let vote = Message::new(4, Body::Vote(Position::default()));
    world.node(2).step(Mono(0), VoterId(1), vote);
    assert!(world.node(2).ready(false).send.is_empty(), "the disk has not begun");
    let ready = world.node(2).ready(true);
    assert_eq!(ready.write.unwrap().hard, Hard { term: 4, vote: Some(VoterId(1)) });
    assert!(ready.send.is_empty(), "the disk has not ended");
    world.node(2).persisted();
    assert_eq!(world.node(2).ready(true).send, [(VoterId(1), Message::new(4, Body::Voted(true)))]);
    let other = Message::new(4, Body::Vote(Position { term: 3, index: 9 }));
    world.node(2).step(Mono(0), VoterId(3), other);
    assert_eq!(world.node(2).ready(true).send, [(VoterId(3), Message::new(4, Body::Voted(false)))]);
}

#[test]
fn entries_are_acknowledged_when_they_are_durable() {
    let mut world = World::new(&[1, 2, 3]);
    let entries = vec![Entry { index: 1, term: 1, kind: Kind::Blank, data: Bytes::new() }];
    let body = Body::Append { previous: Position::default(), entries, commit: 0, round: 3 };
    world.node(2).step(Mono(0), VoterId(1), Message::new(1, body));
    let ready = world.node(2).ready(true);
    assert!(ready.write.is_some() && ready.send.is_empty());
    world.node(2).persisted();
    let answer = |index| (VoterId(1), Message::new(1, Body::Appended(Verdict::Matched(index), 3)));
    assert_eq!(world.node(2).ready(true).send, [answer(0), answer(1)], "the first one waited for the term alone");
    let entries = vec![Entry { index: 2, term: 1, kind: Kind::Command, data: Bytes::new() }];
    let body = Body::Append { previous: Position { term: 1, index: 1 }, entries, commit: 1, round: 3 };
    world.node(2).step(Mono(0), VoterId(1), Message::new(1, body));
    let ready = world.node(2).ready(true);
    assert_eq!((ready.write.is_some(), ready.send), (true, vec![answer(1)]), "it is here, and has what it had");
    world.node(2).persisted();
    assert_eq!(world.node(2).ready(true).send, [answer(2)]);
}

/// Figure 8 of the paper: an entry of an older term that is on a majority may still be overwritten.
#[test]
fn an_entry_of_an_older_term_is_committed_only_with_one_of_the_leaders_own() {
    let old = |term| Entry { index: 1, term, kind: Kind::Command, data: Bytes::from_static(b"old") };
    let mut disk = saved(&[1, 2, 3]);
    (disk.hard.term, disk.entries) = (2, vec![old(2)]);
    let mut world = World::default();
    world.start(1, disk.clone(), Vec::new());
    world.start(2, disk, Vec::new());
    world.start(3, saved(&[1, 2, 3]), Vec::new());
    world.cut_off = vec![3];
    for _ in 0..200 {
        world.now += 50_000_000;
        let now = Mono(world.now);
        world.node(1).tick(now);
        world.settle();
        if world.node(1).is_leader() {
            break;
        }
        let own = world.node(1).last().term;
        assert!(own > 2 || world.node(1).committed() == 0, "committed by counting");
    }
    assert!(world.node(1).is_leader());
    assert_eq!(world.commands(2), ["old"], "with the blank entry it is");
}

#[test]
fn a_member_that_was_away_for_long_gets_the_state_and_goes_on() {
    let mut world = World::new(&[1, 2, 3]);
    let leader = world.elect();
    let away = leader % 3 + 1;
    world.cut_off = vec![away];
    for _ in 0..1200 {
        world.node(leader).propose(Bytes::from_static(b"x")).unwrap();
        world.settle();
    }
    world.cut_off.clear();
    world.pass(3 * SECOND);
    world.propose(leader, "after");
    assert_eq!(world.commands(away).last(), Some(&"after"));
    assert_eq!(world.members[&away].state.len(), 600_000, "what it lacked was not in the log any more");
    world.restart(away);
    world.pass(3 * SECOND);
    world.propose(leader, "again");
    assert_eq!(world.commands(away).last(), Some(&"again"));
}

#[test]
fn a_member_whose_store_is_set_back_gets_what_it_lacks_from_the_same_leader() {
    let mut world = World::new(&[1, 2, 3]);
    let leader = world.elect();
    let (old, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    world.propose(leader, "before");
    let member = &world.members[&old];
    let (disk, state) = (member.disk.clone(), member.state.clone());
    for text in ["one", "two", "three"] {
        world.propose(leader, text);
    }
    world.restart(old);
    world.start(old, disk, state);
    world.pass(SECOND);
    assert_eq!(world.leader(), Some(leader), "nobody was elected meanwhile");
    assert_eq!(world.commands(old), ["before", "one", "two", "three"]);
    // It counts: without the third one the two are a majority.
    world.cut_off = vec![third];
    world.propose(leader, "four");
    world.pass(SECOND);
    assert_eq!(world.commands(leader).last(), Some(&"four"));
}

#[test]
fn a_learner_catches_up_becomes_a_voter_and_counts() {
    let mut world = World::new(&[1]);
    world.settle();
    world.propose(1, "a");
    let empty = Saved::default();
    world.start(2, empty, Vec::new());
    let set = |ids: &[u64]| ids.iter().map(|id| VoterId(*id)).collect();
    world.node(1).change(Membership { voters: set(&[1]), learners: set(&[2]) }).unwrap();
    let early = world.node(1).change(Membership { voters: set(&[1, 2]), ..Membership::default() });
    assert_eq!(early, Err(NotChanged::Pending));
    // The log is short, and still it lacks what the owner began with.
    world.cut_off = vec![2];
    world.settle();
    let nothing = world.node(1).change(Membership { voters: set(&[1, 2]), ..Membership::default() });
    assert_eq!(nothing, Err(NotChanged::Behind(VoterId(2))));
    world.cut_off.clear();
    world.pass(SECOND);
    assert!(world.commands(2).contains(&"a") || !world.members[&2].state.is_empty());
    world.node(1).change(Membership { voters: set(&[1, 2]), ..Membership::default() }).unwrap();
    world.pass(SECOND);
    assert_eq!(world.leader(), Some(1));
    world.cut_off = vec![2];
    world.propose(1, "needs both");
    assert!(!world.commands(1).contains(&"needs both"));
    world.cut_off.clear();
    let leader = world.elect();
    world.propose(leader, "b");
    assert!(world.commands(1).contains(&"b") && world.commands(2).contains(&"b"));
    let far = Membership { voters: set(&[1, 2, 3, 4]), ..Membership::default() };
    assert_eq!(world.node(leader).change(far), Err(NotChanged::TooMuch));
    let unknown = Membership { voters: set(&[1, 2, 9]), ..Membership::default() };
    assert_eq!(world.node(leader).change(unknown), Err(NotChanged::Behind(VoterId(9))));
    world.node(leader).change(Membership::alone(VoterId(leader))).unwrap();
    world.settle();
    assert!(world.node(leader).is_alone() && world.node(leader).is_leader());
}

#[test]
fn who_is_to_vote_no_more_hears_of_it_when_that_is_committed() {
    let mut world = World::new(&[1, 2]);
    let leader = world.elect();
    let other = 3 - leader;
    world.propose(leader, "before");
    let next = Membership { voters: [VoterId(leader)].into(), learners: [VoterId(other)].into() };
    world.members.get_mut(&leader).unwrap().stuck = true;
    world.node(leader).change(next.clone()).unwrap();
    world.settle();
    assert!(world.members[&other].node.membership().voters.contains(&VoterId(other)), "it is not durable at the leader");
    // The leader dies before it is. Both are there again, and elect one of them.
    world.restart(leader);
    let leader = world.elect();
    // What is committed reaches the one that votes no more.
    let other = 3 - leader;
    let next = Membership { voters: [VoterId(leader)].into(), learners: [VoterId(other)].into() };
    world.node(leader).change(next.clone()).unwrap();
    world.settle();
    assert_eq!(world.members[&other].node.membership(), &next);
    world.propose(leader, "after");
    world.pass(SECOND);
    assert_eq!(world.commands(other), ["before", "after"]);
}

#[test]
fn leadership_is_handed_over_without_a_pause() {
    let mut world = World::new(&[1, 2, 3]);
    let leader = world.elect();
    let transferee = leader % 3 + 1;
    world.propose(leader, "a");
    world.node(leader).transfer(VoterId(transferee)).unwrap();
    world.settle();
    assert_eq!(world.leader(), Some(transferee));
    assert!(
        world.node(transferee).transfer(VoterId(transferee)).is_err()
            && world.node(leader).transfer(VoterId(transferee)).is_err()
    );
    world.propose(transferee, "b");
    assert_eq!(world.commands(leader), ["a", "b"]);
}

#[test]
fn a_leader_that_is_cut_off_answers_no_read() {
    let mut world = World::new(&[1, 2, 3]);
    let leader = world.elect();
    world.node(leader).read_index(ReadId(1)).unwrap();
    world.settle();
    assert_eq!(world.members[&leader].reads, [ReadId(1)]);
    world.cut_off = vec![leader];
    world.node(leader).read_index(ReadId(2)).unwrap();
    world.pass(5 * SECOND);
    assert_eq!(world.members[&leader].reads, [ReadId(1)]);
    let follower = leader % 3 + 1;
    assert!(world.node(leader).read_index(ReadId(3)).is_err() || !world.cut_off.contains(&leader));
    world.cut_off.clear();
    let _ = world.node(follower);
}

#[test]
fn a_contradiction_below_what_is_committed_stops_the_node() {
    let mut disk = saved(&[1, 2, 3]);
    disk.entries = vec![Entry { index: 1, term: 1, kind: Kind::Command, data: Bytes::from_static(b"kept") }];
    (disk.hard.term, disk.commit) = (1, 1);
    let mut node = Node::new(Config::new(VoterId(2), 7), disk, Mono(0));
    let entries = vec![Entry { index: 1, term: 2, kind: Kind::Command, data: Bytes::from_static(b"other") }];
    let body = Body::Append { previous: Position::default(), entries, commit: 1, round: 0 };
    node.step(Mono(0), VoterId(1), Message::new(2, body));
    assert!(node.broken().is_some_and(|why| why.contains("entry 1 is committed with term 1")), "{:?}", node.broken());
    assert!(node.ready(true).write.is_none(), "nothing is written any more");
}

#[test]
fn what_is_damaged_foreign_or_senseless_is_refused() {
    let (cluster, from, to) = ([1; 16], VoterId(1), VoterId(2));
    let wire = Message::new(3, Body::Voted(true)).to_wire(&cluster, from, to);
    for at in 0..wire.len() {
        let mut bad = wire.to_vec();
        bad[at] ^= 4;
        assert_eq!(Message::from_wire(&bad, &cluster, to), Err(Refused::Damaged), "byte {at}");
        assert!(Message::from_wire(&wire[..at], &cluster, to).is_err());
    }
    assert_eq!(Message::from_wire(&wire, &[2; 16], to), Err(Refused::Cluster(cluster)));
    assert_eq!(Message::from_wire(&wire, &cluster, VoterId(3)), Err(Refused::NotForMe(to)));
    let entry = |index, term| Entry { index, term, kind: Kind::Blank, data: Bytes::new() };
    for entries in [vec![entry(3, 1)], vec![entry(2, 9)], vec![entry(2, 2), entry(3, 1)], vec![entry(2, 2), entry(2, 2)]] {
        let body = Body::Append { previous: Position { term: 1, index: 1 }, entries, commit: 0, round: 0 };
        let wire = Message::new(3, body).to_wire(&cluster, from, to);
        assert!(matches!(Message::from_wire(&wire, &cluster, to), Err(Refused::Unreadable(_))));
    }
    // A newer layout is named.
    let mut newer = wire[..wire.len() - 4].to_vec();
    (newer[0], newer[1]) = (3, 3);
    let crc = kernels::crc32c(kernels::SEED, &newer);
    newer.extend(crc.to_le_bytes());
    let refused = Message::from_wire(&newer, &cluster, to).unwrap_err();
    assert!(refused.to_string().contains("newer"), "{refused}");
}

#[test]
fn a_learner_that_never_answered_is_not_heard() {
    let mut world = World::new(&[1, 2, 3]);
    let leader = world.elect();
    let members = world.node(leader).membership().clone();
    world.node(leader).change(Membership { learners: [VoterId(9)].into(), ..members }).unwrap();
    world.pass(Duration::from_millis(500));
    let node = world.node(leader);
    assert!(!node.heard().contains(&VoterId(9)) && !node.is_close(VoterId(9)), "{:?}", node.heard());
    world.start(9, Saved::default(), Vec::new());
    world.pass(5 * SECOND);
    let node = world.node(leader);
    assert!(node.heard().contains(&VoterId(9)) && node.is_close(VoterId(9)), "{:?}", node.heard());
}

#[test]
fn a_disk_that_stalls_at_the_only_needed_follower_ends_no_reign() {
    let mut world = World::new(&[1, 2, 3]);
    let leader = world.elect();
    let (slow, lost) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    world.cut_off = vec![lost];
    world.pass(2 * SECOND);
    let term = world.node(leader).term();
    world.members.get_mut(&slow).unwrap().stuck = true;
    world.propose(leader, "x");
    for _ in 0..200 {
        world.pass(Duration::from_millis(50));
        assert!(world.node(leader).is_leader() && world.commands(leader).is_empty());
    }
    world.members.get_mut(&slow).unwrap().stuck = false;
    world.pass(SECOND);
    assert_eq!((world.node(leader).term(), world.commands(leader)), (term, vec!["x"]));
}

#[test]
fn a_voter_whose_disk_is_stuck_keeps_few_messages() {
    for stuck_term in [false, true] {
        let mut world = World::new(&[1, 2, 3]);
        let leader = world.elect();
        let slow = leader % 3 + 1;
        world.members.get_mut(&slow).unwrap().stuck = true;
        if stuck_term {
            world.node(leader).transfer(VoterId(6 - leader - slow)).unwrap();
            world.settle();
        }
        let leader = world.leader().unwrap();
        for n in 0..100 {
            world.propose(leader, "x");
            world.pass(SECOND);
            let waiting = world.members[&slow].node.waiting();
            assert!(waiting <= 8, "{waiting} messages after {n} s");
        }
        world.members.get_mut(&slow).unwrap().stuck = false;
        world.pass(SECOND);
        assert_eq!(world.commands(slow).len(), 100);
    }
}

/// Three voters, a perfect network of 5 ms, disks of which each write takes so many milliseconds; once, a write takes
/// 10 s at each of them. Percent of ten minutes with a leader, and terms.
fn slow_disks(ms: [u64; 3]) -> (u64, u64) {
    const STEP: u64 = 5;
    const END: u64 = 600_000;
    let mut nodes: Vec<Node> =
        (1..=3).map(|id| Node::new(Config::new(VoterId(id), 7 * id), saved(&[1, 2, 3]), Mono(0))).collect();
    let (mut due, mut stalled) = ([None::<u64>; 3], [false; 3]);
    let mut net: VecDeque<(u64, u64, usize, Message)> = VecDeque::new();
    let mut led = 0;
    for t in (0..END).step_by(STEP as usize) {
        let now = Mono(t * 1_000_000);
        for (node, due) in nodes.iter_mut().zip(&mut due) {
            if due.take_if(|due| *due <= t).is_some() {
                node.persisted();
            }
            node.tick(now);
        }
        while net.front().is_some_and(|m| m.0 <= t) {
            let (_, from, to, message) = net.pop_front().unwrap();
            nodes[to].step(now, VoterId(from), message);
        }
        if t % 500 == 0
            && let Some(node) = nodes.iter_mut().find(|n| n.is_leader())
        {
            node.propose(Bytes::from_static(b"x")).unwrap();
        }
        for i in 0..3 {
            let ready = nodes[i].ready(due[i].is_none());
            if ready.write.is_some() {
                let stalls = t > END / 2 && !std::mem::replace(&mut stalled[i], t > END / 2);
                due[i] = Some(t + if stalls { 10_000 } else { ms[i] });
            }
            for (to, message) in ready.send {
                net.push_back((t + STEP, i as u64 + 1, to.0 as usize - 1, message));
            }
        }
        led += STEP * u64::from(nodes.iter().any(Node::is_leader));
    }
    (led * 100 / END, nodes.iter().map(Node::term).max().unwrap())
}

#[test]
fn with_disks_whose_writes_take_three_seconds_there_is_a_leader_nine_tenths_of_the_time() {
    for disks in [[10; 3], [1100; 3], [2000; 3], [3000; 3], [10, 3000, 3000], [10, 10, 3000]] {
        let (led, terms) = slow_disks(disks);
        println!("{disks:?}: a leader {led} % of the time, {terms} terms");
        assert!(led >= 90, "{disks:?}: a leader {led} % of the time, {terms} terms");
    }
}

/// Three members that remember, a leader, and an entry that all have; long enough ago that all disks know of it.
fn town_that_remembers() -> (World, u64) {
    let mut world = World { remembers: true, ..World::default() };
    (1..=3).for_each(|id| world.start(id, saved(&[1, 2, 3]), Vec::new()));
    let leader = world.elect();
    world.propose(leader, "before");
    world.pass(5 * SECOND);
    (world, leader)
}

impl World {
    /// A copy of a member's store.
    fn copy(&self, id: u64) -> (Saved, Vec<u8>) {
        (self.members[&id].disk.clone(), self.members[&id].state.clone())
    }

    /// Starts a member with an older copy of its store.
    fn set_back(&mut self, id: u64, (disk, state): (Saved, Vec<u8>)) {
        self.restart(id);
        self.start(id, disk, state);
    }

    fn why(&self, id: u64) -> &str {
        self.members[&id].node.broken().unwrap_or_default()
    }
}

#[test]
fn a_member_that_was_set_back_stops_before_it_helps_to_lose_what_was_committed() {
    for all_restart in [false, true] {
        let (mut world, leader) = town_that_remembers();
        let (old, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);
        let copy = world.copy(old);
        world.propose(leader, "known to all");
        world.pass(5 * SECOND);
        world.cut_off = vec![third];
        world.propose(leader, "acknowledged");
        assert!(world.commands(leader).contains(&"acknowledged"));
        world.set_back(old, copy);
        // Only its disk tells the third one what `old` promised.
        if all_restart {
            world.restart(third);
        }
        world.cut_off = vec![leader];
        world.pass(20 * SECOND);
        assert_eq!(world.leader(), None);
        let why = world.why(old);
        assert!(why.contains("was set back") && why.contains("it acknowledged entry") && why.contains("Remedy"), "{why}");
        assert!(world.members[&old].node.broken().is_some() && world.node(old).ready(true).write.is_none());
        assert_eq!(world.node(6 - old - leader).set_back(), [VoterId(old)].into(), "the other one knows why it is gone");
        world.cut_off.clear();
        let leader = world.elect();
        assert_eq!(world.commands(leader), ["before", "known to all", "acknowledged"]);
        // Its process starts again and again, and asks all.
        world.restart(old);
        world.pass(3 * SECOND);
        assert_eq!(world.node(leader).set_back(), [VoterId(old)].into());
    }
}

#[test]
fn a_member_that_forgot_its_vote_stops_before_it_votes_again() {
    let mut world = World { remembers: true, ..World::default() };
    (1..=3).for_each(|id| world.start(id, saved(&[1, 2, 3]), Vec::new()));
    let copies: Vec<_> = (1..=3).map(|id| world.copy(id)).collect();
    let leader = world.elect();
    world.pass(5 * SECOND);
    for old in (1..=3).filter(|id| *id != leader) {
        world.set_back(old, copies[old as usize - 1].clone());
        world.pass(SECOND);
        assert!(world.why(old).contains("it took part in term 1, its store knows terms up to 0"), "{}", world.why(old));
    }
    // The same term, without the vote.
    let mut node = Node::new(Config { life: 1, ..Config::new(VoterId(2), 7) }, Saved::default(), Mono(0));
    let hard = Hard { term: 4, vote: Some(VoterId(3)) };
    let mut disk = saved(&[1, 2, 3]);
    disk.hard = Hard { term: 4, vote: None };
    for (vote, stops) in [(None, true), (Some(VoterId(1)), true), (Some(VoterId(3)), false)] {
        disk.hard.vote = vote;
        let mut again = Node::new(Config { life: 9, ..Config::new(VoterId(2), 7) }, disk.clone(), Mono(0));
        let tail = Tail { life: 5, marks: [(VoterId(2), Mark { hard, at: Position::default() })].into(), ..Tail::default() };
        again.step(Mono(0), VoterId(1), Message { tail, ..Message::new(5, Body::Vote(Position::default())) });
        assert_eq!(again.broken().is_some(), stops, "{vote:?}: {:?}", again.broken());
        std::mem::swap(&mut node, &mut again);
    }
}

#[test]
fn who_starts_with_its_newest_store_takes_part_at_once_under_a_leader_and_soon_without_one() {
    let (mut world, leader) = town_that_remembers();
    let (other, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    world.restart(other);
    assert!(world.node(other).is_unsure());
    world.pass(Duration::from_millis(300));
    assert!((1..=3).all(|id| world.node(id).set_back().is_empty()));
    assert!(!world.node(other).is_unsure() && world.leader() == Some(leader));
    // All of them stop, one does not come back.
    world.cut_off = vec![third];
    [leader, other].into_iter().for_each(|id| world.restart(id));
    world.pass(Duration::from_millis(2900));
    assert!(world.node(other).is_unsure(), "it waits for the third one, for a while");
    world.pass(6 * SECOND);
    let leader = world.leader().expect("two of three are enough");
    world.propose(leader, "after");
    assert!(world.commands(leader).contains(&"after"));
    // All are there again after a power cut: nobody waits.
    world.cut_off.clear();
    (1..=3).for_each(|id| world.restart(id));
    world.pass(Duration::from_millis(300));
    assert!((1..=3).all(|id| !world.node(id).is_unsure()));
    assert!((1..=3).all(|id| world.why(id).is_empty()));
    world.pass(3 * SECOND);
    assert!((1..=3).all(|id| world.node(id).set_back().is_empty()), "a start is no set-back");
}

#[test]
fn one_late_word_is_no_sign_of_a_store_that_was_set_back() {
    let mut node = Node::new(Config { life: 8, ..Config::new(VoterId(2), 7) }, saved(&[1, 2, 3]), Mono(0));
    let mark = |term, index| Mark { hard: Hard { term, vote: Some(VoterId(3)) }, at: Position { term, index } };
    let says = |node: &mut Node, at: u64, told: Mark, body: Body| {
        let tail = Tail { life: 5, heard: 8, marks: [(VoterId(3), told)].into(), ..Tail::default() };
        node.step(Mono(at * 1_000_000_000), VoterId(3), Message { tail, ..Message::new(told.hard.term, body) });
        node.set_back()
    };
    says(&mut node, 0, mark(4, 20), Body::Would(false));
    // Overtaken by the one before; then one that keeps all.
    assert!(says(&mut node, 1, mark(3, 90), Body::Would(false)).is_empty());
    assert!(says(&mut node, 3, mark(4, 20), Body::Would(false)).is_empty());
    // A start: it has acknowledged nothing yet, and its log has all that it had. Then one whose log is shorter.
    let ask = |index| Body::WouldYou(Position { term: 4, index });
    assert!(says(&mut node, 4, mark(4, 0), ask(20)).is_empty());
    node.tick(Mono(9_000_000_000));
    assert!(node.set_back().is_empty());
    assert!(says(&mut node, 10, mark(4, 0), ask(19)).is_empty());
    assert_eq!(says(&mut node, 12, mark(4, 0), Body::Would(false)), [VoterId(3)].into(), "it says nothing better");
    assert!(says(&mut node, 13, mark(4, 0), ask(20)).is_empty());
    assert!(says(&mut node, 14, mark(2, 0), Body::Would(false)).is_empty());
    assert_eq!(says(&mut node, 16, mark(2, 0), Body::Would(false)), [VoterId(3)].into());
}

#[test]
fn an_unsure_member_promises_nothing_and_counts_no_answer_from_before_its_start() {
    let mut disk = saved(&[1, 2, 3]);
    disk.hard.term = 3;
    let mut node = Node::new(Config { life: 8, ..Config::new(VoterId(2), 7) }, disk, Mono(0));
    let ask = |to| (VoterId(to), Body::WouldYou(Position::default()));
    let said = |node: &mut Node| node.ready(true).send.into_iter().map(|(to, m)| (to, m.body)).collect::<Vec<_>>();
    assert_eq!(said(&mut node), [ask(1), ask(3)]);
    let from = |life, heard| Tail { life, heard, ..Tail::default() };
    let entries = vec![Entry { index: 1, term: 4, kind: Kind::Blank, data: Bytes::new() }];
    let append = Body::Append { previous: Position::default(), entries, commit: 0, round: 0 };
    for (tail, body) in
        [(from(5, 0), Body::Vote(Position { term: 3, index: 9 })), (from(5, 7), Body::Would(false)), (from(5, 7), append.clone())]
    {
        node.step(Mono(1), VoterId(1), Message { tail, ..Message::new(4, body) });
        let ready = node.ready(true);
        assert!(node.is_unsure() && ready.write.is_none() && ready.send.is_empty(), "{ready:?}");
    }
    // One that starts, too, gets an answer all the same.
    node.step(Mono(1), VoterId(3), Message { tail: from(6, 0), ..Message::new(3, ask(0).1) });
    assert_eq!(said(&mut node), [(VoterId(3), Body::Would(false))]);
    node.step(Mono(2), VoterId(1), Message { tail: from(5, 8), ..Message::new(4, append) });
    assert!(!node.is_unsure() && node.ready(true).write.is_some(), "a leader knows of this start");
}

#[test]
fn programs_that_remember_nothing_hold_up_nobody() {
    let mut node = Node::new(Config { life: 8, ..Config::new(VoterId(2), 7) }, saved(&[1, 2, 3]), Mono(0));
    for from in [1, 3] {
        node.step(Mono(0), VoterId(from), Message::new(0, Body::Would(false)));
    }
    assert!(!node.is_unsure());
    // They skip what they do not know, and the version that they refuse is not written.
    let wire = node.ready(true).send[0].1.to_wire(&[1; 16], VoterId(2), VoterId(1));
    assert_eq!(&wire[..2], [2, 1]);
    assert_eq!(Message::new(1, Body::Stale).to_wire(&[1; 16], VoterId(2), VoterId(1))[..2], [1, 1]);
}

#[test]
fn the_store_of_the_time_when_it_was_alone_is_noticed_as_soon_as_somebody_speaks() {
    let mut world = World { remembers: true, ..World::default() };
    world.start(1, saved(&[1]), Vec::new());
    world.settle();
    world.propose(1, "a");
    let copy = world.copy(1);
    let set = |ids: &[u64]| ids.iter().map(|id| VoterId(*id)).collect();
    for (id, voters, learners) in [(2, &[1][..], &[2][..]), (0, &[1, 2], &[]), (3, &[1, 2], &[3]), (0, &[1, 2, 3], &[])] {
        if id != 0 {
            world.start(id, Saved::default(), Vec::new());
        }
        let leader = world.leader().unwrap();
        world.node(leader).change(Membership { voters: set(voters), learners: set(learners) }).unwrap();
        world.pass(2 * SECOND);
    }
    world.cut_off = vec![1];
    world.elect();
    world.pass(5 * SECOND);
    world.set_back(1, copy);
    world.settle();
    assert!(world.node(1).is_leader(), "it knows of nobody whom it could ask");
    world.cut_off.clear();
    // Two that take themselves for leaders hear each other for a moment.
    world.now += 300_000_000;
    world.members.values_mut().for_each(|m| m.node.tick(Mono(world.now)));
    world.settle();
    assert!(world.why(1).contains("was set back"), "{:?}", world.why(1));
}

#[test]
fn a_member_whose_state_differs_from_the_leaders_stops() {
    for leader_first in [false, true] {
        let (mut world, leader) = town_that_remembers();
        let (wrong, right) = (leader % 3 + 1, (leader + 1) % 3 + 1);
        let order = if leader_first { [leader, right, wrong] } else { [wrong, right, leader] };
        for id in order {
            world.node(id).note_state(2, if id == wrong { 77 } else { 76 });
            world.pass(SECOND);
        }
        assert!(world.why(wrong).contains("after entry 2 differs from the leader's"), "{:?}", world.why(wrong));
        assert!(world.why(right).is_empty() && world.why(leader).is_empty() && world.leader() == Some(leader));
    }
}

#[test]
fn a_leader_that_has_another_entry_where_this_log_ends_contradicts_it_if_that_was_committed() {
    let mut disk = saved(&[1, 2, 3]);
    disk.entries = vec![Entry { index: 1, term: 1, kind: Kind::Command, data: Bytes::from_static(b"kept") }];
    (disk.hard.term, disk.commit) = (1, 1);
    let mut node = Node::new(Config::new(VoterId(2), 7), disk, Mono(0));
    let body = Body::Append { previous: Position { term: 2, index: 1 }, entries: Vec::new(), commit: 1, round: 0 };
    node.step(Mono(0), VoterId(1), Message::new(2, body));
    assert!(node.broken().is_some_and(|why| why.contains("contradict")), "{:?}", node.broken());
}
