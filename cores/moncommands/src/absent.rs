//! Commands on parts of Ceph that are not here: file systems, NFS, a deploying orchestrator, and modules of the
//! manager. Clients get their descriptions, with Ceph's arguments, so that a command that somebody types is answered
//! with what is missing instead of a guess, and with Ceph's number where what it names does not exist.

use super::{Cx, Row, Run};
use grammar::{Args, Outcome, refuse};

const FS: &str = "there are no file systems in this cluster";
const NOBODY: &str = "nothing is reported to anybody";
const HEALTH: &str = "the health of devices is not collected";

const fn no(sig: &'static str, module: &'static str, perm: &'static str, why: &'static str) -> Row {
    Row { sig, help: "refused here: see docs/commands.md", module, perm, run: Run::Refuse(why) }
}

/// A command of a module of Ceph that this manager does not have.
const fn of(module: &'static str, sig: &'static str, perm: &'static str) -> Row {
    Row { sig, help: "a command of a module that this manager does not have", module: "mgr", perm, run: Run::Absent(module) }
}

/// A command on a file system, which does not exist.
const fn fs(sig: &'static str, module: &'static str, perm: &'static str) -> Row {
    Row { sig, help: "a command on a file system: there are none", module, perm, run: Run::Do(no_fs) }
}

/// The same on what Ceph's module calls a volume.
const fn volume(sig: &'static str, perm: &'static str) -> Row {
    Row { sig, help: "a command on a file system: there are none", module: "mgr", perm, run: Run::Do(no_volume) }
}

/// A command that makes an orchestrator do what hosts do here by themselves.
const fn orch(sig: &'static str, perm: &'static str) -> Row {
    Row { sig, help: "refused here: hosts run their own daemons", module: "mgr", perm, run: Run::Do(no_deployment) }
}

fn no_fs(_: &mut Cx<'_>, args: &Args) -> Outcome {
    refuse!(ENOENT, "filesystem '{}' not found: {FS}", args.str("fs_name"))
}

pub(super) fn no_volume(_: &mut Cx<'_>, args: &Args) -> Outcome {
    match args.str("vol_name") {
        "" => refuse!(EINVAL, "no file system is named"),
        name => refuse!(ENOENT, "FS '{name}' not found"),
    }
}

fn no_deployment(_: &mut Cx<'_>, _: &Args) -> Outcome {
    refuse!(
        ENOENT,
        "this orchestrator deploys nothing: each host runs its own daemons (`nacre up`, `nacre join`, `nacre leave`, `nacre disk`); \
         `orch status`, `ls`, `ps`, `host ls`, `host drain`, `host maintenance`, `device ls` and `osd rm` are what it does"
    )
}

