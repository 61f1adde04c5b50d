//! The page of commands in the documentation is what the command table says.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the page is a file")]

#[test]
fn the_page_of_commands_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
    let page = mon::command_reference();
    if std::env::var_os("NACRE_WRITE_DOCS").is_some() {
        std::fs::write(path, &page).expect("the documentation can be written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == page, "docs/commands.md is old: NACRE_WRITE_DOCS=1 cargo test -p mon --test reference");
}
