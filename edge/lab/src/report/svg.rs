//! Charts as inline SVG. Colours are CSS variables of the page, so that one drawing is right in light, dark and print.

use crate::metrics::figures;
use maud::{Markup, html};

/// A bar with its place on a scale.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// Its name.
    pub label: String,
    /// Number of the colour.
    pub colour: usize,
    /// Its length; `None` draws `note` instead.
    pub value: Option<f64>,
    /// Ends of its interval.
    pub range: Option<(f64, f64)>,
    /// More words behind the value, or why there is none.
    pub note: String,
}

/// Bars under a heading.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The heading; may be empty.
    pub label: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

const WIDTH: f64 = 360.0;
const ROW: f64 = 21.0;

/// Horizontal bars in groups, one scale; `names` writes each bar's name above it, else colours and a legend tell.
pub fn bars(title: &str, groups: &[Group], most: f64, names: bool) -> Markup {
    let most = if most > 0.0 { most } else { 1.0 };
    let row = if names { ROW + 13.0 } else { ROW };
    let height: f64 =
        groups.iter().map(|g| g.bars.len() as f64 * row + if g.label.is_empty() { 4.0 } else { 22.0 }).sum::<f64>() + 2.0;
    let x = |v: f64| 1.0 + v / most * (WIDTH - 92.0);
    let mut y = 0.0;
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {height:.0}")) role="img" aria-label=(title) {
            @for group in groups {
                @let top = { y += if group.label.is_empty() { 4.0 } else { 22.0 }; y };
                @if !group.label.is_empty() { text.head x="3" y=(n(top - 6.0)) { (group.label) } }
                @for bar in &group.bars {
                    @let at = { let at = y; y += row; at };
                    @let below = if names { at + 13.0 } else { at };
                    @if names { text.name x="3" y=(n(at + 10.0)) { (shorten(&bar.label, 66)) } }
                    @if let Some(value) = bar.value {
                        rect class=(format!("c{}", bar.colour % 8)) x="0" y=(n(below)) width=(n(x(value).max(1.5))) height="15" rx="2" { title { (bar.label) ": " (figures(value)) } }
                        @if let Some((low, high)) = bar.range {
                            @if high > low { path.whisker d=(format!("M{0} {2}H{1}M{0} {3}v6M{1} {3}v6", n(x(low)), n(x(high)), n(below + 7.5), n(below + 4.5))) {} }
                        }
                        @let end = x(value.max(bar.range.map_or(0.0, |r| r.1)));
                        text.value x=(n(end + 5.0)) y=(n(below + 12.0)) { (figures(value)) @if !bar.note.is_empty() { tspan.note { " " (bar.note) } } }
                    } @else {
                        text.note x="2" y=(n(below + 12.0)) { (shorten(&bar.note, 58)) }
                    }
                }
            }
            line.axis x1="0.5" x2="0.5" y1="0" y2=(n(height)) {}
        }
    }
}

/// Look of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Number of the colour.
    pub colour: usize,
    /// Number of the dashes.
    pub dash: usize,
}

/// A line of points.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Its name.
    pub label: String,
    /// Its look.
    pub look: Look,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Words at its points, as depths.
    pub marks: Vec<String>,
}

/// Lines over a common plane that begins at zero.
pub fn lines(title: &str, lines: &[Line], x_name: &str, y_name: &str) -> Markup {
    let (w, h, left, bottom) = (WIDTH, 210.0, 44.0, 34.0);
    let most = |part: fn(&(f64, f64)) -> f64| lines.iter().flat_map(|l| l.points.iter().map(part)).fold(0.0, f64::max);
    let (mx, my) = (nice(most(|p| p.0)), nice(most(|p| p.1)));
    let x = |v: f64| left + v / mx * (w - left - 14.0);
    let y = |v: f64| h - bottom - v / my * (h - bottom - 18.0);
    let ticks = [0.0, 0.25, 0.5, 0.75, 1.0];
    html! {
        svg viewBox=(format!("0 0 {w} {h}")) role="img" aria-label=(title) {
            @for t in ticks {
                line.grid x1=(n(left)) x2=(n(w - 14.0)) y1=(n(y(my * t))) y2=(n(y(my * t))) {}
                text.tick.end x=(n(left - 5.0)) y=(n(y(my * t) + 3.5)) { (short(my * t)) }
                text.tick.middle x=(n(x(mx * t))) y=(n(h - bottom + 14.0)) { (short(mx * t)) }
            }
            text.tick x="0" y="10" { (y_name) }
            text.tick.end x=(n(w - 14.0)) y=(n(h - 6.0)) { (x_name) }
            @for line in lines {
                @let path = line.points.iter().map(|p| format!("{},{}", n(x(p.0)), n(y(p.1)))).collect::<Vec<_>>().join(" ");
                polyline class=(format!("l{} d{}", line.look.colour % 8, line.look.dash % 4)) points=(path) { title { (line.label) } }
                @if !line.marks.is_empty() || line.points.len() == 1 {
                    @for (i, p) in line.points.iter().enumerate() {
                        circle class=(format!("c{}", line.look.colour % 8)) cx=(n(x(p.0))) cy=(n(y(p.1))) r="3.2" { title { (line.label) " " (line.marks.get(i).cloned().unwrap_or_default()) ": " (figures(p.0)) ", " (figures(p.1)) } }
                        @if let Some(mark) = line.marks.get(i) {
                            @let (side, away) = if x(p.0) > w - 46.0 { ("tick end", -5.0) } else { ("tick", 5.0) };
                            text class=(side) x=(n(x(p.0) + away)) y=(n(y(p.1) - 5.0)) { (mark) }
                        }
                    }
                }
            }
        }
    }
}

/// A round number that is not below this.
fn nice(x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(x.log10().floor());
    [1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0].into_iter().map(|m| m * power).find(|m| *m >= x).unwrap_or(x)
}

/// `1.2k`
fn short(x: f64) -> String {
    let plain = |x: f64| format!("{:.2}", x).trim_end_matches('0').trim_end_matches('.').to_owned();
    match x {
        x if x >= 1e6 => format!("{}M", plain(x / 1e6)),
        x if x >= 1e3 => format!("{}k", plain(x / 1e3)),
        x => plain(x),
    }
}

/// Words of at most this many letters.
pub fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_owned() } else { text.chars().take(most - 1).collect::<String>() + "…" }
}

fn n(x: f64) -> String {
    format!("{x:.1}").trim_end_matches(".0").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bar = |value, note: &str| Bar {
            label: "a".into(),
            value,
            note: note.into(),
            range: value.map(|v| (v - 1.0, v + 1.0)),
            colour: 1,
        };
        let groups =
            [Group { label: "g".into(), bars: vec![bar(Some(50.0), ""), bar(Some(100.0), "2×"), bar(None, "it failed")] }];
        let text = bars("t", &groups, 100.0, true).into_string();
        assert!(
            text.contains("width=\"135\"") && text.contains("width=\"269\"") && text.contains("it failed") && text.contains("2×"),
            "{text}"
        );
    }

    #[test]
    fn scales_end_at_round_numbers() {
        assert_eq!((nice(97.0), nice(1.01), nice(0.0), nice(0.0023)), (100.0, 1.2, 1.0, 0.0024));
        assert_eq!((short(1200.0), short(0.25), short(2_000_000.0)), ("1.2k".into(), "0.25".into(), "2M".into()));
        let line =
            Line { label: "x".into(), points: vec![(0.0, 1.0), (1.0, 2.0)], marks: vec!["1".into()], look: Look::default() };
        assert!(lines("t", &[line], "s", "op/s").into_string().contains("polyline"));
    }
}
