//! `cargo xtask release`: an archive with both programs, manual pages and completions, and what somebody needs to judge
//! it: checksums, a list of everything that is linked, and how it was built. The same commit and toolchain give the same
//! bytes: paths of this machine are left out of the programs, and times in the archive are those of the commit.

mod glibc;
mod statement;

use crate::Outcome;
use crate::parts::{cargo, must_pass};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The platform that archives are for.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The two programs.
const PROGRAMS: [&str; 2] = ["norma", "norma-verify"];

/// Completion scripts, by shell and file.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "norma.bash"), ("zsh", "_norma"), ("fish", "norma.fish")];

/// What was asked for.
struct Options {
    profile: String,
    allow_dirty: bool,
}

/// What is built from.
struct Source {
    version: String,
    commit: String,
    /// Seconds since 1970.
    committed: String,
    dirty: bool,
}

pub(crate) fn run(root: &Path, args: &[String]) -> Outcome {
    release(root, args).map_err(|problem| vec![problem])
}

fn release(root: &Path, args: &[String]) -> Result<String, String> {
    let options = Options::read(args)?;
    let source = Source::read(root)?;
    if source.dirty && !options.allow_dirty {
        return Err("there are uncommitted changes: commit them, or use --allow-dirty for a trial".to_owned());
    }
    let built = build(root, &options, &source)?;
    let out = root.join("target/dist-archive");
    let name = format!("norma-{}-{TARGET}", source.version);
    let staged = out.join(&name);
    remove(&out)?;
    stage(root, &built, &staged)?;
    let oldest = glibc::oldest(&staged, &PROGRAMS)?;
    let notes = format!(
        "norma {} for {TARGET}\ncommit {}{}\nglibc {oldest} or newer, from the versions of the symbols that both programs need\n",
        source.version,
        source.commit,
        if source.dirty { " with uncommitted changes" } else { "" },
    );
    write(&staged.join("BUILD.txt"), notes.as_bytes())?;
    let archive = pack(&out, &name, &source)?;
    try_out(&out, &archive, &source)?;
    let sbom = out.join(format!("{name}.cdx.json"));
    write(&sbom, statement::sbom(root, &source.version)?.as_bytes())?;
    let subjects = [&archive, &sbom].map(|path| Ok((file_name(path), digest(path)?)));
    let subjects = subjects.into_iter().collect::<Result<Vec<_>, String>>()?;
    let provenance = out.join(format!("{name}.provenance.json"));
    let lock = digest(&root.join("Cargo.lock"))?;
    let how = statement::Build { commit: &source.commit, dirty: source.dirty, profile: &options.profile, lock: &lock };
    write(&provenance, statement::provenance(&subjects, &how, &toolchain(root)?).as_bytes())?;
    let sums = [&archive, &sbom, &provenance].map(|path| Ok(format!("{}  {}\n", digest(path)?, file_name(path))));
    write(&out.join("SHA256SUMS"), sums.into_iter().collect::<Result<String, String>>()?.as_bytes())?;
    remove(&staged)?;
    Ok(format!(
        "{} (glibc {oldest} or newer), SBOM, provenance (not signed) and SHA256SUMS are in {}",
        file_name(&archive),
        out.display()
    ))
}

impl Options {
    fn read(args: &[String]) -> Result<Options, String> {
        let mut options = Options { profile: "dist".to_owned(), allow_dirty: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--allow-dirty" => options.allow_dirty = true,
                "--profile" => options.profile = args.next().ok_or("--profile needs a name")?.clone(),
                other => return Err(format!("release: unknown option {other}")),
            }
        }
        Ok(options)
    }
}

impl Source {
    fn read(root: &Path) -> Result<Source, String> {
        let metadata = crate::tidy::metadata(root)?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let norma = packages.into_iter().find(|package| package["name"] == "norma");
        let version = norma.and_then(|package| package["version"].as_str()).ok_or("there is no package norma")?;
        let git = |args: &[&str]| said(Command::new("git").current_dir(root).args(args));
        Ok(Source {
            version: version.to_owned(),
            commit: git(&["rev-parse", "HEAD"])?,
            committed: git(&["log", "-1", "--format=%ct"])?,
            dirty: !git(&["status", "--porcelain"])?.is_empty(),
        })
    }
}

