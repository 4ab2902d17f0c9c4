//! What it costs to start a confined program instead of a plain one, beside bubblewrap.

use crate::confine::{self, command};
use crate::page::{Section, Table, at_most};
use crate::sample::Samples;
use crate::world::World;
use crate::{Result, tell};
use sandbox::{End, Policy, Sandbox};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What is started: it does nothing.
const PROGRAM: &str = "/bin/true";

const TARGET_PLAIN: f64 = 8.0;
const TARGET_BUBBLEWRAP: f64 = 0.9;

/// One way to start it.
enum Way<'a> {
    Plain,
    /// With a set-up server that runs already, or with a new one.
    Native(&'a Sandbox),
    NativeCold,
    /// With a control group, where one can be had.
    NativeGroup(&'a Sandbox),
    Bubblewrap(Vec<String>),
}

pub(crate) fn run(world: &World) -> Result<Section> {
    let title = "Start of a confined program";
    if let Some(why) = confine::refusal(world) {
        return Ok(Section {
            title,
            about: format!("Not measured: this machine cannot confine ({why})."),
            tables: vec![],
        });
    }
    // The peer makes no control group, so the comparison is without.
    let policy = Policy { control_group: false, ..confine::policy(&world.norma, &world.dir)? };
    let warm = confine::sandbox(&world.norma);
    let mut ways = vec![
        ("plain: `std::process::Command`", Way::Plain, Samples::default()),
        ("native, every wall, read back", Way::Native(&warm), Samples::default()),
        ("native, first start of a process", Way::NativeCold, Samples::default()),
        ("native, in a control group, as agents are", Way::NativeGroup(&warm), Samples::default()),
    ];
    let version = bubblewrap_version();
    if version.is_some() {
        let mut add = |name, args| ways.push((name, Way::Bubblewrap(args), Samples::default()));
        add("bubblewrap, the whole machine read-only", whole_machine());
        add("bubblewrap, the same view", same_view(&policy));
        add("bubblewrap, the same view, hardened", [hardened(), same_view(&policy)].concat());
    }
    let rounds = world.count(300, 15);
    tell(&format!("bench: spawn, {rounds} rounds of {} ways", ways.len()));
    for _ in 0..rounds {
        // Interleaved, so that what else the machine does hits all alike.
        for (_, way, samples) in &mut ways {
            let started = Instant::now();
            once(way, world, &policy)?;
            samples.push_ms(started.elapsed());
        }
    }
    let peer = version.map_or_else(
        || "bubblewrap is not installed here, so there is nothing to compare with.".to_owned(),
        |version| {
            format!(
                "The peer is {version}: with `--ro-bind / /`; with the same directories as norma mounts; and with \
                 `--disable-userns --cap-drop ALL --new-session` besides. None of them has a seccomp filter, Landlock, \
                 limits or covered files, and nothing is read back."
            )
        },
    );
    let about = format!(
        "`{PROGRAM}`, {rounds} rounds, each way once in every round. Native is norma's sandbox with all its walls, the \
         read-back of what holds included, used as a library with a set-up server that runs already. {peer}"
    );
    let figures: Vec<(&str, Samples)> = ways.iter().map(|(name, _, samples)| (*name, samples.clone())).collect();
    Ok(Section { title, about, tables: vec![table(&figures)] })
}

fn table(ways: &[(&str, Samples)]) -> Table {
    let mut table = Table::new(&["way", "ms", "p90 ms", "× plain", "native ÷ this", "target", ""]);
    let (plain, native) = (ways[0].1.median(), ways[1].1.median());
    for (index, (name, samples)) in ways.iter().enumerate() {
        let ratio = samples.median() / plain;
        let against = native / samples.median();
        let (target, verdict) = match index {
            1 => (format!("≤ {TARGET_PLAIN} × plain"), at_most(ratio, TARGET_PLAIN)),
            4.. => (format!("native ≤ {TARGET_BUBBLEWRAP} ×"), at_most(against, TARGET_BUBBLEWRAP)),
            _ => ("–".to_owned(), "–".to_owned()),
        };
        table.row(vec![
            (*name).to_owned(),
            format!("{:.2}", samples.median()),
            format!("{:.2}", samples.quantile(0.9)),
            format!("{ratio:.1}"),
            format!("{against:.2}"),
            target,
            verdict,
        ]);
    }
    table
}

fn once(way: &Way<'_>, world: &World, policy: &Policy) -> Result<()> {
    match way {
        Way::Plain => plain(PROGRAM, &[]),
        Way::Bubblewrap(args) => plain("bwrap", args),
        Way::Native(sandbox) => native(sandbox, policy),
        Way::NativeGroup(sandbox) => native(sandbox, &Policy { control_group: true, ..policy.clone() }),
        Way::NativeCold => native(&confine::sandbox(&world.norma), policy),
    }
}

fn plain(program: &str, args: &[String]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{program} ended with {status}").into()) }
}

fn native(sandbox: &Sandbox, policy: &Policy) -> Result<()> {
    let prepared = sandbox.prepare(policy, &command(PROGRAM, &[]), &confine::nowhere()?)?;
    match prepared.start()?.finish()?.end {
        End::Exited(0) => Ok(()),
        end => Err(format!("{PROGRAM} ended with {end:?}").into()),
    }
}

fn bubblewrap_version() -> Option<String> {
    let output = Command::new("bwrap").arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|text| !text.is_empty())
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn hardened() -> Vec<String> {
    words("--unshare-user --disable-userns --cap-drop ALL --new-session --clearenv")
}

/// The least that is said to be a sandbox.
fn whole_machine() -> Vec<String> {
    let args = "--unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp";
    [words(args), words(PROGRAM)].concat()
}

/// What norma's policy shows and what it makes private.
fn same_view(policy: &Policy) -> Vec<String> {
    let mut args = words("--unshare-all --die-with-parent");
    for root in &policy.read {
        let path = root.path.display().to_string();
        match std::fs::read_link(&root.path) {
            Ok(target) => args.extend(["--symlink".to_owned(), target.display().to_string(), path]),
            Err(_) => args.extend(["--ro-bind".to_owned(), path.clone(), path]),
        }
    }
    args.extend(words("--dev /dev --proc /proc --tmpfs /tmp --tmpfs /run --tmpfs /var/tmp"));
    args.extend(["--tmpfs".to_owned(), policy.home.display().to_string()]);
    for root in &policy.write {
        let path = root.path.display().to_string();
        args.extend(["--bind".to_owned(), path.clone(), path]);
    }
    for root in &policy.protected {
        let path = root.path.display().to_string();
        args.extend(["--ro-bind".to_owned(), path.clone(), path]);
    }
    args.extend(["--chdir".to_owned(), policy.cwd.display().to_string(), PROGRAM.to_owned()]);
    args
}
