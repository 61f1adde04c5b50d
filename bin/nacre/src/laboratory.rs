//! `nacre demo` and `nacre lab`.

use crate::cli::{Demo, LabCommand};
use anyhow::{Context, Result};
use lab::command::{self, RunOptions};
use lab::process::Interrupt;
use runtime::process::Signals;
use std::sync::atomic::Ordering;

/// Exit code of a comparison that found a regression.
const WORSE: u8 = 1;

fn interrupt(signals: Signals) -> Interrupt {
    let interrupt = Interrupt::default();
    let told = interrupt.0.clone();
    std::thread::spawn(move || {
        signals.next();
        told.store(true, Ordering::Relaxed);
    });
    interrupt
}

pub(crate) fn demo(args: Demo, signals: Signals) -> Result<u8> {
    let options = lab::demo::Options {
        nacre: std::env::current_exe().context("find the own program")?,
        folder: args.dir,
        osds: args.osds,
        auth: args.auth.name().into(),
        seconds: args.seconds,
        only: args.only,
        json: args.json,
        interrupt: interrupt(signals),
    };
    lab::demo::run(&options)
}

pub(crate) fn lab(args: LabCommand, signals: impl FnOnce() -> Result<Signals>) -> Result<u8> {
    match args {
        LabCommand::Run { file, out, quick, wipe, again } => {
            let nacre = std::env::current_exe().context("find the own program")?;
            command::run(&RunOptions { nacre, file, out, quick, wipe, again }, interrupt(signals()?))
        }
        LabCommand::DryRun { file, quick } => {
            print!("{}", command::dry_run(&file, quick)?);
            Ok(0)
        }
        LabCommand::Report { results, out } => {
            lab::report::write(&results, &out)?.iter().for_each(|path| println!("{path}"));
            Ok(0)
        }
        LabCommand::Compare { a, b, json } => {
            let found = lab::compare::compare(&a, &b)?;
            print!("{}", if json { found.json() } else { found.text() });
            Ok(if found.is_regression() { WORSE } else { 0 })
        }
        LabCommand::Import { plan } => {
            print!("{}", lab::import::cbt(&plan)?);
            Ok(0)
        }
        LabCommand::Keys => {
            print!("{}", lab::plan::schema::help());
            Ok(0)
        }
        LabCommand::ModelDisk { backing, at, model } => {
            let signals = signals()?;
            lab::disks::model::serve(&backing, &at, &model, move || {
                signals.next();
            })
        }
        .map(|()| 0),
    }
}
