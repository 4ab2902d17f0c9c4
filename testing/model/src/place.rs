//! Where the agent works. File tools want absolute paths, and only the prompt tells the model where it is; each agent
//! says it in its own words.

use serde_json::Value;

/// What stands before the directory and what after it, for each agent.
const WORDS: [(&str, &str); 6] = [
    ("<cwd>", "</cwd>"),
    ("Primary working directory: ", "\n"),
    ("**Workspace Directories:**\n  - ", "\n"),
    ("Working directory: ", "\n"),
    ("working in the directory: ", "\n"),
    ("Current working directory: ", "\n"),
];

/// The directory that a request's texts name, if one does.
pub(crate) fn cwd(body: &Value) -> Option<String> {
    match body {
        Value::String(text) => WORDS.iter().find_map(|(before, after)| between(text, before, after)),
        Value::Array(values) => values.iter().find_map(cwd),
        // What tools say of themselves is full of examples.
        Value::Object(map) => map.iter().filter(|(key, _)| *key != "tools").find_map(|(_, value)| cwd(value)),
        _ => None,
    }
}

/// A path of the agent's, absolute.
pub(crate) fn absolute(path: &str, cwd: Option<&str>) -> String {
    match cwd {
        Some(cwd) if !path.starts_with('/') => format!("{}/{path}", cwd.trim_end_matches('/')),
        _ => path.to_owned(),
    }
}

fn between(text: &str, before: &str, after: &str) -> Option<String> {
    let (_, rest) = text.split_once(before)?;
    let path = rest.split(after).next().unwrap_or_default().trim();
    path.starts_with('/').then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_agents_words_are_understood() {
        for text in [
            "<environment_context>\n  <cwd>/src/tree</cwd>\n  <shell>bash</shell>",
            "# Environment\n - Primary working directory: /src/tree\n - Platform: linux",
            "- **Workspace Directories:**\n  - /src/tree\n- **Directory Structure:**",
            "<env>\n  Working directory: /src/tree\n  Is directory a git repo: yes",
            "I'm currently working in the directory: /src/tree\nHere is the folder structure",
            "* Current working directory: /src/tree\n* Git repository root: /src/tree",
        ] {
            let body = json!({ "tools": ["Working directory: /elsewhere\n"], "x": [{ "text": text }] });
            assert_eq!(cwd(&body).as_deref(), Some("/src/tree"), "{text}");
        }
        assert_eq!(cwd(&json!("Working directory: unknown\n")), None);
    }

    #[test]
    fn an_absolute_path_stays() {
        assert_eq!(absolute("a.txt", Some("/src/tree/")), "/src/tree/a.txt");
        assert_eq!(absolute("/a.txt", Some("/src/tree")), "/a.txt");
        assert_eq!(absolute("a.txt", None), "a.txt");
    }
}
