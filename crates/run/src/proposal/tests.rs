//! Which commands tell whether the change is good: those by which the repository's own tools run its tests, as far as
//! they are installed. A command that could not be started here is not proposed; a note says what is missing.

use super::{Facts, is_test, name, parent};

/// More commands than this are a repository whose owner says what to run.
const COMMANDS_MAX: usize = 3;

/// The commands, and what a person should know about them.
pub(super) fn propose(facts: &Facts) -> (Vec<String>, Vec<String>) {
    let (mut tests, mut notes) = (Vec::new(), Vec::new());
    let mut add = |(found, missing): (Option<String>, Option<String>)| {
        tests.extend(found);
        notes.extend(missing);
    };
    for project in projects(facts) {
        [python, node, rust, go].into_iter().for_each(|of| add(of(&project, facts)));
    }
    if tests.is_empty() {
        tests.extend(projects_with(&["Makefile", "GNUmakefile"], facts).iter().find_map(|at| make(at, facts)));
    }
    tests.truncate(COMMANDS_MAX);
    if tests.is_empty() && notes.is_empty() {
        notes.push(
            "no test was found: nothing but scope and size will judge the change; name one with --test".to_owned(),
        );
    }
    (tests, notes)
}

/// The root, if it is a project; else the directories that are.
fn projects(facts: &Facts) -> Vec<String> {
    let all = projects_with(
        &["package.json", "pyproject.toml", "setup.py", "requirements.txt", "Cargo.toml", "go.mod"],
        facts,
    );
    let at_root = |file: &String| !file.contains('/');
    let python_at_root = facts.files.iter().any(|file| at_root(file) && file.ends_with(".py"));
    match all.iter().any(String::is_empty) || (all.is_empty() && python_at_root) {
        true => vec![String::new()],
        false => all,
    }
}

fn projects_with(manifests: &[&str], facts: &Facts) -> Vec<String> {
    let mut found: Vec<String> =
        facts.texts.keys().filter(|path| manifests.contains(&name(path))).map(|path| parent(path).to_owned()).collect();
    found.sort();
    found.dedup();
    found
}

/// The text of a manifest of a project.
fn text<'f>(project: &str, manifest: &str, facts: &'f Facts) -> Option<&'f str> {
    facts.texts.get(&joined(project, manifest)).map(String::as_str)
}

fn joined(project: &str, path: &str) -> String {
    if project.is_empty() { path.to_owned() } else { format!("{project}/{path}") }
}

fn is_in(project: &str, file: &str) -> bool {
    project.is_empty() || super::holds(project, file)
}

/// pytest where the repository is set up for it or it is installed, else unittest where the tests are written for it.
fn python(project: &str, facts: &Facts) -> (Option<String>, Option<String>) {
    let is_python_test = |file: &&String| file.ends_with(".py") && is_test(file) && is_in(project, file);
    let Some(test) = facts.files.iter().find(is_python_test) else { return (None, None) };
    let said = |manifest: &str, word: &str| text(project, manifest, facts).is_some_and(|text| text.contains(word));
    let wants_pytest = facts.files.iter().any(|file| is_in(project, file) && name(file) == "conftest.py")
        || ["pyproject.toml", "requirements.txt", "requirements-dev.txt", "pytest.ini", "setup.cfg", "tox.ini"]
            .iter()
            .any(|manifest| said(manifest, "pytest"));
    let of_venv = |program: &str| {
        let at = |venv: &str| joined(project, &format!("{venv}/bin/{program}"));
        [".venv", "venv"].map(at).into_iter().find(|path| facts.installed.contains(path))
    };
    let place = if project.is_empty() { String::new() } else { format!(" {project}") };
    if of_venv("pytest").is_some() {
        return (of_venv("python").map(|python| format!("{python} -m pytest{place}")), None);
    }
    if facts.programs.contains("pytest") {
        return (Some(format!("pytest{place}")), None);
    }
    let mut tests = facts.texts.iter().filter(|(path, _)| is_python_test(path));
    let for_unittest = tests.clone().count() > 0 && tests.all(|(_, text)| text.contains("unittest"));
    let python = of_venv("python").or_else(|| {
        ["python3", "python"].iter().find(|program| facts.programs.contains(**program)).map(|it| (*it).to_owned())
    });
    match python.filter(|_| for_unittest && !wants_pytest) {
        Some(python) => {
            let directory = parent(test);
            let start = if directory.is_empty() { "." } else { directory };
            (Some(format!("{python} -m unittest discover -s {start}")), None)
        }
        None => {
            let venv = joined(project, ".venv");
            let note = format!(
                "pytest is neither in {venv} nor on PATH, so its tests are not proposed; install it \
                 (python3 -m venv {venv} && {venv}/bin/pip install pytest), or name a command with --test"
            );
            (None, Some(note))
        }
    }
}

