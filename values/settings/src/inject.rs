//! Words of `injectargs`: how names and values are told apart.
//!
//! | words | meaning |
//! |---|---|
//! | `--name=value`, `--name value` | the option gets the value; one that begins with a single dash is a value, as `-1` |
//! | `--flag` before another `--word`, or at the end | a flag is true |
//! | `--no-flag` | a flag is false, unless an option has that very name |
//! | `--` | nothing |

use crate::{Kind, find, normalize};

fn is_flag(name: &str) -> bool {
    find(name).is_some_and(|s| s.kind == Kind::Bool)
}

/// The name of the flag that such a word turns off.
fn turned_off(name: &str) -> Option<&str> {
    let flag = name.strip_prefix("no_")?;
    (find(name).is_none() && is_flag(flag)).then_some(flag)
}

/// Pairs of name and value, names with underscores. A name is not looked up, unless it has no value.
///
/// # Errors
/// A sentence for the user: a word that is neither name nor value, or an option without a value.
pub fn injected<'a>(words: impl Iterator<Item = &'a str>) -> Result<Vec<(String, String)>, String> {
    let mut words = words.filter(|word| *word != "--").peekable();
    let mut pairs = Vec::new();
    while let Some(word) = words.next() {
        let Some(given) = word.strip_prefix("--").filter(|name| !name.is_empty() && !name.starts_with('=')) else {
            return Err(format!("'{word}' is not of the form --name=value"));
        };
        if let Some((name, value)) = given.split_once('=') {
            pairs.push((normalize(name), value.to_owned()));
            continue;
        }
        let name = normalize(given);
        if let Some(flag) = turned_off(&name) {
            pairs.push((flag.to_owned(), "false".to_owned()));
        } else if let Some(value) = words.next_if(|next| !next.starts_with("--")) {
            pairs.push((name, value.to_owned()));
        } else if is_flag(&name) {
            pairs.push((name, "true".to_owned()));
        } else {
            return Err(format!("Option {word} requires an argument"));
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Vec<(String, String)>, String> {
        injected(words.split_whitespace())
    }

    fn good(words: &str) -> String {
        read(words).unwrap().iter().map(|(name, value)| format!("{name}={value} ")).collect()
    }

    #[test]
    fn names_values_and_flags_are_told_apart() {
        assert_eq!(good("--debug-osd 20 --debug_ms=1/5"), "debug_osd=20 debug_ms=1/5 ");
        assert_eq!(good("--osd_scrub_auto_repair_num_errors -1"), "osd_scrub_auto_repair_num_errors=-1 ");
        assert_eq!(
            good("--osd_enable_op_tracker --osd_op_history_duration 500"),
            "osd_enable_op_tracker=true osd_op_history_duration=500 "
        );
        assert_eq!(good("--no-osd_enable_op_tracker"), "osd_enable_op_tracker=false ");
        assert_eq!(good("-- --osd_enable_op_tracker false"), "osd_enable_op_tracker=false ");
        assert_eq!(good("--osd_memory_target="), "osd_memory_target= ");
        assert_eq!(good(""), "");
    }

    #[test]
    fn what_is_neither_is_refused() {
        assert_eq!(read("--osd_op_history_duration").unwrap_err(), "Option --osd_op_history_duration requires an argument");
        assert_eq!(read("--debug_osd --debug_ms 1").unwrap_err(), "Option --debug_osd requires an argument");
        assert_eq!(read("--no-debug_osd").unwrap_err(), "Option --no-debug_osd requires an argument");
        for word in ["debug_osd", "-d", "--=5", "--debug_osd 20 5"] {
            assert!(read(word).unwrap_err().ends_with("is not of the form --name=value"), "{word}");
        }
    }
}
