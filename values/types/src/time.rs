//! Wall-clock times as Ceph encodes them.

use std::time::Duration;

/// Seconds and nanoseconds since 1970, 8 bytes on the wire. Also used for durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UTime {
    /// Whole seconds.
    pub sec: u32,
    /// Nanoseconds, below 10^9 when well formed.
    pub nsec: u32,
}
denc::plain!(UTime { sec, nsec });

impl UTime {
    /// The moment zero, which stands for "never".
    pub const ZERO: UTime = UTime { sec: 0, nsec: 0 };

    /// From nanoseconds since 1970. What is later than the last second (in the year 2106) becomes that.
    pub fn from_nanos(nanos: u64) -> Self {
        let sec = u32::try_from(nanos / 1_000_000_000).unwrap_or(u32::MAX);
        Self { sec, nsec: (nanos % 1_000_000_000) as u32 }
    }

    /// Nanoseconds since 1970.
    pub fn as_nanos(self) -> u64 {
        u64::from(self.sec) * 1_000_000_000 + u64::from(self.nsec)
    }

    /// Returns true if this is the moment zero.
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// This moment moved by `d`.
    pub fn plus(self, d: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Calendar fields in UTC: year, month (1–12), day, hour, minute, second.
    pub fn utc(self) -> (i64, u32, u32, u32, u32, u32) {
        // Civil date from days, after the era/day-of-era arithmetic of the proleptic Gregorian calendar.
        let days = i64::from(self.sec / 86_400) + 719_468;
        let era = days.div_euclid(146_097);
        let doe = days.rem_euclid(146_097);
        let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let day = doy - (153 * mp + 2) / 5 + 1;
        let month = if mp < 10 { mp + 3 } else { mp - 9 };
        let year = yoe + era * 400 + i64::from(month <= 2);
        let small = |n: i64| u32::try_from(n).unwrap_or_default();
        let (month, day) = (small(month), small(day));
        let s = self.sec % 86_400;
        (year, month, day, s / 3_600, s / 60 % 60, s % 60)
    }

    /// `2026-11-20T21:05:09.123456+0000`, as Ceph 16 prints times.
    pub fn iso(self) -> String {
        let (y, mo, d, h, m, s) = self.utc();
        format!("{y:04}-{mo:02}-{d:02}T{h:02}:{m:02}:{s:02}.{:06}+0000", self.nsec / 1_000)
    }

    /// Parses `2026-11-20 21:05:09.123456Z`, as reports of crashes write times in UTC. The blank may be a `T`, the `Z`
    /// may be left out, the fraction has 1 to 6 digits. `None` if it is no such time, or outside of 1970 to 2106.
    pub fn parse_calendar(text: &str) -> Option<Self> {
        let text = text.strip_suffix('Z').unwrap_or(text);
        let (date, clock) = text.split_once([' ', 'T'])?;
        let (clock, fraction) = clock.split_once('.')?;
        let number = |text: &str, most: u32| -> Option<u32> {
            let digits = (1..=6).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            text.parse().ok().filter(|n| digits && *n <= most)
        };
        let three = |text: &str, by: char, most: [u32; 3]| -> Option<[u32; 3]> {
            let mut parts = text.split(by);
            let mut out = [0; 3];
            for (place, most) in out.iter_mut().zip(most) {
                *place = number(parts.next()?, most)?;
            }
            parts.next().is_none().then_some(out)
        };
        let [year, month, day] = three(date, '-', [2106, 12, 31])?;
        let [hour, minute, second] = three(clock, ':', [23, 59, 59])?;
        // By the number of digits, which `number` has checked.
        const SCALE: [u32; 7] = [0, 100_000, 10_000, 1_000, 100, 10, 1];
        let micros = number(fraction, 999_999)? * SCALE[fraction.len()];
        if year < 1970 || month == 0 || day == 0 {
            return None;
        }
        // Days from a civil date: years begin in March, as in `utc`.
        let y = i64::from(year) - i64::from(month <= 2);
        let (era, yoe) = (y.div_euclid(400), y.rem_euclid(400));
        let doy = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
        let days = era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468;
        let sec = u32::try_from(days * 86_400).ok()?.checked_add(hour * 3_600 + minute * 60 + second)?;
        let time = Self { sec, nsec: micros * 1_000 };
        // A day that its month does not have would come out as another.
        let (_, as_month, as_day, ..) = time.utc();
        ((as_month, as_day) == (month, day)).then_some(time)
    }

    /// `Fri Nov 20 21:05:09 2026`, as C's `ctime` prints times.
    pub fn ctime(self) -> String {
        const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
        const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let (y, mo, d, h, m, s) = self.utc();
        let day = DAYS[(self.sec / 86_400 % 7) as usize];
        let month = MONTHS.get(mo as usize - 1).copied().unwrap_or_default();
        format!("{day} {month} {d:>2} {h:02}:{m:02}:{s:02} {y}")
    }
}

impl std::fmt::Display for UTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.iso())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_the_last_second_is_the_last_second() {
        let late = UTime { sec: 1_795_208_709, nsec: 0 }.plus(Duration::MAX);
        assert_eq!((late.sec, UTime::from_nanos(u64::MAX).sec), (u32::MAX, u32::MAX));
    }

    #[test]
    fn known_dates() {
        assert_eq!(UTime { sec: 0, nsec: 0 }.iso(), "1970-01-01T00:00:00.000000+0000");
        assert_eq!(UTime { sec: 951_782_399, nsec: 5_000 }.iso(), "2000-02-28T23:59:59.000005+0000");
        assert_eq!(UTime { sec: 951_782_400, nsec: 0 }.iso(), "2000-02-29T00:00:00.000000+0000");
        assert_eq!(UTime { sec: 1_795_208_709, nsec: 0 }.iso(), "2026-11-20T21:05:09.000000+0000");
        assert_eq!(UTime { sec: 1_795_208_709, nsec: 0 }.ctime(), "Fri Nov 20 21:05:09 2026");
        assert_eq!(UTime { sec: 951_782_400, nsec: 0 }.ctime(), "Tue Feb 29 00:00:00 2000");
        assert_eq!(UTime::ZERO.ctime(), "Thu Jan  1 00:00:00 1970");
    }

    #[test]
    fn calendar_times_are_read_as_they_are_written() {
        for sec in (0..u32::MAX).step_by(7_654_321) {
            let time = UTime { sec, nsec: 123_456_000 };
            let iso = time.iso();
            let text = iso.strip_suffix("+0000").unwrap();
            assert_eq!(UTime::parse_calendar(text), Some(time), "{text}");
            assert_eq!(UTime::parse_calendar(&(text.replace('T', " ") + "Z")), Some(time), "{text}");
        }
        assert_eq!(UTime::parse_calendar("1970-01-01 00:00:01.5"), Some(UTime { sec: 1, nsec: 500_000_000 }));
        for none in [
            "",
            "garbage",
            "2026-02-29 00:00:00.0",
            "2026-13-01 00:00:00.0",
            "2026-01-01 24:00:00.0",
            "2026-01-01 00:00:00",
            "1969-12-31 00:00:00.0",
            "2026-01-01 00:00:00.1234567",
            "2026-01-01-02 00:00:00.0",
            "2026-00-10 00:00:00.0",
            "2106-12-31 00:00:00.0",
            "+026-01-01 00:00:00.0",
        ] {
            assert_eq!(UTime::parse_calendar(none), None, "{none}");
        }
    }
}
