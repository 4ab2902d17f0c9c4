//! Patterns over paths, shared by every list of paths that policy names. A list that protects must see what a
//! file system would take for the protected file, so both sides are folded: case, normalisation form, and what
//! Windows drops at the end of a name do not count.
//!
//! - `name`: that name anywhere, as a file or a directory, and everything below it;
//! - `dir/`, `dir/name`, `/name`: from the repository's root, and everything below it;
//! - `**/dir/name`: the same at any depth.
//!
//! One `*` in a component stands for any characters of that component.

use crate::RepoPath;
use crate::path::fold;

/// What a pattern is matched against: the components of a path as such a file system compares them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldedPath(Vec<String>);

impl FoldedPath {
    /// Folds a path.
    pub fn new(path: &RepoPath) -> FoldedPath {
        FoldedPath(path.components().map(fold_component).collect())
    }
}

/// NTFS reads a name up to a stream's `:`, and drops dots and spaces at its end.
fn fold_component(component: &str) -> String {
    let name = component.split(':').next().unwrap_or_default();
    fold(name.trim_end_matches(['.', ' ']))
}

/// A pattern, and the names it spares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    /// Whether it may start at any depth.
    floating: bool,
    /// What consecutive components must be; at least one.
    parts: Vec<Part>,
    /// Names that the last part does not mean.
    except: Vec<Part>,
}

/// What one component must be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    before: String,
    /// What comes after a `*`, if there is one.
    after: Option<String>,
}

impl Part {
    fn parse(text: &str) -> Result<Part, String> {
        let (before, after) = match text.split_once('*') {
            Some((before, after)) => (before, Some(after)),
            None => (text, None),
        };
        if after.is_some_and(|after| after.contains('*')) {
            return Err(format!("{text:?} has more than one `*`"));
        }
        if before.is_empty() && after == Some("") {
            return Err("a `*` by itself would mean everything".to_owned());
        }
        Ok(Part { before: fold(before), after: after.map(fold) })
    }

    fn matches(&self, name: &str) -> bool {
        match &self.after {
            None => name == self.before,
            Some(after) => {
                name.len() >= self.before.len() + after.len() && name.starts_with(&self.before) && name.ends_with(after)
            }
        }
    }
}

impl PathPattern {
    /// Reads a pattern; what is wrong with it otherwise.
    pub fn parse(text: &str) -> Result<PathPattern, String> {
        let (anywhere, rest) = match text.strip_prefix("**/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (at_root, rest) = match rest.strip_prefix('/') {
            Some(name) if !anywhere => (true, name),
            _ => (false, rest),
        };
        let path = rest.strip_suffix('/').unwrap_or(rest);
        // A star is as good as a letter here: what is left must be a path that a repository can hold.
        match RepoPath::parse(&path.replace('*', "x")) {
            Err(problem) => return Err(problem.to_string()),
            Ok(normal) if normal.as_str().len() != path.len() => return Err(format!("write it as {normal}")),
            Ok(_) => {}
        }
        let parts = path.split('/').map(Part::parse).collect::<Result<Vec<_>, _>>()?;
        Ok(PathPattern { floating: anywhere || !at_root && !rest.contains('/'), parts, except: Vec::new() })
    }

    /// The same without these names, each with at most one `*`.
    pub fn except(mut self, name: &str) -> Result<PathPattern, String> {
        if name.contains('/') || name.is_empty() {
            return Err(format!("{name:?} is not a name"));
        }
        self.except.push(Part::parse(name)?);
        Ok(self)
    }

    /// Whether the path is what the pattern means, or lies below it.
    pub fn matches(&self, path: &FoldedPath) -> bool {
        let starts = if self.floating { path.0.len() } else { 1 };
        (0..starts).any(|start| self.matches_from(&path.0[start..]))
    }

    fn matches_from(&self, components: &[String]) -> bool {
        let Some(found) = components.get(..self.parts.len()) else { return false };
        let last = found.last().map(String::as_str).unwrap_or_default();
        let fits = self.parts.iter().zip(found).all(|(part, name)| part.matches(name));
        fits && !self.except.iter().any(|part| part.matches(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], other: &[&str]) {
        let pattern = PathPattern::parse(pattern).unwrap();
        let folded = |path: &str| FoldedPath::new(&RepoPath::parse(path).unwrap());
        for path in matching {
            assert!(pattern.matches(&folded(path)), "{pattern:?} should match {path}");
        }
        for path in other {
            assert!(!pattern.matches(&folded(path)), "{pattern:?} should not match {path}");
        }
    }

    #[test]
    fn a_name_is_meant_at_any_depth_and_with_everything_below() {
        check("Makefile", &["Makefile", "a/Makefile", "makefile", "Makefile/x"], &["Makefile.md", "aMakefile"]);
        check(".env*", &[".env", "a/.env.local", ".ENV", ".envrc"], &["env", "a.env"]);
        check("*.tf", &["a/main.tf", "MAIN.TF"], &["main.tfx", "tf"]);
        check("requirements*.txt", &["requirements.txt", "requirements-dev.txt"], &["requirements.md"]);
    }

    #[test]
    fn a_path_is_meant_from_the_root_unless_it_floats() {
        check(".github/", &[".github", ".github/a", ".GitHub/a/b"], &["a/.github", ".githubx/a"]);
        check("/.travis.yml", &[".travis.yml", ".TRAVIS.YML"], &["vendor/.travis.yml", ".travis.yaml"]);
        check("a/b/", &["a/b", "a/b/c"], &["x/a/b", "a/c"]);
        check("**/.cargo/config*", &[".cargo/config.toml", "a/.cargo/config"], &[".cargo/bin", "config"]);
        check("**/migrations/", &["db/migrations/1.sql", "migrations"], &["src/migrations.rs"]);
    }

    #[test]
    fn what_a_file_system_drops_or_folds_does_not_count() {
        check(".env", &[".env.", ".env ", ".env:stream", ".ENV . ", ".env::$DATA/x"], &[".env.x"]);
        check("stra\u{df}e", &["STRASSE"], &[]);
    }

    #[test]
    fn excepted_names_are_spared_where_they_stand_and_nowhere_else() {
        let pattern = PathPattern::parse(".env*").unwrap().except(".env*.example").unwrap();
        let matches = |path: &str| pattern.matches(&FoldedPath::new(&RepoPath::parse(path).unwrap()));
        assert!(!matches(".env.example") && !matches("a/.env.prod.example") && !matches(".ENV.EXAMPLE"));
        assert!(matches(".env") && matches(".env.example/.env"));
    }

    #[test]
    fn a_pattern_that_cannot_be_meant_is_refused() {
        for (pattern, expected) in [
            ("", r#"path "" names no file"#),
            ("//a", r#"path "/a" is absolute"#),
            ("**//a", r#"path "/a" is absolute"#),
            ("/", r#"path "" names no file"#),
            ("../a", r#"path "../a" contains a `..` component"#),
            ("a//b", "write it as a/b"),
            ("./a", "write it as a"),
            ("*", "a `*` by itself would mean everything"),
            ("a/*/b", "a `*` by itself would mean everything"),
            ("a**", r#""a**" has more than one `*`"#),
            ("a/**/b", r#""**" has more than one `*`"#),
        ] {
            assert_eq!(PathPattern::parse(pattern).unwrap_err(), expected, "{pattern:?}");
        }
        let pattern = PathPattern::parse(".env*").unwrap();
        assert_eq!(pattern.except("a/b").unwrap_err(), r#""a/b" is not a name"#);
    }
}
