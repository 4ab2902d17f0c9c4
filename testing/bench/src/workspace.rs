//! What private workspaces cost: making one, changing ten files in it, capturing that and dropping it, against the
//! number of files, and beside `git worktree` on the same repository in the same run.

use crate::confine::{self, command};
use crate::page::{Section, Table, at_least, at_most};
use crate::sample::Samples;
use crate::world::World;
use crate::{Result, tell};
use runner::git::{Head, Objects, Repository};
use runner::workspace::{CaptureRules, History, Workspaces, capture};
use sandbox::{End, Overlay, Policy, Sandbox, Upper};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How many files are changed.
const CHANGED: u32 = 10;

/// How many files of a made-up repository share a folder.
const FILES_PER_FOLDER: u32 = 100;

/// What may be written to a workspace.
const UPPER_BYTES: u64 = 64 << 20;

const TARGET_BASE: f64 = 2.0;
const TARGET_FLAT: f64 = 1.5;
const TARGET_GIT: f64 = 300.0;
const TARGET_BASELINE: f64 = 2.0;

/// One repository with everything that is measured on it.
struct Place {
    files: u32,
    root: PathBuf,
    user: Repository,
    /// What the base shows.
    first: Head,
    objects: Objects,
    workspaces: Workspaces,
    policy: Policy,
    /// How long the first base took.
    base: Duration,
    /// How long one process took to write the same files, and nothing else.
    plainly: Duration,
    warm: Samples,
    git: Samples,
    /// Warm workspaces again, each beside the first one on a new baseline.
    beside: Samples,
    baseline: Samples,
}

pub(crate) fn run(world: &World) -> Result<Section> {
    let title = "Workspaces";
    if let Some(why) = confine::refusal(world) {
        let about = format!("Not measured: this machine cannot confine ({why}).");
        return Ok(Section { title, about, tables: vec![] });
    }
    let sandbox = confine::sandbox(&world.norma);
    let sizes = if world.quick { [1_000, 3_000, 10_000] } else { [1_000, 10_000, 100_000] };
    let mut places = Vec::new();
    for files in sizes {
        tell(&format!("bench: workspace, a repository of {files} files"));
        places.push(Place::create(world, files)?);
    }
    // First of all: ext4 without a journal makes new files slowly for as long as deleted ones are young, and every
    // worktree of git ends with the deletion of all its files.
    let baselines = world.count(15, 3);
    for round in 0..baselines {
        for place in &mut places {
            let old = place.user.head()?;
            place.commit(world, round)?;
            let (new, took) = (place.user.head()?, place.cycle(&sandbox, &old)?);
            place.beside.push_ms(took);
            let took = place.cycle(&sandbox, &new)?;
            place.baseline.push_ms(took);
        }
    }
    let (rounds, gits) = (world.count(60, 7), world.count(3, 1));
    for round in 0..rounds {
        // Interleaved, so that what else the machine does hits all alike.
        for place in &mut places {
            let took = place.cycle(&sandbox, &place.first)?;
            place.warm.push_ms(took);
            if round % (rounds / gits) == 0 && round / (rounds / gits) < gits {
                let took = place.worktree(world)?;
                place.git.push_ms(took);
            }
        }
    }
    let about = format!(
        "A base is the first workspace of all; beside it, one process writes files of the same names and sizes. \
         One cycle: a workspace on a baseline that is there, a confined shell that changes {CHANGED} files in it, \
         capture of what it changed as a tree, and the workspace is gone; {rounds} rounds, each size once in every \
         round. The peer is `git worktree add --detach`, the same \
         {CHANGED} files changed, `git add -A`, `git write-tree` and `git worktree remove --force`, the fastest of \
         {gits}. A new baseline is a commit that differs in {CHANGED} files: its first workspace, beside one on the \
         baseline before it, {baselines} times."
    );
    Ok(Section {
        title,
        about,
        tables: vec![bases(&places), flat(&places), beside_git(&places), on_new_baselines(&places)],
    })
}

