//! The page of counters is made of the table. `NACRE_WRITE_DOCS=1` writes it.
#![allow(clippy::disallowed_methods, reason = "the page is a file")]

use counters::{Section, mon, osd};
use std::collections::BTreeSet;

#[test]
fn the_page_of_counters_is_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md");
    let page = counters::page();
    if std::env::var_os("NACRE_WRITE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap();
    assert!(found == page, "docs/counters.md is old: NACRE_WRITE_DOCS=1 cargo test -p counters --test reference");
}

#[test]
fn names_are_unique_and_rows_say_what_they_are() {
    for sections in [osd::SECTIONS, mon::SECTIONS] {
        let names: BTreeSet<&str> = sections.iter().map(|section| section.name).collect();
        assert_eq!(names.len(), sections.len());
        sections.iter().for_each(check);
    }
    let metrics: Vec<String> = rows(osd::SECTIONS).filter_map(counters::Counter::family_name).collect();
    assert_eq!(metrics.iter().collect::<BTreeSet<_>>().len(), metrics.len(), "one family each: {metrics:?}");
}

fn rows(sections: &'static [Section]) -> impl Iterator<Item = &'static counters::Counter> {
    sections.iter().flat_map(|section| section.counters)
}

fn check(section: &Section) {
    let names: BTreeSet<&str> = section.counters.iter().map(|counter| counter.name).collect();
    assert_eq!(names.len(), section.counters.len(), "a name stands twice in {}", section.name);
    for counter in section.counters {
        let name = counter.name;
        assert!(!counter.help.is_empty() && !counter.help.ends_with('.'), "{}.{name}", section.name);
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{}.{name}", section.name);
    }
}
