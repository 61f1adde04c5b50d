//! The page: one file that works from a disk.

use super::data::Data;
use super::{charts, conclude, loads, sections};
use crate::articles;
use crate::profile::Profiles;
use crate::progress::minutes;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// The page; `raw` is where the results are, for links, or empty; `stem` is the name of the files beside it, without
/// their endings.
pub fn page(data: &Data, raw: &str, stem: Option<&str>) -> String {
    let said = conclude::all(data);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { (data.experiment.title()) }
                style { (PreEscaped(STYLE)) }
            }
            body { main {
                (header(data))
                @if loads::is_single(data) { section { h2 { "Is that good?" } (loads::verdict(data)) } }
                section { h2 { "What came out" } (conclusions(&said)) }
                (measurements(data))
                (more_charts(data))
                (articles::section(data))
                (tables(data))
                (profiles(data))
                (reliability(data))
                (surroundings(data, raw, stem))
                section { h2 { "All figures" } p.hint { "Medians of everything that was measured." } (sections::everything(data)) }
            } }
        }
    }
    .into_string()
}

fn header(data: &Data) -> Markup {
    let environment = |name: &str| data.environment.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()).unwrap_or_default();
    html! {
        p.by { "nacre lab · " (date(data.began)) " · " (data.runs) " runs in " (minutes(data.took)) }
        h1 { (data.experiment.title()) }
        @if let Some(about) = data.experiment.settings.given("about") { p.lead { (about) } }
        p.hint {
            (environment("processors")) ", " (environment("memory")) " of memory, kernel " (environment("kernel")) ". " (conclude::measured(data))
            @if data.experiment.repeats() > 1 { ". Bars are medians; thin lines on them go from the lowest to the highest value that the median may have, at 95 % where the repeats are enough for that (six)" }
            @if loads::is_single(data) { "." } @else { ". Ratios (×) are to the first bar." }
        }
        p.hint { "Names of loads say what is done, the bytes of each request, and after × how many requests are under way at once: write 4K ×16." }
    }
}

fn conclusions(said: &[String]) -> Markup {
    let (first, rest) = said.split_at(said.len().min(7));
    html! {
        ul.said { @for s in first { li { (s) } } }
        @if !rest.is_empty() { details { summary { (rest.len()) " more" } ul.said { @for s in rest { li { (s) } } } } }
        p.hint { "Drawn from the numbers by rule: a disk that is busy for 90 % of the time, or processors for 92 %, hold a load back; ahead is who is so at 95 %." }
    }
}

fn measurements(data: &Data) -> Markup {
    html! {
        section {
            h2 { (data.experiment.settings.given("question").unwrap_or_else(|| "Each workload, side by side".into())) }
            p.hint { "The small charts show what the machine did meanwhile; click one to enlarge it." }
            @if loads::is_single(data) { (loads::panels(data)) } @else {
            @if data.experiment.clusters.len() > 1 { (charts::legend(data, false)) }
            div.panels { @for (i, (workload, cells)) in data.workloads().into_iter().enumerate() { @if !cells.is_empty() { (charts::panel(data, workload, &cells, i)) } } }
            }
        }
    }
}

fn more_charts(data: &Data) -> Markup {
    let layers = charts::waterfall(data);
    let responses = charts::responses(data);
    let curves: Vec<Markup> = data
        .workloads()
        .into_iter()
        .flat_map(|(w, cells)| {
            ["ops_per_second", "data_write_mb"].into_iter().filter_map(|n| charts::curves(data, w, &cells, n)).collect::<Vec<_>>()
        })
        .collect();
    html! {
        @if !layers.is_empty() { section { h2 { "Layer by layer" } p.hint { "What is left of the raw disk behind each layer." } div.panels { @for f in &layers { (f) } } } }
        @if !responses.is_empty() { section { h2 { "Response: rate against latency" } p.hint { "Each point is a number of requests under way. A curve that goes straight up has reached its limit." } (charts::legend(data, true)) div.panels { @for f in &responses { (f) } } } }
        @if !curves.is_empty() { section { h2 { "Over time" } p.hint { "The first repeat of each." } details open[curves.len() <= 12] { summary { (curves.len()) " charts" } (charts::legend(data, true)) div.panels { @for f in &curves { (f) } } } } }
    }
}

