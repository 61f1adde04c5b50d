//! Recorded stories: commands with what a monitor of Ceph answered.

use super::common::World;
use serde_json::{Value, json};

/// Gives the commands of a recording, a line of JSON each, and compares number, sentence and output with what is recorded.
/// `status`: makes a sentence independent of what differs from run to run. `least`: commands that must be in it.
pub(crate) fn compare(world: &mut World, peer: usize, recording: &str, status: impl Fn(&str) -> String, least: usize) {
    let (mut tried, mut wrong) = (0, Vec::new());
    for line in recording.lines() {
        let told: Value = serde_json::from_str(line).unwrap();
        let ack = world.command(peer, &told["command"].to_string(), b"");
        let output = String::from_utf8(ack.output.to_vec()).unwrap();
        let got = json!([ack.result.abs(), status(&ack.status), output.trim_end()]);
        let right = json!([told["errno"], told["status"], told["out"].as_str().unwrap().trim_end()]);
        if got != right {
            wrong.push(format!("{}\n  {got}\n  {right}", told["command"]));
        }
        tried += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried >= least, "{tried} commands");
}
