//! The demo: a small repository with a failing test, agents that are readable shell scripts, and real runs on it: one
//! whose agent misbehaves, and one that fixes the test. Nothing here is special: the same steps work in any repository.

mod refused;

use crate::ending::exit_code;
use crate::error::{CommandError, Outcome, code};
use crate::session::{Asks, Session};
use crate::surroundings::Surroundings;
use crate::text::out;
use runner::git::Repository;
use runner::{Request, Start, load_settings, write_policies};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the demo's repository holds: path, content, whether it is executable.
const FILES: [(&str, &str, bool); 10] = [
    ("README.md", include_str!("demo/README.md"), false),
    ("bin/slugify", include_str!("demo/slugify.sh"), true),
    ("tests/run", include_str!("demo/tests.sh"), true),
    ("agents/plan", include_str!("demo/plan.sh"), true),
    ("agents/do", include_str!("demo/do.sh"), true),
    ("agents/check", include_str!("demo/check.sh"), true),
    ("agents/act", include_str!("demo/act.sh"), true),
    ("agents/rogue", include_str!("demo/rogue.sh"), true),
    (".gitignore", "id_ed25519\n", false),
    (".norma/config.json", include_str!("demo/config.json"), false),
];

pub(crate) fn run(outer: &Surroundings) -> Outcome<ExitCode> {
    let root = make_repository(outer)?;
    let here = outer.at(root.clone());
    if !here.json {
        out(&format!("repository {} · a test fails in it · agents: shell scripts in agents/", root.display()));
    }
    let context = here.context_to_be()?;
    write_policies(&context.layout)?;
    context.trust.trust(&load_settings(&context.layout.config(), &context.layout)?)?;
    let all_refused = refused::show(&here, here.context_to_be()?)?;
    let mut session = Session::at(&here, context, Asks::Nobody)?;
    let context = session.context.clone();
    let (goal, criteria) = ("slugify must drop punctuation".to_owned(), vec!["tests/run passes".to_owned()]);
    let (_, task) = session.request(&Request::TaskAdd { goal, criteria })?;
    let task = task.as_i64().expect("BUG: a task is a number");
    let view = session.carry_out(Start::Task { task, new: false, agent: None })?;
    let verified = runner::verify_run(&store::Reader::open(&context.layout)?, &context.trust, &view.run_id)?;
    session.finish(&view)?;
    if !here.json {
        let word = if verified.verified { "verified" } else { "NOT verified" };
        out(&format!("log, evidence and receipt {word}: {} events, {} files", verified.events, verified.files));
        out(&format!(
            "try: cd {} && norma show @last · norma events @last · norma diff @last · norma undo @last",
            root.display()
        ));
        out("then: cd your-repository && norma run \"what you want\"");
    }
    Ok(if all_refused { exit_code(&view) } else { ExitCode::from(code::FAILED) })
}

fn make_repository(outer: &Surroundings) -> Outcome<PathBuf> {
    let failed = |what: &str, why: String| {
        CommandError::new(
            code::ENVIRONMENT,
            format!("the demo could not {what}: {why}"),
            "is there a writable temporary folder, and git?",
        )
    };
    let dir =
        tempfile::Builder::new().prefix("norma-demo-").tempdir().map_err(|e| failed("make a folder", e.to_string()))?;
    let root = dir.keep().canonicalize().map_err(|e| failed("find its folder", e.to_string()))?;
    for (path, content, executable) in FILES {
        write(&root.join(path), content, executable).map_err(|e| failed("write its files", e.to_string()))?;
    }
    let (key, content) = refused::KEY;
    write(&root.join(key), content, false).map_err(|e| failed("write its files", e.to_string()))?;
    let ignore = "*\n!.gitignore\n!config.json\n";
    std::fs::write(root.join(".norma/.gitignore"), ignore).map_err(|e| failed("write its files", e.to_string()))?;
    Repository::create(&root, &outer.git, "a small tool with a failing test")
        .map_err(|e| failed("make a repository", e.to_string()))?;
    Ok(root)
}

fn write(path: &Path, content: &str, executable: bool) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, content)?;
    let mode = if executable { 0o755 } else { 0o644 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}