fn tables(data: &Data) -> Markup {
    let stages = sections::stages(data);
    if loads::is_single(data) && data.experiment.repeats() == 1 && stages.is_none() {
        return html! {};
    }
    html! {
        section {
            h2 { "Tables" }
            @if !loads::is_single(data) || data.experiment.repeats() > 1 {
                h3 { "Medians, with their intervals" }
                (sections::medians(data))
            }
            @if !loads::is_single(data) {
                h3 { "By size of request" }
                (sections::by_size(data))
            }
            @if let Some(stages) = stages { h3 { "Inside of the OSDs" } p.hint { "Means that the OSDs tell; the borders of stages differ between systems." } (stages) }
        }
    }
}

fn profiles(data: &Data) -> Markup {
    let cells: Vec<_> = data.cells.iter().filter(|c| c.profiles != Profiles::default()).collect();
    html! {
        @if !cells.is_empty() {
            section {
                h2 { "Profiles" }
                p.hint { "Each workload ran once more for these; nothing of that run was measured. A box of a flame graph is as wide as its share of the processor time; hover over one for its name." }
                @for cell in cells {
                    @for picture in &cell.profiles.pictures {
                        details { summary { (data.label(&cell.cluster)) ": " (picture.title) } div.wide { (PreEscaped(&picture.svg)) } }
                    }
                    @for why in &cell.profiles.missing { p { (data.label(&cell.cluster)) ": " (why) } }
                }
            }
        }
    }
}

fn reliability(data: &Data) -> Markup {
    let outliers = sections::outliers(data);
    html! {
        section {
            h2 { "How sure that is" }
            @match sections::noise(data) {
                Some(noise) => { p { "The first cluster was measured against itself within each repeat. What differs there is noise." } (noise) }
                None => p { "The first cluster was not measured against itself, so the noise is not known." }
            }
            @if !outliers.is_empty() { h3 { "Outliers" } ul { @for o in &outliers { li { (o) } } } }
            @if let Some(missing) = sections::missing(data) { h3 { "What is missing" } (missing) }
        }
    }
}

fn surroundings(data: &Data, raw: &str, stem: Option<&str>) -> Markup {
    html! {
        section {
            h2 { "Where and how" }
            dl { @for (name, value) in &data.environment.0 { dt { (name) } dd { (value) } } }
            h3 { "Clusters" }
            dl { @for cluster in &data.experiment.clusters { dt { (data.label(cluster)) } dd { (cluster.0.keys().filter(|k| *k != "name").map(|k| format!("{k} = {}", cluster.shown(k))).collect::<Vec<_>>().join(", ")) } } }
            @if !data.experiment.disks.is_empty() { h3 { "Disks" } dl { @for (name, disk) in &data.experiment.disks { dt { (name) } dd { (disk.0.keys().filter(|k| *k != "name").map(|k| format!("{k} = {}", disk.shown(k))).collect::<Vec<_>>().join(", ")) } } } }
            @if !raw.is_empty() {
                h3 { "Raw data" }
                @if let Some(stem) = stem { p { "Every value: " a href=(format!("{stem}.csv")) { "CSV" } " · " a href=(format!("{stem}.json")) { "JSON, with curves" } } }
                @if raw.starts_with('/') {
                    p { "Every run, with what the tools said, is in " code { (raw) } }
                } @else {
                    p { a href=(format!("{raw}/experiment.json")) { "experiment" } " · " a href=(format!("{raw}/environment.json")) { "environment" } " · " a href=(format!("{raw}/runs/")) { "every run, with what the tools said" } }
                }
            }
        }
    }
}

/// `2026-11-23 22:09 UTC`, from seconds since 1970, by the civil calendar.
pub(crate) fn date(seconds: f64) -> String {
    let s = seconds.max(0.0) as i64;
    let (days, rest) = (s / 86_400, s % 86_400);
    // Days of eras of 400 years that begin in March.
    let z = days + 719_468;
    let (era, day) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let in_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let (d, m) = (in_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let y = year + era * 400 + i64::from(m <= 2);
    format!("{y}-{m:02}-{d:02} {:02}:{:02} UTC", rest / 3600, rest % 3600 / 60)
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::made_up;
    use super::*;

    #[test]
    fn the_page_is_whole_and_asks_nothing_of_the_network() {
        let text = page(&made_up(1.5), "results", Some("report"));
        for part in [
            "<!DOCTYPE html>",
            "Made up",
            "What came out",
            "the disk was full",
            "results/experiment.json",
            "report.csv",
            "prefers-color-scheme:dark",
            "popover",
        ] {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("<script"));
    }

    #[test]
    fn dates_are_of_the_civil_calendar() {
        assert_eq!(date(0.0), "1970-01-01 00:00 UTC");
        assert_eq!(date(1_795_472_398.0), "2026-11-23 22:19 UTC");
        assert_eq!(date(951_782_400.0), "2000-02-29 00:00 UTC");
    }
}
