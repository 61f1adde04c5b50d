//! Text of strangers in what people read: names of services, images and daemons may hold sequences that a terminal obeys, or ends of lines that
//! begin a line of somebody else's choice.

/// Returns true for what a terminal may obey.
fn is_obeyed(c: char) -> bool {
    // Marks that turn the direction of what follows are obeyed, too.
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> String {
    let bad = |c: char| is_obeyed(c) && !stays(c);
    if !text.chars().any(bad) {
        return text.to_owned();
    }
    text.chars().map(|c| if bad(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Gives a text in one line: what is no printable character is told by its number.
pub fn one_line(text: &str) -> String {
    escaped(text, |_| false)
}

/// Gives a text in which a terminal finds nothing to obey but ends of lines and tabs.
pub fn printable(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

/// Returns true if a name of somebody may be shown as it is.
pub fn is_printable(name: &str) -> bool {
    !name.chars().any(is_obeyed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let evil = "rgw \u{1b}[2J\n health: HEALTH_OK\t\u{202e}\u{9b}31m";
        assert_eq!(one_line(evil), "rgw \\u{1b}[2J\\n health: HEALTH_OK\\t\\u{202e}\\u{9b}31m");
        assert_eq!(printable(evil), "rgw \\u{1b}[2J\n health: HEALTH_OK\t\\u{202e}\\u{9b}31m");
        assert!(!is_printable(evil) && is_printable("größer"));
        assert_eq!((one_line("größer"), printable("a\nb")), ("größer".into(), "a\nb".into()));
    }
}