impl Place {
    fn create(world: &World, files: u32) -> Result<Place> {
        let root = world.repository(&format!("workspace-{files}"), files)?;
        let state = world.dir.join(format!("workspace-{files}-state"));
        std::fs::create_dir(&state)?;
        let user = world.discover(&root)?;
        let objects = Objects::open_or_create(&state.join("git"), &user)?;
        let workspaces = Workspaces::new(&state.join("cache"), History::Shallow, |_| false)?;
        let mut policy = confine::policy(&world.norma, &world.dir)?;
        (policy.write, policy.protected, policy.cwd) = (Vec::new(), Vec::new(), root.clone());
        let samples = Samples::default;
        let (warm, git, beside, baseline) = (samples(), samples(), samples(), samples());
        let (first, started) = (user.head()?, Instant::now());
        drop(workspaces.stand(&objects, first.commit, first.tree, &mut |_| ())?);
        let base = started.elapsed();
        let plainly = write_plainly(&root.join("src"), &state.join("plainly"))?;
        Ok(Place { files, root, user, first, objects, workspaces, policy, base, plainly, warm, git, beside, baseline })
    }

    /// The files that are changed, evenly spread.
    fn changed(&self) -> impl Iterator<Item = String> {
        let step = self.files / CHANGED;
        (0..CHANGED).map(move |index| {
            let number = index * step;
            format!("src/{:04}/{number:06}.txt", number / FILES_PER_FOLDER)
        })
    }

    /// A workspace from its making to its end.
    fn cycle(&self, sandbox: &Sandbox, head: &Head) -> Result<Duration> {
        let names: Vec<String> = self.changed().collect();
        let script = format!("for file in {}; do echo more >> $file; done", names.join(" "));
        let (program, streams) = (command("/bin/sh", &["-c", &script]), confine::nowhere()?);
        let mut policy = self.policy.clone();
        let started = Instant::now();
        let stand = self.workspaces.stand(&self.objects, head.commit, head.tree, &mut |_| ())?;
        let upper = Upper::Memory { bytes: UPPER_BYTES };
        let (path, lower, reason) = (self.root.clone(), stand.lower.clone(), "the tree".to_owned());
        policy.overlays.push(Overlay { path, lower, upper, writable: true, reason });
        let mut confined = sandbox.prepare(&policy, &program, &streams)?.start()?;
        let layers = confined.take_layers();
        let end = confined.finish()?.end;
        let captured = capture(&self.objects, stand.tree, layers[0].as_fd(), &CaptureRules::default())?;
        drop((layers, stand));
        let took = started.elapsed();
        if end != End::Exited(0) || captured.changes.len() != CHANGED as usize {
            return Err(format!("{end:?} with {} changes", captured.changes.len()).into());
        }
        Ok(took)
    }

    /// The same with a checkout of its own.
    fn worktree(&self, world: &World) -> Result<Duration> {
        let dir = world.dir.join("worktree");
        let name = dir.display().to_string();
        let started = Instant::now();
        world.git(&self.root, &["worktree", "add", "--quiet", "--detach", &name], b"")?;
        self.write(&dir, "more\n")?;
        world.git(&dir, &["add", "-A"], b"")?;
        world.git(&dir, &["write-tree"], b"")?;
        world.git(&self.root, &["worktree", "remove", "--force", &name], b"")?;
        Ok(started.elapsed())
    }

    /// A new baseline.
    fn commit(&self, world: &World, round: u32) -> Result<()> {
        self.write(&self.root, &format!("baseline {round}\n"))?;
        let identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
        world.git(&self.root, &[&identity[..], &["commit", "--quiet", "--all", "--message=next"]].concat(), b"")
    }

