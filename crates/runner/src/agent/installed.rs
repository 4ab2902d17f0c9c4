//! What a program was installed with, and so needs to be seen to start: a package of node's, an environment of python's, or
//! the directory that a link on the PATH leads to.

use sandbox::Root;
use std::path::{Path, PathBuf};

/// Links that are followed by hand, as the kernel would.
const LINKS_MAX: usize = 40;

/// The program by a name under which it can be seen inside. A link out of the directories that are shown would lead nowhere
/// there, so it is followed; a script looks for the rest of its package beside itself.
pub(crate) fn program(found: &Path) -> PathBuf {
    let real = found.parent().and_then(|dir| dir.canonicalize().ok());
    let named = real.zip(found.file_name()).map_or_else(|| found.to_owned(), |(dir, name)| dir.join(name));
    let Ok(target) = named.canonicalize() else { return named };
    let is_seen = package(&named).iter().any(|root| named.starts_with(&root.path)) || named.starts_with("/usr");
    if is_seen { named } else { target }
}

/// What has to be readable besides the program itself: what it was installed with, and what the scripts were that are its
/// arguments, where it is an interpreter.
pub(super) fn installed(program: &Path, args: &[String]) -> Vec<Root> {
    let scripts = args.iter().map(Path::new).filter(|path| path.is_absolute());
    let mut found = package(program);
    for root in scripts.flat_map(environment) {
        if !found.iter().any(|it| it.path == root.path) {
            found.push(root);
        }
    }
    found
}

/// What a program was installed with, or its directory.
fn package(program: &Path) -> Vec<Root> {
    let found = environment(program);
    if !found.is_empty() {
        return found;
    }
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let dir = real.parent().filter(|dir| *dir != Path::new("/"));
    dir.map(|dir| Root::new(dir, "what the agent was installed with")).into_iter().collect()
}

/// The packages and environments that a program belongs to, on the way from its name to what it is.
pub(crate) fn environment(program: &Path) -> Vec<Root> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    for name in names(program) {
        dirs.extend(node_modules(&name).or_else(|| node_package(&name)));
        dirs.extend(python_environment(&name).into_iter().flatten());
    }
    // The system's own is seen anyway.
    dirs.retain(|dir| dir != Path::new("/usr") && dir != Path::new("/"));
    dirs.sort();
    dirs.dedup();
    dirs.into_iter().map(|dir| Root::new(dir, "what the agent was installed with")).collect()
}

/// A program's name, and what each link that it is leads to.
fn names(program: &Path) -> Vec<PathBuf> {
    let in_real_dir = |path: &Path| {
        let dir = path.parent()?.canonicalize().ok()?;
        Some(dir.join(path.file_name()?))
    };
    let mut names: Vec<PathBuf> = in_real_dir(program).into_iter().collect();
    while let Some(last) = names.last().filter(|_| names.len() < LINKS_MAX) {
        let Some(next) = std::fs::read_link(last).ok().and_then(|to| in_real_dir(&last.parent()?.join(to))) else {
            break;
        };
        names.push(next);
    }
    names
}

fn node_modules(program: &Path) -> Option<PathBuf> {
    let is_it = |dir: &&Path| dir.file_name().is_some_and(|name| name == "node_modules");
    program.ancestors().filter(is_it).last().map(Path::to_owned)
}

/// The package of a script that was linked from where it is worked on.
fn node_package(program: &Path) -> Option<PathBuf> {
    let is_script = program.extension().is_some_and(|it| matches!(it.to_str(), Some("js" | "mjs" | "cjs")));
    let mut dirs = program.ancestors().skip(1).take(4).filter(|_| is_script);
    dirs.find(|dir| dir.join("package.json").is_file()).map(Path::to_owned)
}

/// An environment, and the installation that its python is from where that is not the system's.
fn python_environment(program: &Path) -> Option<[PathBuf; 2]> {
    let environment = program.parent()?.parent().filter(|dir| dir.join("pyvenv.cfg").is_file())?;
    let python = environment.join("bin/python").canonicalize().ok();
    let installation = python.as_deref().and_then(|python| python.parent()?.parent()).unwrap_or(environment);
    Some([environment.to_owned(), installation.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn file(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    fn seen(program: &Path) -> Vec<PathBuf> {
        environment(program).into_iter().map(|root| root.path).collect()
    }

    #[test]
    fn a_link_leads_to_what_the_program_was_installed_with() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let bin = root.join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        // npm: a link in `.bin`, and one to that.
        file(&root.join("node_modules/agent/cli.js"));
        std::fs::create_dir_all(root.join("node_modules/.bin")).unwrap();
        symlink("../agent/cli.js", root.join("node_modules/.bin/agent")).unwrap();
        symlink(root.join("node_modules/.bin/agent"), bin.join("agent")).unwrap();
        assert_eq!(seen(&root.join("node_modules/.bin/agent")), [root.join("node_modules")]);
        assert_eq!(seen(&bin.join("agent")), [root.join("node_modules")]);
        assert_eq!(program(&bin.join("agent")), root.join("node_modules/agent/cli.js"));
        assert_eq!(program(&root.join("node_modules/.bin/agent")), root.join("node_modules/.bin/agent"));
        // pipx and uv: a link into an environment, whose python may be elsewhere.
        file(&root.join("venvs/tool/pyvenv.cfg"));
        file(&root.join("venvs/tool/bin/tool"));
        file(&root.join("pythons/3.12/bin/python3.12"));
        symlink(root.join("pythons/3.12/bin/python3.12"), root.join("venvs/tool/bin/python")).unwrap();
        symlink(root.join("venvs/tool/bin/tool"), bin.join("tool")).unwrap();
        assert_eq!(seen(&bin.join("tool")), [root.join("pythons/3.12"), root.join("venvs/tool")]);
        assert_eq!(program(&bin.join("tool")), root.join("venvs/tool/bin/tool"));
        // A script that is worked on.
        file(&root.join("work/package.json"));
        file(&root.join("work/dist/main.js"));
        symlink(root.join("work/dist/main.js"), bin.join("mine")).unwrap();
        assert_eq!(seen(&bin.join("mine")), [root.join("work")]);
        // Nothing to be found.
        file(&bin.join("plain"));
        assert_eq!((seen(&bin.join("plain")), program(&bin.join("plain"))), (Vec::new(), bin.join("plain")));
    }
}
