//! `nacre generate`: man pages and completions of shells, made of the description of the command line.
//!
//! Packages call it when they are built. So what they ship says the same as `--help`.

use crate::cli::{Cli, Generate, Papers};
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;

/// Runs `nacre generate`; gives the exit code.
pub(crate) fn generate(args: &Generate) -> Result<u8> {
    std::fs::create_dir_all(&args.folder).with_context(|| format!("make the folder {}", args.folder.display()))?;
    match args.what {
        Papers::Man => man(&args.folder),
        Papers::Completions => completions(&args.folder),
    }
    .with_context(|| format!("write into {}", args.folder.display()))?;
    Ok(0)
}

fn man(folder: &Path) -> std::io::Result<()> {
    clap_mangen::generate_to(Cli::command(), folder)
}

fn completions(folder: &Path) -> std::io::Result<()> {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), "nacre", folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn pages_are_of_all_commands_but_hidden_ones() {
        let dir = tempfile::tempdir().unwrap();
        man(dir.path()).unwrap();
        let names = names(dir.path());
        for page in ["nacre.1", "nacre-up.1", "nacre-join.1", "nacre-host-ls.1", "nacre-lab-run.1"] {
            assert!(names.iter().any(|n| n == page), "{page} is not among {names:?}");
        }
        assert!(!names.iter().any(|n| n.contains("generate") || n.contains("model-disk")), "{names:?}");
        let up = std::fs::read_to_string(dir.path().join("nacre-up.1")).unwrap();
        assert!(up.contains(r"\-\-dir") && up.contains("whole cluster"), "{up}");
    }

    #[test]
    fn completions_are_for_three_shells() {
        let dir = tempfile::tempdir().unwrap();
        completions(dir.path()).unwrap();
        assert_eq!(names(dir.path()), ["_nacre", "nacre.bash", "nacre.fish"]);
        let bash = std::fs::read_to_string(dir.path().join("nacre.bash")).unwrap();
        assert!(bash.contains("--osd-size") && bash.contains("complete -F"));
    }
}
