//! Published articles beside our curves: numbers and shapes, and what differs. The pages beside the experiment files
//! (`lab/articles/*.md`) say more, with figures of runs here.

use crate::report::data::Data;
use maud::{Markup, html};

/// Findings of an article.
#[derive(Clone, Copy, Debug)]
pub struct Article {
    /// Name in experiment files.
    pub name: &'static str,
    /// Author, title and year.
    pub source: &'static str,
    /// Machines that it measured on.
    pub setup: &'static str,
    /// Its findings, and how a reader checks them here.
    pub found: &'static [&'static str],
    /// Reason why it differs here.
    pub differs: &'static [&'static str],
}

/// Those that experiment files of this project reproduce.
pub const ARTICLES: &[Article] = &[
    Article {
        name: "controllers",
        source: "Mark Nelson, “Ceph Performance Part 1: Disk Controller Write Throughput” and “Part 2: Write Throughput Without SSD Journals”, October and November 2012",
        setup: "Six or eight 7200-rpm disks with one OSD each behind six controllers, Ceph 0.50 with FileStore, eight rados bench on the same machine.",
        found: &[
            "Small writes: journals on SSDs and cheap controllers without a cache are fast; without SSDs the same controllers are among the slowest, and those with a write-back cache lead.",
            "Many small writes at once (256): no lasting gain from SSDs for journals.",
            "4 MiB writes: nearly 700 MB/s with 16 under way and SSDs for journals (six disks, btrfs), over 130 MB/s for each disk with 256; at most about 450 MB/s from eight disks that hold their journals.",
            "btrfs has the highest rates and needs the most processor time; ext4 lies between; xfs has the longest waits of data disks.",
        ],
        differs: &[
            "One disk and one OSD instead of six or eight: rates are to be set beside a sixth or an eighth of the article's.",
            "A model of a disk does one request after the other as they come; only its cache is sorted. A real disk sorts some of what waits.",
            "The controllers are reduced to what the article found to matter: a write-back cache that is safe, or none.",
        ],
    },
    Article {
        name: "releases",
        source: "Mark Nelson, “Ceph Cuttlefish VS Bobtail”, parts 1 to 5, July 2013",
        setup: "24 disks and 8 SSDs for journals in one server, a client over two bonded links of 10 Gbit/s, FileStore, one copy, no authentication, four rados bench of 32 under way.",
        found: &[
            "4 KiB writes on xfs: the newer release is over twice as fast; ext4 gains, too; btrfs does not.",
            "Reads gain little; 4 KiB reads are faster than writes everywhere.",
            "4 MiB writes fill the link of about 2 GB/s; reads reach 1.8 GB/s.",
        ],
        differs: &[
            "Other releases, eight years younger, with another store: the gain of 2013 came from how FileStore kept its logs.",
            "Client and servers share the processors of one machine and speak over loopback.",
        ],
    },
    Article {
        name: "nvme-layers",
        source: "nine (Zürich), “Our Experiences with Ceph – Part 2”, December 2016",
        setup: "Servers with NVMe disks; each part tested by itself, from the disk to a virtual machine's image, mostly with fio.",
        found: &[
            "Disk, random writes, IOPS and MB/s: 4k 314,276 / 1,228; 8k 192,417 / 1,503; 16k 104,569 / 1,633; 2048k 892 / 1,787; 4096k 445 / 1,788.",
            "Disk, random reads: 4k 351,525 / 1,373; 8k 246,589 / 1,927; 16k 138,682 / 2,166; 2048k 1,248 / 2,502; 4096k 648 / 2,605.",
            "The figures of its further layers could not be found again in public archives, so they are not set beside ours.",
        ],
        differs: &[
            "A loop device on a virtual disk is no NVMe disk: what counts is the share that each layer leaves, not the height.",
        ],
    },
    Article {
        name: "erasure-read",
        source: "Kyle Bader, “Diving into the Deep” and “Diving Deeper”, March and April 2021",
        setup: "Ten servers with 84 disks of 16 TB each; before that, measurements of older disks, read from RADOS.",
        found: &[
            "Each disk of the older cluster gave 75.83 MB/s under erasure code 4+2 and 88 MB/s under three copies: 0.86 of it.",
            "A read of a 4 MiB object is one request of 4 MiB to one disk under copies, and four of 1 MiB to four disks under 4+2.",
            "With a stripe as large as the object, ten servers gave 79.6 GiB/s of reads of 24 MiB: some 97 MiB/s for each disk.",
        ],
        differs: &[
            "Models of disks on one machine whose two processors also run six OSDs and the client.",
            "Objects of rados bench are as large as a read; the article read whole objects through the object gateway.",
        ],
    },
];

/// The section of a report whose experiment names an article.
pub fn section(data: &Data) -> Markup {
    let name = data.experiment.report.given("article");
    let Some(article) = name.and_then(|n| ARTICLES.iter().find(|a| a.name == n)) else { return html! {} };
    html! {
        section {
            h2 { "Beside the published article" }
            p { (article.source) ". " (article.setup) }
            h3 { "What it found" }
            ul.said.plain { @for f in article.found { li { (f) } } }
            h3 { "What differs here, and why" }
            ul.said.plain { @for d in article.differs { li { (d) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::reader;
    use std::path::Path;

    #[test]
    fn every_article_that_an_experiment_file_names_is_here_and_has_a_page() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/articles");
        let mut named = Vec::new();
        for file in
            std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "toml"))
        {
            assert!(file.with_extension("md").exists(), "{} has no page beside it", file.display());
            named.extend(reader::read(&file, false).unwrap().report.given("article"));
        }
        named.sort();
        let mut here: Vec<&str> = ARTICLES.iter().map(|a| a.name).collect();
        here.sort_unstable();
        assert_eq!(named, here);
    }
}