/// Builds both programs; answers where they are.
fn build(root: &Path, options: &Options, source: &Source) -> Result<PathBuf, String> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let mut remap = vec![(root.to_path_buf(), "norma")];
    remap.extend(home.map(|home| (home, "cargo")));
    let flags: Vec<String> =
        remap.iter().map(|(from, to)| format!("--remap-path-prefix={}=/{to}", from.display())).collect();
    let packages = ["--package", "norma", "--package", "verify", "--bins"];
    let mut command = cargo(root, &[&["build", "--locked", "--profile", &options.profile], &packages[..]].concat());
    command.env("NORMA_COMMIT", &source.commit);
    // A trial is not worth compiling everything again.
    if options.profile == "dist" {
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    }
    must_pass(&mut command).map_err(|problems| problems.join("; "))?;
    let dir = if options.profile == "dev" { "debug" } else { &options.profile };
    Ok(root.join("target").join(dir))
}

/// Puts together what the archive holds.
fn stage(root: &Path, built: &Path, staged: &Path) -> Result<(), String> {
    let done = |what: &str, result: std::io::Result<()>| result.map_err(|error| format!("could not {what}: {error}"));
    done("make directories", std::fs::create_dir_all(staged.join("completions")))?;
    for program in PROGRAMS {
        done("copy a program", std::fs::copy(built.join(program), staged.join(program)).map(drop))?;
    }
    for file in ["README.md", "LICENSE", "CHANGELOG.md"] {
        done("copy a file", std::fs::copy(root.join(file), staged.join(file)).map(drop))?;
    }
    let norma = staged.join("norma");
    for (shell, file) in COMPLETIONS {
        let script = said(Command::new(&norma).args(["completions", shell]))?;
        write(&staged.join("completions").join(file), script.as_bytes())?;
    }
    said(Command::new(&norma).arg("man").arg(staged.join("man"))).map(drop)
}

/// One archive whose bytes depend on nothing but what it holds.
fn pack(out: &Path, name: &str, source: &Source) -> Result<PathBuf, String> {
    let archive = out.join(format!("{name}.tar.gz"));
    let mtime = format!("--mtime=@{}", source.committed);
    let fixed = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go-w", "--format=gnu"];
    let mut tar = Command::new("tar");
    tar.current_dir(out).args(fixed).arg(mtime).args(["--use-compress-program", "gzip -9 -n", "--create", "--file"]);
    said(tar.arg(&archive).arg(name))?;
    Ok(archive)
}

/// Unpacks the archive and starts what is in it: both programs must say from which commit they are.
fn try_out(out: &Path, archive: &Path, source: &Source) -> Result<(), String> {
    let dir = out.join("tried");
    std::fs::create_dir_all(&dir).map_err(|error| format!("could not make {}: {error}", dir.display()))?;
    said(Command::new("tar").current_dir(&dir).args(["--strip-components=1", "--extract", "--file"]).arg(archive))?;
    for program in PROGRAMS {
        let version = said(Command::new(dir.join(program)).arg("--version"))?;
        if !version.contains(&source.commit[..12]) {
            return Err(format!("{program} says {version:?}, which is not commit {}", source.commit));
        }
    }
    remove(&dir)
}

/// The compiler and cargo, as they call themselves.
fn toolchain(root: &Path) -> Result<[String; 2], String> {
    Ok([said(Command::new("rustc").arg("--version"))?, said(cargo(root, &["--version"]).env_remove("RUSTFLAGS"))?])
}

/// What a program prints, if it succeeds.
fn said(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command.output().map_err(|error| format!("could not run {shown}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{shown} failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

fn digest(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("could not read {}: {error}", path.display()))?;
    Ok(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|error| format!("could not write {}: {error}", path.display()))
}

fn remove(dir: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("could not remove {}: {error}", dir.display()))
        }
        _ => Ok(()),
    }
}
