//! `nacre join`: this host becomes a part of a cluster. Then it runs as with `nacre up`.

use crate::cli::{Join, Up, YesNo};
use crate::client::{Client, Failure};
use crate::initial::{ADMIN_CAPS, MON_CAPS, OSD_CAPS};
use crate::plan;
use crate::state::{self, Around, MonState, OsdState, State};
use crate::token::{self, Invitation};
use crate::up::{self, Role};
use crate::{host, keys, wipe};
use anyhow::{Context, Result, bail};
use runtime::process::Signals;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;

/// Gifts of the cluster to a host that joins.
struct Welcome {
    mon_key: [u8; 16],
    admin_key: [u8; 16],
    monitors: Vec<(String, SocketAddr)>,
    /// Name of the monitor that it gets, if it gets one.
    seat: Option<String>,
}

/// Runs `nacre join`; gives the exit code.
pub(crate) fn join(args: &Join, signals: Signals) -> Result<u8> {
    let up = as_up(args);
    let dir = std::path::absolute(&args.dir).with_context(|| args.dir.display().to_string())?;
    let invitation = Invitation::given(&args.token)?;
    if let Some(state) = State::load(&dir)? {
        let fsid = state.fsid()?;
        if fsid != invitation.fsid {
            bail!("{} holds a part of cluster {fsid}; the token is of cluster {}", dir.display(), invitation.fsid);
        }
        bail!("this host has joined already; `nacre up --dir {}` starts what it has", dir.display());
    }
    crate::leave::refuse_left(&dir)?;
    if args.bind.is_loopback() || args.bind.is_unspecified() {
        bail!("other hosts cannot reach {}: --bind must name an address of this host in their network", args.bind);
    }
    if invitation.has_ended() {
        bail!("the token has ended; `nacre token` on a host of the cluster makes another one");
    }
    let mut state = State::of(invitation.fsid);
    state.remember(Some(args.bind), args.port, None);
    state.cluster_bind = state.cluster_bind(args.cluster_bind, args.bind)?;
    state.around = Some(Around { monitors: invitation.monitors.clone(), cephx: invitation.cephx });
    state.location = args.location.as_ref().map(ToString::to_string);
    plan::osds(&mut state, &up)?;
    let cleared = if args.wipe { wipe::plan(&state, &dir)? } else { Vec::new() };
    for osd in &state.osds {
        plan::usable_after(osd, &dir, &cleared)?;
    }
    drop(host::listen(args.bind, state.port(args.port))?);

    let welcome = redeem(&invitation, args)?;
    prepare(&dir, &mut state, &welcome, &invitation)?;
    if args.again {
        tell_of_former_osds(&state, &welcome, invitation.cephx);
    }
    up::up(&up, &Role::Everything, signals)
}

fn as_up(args: &Join) -> Up {
    Up {
        dir: args.dir.clone(),
        osds: args.osds,
        osd_size: args.osd_size,
        memory: args.memory,
        disk: args.disk.clone(),
        wipe: args.wipe,
        location: args.location.clone(),
        port: args.port,
        metrics_port: args.metrics_port,
        page_port: args.page_port,
        mons: None,
        bind: Some(args.bind),
        cluster_bind: args.cluster_bind,
        auth: None,
        common: args.common.clone(),
    }
}

/// Exchanges the token for what a host needs.
fn redeem(invitation: &Invitation, args: &Join) -> Result<Welcome> {
    let key = invitation.cephx.then_some(invitation.key);
    let client = Client::new(&invitation.name(), key, &invitation.monitors)?;
    let monitor = match args.monitor {
        YesNo::Yes => "yes",
        YesNo::No => "no",
        YesNo::Auto => "auto",
    };
    let mut ask = json!({"prefix": "nacre join", "host": host::name(), "again": args.again, "monitor": monitor});
    if let Some(location) = &args.location {
        ask["location"] = json!(location.to_string());
    }
    let asked = client.command(&ask);
    let reply = match asked {
        Ok(reply) => reply,
        Err(Failure::Key | Failure::Refused(1, _)) => {
            bail!(
                "the cluster does not know the token (any more): it was used, or is of another cluster at this address; `nacre token` makes another one"
            )
        }
        Err(Failure::Refused(_, why)) => bail!("{why}"),
        Err(Failure::Silence) => bail!("{}", client.silence()),
    };
    let answer: Value = serde_json::from_str(&reply.output).context("the monitors' answer cannot be read")?;
    let secret =
        |name: &str| answer[name].as_str().and_then(keys::from_text).with_context(|| format!("the answer has no {name}"));
    if answer["fsid"] != invitation.fsid.to_string() {
        bail!("the monitors are of cluster {}, the token is of cluster {}", answer["fsid"], invitation.fsid);
    }
    let monitors = token::monitors(&answer)?;
    let seat = answer["monitor"].as_str().map(str::to_owned);
    Ok(Welcome { mon_key: secret("mon_key")?, admin_key: secret("admin_key")?, monitors, seat })
}

