//! `nacre`: a storage cluster in one binary. See `nacre --help`.

mod admin;
mod anonymous;
mod asked;
mod cli;
mod client;
mod conf;
mod control;
mod crash;
mod daemon;
mod disk;
mod events;
mod explain;
mod face;
mod follow;
mod foreign;
mod forget;
mod fsck;
mod generate;
mod guard;
mod host;
mod hosts;
mod identity;
mod image;
mod initial;
mod join;
mod keys;
mod laboratory;
mod leave;
mod location;
mod log;
mod memory;
mod monitors;
mod notices;
mod osds;
mod page;
mod plan;
mod process;
mod reading;
mod replace;
mod rescue;
mod service;
mod state;
mod supervisor;
mod support;
mod terminal;
mod threads;
mod token;
mod top;
mod up;
mod wipe;

use anyhow::{Context, Result};
use clap::Parser;
use cli::{Cli, Command};
use runtime::process::Signals;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: runtime::Memory<mimalloc::MiMalloc> = runtime::Memory(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("nacre: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Set for a process whose memory may be looked into: it leaves core files, and debuggers of the same user may attach.
const CORE_DUMPS: &str = "NACRE_CORE_DUMPS";

fn run(command: Command) -> Result<u8> {
    if std::env::var_os(CORE_DUMPS).is_none_or(|value| value != "1") {
        runtime::process::keep_memory_private().context("keep the memory private")?;
    }
    runtime::process::keep_files_private();
    // Before any thread exists: signals are held back in all of them.
    let signals = || Signals::hold().context("hold signals");
    match command {
        Command::Up(args) => up::up(&args, &up::Role::Everything, signals()?),
        Command::Mon(args) => match (args.command, args.up.0) {
            (Some(command), _) => rescue::rescue(&command, signals),
            (None, Some(up)) => up::up(&up, &up::Role::Monitor(args.name), signals()?),
            (None, None) => anyhow::bail!("nacre mon: --dir is missing"),
        },
        Command::Osd(args) => up::osd(&args, signals()?),
        Command::Token(args) => token::token(&args),
        Command::Join(args) => join::join(&args, signals()?),
        Command::Host(args) => match args.command {
            cli::HostCommand::Ls(args) => hosts::ls(&args),
        },
        Command::Explain(args) => explain::explain(&args),
        Command::Top(args) => top::top(&args),
        Command::Page(args) => page::page(&args),
        Command::Support(args) => support::support(&args),
        Command::Leave(args) => leave::leave(&args),
        Command::Disk(args) => disk::disk(&args.command),
        Command::Forget(args) => forget::forget(&args),
        Command::Replace(args) => replace::replace(&args),
        Command::Fsck(args) => fsck::fsck(&args),
        Command::Admin(args) => admin::admin(&args.socket, &args.command),
        Command::Demo(args) => laboratory::demo(args, signals()?),
        Command::Generate(args) => generate::generate(&args),
        Command::Lab(args) => laboratory::lab(args.command, signals),
    }
}

#[cfg(test)]
mod tests {
    /// Whatever mimalloc maps is on small pages unless something else asks for more: the feature `no_thp` is not lost.
    #[test]
    fn the_allocator_does_not_ask_for_huge_pages() {
        let held: Vec<Vec<u8>> = (0..64).map(|i| vec![i; 1 << 20]).collect();
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("this process has mappings");
        assert!(!maps.lines().any(|line| line.starts_with("VmFlags:") && line.split_whitespace().any(|flag| flag == "hg")));
        drop(held);
    }
}
