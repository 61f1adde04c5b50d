//! Published articles beside our curves: numbers and shapes, and what differs.

use crate::report::data::Data;
use maud::{Markup, html};

/// What an article found.
#[derive(Clone, Copy, Debug)]
pub struct Article {
    /// Name in experiment files.
    pub name: &'static str,
    /// Author, title and year.
    pub source: &'static str,
    /// What it measured on.
    pub setup: &'static str,
    /// What it found, and how a reader checks it here.
    pub found: &'static [&'static str],
    /// Why it differs here.
    pub differs: &'static [&'static str],
}

/// Those that experiment files of this project reproduce.
pub const ARTICLES: &[Article] = &[];

/// The section of a report whose experiment names an article.
pub fn section(data: &Data) -> Markup {
    let name = data.experiment.report.given("article");
    let Some(article) = name.and_then(|n| ARTICLES.iter().find(|a| a.name == n)) else { return html! {} };
    html! {
        section {
            h2 { "Beside the published article" }
            p { (article.source) ". " (article.setup) }
            h3 { "What it found" }
            ul.said { @for f in article.found { li { (f) } } }
            h3 { "What differs here, and why" }
            ul.said { @for d in article.differs { li { (d) } } }
        }
    }
}
