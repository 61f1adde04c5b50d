//! Commands of Ceph that are refused, each with the reason. Clients get their descriptions, so that typing one gives
//! the reason instead of a guess.

use super::{Row, Run};

const TIER: &str = "cache tiers are not part of this cluster";
const FS: &str = "there are no file systems in this cluster";
const ELECTION: &str = "monitors elect whoever has the newest log; ranks, weights and strategies have no say";
const QUORUM: &str = "a monitor takes part as long as it runs; stop it, or remove it with 'mon rm'";
const STRETCH: &str = "stretch clusters are not supported";
const WEIGHT_SETS: &str = "weight sets are not part of this cluster; the balancer works by upmap";
const BALANCER: &str = "weights are not changed by use; the balancer moves groups, see 'balancer status'";

const fn no(sig: &'static str, module: &'static str, perm: &'static str, why: &'static str) -> Row {
    Row { sig, help: "refused here: see docs/compatibility.md", module, perm, run: Run::Refuse(why) }
}

/// A command of a module of Ceph that this manager does not have.
const fn of(module: &'static str, sig: &'static str, perm: &'static str) -> Row {
    Row { sig, help: "a command of a module that this manager does not have", module: "mgr", perm, run: Run::Absent(module) }
}

pub(super) const ROWS: &[Row] = &[
    of("alerts", "alerts send", "r"),
    of("influx", "influx config-set <key:String> <value:String>", "rw"),
    of("influx", "influx config-show", "r"),
    of("influx", "influx send", "rw"),
    of("insights", "insights", "r"),
    of("insights", "insights prune-health <hours:Int req=false>", "rw"),
    of("restful", "restful create-key <key_name:String>", "rw"),
    of("restful", "restful create-self-signed-cert", "rw"),
    of("restful", "restful delete-key <key_name:String>", "rw"),
    of("restful", "restful restart", "rw"),
    of("selftest", "mgr self-test run", "rw"),
    of("selftest", "mgr self-test module <module:String>", "rw"),
    of("selftest", "mgr self-test python-version", "r"),
    of("telegraf", "telegraf config-set <key:String> <value:String>", "rw"),
    of("telegraf", "telegraf config-show", "r"),
    of("telegraf", "telegraf send", "rw"),
    of("test_orchestrator", "test_orchestrator load_data", "w"),
    of("zabbix", "zabbix config-set <key:String> <value:String>", "rw"),
    of("zabbix", "zabbix config-show", "r"),
    of("zabbix", "zabbix discovery", "r"),
    of("zabbix", "zabbix send", "rw"),
    no("telemetry show <channels:String n=N req=false>", "mgr", "r", "nothing is reported to anybody"),
    no("device monitoring on", "mgr", "rw", "the health of devices is not collected"),
    no("osd tier add-cache <pool:Poolname> <tierpool:Poolname> <size:Int range=0>", "osd", "rw", TIER),
    no("osd tier set-overlay <pool:Poolname> <overlaypool:Poolname>", "osd", "rw", TIER),
    no("osd tier rm-overlay <pool:Poolname>", "osd", "rw", TIER),
    no("osd tier remove-overlay <pool:Poolname>", "osd", "rw", TIER),
    no(
        "osd force-create-pg <pgid:Pgid> <yes_i_really_mean_it:Bool req=false>",
        "osd",
        "rw",
        "a placement group whose data is gone is not made anew; delete the pool",
    ),
    no("osd force_healthy_stretch_mode <yes_i_really_mean_it:Bool req=false>", "osd", "rw", STRETCH),
    no("osd force_recovery_stretch_mode <yes_i_really_mean_it:Bool req=false>", "osd", "rw", STRETCH),
    no(
        "osd reweight-by-utilization <oload:Int req=false> <max_change:Float req=false> <max_osds:Int req=false> <no_increasing:Choices req=false strings=--no-increasing>",
        "osd",
        "rw",
        BALANCER,
    ),
    no(
        "osd test-reweight-by-utilization <oload:Int req=false> <max_change:Float req=false> <max_osds:Int req=false> <no_increasing:Bool req=false>",
        "osd",
        "r",
        BALANCER,
    ),
    no(
        "osd reweight-by-pg <oload:Int req=false> <max_change:Float req=false> <max_osds:Int req=false> <pools:Poolname n=N req=false>",
        "osd",
        "rw",
        BALANCER,
    ),
    no(
        "osd test-reweight-by-pg <oload:Int req=false> <max_change:Float req=false> <max_osds:Int req=false> <pools:Poolname n=N req=false>",
        "osd",
        "r",
        BALANCER,
    ),
    no("osd crush weight-set create <pool:Poolname> <mode:Choices strings=flat|positional>", "osd", "rw", WEIGHT_SETS),
    no("osd crush weight-set create-compat", "osd", "rw", WEIGHT_SETS),
    no("osd crush weight-set dump", "osd", "r", WEIGHT_SETS),
    no("osd crush weight-set ls", "osd", "r", WEIGHT_SETS),
    no("osd crush weight-set reweight <pool:Poolname> <item:String> <weight:Float n=N range=0.0>", "osd", "rw", WEIGHT_SETS),
    no("osd crush weight-set reweight-compat <item:String> <weight:Float n=N range=0.0>", "osd", "rw", WEIGHT_SETS),
    no("osd crush weight-set rm <pool:Poolname>", "osd", "rw", WEIGHT_SETS),
    no("osd crush weight-set rm-compat", "osd", "rw", WEIGHT_SETS),
    no(
        "mon set-addrs <name:String> <addrs:String>",
        "mon",
        "rw",
        "start the monitor's host with `nacre up --bind ADDR`, then `ceph mon rm NAME`: it gets a monitor there",
    ),
    no("mon set-rank <name:String> <rank:Int>", "mon", "rw", ELECTION),
    no("mon set-weight <name:String> <weight:Int range=0|65535>", "mon", "rw", ELECTION),
    no("mon enable-msgr2", "mon", "rw", "only msgr2 is spoken"),
    no("mon scrub", "mon", "rw", "the checksums of a monitor's state are verified when it is read"),
    no("mon set election_strategy <strategy:String>", "mon", "rw", ELECTION),
    no("mon add disallowed_leader <name:String>", "mon", "rw", ELECTION),
    no("mon rm disallowed_leader <name:String>", "mon", "rw", ELECTION),
    no("mon set_location <name:String> <args:String goodchars=[A-Za-z0-9-_.=] n=N>", "mon", "rw", STRETCH),
    no("mon enable_stretch_mode <tiebreaker_mon:String> <new_crush_rule:String> <dividing_bucket:String>", "mon", "rw", STRETCH),
    no("mon set_new_tiebreaker <name:String> <yes_i_really_mean_it:Bool req=false>", "mon", "rw", STRETCH),
    no("fs new <fs_name:String goodchars=[A-Za-z0-9-_.]> <metadata:String> <data:String> <force:Bool req=false>", "fs", "rw", FS),
    no("fs volume create <name:String> <placement:String req=false>", "mgr", "rw", FS),
    no("fs authorize <filesystem:String> <entity:String> <caps:String n=N>", "auth", "rwx", FS),
    no("telemetry on <license:String req=false>", "mgr", "rw", "nothing is reported to anybody"),
    no("tell <target:Name> <args:String n=N>", "mon", "rw", "the client sends these to the daemon itself"),
    no("quorum enter", "mon", "rw", QUORUM),
    no("quorum exit", "mon", "rw", QUORUM),
    no(
        "sync_force <validate:Choices req=false strings=--yes-i-really-mean-it>",
        "mon",
        "rw",
        "a monitor that lacks something gets it by itself",
    ),
    no("pg getmap", "pg", "r", "there is no binary map of placement groups; 'pg dump -f json' has all of it"),
    no("compact", "mon", "rw", "the monitor folds its log by itself"),
];
