//! `nacre top`: who loads the cluster, again and again, on a terminal.

use crate::cli::{self, Top};
use crate::client::{Client, Failure};
use crate::terminal::Keys;
use crate::token::administrator;
use anyhow::{Context, Result};
use face::top::{Listed, Size, Sorted, screen};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Time that monitors may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The size of what is no terminal.
const PAGE: Size = Size { columns: 120, lines: 50 };
/// A terminal of its own, without a cursor; and back.
const BEGIN: &str = "\x1b[?1049h\x1b[?25l";
const END: &str = "\x1b[?25h\x1b[?1049l";
/// To the first place; the rest of a line; the rest of the screen.
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST: &str = "\x1b[J";

/// Runs `nacre top`; gives the exit code.
pub(crate) fn top(args: &Top) -> Result<u8> {
    let dir = std::path::absolute(&args.dir).with_context(|| args.dir.display().to_string())?;
    let client = administrator(&dir)?;
    if args.json {
        let picture = picture(&client).map_err(|failure| failure.sentence(&client))?;
        let told = json!({"at": picture["at"], "rates": picture["rates"], "recovery": picture["recovery"], "objects": picture["objects"],
            "images": picture["images"], "pools": picture["pools"], "osds": picture["osds"]});
        println!("{}", serde_json::to_string_pretty(&told)?);
        return Ok(0);
    }
    let mut view = (listed(args.listed), Sorted::Load);
    if args.once || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        // A rate is a mean between two looks, and of images it is made only once somebody looks: the pause is the time over which the
        // figures that are shown are means, as with `iostat` and `top -b`. Nothing is waited for.
        picture(&client).map_err(|failure| failure.sentence(&client))?;
        std::thread::sleep(Duration::from_secs(args.every));
        let picture = picture(&client).map_err(|failure| failure.sentence(&client))?;
        for line in screen(&picture, view.0, view.1, PAGE) {
            println!("{line}");
        }
        return Ok(0);
    }
    let terminal = Keys::begin().context("read keys from the terminal")?;
    let mut out = std::io::stdout();
    out.write_all(BEGIN.as_bytes())?;
    let ended = watch(&client, &terminal, &mut view, Duration::from_secs(args.every), &mut out);
    out.write_all(END.as_bytes())?;
    out.flush()?;
    ended.map(|()| 0)
}

fn listed(listed: cli::Listed) -> Listed {
    match listed {
        cli::Listed::Images => Listed::Images,
        cli::Listed::Pools => Listed::Pools,
        cli::Listed::Osds => Listed::Osds,
    }
}

/// Shows screen after screen until somebody ends it.
fn watch(client: &Client, terminal: &Keys, view: &mut (Listed, Sorted), every: Duration, out: &mut impl Write) -> Result<()> {
    let mut known = Value::Null;
    loop {
        let failure = match picture(client) {
            Ok(picture) => {
                known = picture;
                None
            }
            Err(failure) => Some(failure.sentence(client).to_string()),
        };
        loop {
            show(&known, failure.as_deref(), *view, terminal.size(), out)?;
            match terminal.wait(every) {
                None => break,
                Some(b'q' | 3) => return Ok(()),
                Some(b'i') => view.0 = Listed::Images,
                Some(b'p') => view.0 = Listed::Pools,
                Some(b'o') => view.0 = Listed::Osds,
                Some(b'w') => view.1 = Sorted::Writes,
                Some(b'r') => view.1 = Sorted::Reads,
                Some(b'l') => view.1 = Sorted::Load,
                Some(_) => {}
            }
        }
    }
}

fn show(
    picture: &Value,
    failure: Option<&str>,
    view: (Listed, Sorted),
    size: Option<(usize, usize)>,
    out: &mut impl Write,
) -> Result<()> {
    let (columns, lines) = size.unwrap_or((80, 24));
    let size = Size { columns: columns.max(1), lines: lines.saturating_sub(2) };
    let mut text = String::from(HOME);
    if let Some(why) = failure {
        let line: String = face::top::plain(why).chars().take(size.columns).collect();
        text.push_str(&format!("{line}{REST_OF_LINE}\r\n"));
    }
    if !picture.is_null() {
        for line in screen(picture, view.0, view.1, size) {
            text.push_str(&format!("{line}{REST_OF_LINE}\r\n"));
        }
    }
    let keys: String = "i images  p pools  o osds   w writes  r reads  l load   q end".chars().take(size.columns).collect();
    text.push_str(&format!("{keys}{REST_OF_LINE}{REST}"));
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn picture(client: &Client) -> Result<Value, Failure> {
    let reply = client.command_within(&json!({"prefix": "nacre picture", "format": "json"}), PATIENCE)?;
    Ok(serde_json::from_str(&reply.output).unwrap_or_default())
}
