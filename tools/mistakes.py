#!/usr/bin/python3
"""Puts mistakes that were made once back into the source, and says which tests find them.

usage: mistakes.py [NAME ...]        all that are named, or all, at once: one build
       mistakes.py --each [NAME ...] one after the other: a build for each

It changes the tree in which it runs and puts it back, so it is run in a copy. A mistake is a text in a file and what it becomes; a test that
passes nevertheless ends the run with exit code 1, and so does a text that is not there any more. docs/testing.md says what each one lets
somebody do.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")

# Name: file, text, what it becomes, package, target, test.
MISTAKES = {
    "token": ("cores/moncommands/src/join.rs", 'one host may join", "auth", "rwx", token)', 'one host may join", "mon", "rw", token)',
              "mon", "--test=rights", "who_may_write_at_the_monitors_makes_no_administrator"),
    "ticket": ("cores/msgr/src/auth/key.rs", "ring::hmac::verify(&self.signer(), &signed, signature).map_err(|_| AuthError::WrongKey)?;", "let _ = (signed, signature);",
               "msgr", "--lib", "a_carrier_changes_no_bit_of_a_signed_ticket"),
    "network": ("cores/msgr/src/messenger/accept.rs", "ip: Some(conn.remote.ip()),", "ip: addr.addr.map(|at| at.ip()),",
                "mon", "--test=rights", "rights_of_a_network_hold_for_the_sockets_address"),
    "copy-from": ("cores/osd/src/admit.rs", "may_do(caps, map, op, &needs) && may_copy(caps, map, op)? {", "may_do(caps, map, op, &needs) {",
                  "osd", "--lib", "who_copies_must_be_allowed_to_read_what_is_copied"),
    "fences": ("values/caps/src/constraint.rs", "Self::Client => is_client(argument),", "Self::Client => argument.contains('/'),",
               "caps", "--test=meaning", "a_client_may_fence_an_instance_but_not_a_host"),
    "audit": ("cores/mon/src/server/lines.rs", "serde_json::Value::from(cut(text, VALUE)).to_string()", "serde_json::Value::from(text).to_string()",
              "mon", "--lib", "arguments_are_cut_and_cannot_look_like_another_line"),
    "services": ("cores/mon/src/server/dispatch.rs", "const SERVICE: usize = 64 << 10;", "const SERVICE: usize = 64 << 20;",
                 "mon", "--test=floods", "what_services_say_of_themselves_has_a_bound"),
    "sessions": ("cores/msgr/src/messenger/crowd.rs", "of_name >= (limits.connections / 2).max(1)", "of_name == usize::MAX",
                 "msgr", "--lib", "nobody_fills_the_room_alone_and_places_come_free"),
    "bootstrap": ("values/caps/src/constraint.rs", "Self::RbdProfiles | Self::RbdProfilesOrAbsent => only_rbd_profiles(argument),",
                  'Self::RbdProfiles | Self::RbdProfilesOrAbsent => argument.starts_with("profile rbd"),',
                  "caps", "--test=meaning", "bootstrap_keys_make_keys_of_one_kind"),
    "watches": ("cores/pg/src/ops/watch.rs", "const OF_CLIENT: usize = 64;", "const OF_CLIENT: usize = 64 << 10;",
                "pg", "--test=watches", "watches_of_a_client_and_of_an_object_have_a_bound"),
    "revocation": ("cores/mon/src/server/revoke.rs", "const LAST_WORD: Duration = Duration::from_secs(1);",
                   "const LAST_WORD: Duration = Duration::from_secs(3600);", "mon", "--test=rights", "removed_rights_end_what_is_open"),
    "figures": ("cores/mon/src/server/dispatch.rs", 'Statfs::KIND | GetPoolStats::KIND => self.may(session, "pg", true, false),',
                "Statfs::KIND | GetPoolStats::KIND => true,", "mon", "--test=rights", "maps_and_figures_are_for_those_who_may_read"),
    "secrets": ("cores/mon/src/server/lines.rs", "SECRETS.iter().any(|word| option.contains(word))", 'SECRETS.iter().any(|word| option == *word)',
                "mon", "--lib", "secrets_are_left_out"),
    "token-file": ("bin/nacre/src/token.rs", "text.strip_prefix('@')", "text.strip_prefix('\\u{1}')",
                   "nacre", "--bin=nacre", "a_token_comes_from_a_file_too"),
    "core-files": ("bin/nacre/src/main.rs", 'std::env::var_os(CORE_DUMPS).is_none_or(|value| value != "1")', "std::env::var_os(CORE_DUMPS).is_some()",
                   "nacre", "--test=up", "a_cluster_starts_goes_on_and_grows"),
    "umask": ("edge/runtime/src/sys.rs", "libc::umask(before | 0o022)", "libc::umask(before)",
              "nacre", "--test=up", "a_cluster_starts_goes_on_and_grows"),
    "forged-task": ("cores/manager/src/desk/tasks.rs", "here && shown &&", "(here || shown) &&",
                    "manager", "--lib", "a_stored_task_counts_for_its_own_place_alone"),
    "forged-order": ("cores/manager/src/desk/reach.rs", "Some((by, ordered)) if ordered == content => By::parse(by),", "Some((by, _)) => By::parse(by),",
                     "manager", "--lib", "who_ordered_a_stored_task_is_known_to_the_monitors_alone"),
    "deputy": ("cores/images/src/work.rs", "Ok(map) if reach.allows(&map, &request) => {}", "Ok(map) if reach.allows(&map, &request) || true => {}",
               "images", "--test=interruptions", "a_parent_that_one_may_not_read_is_not_copied"),
    "forged-pool": ("cores/images/src/image.rs", "data_pool >= 0 && data_pool != at.pool && prefix !=", "data_pool >= 0 && data_pool == at.pool && prefix !=",
                    "images", "--test=interruptions", "data_in_a_pool_where_one_has_no_rights_is_not_removed"),
    "slow-disks": ("cores/quorum/src/follower.rs", "if matched > self.stable {", "if matched > self.stable && false {",
                   "quorum", "--lib", "with_disks_whose_writes_take_three_seconds_there_is_a_leader_nine_tenths_of_the_time"),
    "early-removal": ("cores/mon/src/server/seats.rs", "lost.filter(|_| !self.close.is_empty())", "lost",
                      "mon", "--lib", "a_lost_voter_goes_out_when_the_new_one_has_caught_up"),
    "mute-learner": ("cores/quorum/src/leader.rs", "lately(p) && (p.answered || voters.contains(id))", "lately(p) || voters.contains(id)",
                     "quorum", "--lib", "a_learner_that_never_answered_is_not_heard"),
    "rescue": ("cores/monlog/src/rescue/mod.rs", "lifted(map, epoch, !unseen.is_empty(), seat.now)", "lifted(map, epoch, false, seat.now)",
               "monlog", "--lib", "who_goes_on_alone_lets_nobody_serve_before_all_are_there_whose_maps_were_not_seen"),
    "first-spare": ("cores/mon/src/server/seats.rs", "spares.min_by_key(|name| self.failed.get(*name).copied()).cloned()", "spares.min().cloned()",
                    "mon", "--lib", "a_host_that_failed_is_passed_over_and_no_name_is_given_twice"),
    "name-twice": ("bin/nacre/src/follow.rs", "mon == name && addr.ip() == at.ip()", "mon == name && addr.is_ipv4() == at.is_ipv4()",
                   "nacre", "--bin=nacre", "a_monitor_whose_name_another_host_has_is_removed"),
    "room": ("cores/mon/src/server/room.rs", "const REFUSED: u64 = 60;", "const REFUSED: u64 = 6_000;",
             "mon", "--test=room", "a_full_state_takes_only_what_makes_it_smaller_and_the_monitor_lives"),
    "outbox": ("cores/quorum/src/machine.rs", "if let Some(old) = self.outbox.iter_mut().find(old) {",
               "if let Some(old) = self.outbox.iter_mut().filter(|_| false).find(old) {",
               "quorum", "--lib", "a_voter_whose_disk_is_stuck_keeps_few_messages"),
    "once": ("cores/monstate/src/state/done.rs", "now.saturating_sub(slice.since) > AGE + SLICE", "now.saturating_sub(slice.since) > SLICE",
             "monstate", "--lib", "an_answer_is_kept_for_ten_minutes_however_many_come"),
    "dropped-map": ("cores/mon/src/server/proposals.rs", "return self.failed(after, &why.to_string(), out);", "",
                    "mon", "--lib", "an_increment_that_does_not_fit_is_no_success"),
}


def put_in(names):
    """Changes the files; gives their former text."""
    before = {}
    for name in names:
        file, old, new = MISTAKES[name][:3]
        path = os.path.join(ROOT, file)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        before.setdefault(path, text)
        if text.count(old) != 1:
            put_back(before)
            raise SystemExit(f"{name}: {file} has '{old}' {text.count(old)} times")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace(old, new))
    return before


def put_back(before):
    for path, text in before.items():
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def results(names):
    """Runs the tests of these mistakes; gives the outcome of each test that ran."""
    tests = {MISTAKES[name][5] for name in names}
    targets = sorted({arg for name in names for arg in (f"-p={MISTAKES[name][3]}", MISTAKES[name][4])})
    argv = ["cargo", "test", "--no-fail-fast", *targets, "--", *sorted(tests)]
    run = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    found = {}
    for path, outcome in re.findall(r"^test (\S+) \.\.\. (ok|FAILED)", run.stdout, re.M):
        found[path.rsplit("::", 1)[-1]] = outcome
    if not found:
        raise SystemExit(f"nothing ran: {run.stderr[-3000:]}")
    return found


def main():
    names = [a for a in sys.argv[1:] if a != "--each"] or list(MISTAKES)
    rounds = [[name] for name in names] if "--each" in sys.argv else [names]
    missed = []
    for some in rounds:
        before = put_in(some)
        try:
            found = results(some)
        finally:
            put_back(before)
        for name in some:
            outcome = found.get(MISTAKES[name][5], "did not run")
            print(f"{name:<14} {'found by' if outcome == 'FAILED' else outcome + ':'} {MISTAKES[name][5]}", flush=True)
            missed += [name] if outcome != "FAILED" else []
    if missed:
        raise SystemExit(f"not found: {' '.join(missed)}")


if __name__ == "__main__":
    main()
