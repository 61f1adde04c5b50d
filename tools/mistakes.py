#!/usr/bin/python3
"""Puts mistakes that were made once back into the source, and says which tests find them.

usage: mistakes.py [--into FOLDER] [--each] [NAME ...]     all mistakes, or those that are named

They are put into a copy of the tree, in FOLDER (target/mistakes), which is built there (CARGO_TARGET_DIR, if it is set). All that have
tests of their own are put back at once: one build. Those that share a test come one after the other. A mistake is a text in a file, what it
becomes, and the test that must fail, with what it says then: a test that fails with other words failed for another mistake's sake, so
this mistake is put back once more, alone (`--each`: all of them alone). A mistake that no test finds ends the run with exit code 1,
and so does a text that is not in its file any more. docs/testing/hostile.md says what each one lets somebody do.
"""

import argparse
import os
import re
import shutil
import subprocess
from dataclasses import dataclass

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))


@dataclass(frozen=True)
class Mistake:
    file: str
    old: str
    new: str
    package: str
    target: str  # of the package: --lib, --test=NAME, --bin=NAME
    test: str
    says: str  # part of what the test says when it fails; empty: whatever


MISTAKES = {
    "token": Mistake("cores/moncommands/src/join.rs", 'one host may join", "auth", "rwx", token)', 'one host may join", "mon", "rw", token)',
              "mon", "--test=rights", "who_may_write_at_the_monitors_makes_no_administrator", "right: -13"),
    "ticket": Mistake("cores/msgr/src/auth/key.rs", "ring::hmac::verify(&self.signer(), &signed, signature).map_err(|_| AuthError::WrongKey)?;",
                      "let _ = (signed, signature);", "msgr", "--lib", "a_carrier_changes_no_bit_of_a_signed_ticket", "bit "),
    "network": Mistake("cores/msgr/src/messenger/accept.rs", "ip: Some(conn.remote.ip()),", "ip: addr.addr.map(|at| at.ip()),",
                "mon", "--test=rights", "rights_of_a_network_hold_for_the_sockets_address", "right: -13"),
    "copy-from": Mistake("cores/osd/src/admit.rs", "may_do(caps, map, op, &needs) && may_copy(caps, map, op)? {", "may_do(caps, map, op, &needs) {",
                  "osd", "--lib", "who_copies_must_be_allowed_to_read_what_is_copied", "t2/x"),
    "fences": Mistake("values/caps/src/constraint.rs", "Self::Client => is_client(argument),", "Self::Client => argument.contains('/'),",
               "caps", "--test=meaning", "a_client_may_fence_an_instance_but_not_a_host", "127.0.0.0/8"),
    "audit": Mistake("cores/mon/src/server/lines.rs", "serde_json::Value::from(cut(text, VALUE)).to_string()", "serde_json::Value::from(text).to_string()",
              "mon", "--lib", "arguments_are_cut_and_cannot_look_like_another_line", ""),
    "services": Mistake("cores/mon/src/server/dispatch.rs", "const SERVICE: usize = 64 << 10;", "const SERVICE: usize = 64 << 20;",
                 "mon", "--test=floods", "what_services_say_of_themselves_has_a_bound", "1048576"),
    "sessions": Mistake("cores/msgr/src/messenger/crowd.rs", "of_name >= (limits.connections / 2).max(1)", "of_name == usize::MAX",
                 "msgr", "--lib", "nobody_fills_the_room_alone_and_places_come_free", ""),
    "bootstrap": Mistake("values/caps/src/constraint.rs", "Self::RbdProfiles | Self::RbdProfilesOrAbsent => only_rbd_profiles(argument),",
                  'Self::RbdProfiles | Self::RbdProfilesOrAbsent => argument.starts_with("profile rbd"),',
                  "caps", "--test=meaning", "bootstrap_keys_make_keys_of_one_kind", "!rbd("),
    "watches": Mistake("cores/pg/src/ops/watch.rs", "const OF_CLIENT: usize = 64;", "const OF_CLIENT: usize = 64 << 10;",
                "pg", "--test=watches", "watches_of_a_client_and_of_an_object_have_a_bound", "right: -122"),
    "revocation": Mistake("cores/mon/src/server/revoke.rs", "const LAST_WORD: Duration = Duration::from_secs(1);",
                   "const LAST_WORD: Duration = Duration::from_secs(3600);", "mon", "--test=rights", "removed_rights_end_what_is_open", "[true, true, false]"),
    "figures": Mistake("cores/mon/src/server/dispatch.rs", 'Statfs::KIND | GetPoolStats::KIND => self.may(session, "pg", true, false),',
                "Statfs::KIND | GetPoolStats::KIND => true,", "mon", "--test=rights", "maps_and_figures_are_for_those_who_may_read", "[true, false, false, false]"),
    "secrets": Mistake("cores/mon/src/server/lines.rs", "SECRETS.iter().any(|word| option.contains(word))", 'SECRETS.iter().any(|word| option == *word)',
                "mon", "--lib", "secrets_are_left_out", "hush"),
    "token-file": Mistake("bin/nacre/src/token.rs", "text.strip_prefix('@')", "text.strip_prefix('\\u{1}')",
                   "nacre", "--bin=nacre", "a_token_comes_from_a_file_too", "this is no token"),
    "core-files": Mistake("bin/nacre/src/main.rs", 'std::env::var_os(CORE_DUMPS).is_none_or(|value| value != "1")', "std::env::var_os(CORE_DUMPS).is_some()",
                   "nacre", "--test=up", "a_cluster_starts_goes_on_and_grows", "Max core file size"),
    "umask": Mistake("edge/runtime/src/sys.rs", "libc::umask(before | 0o022)", "libc::umask(before)",
              "nacre", "--test=up", "a_cluster_starts_goes_on_and_grows", ""),
    "forged-task": Mistake("cores/manager/src/desk/tasks.rs", "here && shown &&", "(here || shown) &&",
                    "manager", "--lib", "a_stored_task_counts_for_its_own_place_alone", "another pool"),
    "forged-order": Mistake("cores/manager/src/desk/reach.rs", "Some((by, ordered)) if ordered == content => By::parse(by),", "Some((by, _)) => By::parse(by),",
                     "manager", "--lib", "who_ordered_a_stored_task_is_known_to_the_monitors_alone", "left: Everybody"),
    "deputy": Mistake("cores/images/src/work.rs", "Ok(map) if reach.allows(&map, &request) => {}", "Ok(map) if reach.allows(&map, &request) || true => {}",
               "images", "--test=interruptions", "a_parent_that_one_may_not_read_is_not_copied", "refused: ()"),
    "forged-pool": Mistake("cores/images/src/image.rs", "data_pool >= 0 && data_pool != at.pool && prefix !=", "data_pool >= 0 && data_pool == at.pool && prefix !=",
                    "images", "--test=interruptions", "data_in_a_pool_where_one_has_no_rights_is_not_removed", "refused: ()"),
    "lab-programs": Mistake("edge/lab/src/cluster/release.rs", "found.uid() == user && found.mode() & 0o022 == 0;", "found.uid() == user;",
                            "lab", "--lib", "programs_of_others_are_not_started", "775"),
    "forged-crowd": Mistake("cores/manager/src/desk/tasks.rs", "found.sort_by_key(|task| task.by == By::Nobody);", "found.sort_by_key(|_| true);",
                            "manager", "--lib", "forged_tasks_keep_no_other_one_out", "right: Some(9)"),
    "forged-number": Mistake("cores/manager/src/desk/tasks.rs", " && task.sequence <= MOST_SEQUENCE", "",
                             "manager", "--lib", "a_stored_task_counts_for_its_own_place_alone", ""),
    "fence-share": Mistake("cores/manager/src/fences.rs", "if own >= share {", "if own >= MOST {",
                           "manager", "--lib", "nobody_takes_all_places_for_fences", "right: 7168"),
    "fence-bound": Mistake("cores/manager/src/fences.rs", "if all >= MOST {", "if all >= 2 * MOST {",
                           "manager", "--lib", "clients_and_ranges_have_one_bound_together", "65536 0"),
    "forged-lock": Mistake("cores/manager/src/desk/reach.rs", "Self::Place(_) => false,", "Self::Place(_) => true,",
                           "manager", "--lib", "work_reaches_as_far_as_the_rights_of_who_ordered_it", "left: (true"),
    "terminal": Mistake("values/grammar/src/printable.rs", "is_obeyed(c) && !stays(c);", "is_obeyed(c) && c == '\\0' && !stays(c);",
                        "grammar", "--lib", "nothing_that_a_terminal_obeys_is_left", "HEALTH_OK"),
    "service-names": Mistake("cores/mon/src/server/dispatch.rs", "let small = shown && ", "let small = (shown || true) && ",
                             "mon", "--test=floods", "what_services_say_of_themselves_has_a_bound", ""),
    "way-in": Mistake("cores/moncommands/src/config.rs", "!WAYS_IN.contains(&name) || ", "!name.is_empty() || ",
                      "mon", "--test=rights", "who_may_set_options_shuts_nobody_out", "auth_supported"),
    "stalled-frames": Mistake("cores/msgr/src/messenger/flow.rs", "admission == Admission::ClassFull && self.admit_beside(conn, bytes)",
                              "admission == Admission::ClassFull && false",
                              "msgr", "--lib", "small_messages_come_in_while_another_client_has_all_room", "the small one came in"),
    "long-lists": Mistake("cores/classes/src/keys.rs", "const MOST_BYTES: usize = 64 << 20;", "const MOST_BYTES: usize = 64 << 30;",
                          "classes", "--lib", "one_call_takes_no_more_than_it_may", "EMSGSIZE"),
    "deferred": Mistake("cores/classes/src/rgw_gc.rs", "|| bytes >= LISTING_BYTES || looked_at >= LOOKED_AT;", "|| bytes >= LISTING_BYTES;",
                        "classes", "--lib", "a_call_looks_at_a_bounded_number_of_deferred_entries", "it says that there are more"),
    "lock-file": Mistake("bin/nacre/src/state.rs", "file.set_permissions(Permissions::from_mode(LOCK))", "file.set_permissions(Permissions::from_mode(0o644))",
                         "nacre", "--bin=nacre", "a_lock_has_one_holder_and_names_it", "right: 384"),
    "many-addresses": Mistake("edge/httpd/src/server.rs", "let of = owner(of);", "let _ = owner(of);",
                              "httpd", "--lib", "many_addresses_of_one_are_one", "::1"),
    "deaf-crowd": Mistake("cores/msgr/src/messenger/flow.rs", "while self.lag > self.config.limits.send_most {", "while self.lag == usize::MAX {",
                          "msgr", "--lib", "what_waits_for_all_clients_together_has_a_bound", "it takes nothing"),
    "many-copies": Mistake("cores/pg/src/ops/copy.rs", "if copies.count() > COPIES {", "if copies.count() > 1_000_000 * COPIES {",
                           "pg", "--test=objects", "one_request_takes_few_copies_on", ""),
    "long-messages": Mistake("cores/msgr/src/messenger/mod.rs", "&& let Some((part, len, limit)) = self.config.limits.excess(&message)",
                             "&& let Some((part, len, limit)) = self.config.limits.excess(&message).filter(|_| false)",
                             "msgr", "--lib", "what_no_daemon_takes_is_not_sent_to_one_and_said", ""),
    "costly-request": Mistake("cores/pg/src/ops/cost.rs", "const SEEN: u64 = 320 << 20;", "const SEEN: u64 = 320 << 40;",
                              "pg", "--test=objects", "what_a_request_looks_at_and_makes_has_a_bound", ""),
    "byte-sums": Mistake("cores/pg/src/ops/checksum.rs", "self.env.can_afford(chunks.saturating_mul(CHUNK))", "self.env.can_afford(chunks / CHUNK)",
                         "pg", "--test=objects", "what_a_request_lists_and_computes_has_a_bound", ""),
    "short-keys": Mistake("cores/pg/src/ops/omap.rs", "Reader::within(&self.at(index).input, &left).get();", "Reader::new(&self.at(index).input).get();",
                          "pg", "--test=objects", "what_a_request_lists_and_computes_has_a_bound", ""),
    "class-lists": Mistake("cores/classes/src/lib.rs", "denc::Reader::within(bytes, &self.items)", "denc::Reader::new(bytes)",
                           "pg", "--test=objects", "what_a_request_lists_and_computes_has_a_bound", ""),
    "digests": Mistake("cores/pg/src/ops/class.rs", "self.env.can_afford(call.work.get());", "let _ = call.work.get();",
                       "pg", "--test=objects", "what_a_request_lists_and_computes_has_a_bound", ""),
    "block-parts": Mistake("cores/pg/src/ops/cost.rs", "own + pieces * PIECE", "own + pieces",
                           "pg", "--test=objects", "what_a_request_lists_and_computes_has_a_bound", ""),
    "overlaps": Mistake("cores/pg/src/ops/run.rs", "const OVERLAPS: usize = 16_384;", "const OVERLAPS: usize = usize::MAX;",
                        "pg", "--test=snapshots", "the_ranges_that_clones_share_have_a_bound", "ranges after"),
    "slow-sender": Mistake("cores/msgr/src/messenger/conn.rs", "((before - missing) as u128) < due", "before == missing && due == u128::MAX",
                           "msgr", "--lib", "who_sends_slowly_keeps_no_room_for_which_others_wait", "who sends nearly nothing makes room"),
    "command-parts": Mistake("cores/mon/src/server/run.rs", "length > COMMAND || cmd.len() > PARTS", "length > COMMAND",
                             "mon", "--test=floods", "the_parts_of_a_command_have_a_bound", ""),
    "entity-turns": Mistake("cores/mon/src/server/turns.rs", "next(self.rested).max(of_all)", "next(self.rested).max(Mono(of_all.0 / 2))",
                            "mon", "--lib", "many_sessions_of_an_entity_have_the_turns_of_four", "commands at once"),
    "unborn": Mistake("cores/moncommands/src/osd_admin.rs", "if !cx.asker.governs_osds {", "if false {",
                      "mon", "--test=rights", "who_may_write_at_the_monitors_makes_no_administrator", "a number far away"),
    "future-crashes": Mistake("cores/manager/src/crashes.rs", ".filter(|time| *time <= now.plus(CLOCKS))", "",
                              "manager", "--lib", "reports_of_a_time_to_come_keep_no_other_out", ""),
    "tries-under-way": Mistake("edge/face/src/login.rs", "        self.count(now, of);\n        Ok(())", "        Ok(())",
                               "face", "--lib", "who_guesses_waits", ""),
    "snap-bomb": Mistake("cores/pg/src/ops/run.rs", "const SNAPS_OF_OBJECT: usize = 2 * SNAPS;", "const SNAPS_OF_OBJECT: usize = 2_000 * SNAPS;",
                         "pg", "--test=snapshots", "the_snapshots_of_an_object_have_a_bound", ""),
    "invented-snaps": Mistake("cores/osd/src/doubts.rs", "newest > pool.snap_seq && ", "newest == u64::MAX && ",
                              "sim", "--test=tenants", "snapshots_that_nobody_gave_out_are_refused_in_order", ""),
    "signed-for-others": Mistake("cores/mon/src/server/dispatch.rs", "entry.name = peer.name.clone();", "let _ = peer.name.clone();",
                                 "mon", "--test=rights", "lines_of_the_log_have_the_name_of_who_wrote_them", ""),
    "notes-of-osds": Mistake("cores/mon/src/server/revoke.rs", "let room = &mut room[usize::from(is_osd(name))];", "let room = &mut room[usize::from(false && is_osd(name))];",
                             "mon", "--lib", "notes_of_osds_leave_room_for_others", ""),
    "slow-disks": Mistake("cores/quorum/src/follower.rs", "if matched > self.stable {", "if matched > self.stable && false {",
                   "quorum", "--lib", "with_disks_whose_writes_take_three_seconds_there_is_a_leader_nine_tenths_of_the_time", "a leader"),
    "early-removal": Mistake("cores/mon/src/server/seats.rs", "lost.filter(|_| !self.close.is_empty())", "lost",
                      "mon", "--lib", "a_lost_voter_goes_out_when_the_new_one_has_caught_up", "Some(Remove"),
    "mute-learner": Mistake("cores/quorum/src/leader.rs", "lately(p) && (p.answered || voters.contains(id))", "lately(p) || voters.contains(id)",
                     "quorum", "--lib", "a_learner_that_never_answered_is_not_heard", "VoterId(9)"),
    "rescue": Mistake("cores/monlog/src/rescue/mod.rs", "lifted(map, epoch, !unseen.is_empty(), seat.now)", "lifted(map, epoch, false, seat.now)",
               "monlog", "--lib", "who_goes_on_alone_lets_nobody_serve_before_all_are_there_whose_maps_were_not_seen", "seen []"),
    "first-spare": Mistake("cores/mon/src/server/seats.rs", "spares.min_by_key(|name| self.failed.get(*name).copied()).cloned()", "spares.min().cloned()",
                    "mon", "--lib", "a_host_that_failed_is_passed_over_and_no_name_is_given_twice", "Some(Remove"),
    "name-twice": Mistake("bin/nacre/src/follow.rs", "mon == name && addr.ip() == at.ip()", "mon == name && addr.is_ipv4() == at.is_ipv4()",
                   "nacre", "--bin=nacre", "a_monitor_whose_name_another_host_has_is_removed", "the name was given to another host"),
    "room": Mistake("cores/mon/src/server/room.rs", "const REFUSED: u64 = 60;", "const REFUSED: u64 = 6_000;",
             "mon", "--test=room", "a_full_state_takes_only_what_makes_it_smaller_and_the_monitor_lives", "no answer to"),
    "outbox": Mistake("cores/quorum/src/machine.rs", "if let Some(old) = self.outbox.iter_mut().find(old) {",
               "if let Some(old) = self.outbox.iter_mut().filter(|_| false).find(old) {",
               "quorum", "--lib", "a_voter_whose_disk_is_stuck_keeps_few_messages", "messages after"),
    "once": Mistake("cores/monstate/src/state/done.rs", "now.saturating_sub(slice.since) > AGE + SLICE", "now.saturating_sub(slice.since) > SLICE",
             "monstate", "--lib", "an_answer_is_kept_for_ten_minutes_however_many_come", "ten thousand came since"),
    "dropped-map": Mistake("cores/mon/src/server/proposals.rs", "return self.failed(after, &why.to_string(), out);", "",
                    "mon", "--lib", "an_increment_that_does_not_fit_is_no_success", "right: [-5]"),
}


