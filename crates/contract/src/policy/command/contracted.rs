//! What a contract says of its own commands, besides what policy says of all.

/// Programs that succeed whatever the change is.
const TRIVIAL: [&str; 7] = ["true", ":", "echo", "printf", "exit", "sleep", "pwd"];

/// What of its words an item forbids to its own commands, besides what policy forbids: the first that they contain,
/// upper or lower case.
pub fn forbidden_word<'w>(argv: &[String], words: &'w [String]) -> Option<&'w str> {
    let line = argv.join(" ").to_lowercase();
    words.iter().map(String::as_str).find(|word| !word.trim().is_empty() && line.contains(&word.to_lowercase()))
}

/// Whether a command succeeds whatever the change is, so that it cannot be a test of it.
pub fn is_trivial(argv: &[String]) -> bool {
    let Some(program) = argv.first().filter(|program| !program.is_empty()) else { return true };
    // A script of the repository may be called anything.
    let name = if program.starts_with('/') { program.rsplit('/').next() } else { Some(program.as_str()) };
    name.is_some_and(|name| TRIVIAL.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_forbids_words_to_its_own_commands() {
        let argv = ["git", "Push", "--force"].map(str::to_owned);
        let check = |words: &[&str], expected: Option<&str>| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(forbidden_word(&argv, &words), expected);
        };
        check(&["git fetch", "GIT push"], Some("GIT push"));
        check(&["--FORCE"], Some("--FORCE"));
        check(&["", " ", "rm -rf"], None);
    }

    #[test]
    fn a_command_that_always_succeeds_is_no_test() {
        let argv = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for line in ["true", ":", "echo ok", "/bin/echo hello", "printf done", "/usr/bin/true x", ""] {
            assert!(is_trivial(&argv(line)), "{line}");
        }
        assert!(is_trivial(&[]));
        for line in ["pytest", "cargo test", "false", "node true", "./echo", "test -f a"] {
            assert!(!is_trivial(&argv(line)), "{line}");
        }
    }
}
