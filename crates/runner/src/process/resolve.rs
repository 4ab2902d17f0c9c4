//! From the name a contract writes to the file that will run.
//!
//! Done by norma, not left to `execvp`, so that the file can be named in the evidence and so that
//! a search path can never reach into the workspace: an agent that writes a file called `cargo`
//! into its tree must not become the `cargo` that the gate runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// The executable regular file that `program` means, if there is one.
///
/// A name with a slash is a path, relative ones starting from `tree`. A bare name is searched on
/// `path_var`, of which only absolute entries count: an empty entry or `.` would mean the folder
/// norma happens to stand in.
pub fn resolve(program: &str, path_var: &OsStr, tree: &Path) -> Option<PathBuf> {
    if program.is_empty() {
        return None;
    }
    if program.contains('/') {
        // Joining an absolute path yields that path.
        return Some(tree.join(program)).filter(|path| is_executable_file(path));
    }
    std::env::split_paths(path_var)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .find(|path| is_executable_file(path))
}

fn is_executable_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file()) && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("make the folder");
        fs::write(path, "#!/bin/sh\n").expect("write the file");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set the mode");
    }

    #[test]
    fn only_an_executable_file_at_the_named_place_is_found() {
        let world = tempfile::tempdir().expect("make a folder");
        let root = world.path();
        let tree = root.join("tree");
        write(&root.join("bin/tool"), 0o755);
        write(&root.join("bin/text"), 0o644);
        fs::create_dir(root.join("bin/folder")).expect("make a folder");
        write(&tree.join("check/run"), 0o755);
        write(&tree.join("tool"), 0o755);
        let absolute = root.join("bin/tool");
        let path_var = root.join("bin");
        let check = |program: &str, path_var: &OsStr, expected: Option<&Path>| {
            assert_eq!(resolve(program, path_var, &tree).as_deref(), expected, "{program:?}");
        };
        check("tool", path_var.as_os_str(), Some(&absolute));
        check("text", path_var.as_os_str(), None);
        check("folder", path_var.as_os_str(), None);
        check("", path_var.as_os_str(), None);
        check("check/run", path_var.as_os_str(), Some(&tree.join("check/run")));
        check("./tool", OsStr::new(""), Some(&tree.join("./tool")));
        check(absolute.to_str().expect("a temporary path is text"), OsStr::new(""), Some(&absolute));
        check("/nowhere/tool", path_var.as_os_str(), None);
    }

    #[test]
    fn a_relative_search_path_finds_nothing() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        for path_var in ["", ".", ":", "bin:.:", "../../usr/bin"] {
            assert_eq!(resolve("sh", OsStr::new(path_var), here), None, "{path_var:?}");
        }
    }
}
