//! Prints figures of a large cluster. See the crate's text.
#![forbid(unsafe_code)]

use scale::cluster::Size;
use scale::figures;
use std::process::ExitCode;

/// The product's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
Figures of a monitor among many OSDs, in one process with virtual time. Counted is the processor time of the monitor.

    scale lost [OSDS GROUPS]         OSDs boot, pools are made, a host of 24 is lost
    scale peering [OSDS GROUPS]      one real OSD and those that share groups with it among stand-ins
    scale commands [OSDS GROUPS]     what commands take
    scale changes COUNT DEPTH        so many changes of the map, DEPTH at a time, and a start after them

Without OSDS and GROUPS: 1,000 OSDs, and 32,768 groups in four pools.";

fn size(words: &[&str]) -> Result<Size, String> {
    let number = |word: &str| word.parse::<usize>().map_err(|_| format!("not a number: {word}"));
    match words {
        [] => Ok(Size::LARGE),
        [osds, groups] => {
            let pools = Size::LARGE.pools;
            Ok(Size { osds: number(osds)?, pools, groups: number(groups)?.div_ceil(pools) as u32 })
        }
        _ => Err(USAGE.into()),
    }
}

/// Bytes that this process has in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn run(words: &[&str]) -> Result<(), String> {
    match words {
        ["lost", rest @ ..] => {
            let (mut cluster, mut rows) = figures::made(size(rest)?)?;
            rows.extend(figures::host_lost(&mut cluster)?);
            print!("{}", figures::table(&rows));
        }
        ["peering", rest @ ..] => print!("{}", figures::peering(size(rest)?)?),
        ["commands", rest @ ..] => {
            let (mut cluster, _) = figures::made(size(rest)?)?;
            print!("{}", figures::commands(&mut cluster)?);
        }
        ["changes", count, depth] => {
            let number = |word: &str| word.parse::<usize>().map_err(|_| format!("not a number: {word}"));
            let (mut cluster, _) = figures::made(Size::LARGE)?;
            let before = resident();
            print!("{}", figures::changes(&mut cluster, number(count)?, number(depth)?)?);
            println!("| memory of the whole simulation before and after, MiB | {}, {} |", before >> 20, resident() >> 20);
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}
