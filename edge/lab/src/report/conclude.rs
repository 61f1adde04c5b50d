//! Sentences drawn from the numbers by rule.

use super::data::{Cell, Data};
use super::loads;
use crate::metrics::{self, figures};
use crate::plan::Point;
use crate::stats::test::{paired, welch};

/// A disk that is busier than this is what holds a load back, in per cent of the time.
const DISK_BUSY: f64 = 90.0;
/// Processors that are busier than this are, too.
const PROCESSORS_BUSY: f64 = 92.0;
/// One processor that is busier than this, while others are not, is one thread that cannot keep up.
const CORE_BUSY: f64 = 97.0;

/// All conclusions: the best of each workload, and what held it back.
pub fn all(data: &Data) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(sentence) = overall(data) {
        said.push(sentence);
    }
    if loads::is_single(data) {
        said.extend(limits(data));
        return said;
    }
    for (workload, cells) in data.workloads() {
        said.extend(of_workload(data, workload, &cells));
    }
    said
}

/// Loads that a sentence names; of more, their number is told.
const NAMED: usize = 6;

/// Returns what held the loads of one cluster back: a sentence for each limit, the commonest first.
fn limits(data: &Data) -> Vec<String> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for cell in data.cells.iter().filter(|c| !loads::is_bare(&c.cluster) && c.median(data.main_metric(&c.workload)).is_some()) {
        let limit = bottleneck(cell);
        let limit = limit.split([':', '(', ',']).next().unwrap_or_default().trim().trim_end_matches('.').to_owned();
        match all.iter_mut().find(|(l, _)| *l == limit) {
            Some((_, names)) => names.push(data.title(&cell.workload)),
            None => all.push((limit, vec![data.title(&cell.workload)])),
        }
    }
    all.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    let sentence = |(limit, names): (String, Vec<String>)| {
        let more = names.len().saturating_sub(NAMED);
        let names = names[..names.len() - more].join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{limit}: {names}.")
    };
    all.into_iter().map(sentence).collect()
}

/// Repeats below which differences cannot be told from noise.
const ENOUGH: u32 = 3;

/// Returns how often each cluster is ahead.
fn overall(data: &Data) -> Option<String> {
    let contested: Vec<Vec<&Cell>> = data.workloads().into_iter().map(|(_, c)| c).filter(|c| c.len() > 1).collect();
    if data.experiment.repeats() < ENOUGH && !contested.is_empty() {
        return Some(format!("{}: too few to tell small differences from noise. What follows is what was seen.", measured(data)));
    }
    let mut wins: Vec<(String, usize)> = data.labels().into_iter().map(|l| (l, 0)).collect();
    for cells in &contested {
        let metric = data.main_metric(&cells[0].workload);
        if let Some(best) = data.best(cells, metric).filter(|best| clearly(best, cells, metric)) {
            let label = data.label(&best.cluster);
            wins.iter_mut().filter(|(l, _)| *l == label).for_each(|(_, n)| *n += 1);
        }
    }
    wins.retain(|(_, n)| *n > 0);
    wins.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let words: Vec<String> = wins.iter().take(4).map(|(l, n)| format!("{l} in {n}")).collect();
    let open = contested.len() - wins.iter().map(|(_, n)| n).sum::<usize>();
    (!contested.is_empty()).then(|| match words.is_empty() {
        true => format!("In none of {} workloads is one configuration ahead of all others beyond the noise.", contested.len()),
        false => {
            format!("Of {} workloads, ahead of all others beyond the noise: {}; open: {open}.", contested.len(), words.join(", "))
        }
    })
}

/// Returns true if the best is ahead of every other at 95 %.
fn clearly(best: &Cell, cells: &[&Cell], metric: &str) -> bool {
    let mine = best.all(metric);
    let apart = |other: &Cell| {
        let theirs = other.all(metric);
        let outcome = if mine.len() == theirs.len() { paired(&theirs, &mine) } else { welch(&theirs, &mine) };
        outcome.is_some_and(|o| o.p < 0.05)
    };
    cells.iter().filter(|c| !std::ptr::eq(**c, best) && c.median(metric).is_some()).all(|c| apart(c))
}

