//! The same as Markdown for documents, and as CSV and JSON for programs.

use super::charts::with_range;
use super::conclude;
use super::data::Data;
use super::html::date;
use crate::metrics;
use crate::workload;
use anyhow::Result;
use serde_json::{Value, json};

const COLUMNS: [&str; 8] =
    ["ops_per_second", "mb_per_second", "latency_ms", "p99_ms", "server_us", "machine_us", "data_wait_ms", "journal_wait_ms"];

/// Markdown with conclusions and the table of medians.
pub fn markdown(data: &Data) -> String {
    let mut text = format!("# {}\n\n", data.experiment.title());
    if let Some(about) = data.experiment.settings.given("about") {
        text += &format!("{about}\n\n");
    }
    text += &format!(
        "{}. {}; the table has medians, and in brackets where they may lie.\n\n",
        date(data.began),
        conclude::measured(data)
    );
    for sentence in conclude::all(data) {
        text += &format!("- {sentence}\n");
    }
    let used: Vec<_> = COLUMNS
        .iter()
        .filter_map(|n| metrics::find(n))
        .filter(|m| data.cells.iter().any(|c| c.median(m.name).is_some()))
        .collect();
    let head: Vec<String> = used.iter().map(|m| format!("{}, {}", m.title, m.unit)).collect();
    text += &format!("\n| workload | cluster | {} |\n|---|---|{}\n", head.join(" | "), "---|".repeat(used.len()));
    for cell in &data.cells {
        let row: Vec<String> = used.iter().map(|m| with_range(cell, m.name)).collect();
        text += &format!("| {} | {} | {} |\n", data.title(&cell.workload), data.label(&cell.cluster), row.join(" | "));
    }
    for cell in data.cells.iter().filter(|c| !c.missing.is_empty()) {
        text +=
            &format!("\nMissing: {}, {}: {}\n", data.label(&cell.cluster), data.title(&cell.workload), cell.missing.join("; "));
    }
    text += "\n| where | |\n|---|---|\n";
    for (name, value) in &data.environment.0 {
        text += &format!("| {name} | {value} |\n");
    }
    text
}

/// One row for each value.
pub fn csv(data: &Data) -> String {
    let quoted = |text: String| format!("\"{}\"", text.replace('"', "\"\""));
    let mut text = "workload,cluster,again,repeat,figure,value\n".to_owned();
    for cell in &data.cells {
        for (again, values) in [(0, &cell.values), (1, &cell.again)] {
            for (name, list) in values {
                for (repeat, value) in list {
                    let (w, c) = (quoted(workload::title(&cell.workload)), quoted(data.label(&cell.cluster)));
                    text += &format!("{w},{c},{again},{repeat},{},{value}\n", quoted(name.clone()));
                }
            }
        }
    }
    text
}

/// Everything, cell by cell.
///
/// # Errors
/// A number is none.
pub fn json(data: &Data) -> Result<String> {
    let cells: Vec<Value> = data
        .cells
        .iter()
        .map(|c| {
            json!({
                "workload": data.title(&c.workload), "cluster": data.label(&c.cluster), "workload_keys": c.workload, "cluster_keys": c.cluster,
                "values": c.values, "again": c.again, "series": c.series, "missing": c.missing,
            })
        })
        .collect();
    let all = json!({"title": data.experiment.title(), "began": data.began, "environment": data.environment.0, "said": conclude::all(data), "cells": cells});
    Ok(serde_json::to_string(&all)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::made_up;
    use super::*;

    #[test]
    fn files_for_documents_and_programs_have_all_values() {
        let data = made_up(1.5);
        let text = markdown(&data);
        assert!(
            text.starts_with("# Made up\n") && text.contains("| write 4K ×1 | a · ext4 |") && text.contains("the disk was full"),
            "{text}"
        );
        let rows = csv(&data);
        assert_eq!(rows.lines().filter(|l| l.contains("ops_per_second")).count(), 47);
        let value: Value = serde_json::from_str(&json(&data).unwrap()).unwrap();
        assert_eq!(value["cells"].as_array().unwrap().len(), 8);
    }
}