pub(super) const ROWS: &[Row] = &[
    fs("fs add_data_pool <fs_name:String> <pool:String>", "mds", "rw"),
    fs(
        "fs compat <fs_name:String> <subop:Choices strings=rm_compat|rm_incompat|add_compat|add_incompat> <feature:Int> <feature_str:String req=false>",
        "fs",
        "rw",
    ),
    fs("fs compat show <fs_name:String>", "mds", "r"),
    fs("fs fail <fs_name:String>", "fs", "rw"),
    fs("fs get <fs_name:String>", "fs", "r"),
    fs("fs mirror disable <fs_name:String>", "mds", "rw"),
    fs("fs mirror enable <fs_name:String>", "mds", "rw"),
    fs("fs mirror peer_add <fs_name:String> <uuid:String> <remote_cluster_spec:String> <remote_fs_name:String>", "mds", "rw"),
    fs("fs mirror peer_remove <fs_name:String> <uuid:String>", "mds", "rw"),
    fs("fs required_client_features <fs_name:String> <subop:Choices strings=add|rm> <val:String>", "mds", "rw"),
    fs("fs reset <fs_name:String> <yes_i_really_mean_it:Bool req=false>", "fs", "rw"),
    fs("fs rm <fs_name:String> <yes_i_really_mean_it:Bool req=false>", "fs", "rw"),
    fs("fs rm_data_pool <fs_name:String> <pool:String>", "mds", "rw"),
    fs(
        "fs set <fs_name:String> <var:Choices strings=max_mds|max_file_size|allow_new_snaps|inline_data|cluster_down|allow_dirfrags|balancer|standby_count_wanted|session_timeout|session_autoclose|allow_standby_replay|down|joinable|min_compat_client> <val:String> <yes_i_really_mean_it:Bool req=false> <yes_i_really_really_mean_it:Bool req=false>",
        "mds",
        "rw",
    ),
    fs("fs set-default <fs_name:String>", "fs", "rw"),
    fs("fs set_default <fs_name:String>", "fs", "rw"),
    no(
        "fs flag set <flag_name:Choices strings=enable_multiple> <val:String> <yes_i_really_mean_it:Bool req=false>",
        "fs",
        "rw",
        FS,
    ),
    no("mds add_data_pool <pool:String>", "mds", "rw", FS),
    no("mds cluster_down", "mds", "rw", FS),
    no("mds cluster_up", "mds", "rw", FS),
    no("mds compat rm_compat <feature:Int>", "mds", "rw", FS),
    no("mds compat rm_incompat <feature:Int>", "mds", "rw", FS),
    no("mds compat show", "mds", "r", FS),
    no("mds deactivate <role:String>", "mds", "rw", FS),
    no("mds dump <epoch:Int req=false>", "mds", "r", FS),
    no("mds fail <role_or_gid:String>", "mds", "rw", FS),
    no("mds freeze <role_or_gid:String> <val:String>", "mds", "rw", FS),
    no("mds getmap <epoch:Int req=false>", "mds", "r", FS),
    no("mds newfs <metadata:Int> <data:Int> <yes_i_really_mean_it:Bool req=false>", "mds", "rw", FS),
    no("mds ok-to-stop <ids:String n=N>", "mds", "r", FS),
    no("mds remove_data_pool <pool:String>", "mds", "rw", FS),
    no("mds repaired <role:String>", "mds", "rw", FS),
    no("mds rm <gid:Int>", "mds", "rw", FS),
    no("mds rm_data_pool <pool:String>", "mds", "rw", FS),
    no("mds rmfailed <role:String> <yes_i_really_mean_it:Bool req=false>", "mds", "rw", FS),
    no(
        "mds set <var:Choices strings=max_mds|max_file_size|inline_data|allow_new_snaps|allow_multimds|allow_multimds_snaps|allow_dirfrags> <val:String> <yes_i_really_mean_it:Bool req=false>",
        "mds",
        "rw",
        FS,
    ),
    no("mds set_max_mds <maxmds:Int>", "mds", "rw", FS),
    no("mds set_state <gid:Int> <state:Int>", "mds", "rw", FS),
    no("mds stop <role:String>", "mds", "rw", FS),
    no("mds tell <who:String> <args:String n=N>", "mds", "rw", FS),
    no(
        "device light <enable:Choices strings=on|off> <devid:String> <light_type:Choices req=false strings=ident|fault> <force:Bool req=false>",
        "mgr",
        "rw",
        HEALTH,
    ),
    no("device predict-life-expectancy <devid:String>", "mgr", "r", HEALTH),
    no("device rm-life-expectancy <devid:String>", "mgr", "rw", HEALTH),
    no("device scrape-daemon-health-metrics <who:String>", "mgr", "r", HEALTH),
    no("device scrape-health-metrics <devid:String req=false>", "mgr", "r", HEALTH),
    no("device set-life-expectancy <devid:String> <from:String> <to:String>", "mgr", "rw", HEALTH),
    volume("fs clone cancel <vol_name:String> <clone_name:String> <group_name:String req=false>", "r"),
    volume("fs clone status <vol_name:String> <clone_name:String> <group_name:String req=false>", "r"),
    volume(
        "fs subvolume authorize <vol_name:String> <sub_name:String> <auth_id:String> <group_name:String req=false> <access_level:String req=false> <tenant_id:String req=false> <allow_existing_id:Bool req=false>",
        "rw",
    ),
    volume("fs subvolume authorized_list <vol_name:String> <sub_name:String> <group_name:String req=false>", "r"),
    volume(
        "fs subvolume create <vol_name:String> <sub_name:String> <size:Int req=false> <group_name:String req=false> <pool_layout:String req=false> <uid:Int req=false> <gid:Int req=false> <mode:String req=false> <namespace_isolated:Bool req=false>",
        "rw",
    ),
    volume("fs subvolume deauthorize <vol_name:String> <sub_name:String> <auth_id:String> <group_name:String req=false>", "rw"),
    volume("fs subvolume evict <vol_name:String> <sub_name:String> <auth_id:String> <group_name:String req=false>", "rw"),
    volume("fs subvolume exist <vol_name:String> <group_name:String req=false>", "r"),
    volume("fs subvolume getpath <vol_name:String> <sub_name:String> <group_name:String req=false>", "rw"),
    volume("fs subvolume info <vol_name:String> <sub_name:String> <group_name:String req=false>", "r"),
    volume("fs subvolume metadata get <vol_name:String> <sub_name:String> <key_name:String> <group_name:String req=false>", "r"),
    volume("fs subvolume metadata ls <vol_name:String> <sub_name:String> <group_name:String req=false>", "r"),
    volume(
        "fs subvolume metadata rm <vol_name:String> <sub_name:String> <key_name:String> <group_name:String req=false> <force:Bool req=false>",
        "rw",
    ),
    volume(
        "fs subvolume metadata set <vol_name:String> <sub_name:String> <key_name:String> <value:String> <group_name:String req=false>",
        "rw",
    ),
    volume(
        "fs subvolume pin <vol_name:String> <sub_name:String> <pin_type:Choices strings=export|distributed|random> <pin_setting:String> <group_name:String req=false>",
        "rw",
    ),
    volume(
        "fs subvolume resize <vol_name:String> <sub_name:String> <new_size:String> <group_name:String req=false> <no_shrink:Bool req=false>",
        "rw",
    ),
    volume(
        "fs subvolume rm <vol_name:String> <sub_name:String> <group_name:String req=false> <force:Bool req=false> <retain_snapshots:Bool req=false>",
        "rw",
    ),
    volume(
        "fs subvolume snapshot clone <vol_name:String> <sub_name:String> <snap_name:String> <target_sub_name:String> <pool_layout:String req=false> <group_name:String req=false> <target_group_name:String req=false>",
        "rw",
    ),
    volume(
        "fs subvolume snapshot create <vol_name:String> <sub_name:String> <snap_name:String> <group_name:String req=false>",
        "rw",
    ),
    volume(
        "fs subvolume snapshot info <vol_name:String> <sub_name:String> <snap_name:String> <group_name:String req=false>",
        "r",
    ),
    volume("fs subvolume snapshot ls <vol_name:String> <sub_name:String> <group_name:String req=false>", "r"),
    volume(
        "fs subvolume snapshot metadata get <vol_name:String> <sub_name:String> <snap_name:String> <key_name:String> <group_name:String req=false>",
        "r",
    ),
    volume(
        "fs subvolume snapshot metadata ls <vol_name:String> <sub_name:String> <snap_name:String> <group_name:String req=false>",
        "r",
    ),
    volume(
        "fs subvolume snapshot metadata rm <vol_name:String> <sub_name:String> <snap_name:String> <key_name:String> <group_name:String req=false> <force:Bool req=false>",
        "rw",
    ),
    volume(
        "fs subvolume snapshot metadata set <vol_name:String> <sub_name:String> <snap_name:String> <key_name:String> <value:String> <group_name:String req=false>",
        "rw",
    ),
    volume(
        "fs subvolume snapshot protect <vol_name:String> <sub_name:String> <snap_name:String> <group_name:String req=false>",
        "rw",
    ),
    volume(
        "fs subvolume snapshot rm <vol_name:String> <sub_name:String> <snap_name:String> <group_name:String req=false> <force:Bool req=false>",
        "rw",
    ),
    volume(
        "fs subvolume snapshot unprotect <vol_name:String> <sub_name:String> <snap_name:String> <group_name:String req=false>",
        "rw",
    ),
    volume(
        "fs subvolumegroup create <vol_name:String> <group_name:String> <size:Int req=false> <pool_layout:String req=false> <uid:Int req=false> <gid:Int req=false> <mode:String req=false>",
        "rw",
    ),
    volume("fs subvolumegroup exist <vol_name:String>", "r"),
    volume("fs subvolumegroup getpath <vol_name:String> <group_name:String>", "r"),
    volume("fs subvolumegroup info <vol_name:String> <group_name:String>", "r"),
    volume(
        "fs subvolumegroup pin <vol_name:String> <group_name:String> <pin_type:Choices strings=export|distributed|random> <pin_setting:String>",
        "rw",
    ),
    volume("fs subvolumegroup resize <vol_name:String> <group_name:String> <new_size:String> <no_shrink:Bool req=false>", "rw"),
    volume("fs subvolumegroup rm <vol_name:String> <group_name:String> <force:Bool req=false>", "rw"),
    volume("fs subvolumegroup snapshot create <vol_name:String> <group_name:String> <snap_name:String>", "rw"),
    volume("fs subvolumegroup snapshot ls <vol_name:String> <group_name:String>", "r"),
    volume("fs subvolumegroup snapshot rm <vol_name:String> <group_name:String> <snap_name:String> <force:Bool req=false>", "rw"),
    volume("fs volume info <vol_name:String> <human_readable:Bool req=false>", "r"),
    volume("fs volume rm <vol_name:String> <yes_i_really_mean_it:String req=false>", "rw"),
    of("stats", "fs perf stats <mds_rank:String req=false> <client_id:String req=false> <client_ip:String req=false>", "r"),
    of(
        "snap_schedule",
        "fs snap-schedule activate <path:String> <repeat:String req=false> <start:String req=false> <fs:String req=false>",
        "w",
    ),
    of(
        "snap_schedule",
        "fs snap-schedule add <path:String> <snap_schedule:String req=false> <start:String req=false> <fs:String req=false>",
        "w",
    ),
    of(
        "snap_schedule",
        "fs snap-schedule deactivate <path:String> <repeat:String req=false> <start:String req=false> <fs:String req=false>",
        "w",
    ),
    of(
        "snap_schedule",
        "fs snap-schedule list <path:String req=false> <recursive:Bool req=false> <fs:String req=false> <format:String req=false>",
        "r",
    ),
    of(
        "snap_schedule",
        "fs snap-schedule remove <path:String> <repeat:String req=false> <start:String req=false> <fs:String req=false>",
        "w",
    ),
    of(
        "snap_schedule",
        "fs snap-schedule retention add <path:String> <retention_spec_or_period:String> <retention_count:String req=false> <fs:String req=false>",
        "w",
    ),
    of(
        "snap_schedule",
        "fs snap-schedule retention remove <path:String> <retention_spec_or_period:String> <retention_count:String req=false> <fs:String req=false>",
        "w",
    ),
    of("snap_schedule", "fs snap-schedule status <path:String req=false> <fs:String req=false> <format:String req=false>", "r"),
    of("mirroring", "fs snapshot mirror add <fs_name:String> <path:String req=false>", "w"),
    of("mirroring", "fs snapshot mirror daemon status", "r"),
    of("mirroring", "fs snapshot mirror dirmap <fs_name:String> <path:String req=false>", "r"),
    of("mirroring", "fs snapshot mirror disable <fs_name:String req=false>", "w"),
    of("mirroring", "fs snapshot mirror enable <fs_name:String req=false>", "w"),
    of(
        "mirroring",
        "fs snapshot mirror peer_add <fs_name:String> <remote_cluster_spec:String req=false> <remote_fs_name:String req=false> <remote_mon_host:String req=false> <cephx_key:String req=false>",
        "w",
    ),
    of(
        "mirroring",
        "fs snapshot mirror peer_bootstrap create <fs_name:String> <client_name:String> <site_name:String req=false>",
        "w",
    ),
    of("mirroring", "fs snapshot mirror peer_bootstrap import <fs_name:String> <token:String req=false>", "w"),
    of("mirroring", "fs snapshot mirror peer_list <fs_name:String req=false>", "r"),
    of("mirroring", "fs snapshot mirror peer_remove <fs_name:String> <peer_uuid:String req=false>", "w"),
    of("mirroring", "fs snapshot mirror remove <fs_name:String> <path:String req=false>", "w"),
    of("mirroring", "fs snapshot mirror show distribution <fs_name:String req=false>", "r"),
    of("selftest", "mgr self-test background start <workload:String>", "rw"),
    of("selftest", "mgr self-test background stop", "rw"),
    of("selftest", "mgr self-test cluster-log <channel:String> <priority:String> <message:String>", "rw"),
    of("selftest", "mgr self-test config get <key:String>", "rw"),
    of("selftest", "mgr self-test config get_localized <key:String>", "rw"),
    of("selftest", "mgr self-test health clear <checks:String n=N>", "rw"),
    of("selftest", "mgr self-test health set <checks:String>", "rw"),
    of("selftest", "mgr self-test insights_set_now_offset <hours:String>", "rw"),
    of("selftest", "mgr self-test remote", "rw"),
    of("nfs", "nfs cluster config get <cluster_id:String>", "r"),
    of("nfs", "nfs cluster config reset <cluster_id:String>", "rw"),
    of("nfs", "nfs cluster config set <cluster_id:String>", "rw"),
    of(
        "nfs",
        "nfs cluster create <cluster_id:String> <placement:String req=false> <ingress:Bool req=false> <virtual_ip:String req=false> <port:Int req=false>",
        "rw",
    ),
    of("nfs", "nfs cluster delete <cluster_id:String>", "rw"),
    of("nfs", "nfs cluster info <cluster_id:String req=false>", "r"),
    of("nfs", "nfs cluster ls", "r"),
    of("nfs", "nfs cluster rm <cluster_id:String>", "rw"),
    of("nfs", "nfs export apply <cluster_id:String>", "rw"),
    of(
        "nfs",
        "nfs export create cephfs <cluster_id:String> <pseudo_path:String> <fsname:String> <path:String req=false> <readonly:Bool req=false> <client_addr:String n=N req=false> <squash:String req=false> <sectype:String n=N req=false>",
        "rw",
    ),
    of(
        "nfs",
        "nfs export create rgw <cluster_id:String> <pseudo_path:String> <bucket:String req=false> <user_id:String req=false> <readonly:Bool req=false> <client_addr:String n=N req=false> <squash:String req=false> <sectype:String n=N req=false>",
        "rw",
    ),
    of("nfs", "nfs export delete <cluster_id:String> <pseudo_path:String>", "rw"),
    of("nfs", "nfs export get <cluster_id:String> <pseudo_path:String>", "r"),
    of("nfs", "nfs export info <cluster_id:String> <pseudo_path:String>", "r"),
    of("nfs", "nfs export ls <cluster_id:String> <detailed:Bool req=false>", "r"),
    of("nfs", "nfs export rm <cluster_id:String> <pseudo_path:String>", "rw"),
    orch(
        "orch apply <service_type:Choices req=false strings=mon|mgr|rbd-mirror|cephfs-mirror|crash|alertmanager|grafana|node-exporter|prometheus|mds|rgw|nfs|iscsi|cephadm-exporter|snmp-gateway> <placement:String req=false> <dry_run:Bool req=false> <format:Choices req=false strings=plain|json|json-pretty|yaml|xml-pretty|xml> <unmanaged:Bool req=false> <no_overwrite:Bool req=false>",
        "rw",
    ),
    orch(
        "orch apply iscsi <pool:String> <api_user:String> <api_password:String> <trusted_ip_list:String req=false> <placement:String req=false> <unmanaged:Bool req=false> <dry_run:Bool req=false> <format:Choices req=false strings=plain|json|json-pretty|yaml|xml-pretty|xml> <no_overwrite:Bool req=false>",
        "rw",
    ),
    orch(
        "orch apply mds <fs_name:String> <placement:String req=false> <dry_run:Bool req=false> <unmanaged:Bool req=false> <format:Choices req=false strings=plain|json|json-pretty|yaml|xml-pretty|xml> <no_overwrite:Bool req=false>",
        "rw",
    ),
    orch(
        "orch apply nfs <svc_id:String> <placement:String req=false> <format:Choices req=false strings=plain|json|json-pretty|yaml|xml-pretty|xml> <port:Int req=false> <dry_run:Bool req=false> <unmanaged:Bool req=false> <no_overwrite:Bool req=false>",
        "rw",
    ),
    orch(
        "orch apply osd <all_available_devices:Bool req=false> <format:Choices req=false strings=plain|json|json-pretty|yaml|xml-pretty|xml> <unmanaged:Bool req=false> <dry_run:Bool req=false> <no_overwrite:Bool req=false>",
        "rw",
    ),
    orch(
        "orch apply rgw <svc_id:String> <placement:String req=false> <realm:String req=false> <zone:String req=false> <networks:String n=N req=false> <port:Int req=false> <ssl:Bool req=false> <dry_run:Bool req=false> <format:Choices req=false strings=plain|json|json-pretty|yaml|xml-pretty|xml> <unmanaged:Bool req=false> <no_overwrite:Bool req=false>",
        "rw",
    ),
    orch(
        "orch apply snmp-gateway <snmp_version:Choices strings=V2c|V3> <destination:String> <port:Int req=false> <engine_id:String req=false> <auth_protocol:Choices req=false strings=MD5|SHA> <privacy_protocol:Choices req=false strings=DES|AES> <placement:String req=false> <unmanaged:Bool req=false> <dry_run:Bool req=false> <format:Choices req=false strings=plain|json|json-pretty|yaml|xml-pretty|xml> <no_overwrite:Bool req=false>",
        "rw",
    ),
    orch("orch cancel", "rw"),
    orch("orch daemon <action:Choices strings=start|stop|restart|reconfig> <name:String>", "rw"),
    orch(
        "orch daemon add <daemon_type:Choices req=false strings=mon|mgr|rbd-mirror|cephfs-mirror|crash|alertmanager|grafana|node-exporter|prometheus|mds|rgw|nfs|iscsi|cephadm-exporter|snmp-gateway> <placement:String req=false>",
        "rw",
    ),
    orch(
        "orch daemon add iscsi <pool:String> <api_user:String> <api_password:String> <trusted_ip_list:String req=false> <placement:String req=false>",
        "rw",
    ),
    orch("orch daemon add mds <fs_name:String> <placement:String req=false>", "rw"),
    orch("orch daemon add nfs <svc_id:String> <placement:String req=false>", "rw"),
    orch("orch daemon add osd <svc_arg:String req=false> <method:Choices req=false strings=raw|lvm>", "rw"),
    orch("orch daemon add rgw <svc_id:String> <placement:String req=false> <port:Int req=false> <ssl:Bool req=false>", "rw"),
    orch("orch daemon redeploy <name:String> <image:String req=false>", "rw"),
    orch("orch daemon rm <names:String n=N> <force:Bool req=false>", "rw"),
    orch("orch device zap <hostname:String> <path:String> <force:Bool req=false>", "rw"),
    orch(
        "orch host add <hostname:String> <addr:String req=false> <labels:String n=N req=false> <maintenance:Bool req=false>",
        "rw",
    ),
    orch("orch host label add <hostname:String> <label:String>", "rw"),
    orch("orch host label rm <hostname:String> <label:String> <force:Bool req=false>", "rw"),
    orch("orch host rescan <hostname:String> <with_summary:Bool req=false>", "rw"),
    orch("orch host rm <hostname:String> <force:Bool req=false> <offline:Bool req=false>", "rw"),
    orch("orch host set-addr <hostname:String> <addr:String>", "rw"),
    orch("orch pause", "rw"),
    orch("orch resume", "rw"),
    orch("orch rm <service_name:String> <force:Bool req=false>", "rw"),
    orch("orch set backend <module_name:String req=false>", "rw"),
    orch("orch upgrade check <image:String req=false> <ceph_version:String req=false>", "rw"),
    orch("orch upgrade ls <image:String req=false> <tags:Bool req=false>", "r"),
    orch("orch upgrade pause", "rw"),
    orch("orch upgrade resume", "rw"),
    orch(
        "orch upgrade start <image:String req=false> <ceph_version:String req=false> <daemon_types:String req=false> <hosts:String req=false> <services:String req=false> <limit:Int req=false>",
        "rw",
    ),
    orch("orch upgrade status", "rw"),
    orch("orch upgrade stop", "rw"),
    no("telemetry send <endpoint:Choices n=N req=false strings=ceph|device> <license:String req=false>", "mgr", "rw", NOBODY),
    no("telemetry show-all", "mgr", "r", NOBODY),
    no("telemetry show-device", "mgr", "r", NOBODY),
];
