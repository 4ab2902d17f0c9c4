//! Cutting the power. Repository, home and state are on an ext4 image; norma is killed at a point, and the image
//! is copied while it is still mounted: the copy has what the block device was given and nothing of what only the
//! page cache knew. It is mounted in the image's place, the user continues, and nothing that was told is lost.
//! Needs root, a loop device and mkfs.ext4; not run elsewhere.
#![allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]

mod place;

use place::Place;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Room for the repository and the state; small, since it is copied for every point.
const IMAGE_MB: u64 = 48;

/// No journal commit by the clock, and no kindness to programs that rename without syncing: only what norma asks
/// for reaches the device.
const OPTIONS: &str = "loop,commit=300,noauto_da_alloc,noatime";

/// Where the power is cut: every point of commit, change, landing and end, some of them at a late visit too, when
/// earlier steps are only as safe as norma made them.
const CUTS: &[&str] = &[
    "run.before_start",
    "run.after_start",
    "step.after_intent:1",
    "step.after_agent:2",
    "step.before_rename:2",
    "step.after_rename:2",
    "step.after_rename:7",
    "step.after_submit:2",
    "step.after_submit:7",
    "mirror.before_append:3",
    "mirror.after_append:9",
    "change.after_intent",
    "change.before_rename",
    "change.after_rename",
    "change.after_submit",
    "land.after_intent",
    "land.exported",
    "land.ref_moved",
    "land.index_locked",
    "land.files_moved",
    "land.checked_out",
    "land.after_commit",
    "end.after_commit",
    "seal.after_sync",
    "seal.after_commit",
];

/// How often it is asked.
const POLL: Duration = Duration::from_millis(5);

/// Longest that a file system may take to be let go of by whatever was killed on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A mounted image; unmounted when dropped.
struct Mounted<'a> {
    image: PathBuf,
    at: &'a Path,
}

impl<'a> Mounted<'a> {
    fn new(image: &Path, at: &'a Path) -> Option<Mounted<'a>> {
        let mounted = run(Command::new("mount").args(["-o", OPTIONS]).arg(image).arg(at));
        mounted.then(|| Mounted { image: image.to_owned(), at })
    }

    /// Whether a sandbox that is on its way out still holds the file system in a namespace of its own.
    fn is_held(&self) -> bool {
        let listed = Command::new("losetup").arg("-j").arg(&self.image).output();
        listed.is_ok_and(|output| !output.stdout.is_empty())
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        while !run(Command::new("umount").arg(self.at)) && Instant::now() < until {
            std::thread::sleep(POLL);
        }
        // The image is overwritten next: what is written to it after that would be written into another one's.
        while self.is_held() && Instant::now() < until {
            std::thread::sleep(POLL);
        }
    }
}

fn run(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn copy(from: &Path, to: &Path) {
    assert!(run(Command::new("cp").args(["--sparse=always"]).arg(from).arg(to)), "could not copy the image");
}

/// An image with an empty file system, mounted once to see whether that works here.
fn image(dir: &Path, mount: &Path) -> Result<PathBuf, &'static str> {
    let image = dir.join("template.img");
    std::fs::File::create(&image).and_then(|file| file.set_len(IMAGE_MB << 20)).map_err(|_| "no room")?;
    std::fs::create_dir(mount).map_err(|_| "no room")?;
    if !run(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]).arg(&image)) {
        return Err("no mkfs.ext4");
    }
    Mounted::new(&image, mount).map(|_| image).ok_or("cannot mount a loop device")
}

/// Kills norma at a point, cuts the power there and has the user continue. Answers what is broken.
fn cut_at(point: &str, dir: &Path, mount: &Path, start: &str) -> Vec<String> {
    let (work, cut) = (dir.join("work.img"), dir.join("cut.img"));
    copy(&dir.join("template.img"), &work);
    let place = Place::at(mount, start);
    let ran = {
        let _mounted = Mounted::new(&work, mount).expect("mounted before");
        let ran = place.norma(&["run", "1", "--json"], Some(point));
        copy(&work, &cut);
        place.wait_for_processes();
        ran
    };
    assert!(ran.killed, "{point} is not reached: {}{}", ran.stdout, ran.stderr);
    let _mounted = Mounted::new(&cut, mount).expect("a journal can be replayed");
    let mut broken = place.check_branch_between(None);
    match place.go_on(false) {
        Ok(told) => broken.extend(place.check_end(&[ran.told(), told].concat())),
        Err(why) => broken.push(why),
    }
    broken.into_iter().map(|what| format!("{point}: {what}")).collect()
}

#[test]
fn nothing_is_lost_when_the_power_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path().join("mount");
    let template = match image(dir.path(), &mount) {
        Ok(template) => template,
        Err(why) => return not_run::because(why),
    };
    let start = {
        let _mounted = Mounted::new(&template, &mount).expect("mounted before");
        Place::new(&mount).start().to_owned()
    };
    let broken: Vec<String> = CUTS.iter().flat_map(|point| cut_at(point, dir.path(), &mount, &start)).collect();
    println!("power cut at {} points", CUTS.len());
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}
