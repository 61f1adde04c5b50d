//! A schedule: every so many minutes, counted from a time of day.
//!
//! It is stored and shown as Ceph 16 does (`[{"interval": "1d", "start_time": "01:30:00"}]`), so that either can read
//! the other's.

use grammar::{Refusal, refuse};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use types::UTime;

const DAY: u32 = 24 * 60;

/// Minutes between two runs; at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Interval(u32);

impl Interval {
    /// Parses `90m`, `2h`, `1d`; a number alone is minutes.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        let (digits, unit) = match text.strip_suffix(['d', 'h', 'm']) {
            Some(digits) => (digits, text.as_bytes()[text.len() - 1]),
            None => (text, b'm'),
        };
        let unit = match unit {
            b'd' => DAY,
            b'h' => 60,
            _ => 1,
        };
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        match digits.parse::<u32>().ok().and_then(|n| n.checked_mul(unit)) {
            Some(minutes) if plain && minutes > 0 => Ok(Self(minutes)),
            _ => refuse!(EINVAL, "Invalid interval ({text})"),
        }
    }

    fn text(self) -> String {
        match self.0 {
            n if n % DAY == 0 => format!("{}d", n / DAY),
            n if n % 60 == 0 => format!("{}h", n / 60),
            n => format!("{n}m"),
        }
    }
}

/// A time of day. Two are equal if they mean the same moment, however they are written.
#[derive(Clone, Debug)]
pub(super) struct StartTime {
    /// Minutes after midnight UTC; below 0 or above a day's for other zones.
    minutes: i64,
    text: String,
}

impl PartialEq for StartTime {
    fn eq(&self, other: &Self) -> bool {
        self.minutes == other.minutes
    }
}

impl Eq for StartTime {}

impl PartialOrd for StartTime {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StartTime {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.minutes.cmp(&other.minutes)
    }
}

impl StartTime {
    /// Parses `01:30`, `14:00:00-05:00`, `T01:30Z`, `2026-11-22T01:30`, `3:15 pm`.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        match Self::read(text) {
            Ok(time) => Ok(time),
            Err(why) => refuse!(EINVAL, "Invalid start time {text}: {why}: {text}"),
        }
    }

    fn read(text: &str) -> Result<Self, &'static str> {
        const UNKNOWN: &str = "Unknown string format";
        let lower = text.trim().to_lowercase();
        let (time, noon) = match (lower.strip_suffix("am"), lower.strip_suffix("pm")) {
            (Some(time), _) => (time.trim_end(), Some(false)),
            (_, Some(time)) => (time.trim_end(), Some(true)),
            _ => (&*lower, None),
        };
        // A date in front means nothing.
        let time = time.rsplit(['t', ' ']).next().unwrap_or_default();
        let (time, zone) = time.split_at(time.find(['z', '+', '-']).unwrap_or(time.len()));
        let numbers: Option<Vec<i64>> = time.split(':').map(|part| number(part.split('.').next()?)).collect();
        let (hour, minute, second) = match numbers.as_deref() {
            Some([hour]) if noon.is_some() => (*hour, 0, 0),
            Some([hour, minute]) => (*hour, *minute, 0),
            Some([hour, minute, second]) => (*hour, *minute, *second),
            _ => return Err(UNKNOWN),
        };
        let hour = match noon {
            Some(_) if !(1..=12).contains(&hour) => return Err("the hour before am or pm must be in 1..12"),
            Some(afternoon) => hour % 12 + if afternoon { 12 } else { 0 },
            None => hour,
        };
        for (value, most, why) in [
            (hour, 23, "hour must be in 0..23"),
            (minute, 59, "minute must be in 0..59"),
            (second, 59, "second must be in 0..59"),
        ] {
            if value > most {
                return Err(why);
            }
        }
        let (offset, zone) = read_zone(zone).ok_or("an offset from UTC is as +01:00 and less than a day")?;
        Ok(Self { minutes: hour * 60 + minute - offset, text: format!("{hour:02}:{minute:02}:00{zone}") })
    }
}

/// Parses a time zone: minutes east of Greenwich, and the text that is shown.
fn read_zone(zone: &str) -> Option<(i64, String)> {
    match zone {
        "" => Some((0, String::new())),
        "z" => Some((0, "+00:00".to_owned())),
        _ => {
            let digits: String = zone.get(1..)?.chars().filter(|c| *c != ':').collect();
            let (h, m) = (number(digits.get(..2)?)?, if digits.len() > 2 { number(digits.get(2..)?)? } else { 0 });
            let sign = if zone.starts_with('-') { -1 } else { 1 };
            (h < 24 && m < 60).then(|| (sign * (h * 60 + m), format!("{}{h:02}:{m:02}", &zone[..1])))
        }
    }
}

/// Parses one or two digits.
fn number(text: &str) -> Option<i64> {
    let fits = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| fits)
}

/// All intervals and start times that are set at one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule(BTreeSet<(Interval, Option<StartTime>)>);

impl Schedule {
    pub(super) fn add(&mut self, interval: Interval, start: Option<StartTime>) {
        self.0.insert((interval, start));
    }

