//! Results on disk: one JSON file for each run, so that an experiment goes on where it was interrupted.
//!
//! `OUT/experiment.json` is what was asked, `OUT/environment.json` where it ran, `OUT/runs/ID.json` what came out and
//! `OUT/runs/ID.log` what the tools said. A file is written beside its place and renamed, so it is whole or not there.

use crate::environment::Environment;
use crate::monitor::Figures;
use crate::plan::Experiment;
use crate::plan::order::Run;
use crate::profile::Profiles;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It was measured.
    Done,
    /// Something failed; `message` says what.
    Failed,
    /// It cannot be done here; `message` says why.
    Skipped,
}

/// A curve over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name of the figure.
    pub name: String,
    /// Seconds since the start, and the value.
    pub points: Vec<(f64, f64)>,
}

/// Result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The run that was asked for.
    pub run: Run,
    /// Its end.
    pub status: Status,
    /// The fault, if there was one.
    pub message: String,
    /// Seconds since 1970 when it began.
    pub began: f64,
    /// The command.
    pub command: String,
    /// Figures by name.
    pub figures: Figures,
    /// Curves.
    pub series: Vec<Series>,
    /// Profiles that were made after it.
    #[serde(default)]
    pub profiles: Profiles,
}

/// A folder with results.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Opens or makes the folder for this experiment.
    ///
    /// # Errors
    /// It holds results of another experiment, or cannot be written.
    pub fn make(folder: &Path, experiment: &Experiment) -> Result<Self> {
        let store = Self { folder: folder.to_owned() };
        std::fs::create_dir_all(folder.join("runs")).with_context(|| format!("make {}", folder.display()))?;
        let path = folder.join("experiment.json");
        if path.exists() {
            let before: Experiment = read(&path)?;
            if before != *experiment {
                bail!(
                    "{} holds results of another experiment, or of this one with other settings; give another --out",
                    folder.display()
                );
            }
        } else {
            write(&path, experiment)?;
        }
        Ok(store)
    }

    /// Opens a folder with results.
    ///
    /// # Errors
    /// It has none.
    pub fn open(folder: &Path) -> Result<Self> {
        if !folder.join("experiment.json").exists() {
            bail!("{} holds no results: there is no experiment.json in it", folder.display());
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// Returns where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns what was asked.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn experiment(&self) -> Result<Experiment> {
        read(&self.folder.join("experiment.json"))
    }

    /// Returns where it ran.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn environment(&self) -> Result<Environment> {
        read(&self.folder.join("environment.json"))
    }

    /// Notes where it runs, if that was not noted yet.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note(&self, environment: &Environment) -> Result<()> {
        let path = self.folder.join("environment.json");
        if path.exists() { Ok(()) } else { write(&path, environment) }
    }

    /// The record of a run, if it was made.
    pub fn get(&self, id: &str) -> Option<Record> {
        read(&self.file(id, "json")).ok()
    }

    /// Keeps a record, and what the tools said.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put(&self, record: &Record, said: &str) -> Result<()> {
        std::fs::write(self.file(&record.run.id, "log"), said).with_context(|| format!("write to {}", self.folder.display()))?;
        write(&self.file(&record.run.id, "json"), record)
    }

    /// All records, in the order in which they were made.
    ///
    /// # Errors
    /// The folder or a file cannot be read.
    pub fn records(&self) -> Result<Vec<Record>> {
        let mut all: Vec<Record> = Vec::new();
        for entry in std::fs::read_dir(self.folder.join("runs"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "json") {
                all.push(read(&path)?);
            }
        }
        all.sort_by(|a, b| a.began.total_cmp(&b.began));
        Ok(all)
    }

    fn file(&self, id: &str, ending: &str) -> PathBuf {
        self.folder.join("runs").join(format!("{id}.{ending}"))
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not what this laboratory writes", path.display()))
}

fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let beside = path.with_extension("part");
    let text = serde_json::to_string_pretty(value)? + "\n";
    std::fs::write(&beside, text).with_context(|| format!("write {}", beside.display()))?;
    std::fs::rename(&beside, path).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{order, reader};

    #[test]
    fn records_are_kept_and_another_experiment_is_refused() {
        let text = "[experiment]\nname = 'x'\n[[cluster]]\nname = 'a'\nkind = 'nacre'\n[[workload]]\nkind = 'rados'\n";
        let experiment = reader::parse(text, "x", false).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Store::make(folder.path(), &experiment).unwrap();
        let run = order::batches(&experiment)[0].runs[0].clone();
        let figures = [("ops_per_second".to_owned(), 5.5)].into();
        let record = Record {
            run: run.clone(),
            status: Status::Done,
            message: String::new(),
            began: 1.0,
            command: "rados".into(),
            figures,
            series: vec![Series { name: "ops".into(), points: vec![(1.0, 2.0)] }],
            profiles: Profiles::default(),
        };
        assert_eq!(store.get(&run.id), None);
        store.put(&record, "said").unwrap();
        assert_eq!(store.get(&run.id).as_ref(), Some(&record));
        assert_eq!(Store::open(folder.path()).unwrap().records().unwrap(), [record]);
        assert_eq!(Store::make(folder.path(), &experiment).unwrap().experiment().unwrap(), experiment);
        let other = reader::parse(&text.replace("'a'", "'b'"), "x", false).unwrap();
        assert!(Store::make(folder.path(), &other).unwrap_err().to_string().contains("another experiment"));
        assert!(Store::open(&folder.path().join("none")).is_err());
    }
}