fn of_workload(data: &Data, workload: &Point, cells: &[&Cell]) -> Option<String> {
    let name = data.main_metric(workload);
    let metric = metrics::find(name)?;
    let best = data.best(cells, name)?;
    let value = best.median(name)?;
    let mut text = format!("{}: {} {}", data.title(workload), figures(value), metric.unit);
    let others: Vec<&Cell> = cells.iter().filter(|c| !std::ptr::eq(**c, best) && c.median(name).is_some()).copied().collect();
    if !others.is_empty() {
        text += &format!(" with {}", data.label(&best.cluster));
        let second = data.best(&others, name)?;
        let ratio = value / second.median(name)?;
        let ratio = if metric.better == metrics::Better::Less { 1.0 / ratio } else { ratio };
        text += &match clearly(best, cells, name) {
            _ if data.experiment.repeats() < ENOUGH => format!(", {ratio:.2}× that of {}", data.label(&second.cluster)),
            true => format!(", {ratio:.2}× that of {}", data.label(&second.cluster)),
            false => format!(", not apart from {} at 95 %", data.label(&second.cluster)),
        };
    }
    text += &format!(". {}", bottleneck(best));
    Some(text)
}

/// Returns how often each permutation was measured, as a sentence begins.
pub fn measured(data: &Data) -> String {
    match data.experiment.repeats() {
        1 => "Each was measured once".into(),
        2 => "Each was measured twice".into(),
        n => format!("Each was measured {n} times"),
    }
}

/// Returns what held a load back, and how that is known.
pub fn bottleneck(cell: &Cell) -> String {
    let of = |name: &str| cell.median(name).unwrap_or(0.0);
    for side in ["data", "journal"] {
        if of(&format!("{side}_util")) >= DISK_BUSY {
            return format!(
                "The {side} disk holds it back: busy for {:.0} % of the time, {} ms for each request.",
                of(&format!("{side}_util")),
                figures(of(&format!("{side}_wait_ms")))
            );
        }
    }
    if of("machine_cpu") >= PROCESSORS_BUSY {
        let (server, client) = (of("server_us"), of("client_us"));
        let split = if server > 0.0 {
            format!(" ({} µs of an operation in the servers, {} in the client)", figures(server), figures(client))
        } else {
            String::new()
        };
        return format!("The processors hold it back: busy for {:.0} %{split}.", of("machine_cpu"));
    }
    if of("busiest_core") >= CORE_BUSY {
        return format!(
            "One processor holds it back, busy for {:.0} %, while all together are for {:.0} %.",
            of("busiest_core"),
            of("machine_cpu")
        );
    }
    if cell.workload.int("depth", 0) == 1 {
        return format!(
            "One request at a time waits for its own way: {} ms each, processors busy for {:.0} %.",
            figures(of("latency_ms")),
            of("machine_cpu")
        );
    }
    format!(
        "Requests wait for each other or for flushes: neither disks (busy for {:.0} %) nor processors ({:.0} %) are used up.",
        of("data_util").max(of("journal_util")),
        of("machine_cpu")
    )
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::made_up;
    use super::*;

    #[test]
    fn limits_of_one_cluster_are_told_once() {
        let said = all(&super::super::data::tests::one_cluster(true));
        let one = "One request at a time waits for its own way: write 4K ×1, write 4M ×1, rand 4K ×1, rand 4M ×1.";
        assert!(said.len() == 2 && said.iter().any(|s| s == one), "{said:?}");
    }

    #[test]
    fn the_best_and_its_limit_are_named() {
        let said = all(&made_up(1.5));
        assert_eq!(said.len(), 5, "{said:?}");
        assert_eq!(said[0], "Of 4 workloads, ahead of all others beyond the noise: a · ext4 in 4; open: 0.");
        assert!(
            said[1].contains("with a · ext4, 1.50× that of a · xfs. The data disk holds it back: busy for 97 %"),
            "{}",
            said[1]
        );
        let mut once = made_up(1.5);
        once.experiment.settings.0.insert("repeats".into(), crate::plan::Scalar::Int(1));
        assert!(all(&once)[0].starts_with("Each was measured once: too few"), "{:?}", all(&once));
        let same = all(&made_up(1.0));
        assert!(same[1].contains("not apart from"), "{same:?}");
    }
}
