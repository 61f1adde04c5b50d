//! The descriptions of commands, by which clients read what their users type.

use super::{Command, Cx, Row, row, table};
use grammar::{Args, Outcome, Reply};
use serde_json::{Map, Value, json};

pub(super) const ROWS: &[Row] = &[row("get_command_descriptions", "list the available commands", "mon", "r", describe)];

fn describe(_: &mut Cx<'_>, _: &Args) -> Outcome {
    Ok(Reply::data(descriptions(table())))
}

/// Flag of a description: `ceph` sends the command to the manager, where the manager's capabilities decide (`FLAG_MGR`
/// of Ceph).
pub(crate) const TO_MANAGER: u32 = 1 << 3;

/// Says whether `ceph` sends a command to the manager: those on images, and reports of crashes. Their users may only
/// read the monitor's maps (`mon 'profile rbd'`, `'profile crash'`), and their other rights are in their capabilities
/// at the manager. All other commands come to the monitor, which carries out both kinds.
fn is_sent_to_manager(words: &str) -> bool {
    words.starts_with("rbd ") || words == "crash post"
}

/// Writes the descriptions of a table as one line of JSON.
pub(crate) fn descriptions(table: &[Command]) -> String {
    let mut all = Map::new();
    for (i, command) in table.iter().enumerate() {
        let row = command.row;
        let entry = json!({
            "sig": command.signature.describe(),
            "help": row.help,
            "module": row.module,
            "perm": row.perm,
            "flags": if is_sent_to_manager(&command.signature.prefix) { TO_MANAGER } else { 0 },
        });
        all.insert(format!("cmd{i:03}"), entry);
    }
    Value::Object(all).to_string()
}

/// Writes the page `docs/commands.md`.
pub fn reference() -> String {
    let mut served = String::new();
    let mut refused = String::new();
    let mut sorted: Vec<&Command> = table().iter().collect();
    sorted.sort_by_key(|c| &c.signature.prefix);
    for command in sorted {
        let usage = command.signature.usage();
        match command.row.run {
            super::Run::Do(_) | super::Run::Order(_) => {
                served.push_str(&format!("| `{usage}` | {} | {} |\n", command.row.help, command.row.perm))
            }
            super::Run::Absent(module) => {
                refused.push_str(&format!("| `{usage}` | module `{module}` is not part of this manager |\n"))
            }
            super::Run::Refuse(why) => refused.push_str(&format!("| `{usage}` | {why} |\n")),
        }
    }
    format!(
        "# Commands\n\
         \n\
         This page lists the commands that the monitor knows, with the manager's among them. Send one with `ceph COMMAND`.\n\
         `cores/mon/tests/reference.rs` makes the page from the monitor's table of commands, so do not edit it.\n\
         \n\
         - `<name>` is an argument that must be given, `[name]` one that may be left out. `...` takes several.\n\
         - `<a/b>` takes one of the words.\n\
         - *permission* is what the user's capability for the monitor must allow: `r` reading, `w` writing, `x` keys.\n\
         \n\
         Commands of an OSD are sent to it: `ceph tell osd.N help` lists them.\n\
         \n\
         ## Served\n\
         \n\
         | command | what it does | permission |\n\
         |---|---|---|\n\
         {served}\n\
         ## Refused\n\
         \n\
         The monitor knows these commands and answers each with the reason.\n\
         \n\
         | command | why |\n|---|---|\n{refused}"
    )
}