def files():
    """The tree's files, those that were not committed, too."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(argv, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return [name for name in names if name and os.path.isfile(os.path.join(ROOT, name))]


def bring(tree, changed):
    """Makes the folder a copy of the tree, but for the changed files. What is the same already stays, and need not be built again."""
    for name in files():
        with open(os.path.join(ROOT, name), "rb") as f:
            wanted = f.read()
        wanted = changed.get(name, wanted)
        path = os.path.join(tree, name)
        if os.path.exists(path):
            with open(path, "rb") as f:
                if f.read() == wanted:
                    continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(wanted)
        shutil.copymode(os.path.join(ROOT, name), path)


def changes(names):
    """Files with these mistakes in them."""
    texts = {}
    for name in names:
        mistake = MISTAKES[name]
        if mistake.file not in texts:
            with open(os.path.join(ROOT, mistake.file), encoding="utf-8") as f:
                texts[mistake.file] = f.read()
        text = texts[mistake.file]
        if text.count(mistake.old) != 1:
            raise SystemExit(f"{name}: {mistake.file} has '{mistake.old}' {text.count(mistake.old)} times")
        texts[mistake.file] = text.replace(mistake.old, mistake.new)
    return {file: text.encode() for file, text in texts.items()}


def rounds(names):
    """Puts those beside each other that have different tests."""
    some = []
    for name in names:
        tests = [{MISTAKES[other].test for other in beside} for beside in some]
        at = next((i for i, taken in enumerate(tests) if MISTAKES[name].test not in taken), len(some))
        some[at:at + 1] = [some[at] + [name] if at < len(some) else [name]]
    return some


def results(tree, names):
    """Runs the tests of these mistakes. Gives those that passed, and what the others said."""
    tests = {MISTAKES[name].test for name in names}
    targets = sorted({arg for name in names for arg in (f"-p={MISTAKES[name].package}", MISTAKES[name].target)})
    argv = ["cargo", "test", "--no-fail-fast", *targets, "--", *sorted(tests)]
    # A build in the copy leaves the tree's own alone.
    env = {"CARGO_TARGET_DIR": os.path.join(tree, "target"), **os.environ}
    run = subprocess.run(argv, cwd=tree, env=env, capture_output=True, text=True, errors="replace")
    passed, failed, at = set(), {}, None
    for line in run.stdout.splitlines():
        if found := re.match(r"test (\S+) \.\.\. ok$", line):
            passed.add(found[1].rsplit("::", 1)[-1])
        elif found := re.match(r"---- (\S+) stdout ----$", line):
            at = found[1].rsplit("::", 1)[-1]
            failed[at] = ""
        elif line == "failures:":
            at = None
        elif at:
            # What a test shows may be megabytes.
            failed[at] = (failed[at] + line[:2000] + "\n")[:20_000]
    if not passed and not failed:
        raise SystemExit(f"nothing ran: {run.stderr[-6000:]}")
    return passed, failed


def outcome(name, passed, failed):
    """Says whether a mistake was found, and how."""
    mistake = MISTAKES[name]
    if mistake.test in failed:
        found = mistake.says in failed[mistake.test]
        return found, "found by" if found else f"for another reason failed (it says: {' '.join(failed[mistake.test].split())[:500]})"
    return False, "passed" if mistake.test in passed else "did not run"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", default=os.path.join(ROOT, "target", "mistakes"))
    parser.add_argument("--each", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    tree = os.path.abspath(args.into)
    if os.path.samefile(ROOT, tree) if os.path.exists(tree) else False:
        raise SystemExit("a copy lies in a folder of its own")
    unknown = sorted(set(args.names) - set(MISTAKES))
    if unknown:
        raise SystemExit(f"there is no mistake {' '.join(unknown)}")
    names = args.names or list(MISTAKES)
    waiting = [[name] for name in names] if args.each else rounds(names)
    for name in names:
        changes([name])
    missed = []
    while waiting:
        some = waiting.pop(0)
        bring(tree, changes(some))
        passed, failed = results(tree, some)
        for name in some:
            found, how = outcome(name, passed, failed)
            print(f"{name:<16} {how}: {MISTAKES[name].test}", flush=True)
            if not MISTAKES[name].says and MISTAKES[name].test in failed:
                print(f"{name:<16} said: {failed[MISTAKES[name].test]!r}", flush=True)
            if not found and MISTAKES[name].test in failed and len(some) > 1:
                waiting.append([name])
            elif not found:
                missed.append(name)
    bring(tree, {})
    if missed:
        raise SystemExit(f"not found: {' '.join(missed)}")
    print(f"all {len(names)} were found")


if __name__ == "__main__":
    main()
