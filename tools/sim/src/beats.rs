//! Whether OSDs hear each other's heartbeats.

use crate::cluster::Cluster;
use std::collections::BTreeMap;
use std::time::Duration;

/// Heartbeats of two rounds arrive in it, whatever the last pause before a connection was.
const ROUNDS: Duration = Duration::from_secs(20);

/// When an OSD (the first) heard from another one last, as it tells.
type Heard = BTreeMap<(i64, i64), String>;

impl Cluster {
    /// Nothing goes wrong any more: each OSD hears each other one.
    pub(crate) fn check_beats(&mut self) -> Result<(), String> {
        self.wait_clean()?;
        let before = self.heard()?;
        self.world.run_for(ROUNDS);
        let after = self.heard()?;
        let osds = self.osds.len() as i64;
        for pair in (0..osds).flat_map(|from| (0..osds).map(move |to| (from, to))).filter(|(from, to)| from != to) {
            match after.get(&pair) {
                Some(at) if before.get(&pair) != Some(at) => {}
                last => return Err(format!("osd.{} hears no heartbeats of osd.{}; the last: {last:?}", pair.0, pair.1)),
            }
        }
        Ok(())
    }

    fn heard(&mut self) -> Result<Heard, String> {
        let mut heard = Heard::new();
        for osd in self.osds.clone() {
            let call = self.world.call(osd, r#"{"prefix":"dump_osd_network","value":0}"#);
            let mut text = None;
            self.world.run_while(Duration::from_secs(5), |world| {
                text = world.take_answers().into_iter().find(|(_, answered, ..)| *answered == call).map(|(.., text)| text);
                text.is_none()
            });
            let told: serde_json::Value =
                serde_json::from_str(&text.ok_or("an OSD does not answer a call")?).map_err(|e| e.to_string())?;
            for entry in told["entries"].as_array().map_or(&[][..], |entries| entries) {
                let number = |key: &str| entry[key].as_i64().unwrap_or(-1);
                heard.insert((number("from osd"), number("to osd")), entry["last update"].to_string());
            }
        }
        Ok(heard)
    }
}