/// Names OSDs that the cluster still has of this host's former life, and that no disk given here holds: they stay down,
/// in its maps and its health, until somebody removes them.
fn tell_of_former_osds(state: &State, welcome: &Welcome, cephx: bool) {
    let addrs: Vec<SocketAddr> = welcome.monitors.iter().map(|(_, addr)| *addr).collect();
    let tree = Client::new("client.admin", cephx.then_some(welcome.admin_key), &addrs)
        .and_then(|admin| admin.run(&json!({"prefix": "osd tree", "format": "json"})).context("ask for the OSDs"));
    let Some(tree) = tree.ok().and_then(|reply| serde_json::from_str::<Value>(&reply.output).ok()) else { return };
    let own: Vec<i64> = state.osds.iter().map(|osd| i64::from(osd.id)).collect();
    let former = former_osds(&tree, &host::name(), &own);
    if former.is_empty() {
        return;
    }
    let names: Vec<String> = former.iter().map(|id| format!("osd.{id}")).collect();
    let purge: Vec<String> = former.iter().map(|id| format!("ceph osd purge {id} --yes-i-really-mean-it")).collect();
    eprintln!(
        "nacre: the cluster still has {} of this host, which is down and on none of the disks given. If its disk is gone: `{}`, as soon as \
         `ceph osd safe-to-destroy {}` agrees; if it is only missing: `nacre up --disk ...`",
        names.join(", "),
        purge.join("; "),
        former.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    );
}

/// Returns the OSDs that are down below the host of that name in a tree of OSDs, but for its own.
fn former_osds(tree: &Value, host: &str, own: &[i64]) -> Vec<i64> {
    let nodes = tree["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let host = nodes.iter().find(|node| node["type"] == "host" && node["name"] == host);
    let children = host.and_then(|host| host["children"].as_array()).map(Vec::as_slice).unwrap_or_default();
    let is_down = |id: i64| nodes.iter().any(|node| node["id"] == id && node["type"] == "osd" && node["status"] == "down");
    let mut former: Vec<i64> = children.iter().filter_map(Value::as_i64).filter(|id| !own.contains(id) && is_down(*id)).collect();
    former.sort_unstable();
    former
}

/// Writes what `nacre up` starts from.
fn prepare(dir: &Path, state: &mut State, welcome: &Welcome, invitation: &Invitation) -> Result<()> {
    for folder in [dir.to_owned(), dir.join("mon")] {
        state::make_folder(&folder)?;
    }
    keys::keep(&dir.join("mon/keyring"), "mon.", &welcome.mon_key, MON_CAPS)?;
    keys::keep(&dir.join("keyring"), "client.admin", &welcome.admin_key, ADMIN_CAPS)?;
    let addrs: Vec<SocketAddr> = welcome.monitors.iter().map(|(_, addr)| *addr).collect();
    state.around = Some(Around { monitors: addrs.clone(), cephx: invitation.cephx });
    let admin = Client::new("client.admin", invitation.cephx.then_some(welcome.admin_key), &addrs)?;
    number_osds(dir, state.osds.iter_mut(), &admin)?;
    state.mons = welcome.seat.iter().map(|name| MonState { name: name.clone(), port: None, made: false }).collect();
    state.save(dir)
}

/// Gets numbers and keys for the OSDs from the cluster. The same disk gets the same number, however often it is asked
/// for.
pub(crate) fn number_osds<'a>(dir: &Path, osds: impl Iterator<Item = &'a mut OsdState>, admin: &Client) -> Result<()> {
    for osd in osds {
        number_osd(dir, osd, None, admin)?;
    }
    Ok(())
}

/// The same for one OSD; with `wanted`, for the number of one that was destroyed.
pub(crate) fn number_osd(dir: &Path, osd: &mut OsdState, wanted: Option<u32>, admin: &Client) -> Result<()> {
    let mut ask = json!({"prefix": "osd new", "uuid": types::Fsid(osd.uuid()?).to_string()});
    if let Some(wanted) = wanted {
        ask["id"] = json!(wanted);
    }
    let reply = admin.run(&ask).context("get a number for an OSD")?;
    osd.id = reply.output.trim().parse().context("the cluster's answer is no number of an OSD")?;
    let name = format!("osd.{}", osd.id);
    let caps: Vec<&str> = OSD_CAPS.iter().flat_map(|(service, caps)| [*service, *caps]).collect();
    let ask = json!({"prefix": "auth get-or-create-key", "entity": name, "caps": caps});
    let reply = admin.run(&ask).with_context(|| format!("get a key for {name}"))?;
    let key = keys::from_text(reply.output.trim()).with_context(|| format!("the cluster's answer is no key of {name}"))?;
    state::make_folder(&osd.folder(dir))?;
    keys::keep(&osd.folder(dir).join("keyring"), &name, &key, OSD_CAPS)
}

#[cfg(test)]
mod tests {
    use super::former_osds;
    use serde_json::json;

    #[test]
    fn osds_of_a_former_life_are_those_that_are_down_and_not_given() {
        let osd = |id: i64, status: &str| json!({"id": id, "type": "osd", "name": format!("osd.{id}"), "status": status});
        let hosts = [
            json!({"id": -2, "type": "host", "name": "d", "children": [5, 4, 3, 2]}),
            json!({"id": -3, "type": "host", "name": "e"}),
        ];
        let osds = [osd(2, "down"), osd(3, "up"), osd(4, "down"), osd(5, "down")];
        let tree = json!({"nodes": hosts.into_iter().chain(osds).collect::<Vec<_>>()});
        assert_eq!(former_osds(&tree, "d", &[4]), [2, 5]);
        assert!(former_osds(&tree, "e", &[]).is_empty() && former_osds(&tree, "f", &[]).is_empty());
    }
}