    pub(super) fn remove(&mut self, interval: Interval, start: Option<StartTime>) {
        self.0.remove(&(interval, start));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives the first whole minute after `now` at which something is due, in seconds since 1970.
    pub(super) fn next(&self, now: UTime) -> Option<u64> {
        let now = i64::from(now.sec);
        let next = |(interval, start): &(Interval, Option<StartTime>)| {
            let (period, from) = (i64::from(interval.0) * 60, start.as_ref().map_or(0, |s| s.minutes) * 60);
            from + ((now - from).div_euclid(period) + 1) * period
        };
        self.0.iter().map(next).min().and_then(|at| u64::try_from(at).ok())
    }

    /// The schedule as it is shown.
    pub(super) fn to_json(&self) -> Value {
        let item = |(interval, start): &(Interval, Option<StartTime>)| json!({"interval": interval.text(), "start_time": start.as_ref().map(|s| s.text.clone())});
        self.0.iter().map(item).collect()
    }

    /// Reads a stored schedule.
    pub(super) fn from_json(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let mut schedule = Self::default();
        for item in value.as_array()? {
            let start = item.get("start_time").and_then(Value::as_str).filter(|s| !s.is_empty());
            let start = start.map(StartTime::parse).transpose().ok()?;
            schedule.add(Interval::parse(item.get("interval")?.as_str()?).ok()?, start);
        }
        Some(schedule)
    }
}

/// A time as it is shown: `2026-11-22 01:30:00`.
pub(super) fn shown(at: u64) -> String {
    let (y, mo, d, h, m, _) = UTime { sec: at as u32, nsec: 0 }.utc();
    format!("{y:04}-{mo:02}-{d:02} {h:02}:{m:02}:00")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> UTime {
        // 2026-11-22 is day 20,779.
        let (h, m) = text.split_once(':').unwrap();
        UTime { sec: 20_779 * 86_400 + h.parse::<u32>().unwrap() * 3600 + m.parse::<u32>().unwrap() * 60 + 17, nsec: 5 }
    }

    fn next(items: &[(&str, &str)], now: &str) -> String {
        let mut schedule = Schedule::default();
        for (interval, start) in items {
            let start = (!start.is_empty()).then(|| StartTime::parse(start).unwrap());
            schedule.add(Interval::parse(interval).unwrap(), start);
        }
        shown(schedule.next(at(now)).unwrap())
    }

    #[test]
    fn runs_are_counted_from_the_start_time() {
        assert_eq!(next(&[("1m", "")], "10:05"), "2026-11-22 10:06:00");
        assert_eq!(next(&[("1h", "")], "10:05"), "2026-11-22 11:00:00");
        assert_eq!(next(&[("1h", "00:17")], "10:05"), "2026-11-22 10:17:00");
        assert_eq!(next(&[("1d", "01:30")], "10:05"), "2026-11-23 01:30:00");
        assert_eq!(next(&[("1d", "14:00:00-05:00")], "10:05"), "2026-11-22 19:00:00");
        assert_eq!(next(&[("1d", "T00:30+02:00")], "10:05"), "2026-11-22 22:30:00");
        assert_eq!(next(&[("1d", "01:30"), ("90m", "")], "10:05"), "2026-11-22 10:30:00", "whichever is first");
    }

    #[test]
    fn texts_are_as_ceph_shows_them() {
        let text = |interval: &str| Interval::parse(interval).unwrap().text();
        assert_eq!([text("24h"), text("90m"), text("120"), text("2d")], ["1d", "90m", "2h", "2d"]);
        let start = |text: &str| StartTime::parse(text).unwrap().text;
        assert_eq!([start("1:30"), start("14:00:00-05:00"), start("T01:30Z")], ["01:30:00", "14:00:00-05:00", "01:30:00+00:00"]);
        assert_eq!([start("3pm"), start("3:15 PM"), start("12 am")], ["15:00:00", "15:15:00", "00:00:00"]);
        let mut schedule = Schedule::default();
        schedule.add(Interval::parse("2d").unwrap(), Some(StartTime::parse("01:30").unwrap()));
        let json = schedule.to_json().to_string();
        assert_eq!(json, r#"[{"interval":"2d","start_time":"01:30:00"}]"#);
        assert_eq!(Schedule::from_json(&json), Some(schedule.clone()));
        schedule.add(Interval::parse("48h").unwrap(), Some(StartTime::parse("T01:30Z").unwrap()));
        assert_eq!(schedule.to_json().to_string(), json, "the same, written in another way");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for interval in ["", "x", "1x", "0", "0d", "-1m", "+1", "1.5h", "99999999999d"] {
            assert!(Interval::parse(interval).is_err(), "{interval}");
        }
        for start in ["", "abc", "25:00", "10:60", "10", "1:2:3:4", "10:00+99:00", "10:00-", "é1:00", "13 pm", "0 am", "10:00+é"]
        {
            assert!(StartTime::parse(start).is_err(), "{start}");
        }
    }
}