    fn write(&self, dir: &Path, text: &str) -> Result<()> {
        for name in self.changed() {
            let path = dir.join(name);
            let before = std::fs::read_to_string(&path)?;
            std::fs::write(&path, before + text)?;
        }
        Ok(())
    }
}

/// Writes the files of a repository again, folder by folder: the names and the sizes are the same.
fn write_plainly(from: &Path, to: &Path) -> Result<Duration> {
    let mut folders = Vec::new();
    for folder in std::fs::read_dir(from)? {
        let folder = folder?;
        let files = std::fs::read_dir(folder.path())?.map(|file| {
            let file = file?;
            Ok((file.file_name(), file.metadata()?.len()))
        });
        folders.push((to.join(folder.file_name()), files.collect::<std::io::Result<Vec<_>>>()?));
    }
    let bytes =
        vec![b'x'; folders.iter().flat_map(|(_, files)| files).map(|(_, size)| *size as usize).max().unwrap_or(0)];
    let started = Instant::now();
    for (folder, files) in folders {
        std::fs::create_dir_all(&folder)?;
        for (name, size) in files {
            std::fs::write(folder.join(name), &bytes[..size as usize])?;
        }
    }
    Ok(started.elapsed())
}

fn bases(places: &[Place]) -> Table {
    let mut table = Table::new(&["files", "base, once, ms", "the same files written, ms", "ratio", "target", ""]);
    for place in places {
        let (base, plainly) = (place.base.as_secs_f64() * 1000.0, place.plainly.as_secs_f64() * 1000.0);
        let (ratio, last) = (base / plainly, place.files == places[places.len() - 1].files);
        table.row(vec![
            place.files.to_string(),
            format!("{base:.0}"),
            format!("{plainly:.0}"),
            format!("{ratio:.2}"),
            if last { format!("≤ {TARGET_BASE}") } else { "–".to_owned() },
            if last { at_most(ratio, TARGET_BASE) } else { "–".to_owned() },
        ]);
    }
    table
}

fn flat(places: &[Place]) -> Table {
    let first = &places[0];
    let mut table = Table::new(&["files", "cycle ms", "p90 ms", "× the first row", "target", ""]);
    for (index, place) in places.iter().enumerate() {
        let ratio = place.warm.median() / first.warm.median();
        let last = index + 1 == places.len();
        table.row(vec![
            place.files.to_string(),
            format!("{:.2}", place.warm.median()),
            format!("{:.2}", place.warm.quantile(0.9)),
            format!("{ratio:.2}"),
            if last { format!("≤ {TARGET_FLAT}") } else { "–".to_owned() },
            if last { at_most(ratio, TARGET_FLAT) } else { "–".to_owned() },
        ]);
    }
    table
}

fn beside_git(places: &[Place]) -> Table {
    let mut table = Table::new(&["files", "`git worktree` ms, fastest", "cycle ms", "git ÷ norma", "target", ""]);
    for (index, place) in places.iter().enumerate() {
        let (git, own) = (place.git.quantile(0.0), place.warm.median());
        let last = index + 1 == places.len();
        table.row(vec![
            place.files.to_string(),
            format!("{git:.0}"),
            format!("{own:.2}"),
            format!("{:.0}", git / own),
            if last { format!("≥ {TARGET_GIT}") } else { "–".to_owned() },
            if last { at_least(git / own, TARGET_GIT) } else { "–".to_owned() },
        ]);
    }
    table
}

fn on_new_baselines(places: &[Place]) -> Table {
    let mut table = Table::new(&["files", "warm ms", "first on a new baseline, ms", "new ÷ warm", "target", ""]);
    for place in places {
        let (warm, new) = (place.beside.median(), place.baseline.median());
        table.row(vec![
            place.files.to_string(),
            format!("{warm:.2}"),
            format!("{new:.2}"),
            format!("{:.2}", new / warm),
            format!("≤ {TARGET_BASELINE}"),
            at_most(new / warm, TARGET_BASELINE),
        ]);
    }
    table
}