/// The `test` script, by the package manager that the lock file is of.
fn node(project: &str, facts: &Facts) -> (Option<String>, Option<String>) {
    let Some(manifest) = text(project, "package.json", facts) else { return (None, None) };
    let manifest: serde_json::Value = serde_json::from_str(manifest).unwrap_or_default();
    let script = manifest["scripts"]["test"].as_str().unwrap_or_default();
    if script.is_empty() || script.contains("no test specified") {
        return (None, None);
    }
    let has = |file: &str| facts.files.binary_search(&joined(project, file)).is_ok();
    let manager = match () {
        () if has("pnpm-lock.yaml") => "pnpm",
        () if has("yarn.lock") => "yarn",
        () if has("bun.lock") || has("bun.lockb") => "bun",
        () => "npm",
    };
    let Some(manager) = [manager, "npm"].into_iter().find(|program| facts.programs.contains(*program)) else {
        let note = format!("{manager} is not on PATH, so `{manager} test` is not proposed; name a command with --test");
        return (None, Some(note));
    };
    let wants = |list: &str| manifest[list].as_object().is_some_and(|list| !list.is_empty());
    let installed = facts.installed.contains(&joined(project, "node_modules"));
    let note = ((wants("dependencies") || wants("devDependencies")) && !installed).then(|| {
        let modules = joined(project, "node_modules");
        format!("{modules} is not installed: run {manager} install, or set workspace.setup")
    });
    let command = match (manager, project) {
        ("bun", "") => "bun run test".to_owned(),
        (manager, "") => format!("{manager} test"),
        ("pnpm", project) => format!("pnpm --dir {project} test"),
        ("yarn", project) => format!("yarn --cwd {project} test"),
        ("bun", project) => format!("bun --cwd {project} run test"),
        (manager, project) => format!("{manager} --prefix {project} test"),
    };
    (Some(command), note)
}

fn rust(project: &str, facts: &Facts) -> (Option<String>, Option<String>) {
    if text(project, "Cargo.toml", facts).is_none() {
        return (None, None);
    }
    let command = match project {
        "" => "cargo test".to_owned(),
        project => format!("cargo test --manifest-path {project}/Cargo.toml"),
    };
    installed(command, "cargo", facts)
}

fn go(project: &str, facts: &Facts) -> (Option<String>, Option<String>) {
    if text(project, "go.mod", facts).is_none() {
        return (None, None);
    }
    let command = if project.is_empty() { "go test ./...".to_owned() } else { format!("go test -C {project} ./...") };
    installed(command, "go", facts)
}

fn installed(command: String, program: &str, facts: &Facts) -> (Option<String>, Option<String>) {
    match facts.programs.contains(program) {
        true => (Some(command), None),
        false => {
            let note = format!("{program} is not on PATH, so `{command}` is not proposed; name a command with --test");
            (None, Some(note))
        }
    }
}

/// The target that runs the tests.
fn make(project: &str, facts: &Facts) -> Option<String> {
    let text = text(project, "Makefile", facts).or_else(|| text(project, "GNUmakefile", facts))?;
    let has = |target: &&str| {
        let rule = |line: &str| line.strip_prefix(*target).is_some_and(|rest| rest.trim_start().starts_with(':'));
        text.lines().any(rule)
    };
    let target = ["test", "check"].into_iter().find(|target| has(target))?;
    let at = if project.is_empty() { String::new() } else { format!(" -C {project}") };
    facts.programs.contains("make").then(|| format!("make{at} {target}"))
}
