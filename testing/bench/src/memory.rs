//! What norma itself takes of the memory for each agent that runs: its own process, the set-up server, and the two
//! set-up processes of each sandbox, without the confined programs.

use crate::confine::{self, command};
use crate::page::{Section, Table, at_most};
use crate::world::World;
use crate::{Result, print, tell};
use sandbox::{HostPort, Network};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// The first word that makes this program the holder of sandboxes.
pub(crate) const HOLD: &str = "hold";

/// Numbers of agents; the slope is taken from the first to the last.
const AGENTS: [u32; 3] = [1, 8, 16];

const TARGET_MB: f64 = 5.0;

pub(crate) fn run(world: &World) -> Result<Section> {
    let title = "Memory for each running agent";
    if let Some(why) = confine::refusal(world) {
        return Ok(Section {
            title,
            about: format!("Not measured: this machine cannot confine ({why})."),
            tables: vec![],
        });
    }
    let mut table =
        Table::new(&["confined programs", "processes counted", "MB", "MB for each further one", "target", ""]);
    let mut first = None;
    for agents in AGENTS {
        tell(&format!("bench: memory, {agents} confined programs"));
        let Some((processes, mb)) = held(world, agents)? else {
            let about = "Not measured: another user's memory cannot be read; run it as root.".to_owned();
            return Ok(Section { title, about, tables: vec![] });
        };
        let (one, at_one) = *first.get_or_insert((agents, mb));
        let slope = (agents > one).then(|| (mb - at_one) / f64::from(agents - one));
        table.row(vec![
            agents.to_string(),
            processes.to_string(),
            format!("{mb:.2}"),
            slope.map_or_else(|| "–".into(), |slope| format!("{slope:.2}")),
            slope.map_or_else(|| "–".into(), |_| format!("≤ {TARGET_MB} MB")),
            slope.map_or_else(|| "–".into(), |slope| at_most(slope, TARGET_MB)),
        ]);
    }
    let about =
        "Proportional set size (`smaps_rollup`: a page shared by two counts half for each) of one process that \
                 holds the sandboxes as norma does, with a proxy each, of its set-up server, and of the two set-up \
                 processes of each sandbox. The confined programs, `sleep`, are not counted. Floor: the first row."
            .to_owned();
    Ok(Section { title, about, tables: vec![table] })
}

/// How many processes norma has for so many agents, and their memory; `None` if it cannot be read.
fn held(world: &World, agents: u32) -> Result<Option<(usize, f64)>> {
    let mut holder = Command::new(std::env::current_exe()?)
        .args([HOLD, &agents.to_string()])
        .args([&world.norma, &world.dir])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = holder.stdout.take().ok_or("piped")?;
    BufReader::new(stdout).read_line(&mut String::new())?;
    let tree = tree_below(holder.id())?;
    let own = tree.iter().filter(|pid| read(**pid, "comm") != "sleep\n");
    let sizes: Option<Vec<u64>> = own.map(|pid| rolled_up_kb(&read(*pid, "smaps_rollup"), "Pss")).collect();
    // Hung up, it ends, and everything it holds with it.
    drop(holder.stdin.take());
    holder.wait()?;
    let programs = tree.len().saturating_sub(sizes.as_ref().map_or(0, Vec::len));
    if sizes.is_some() && programs != agents as usize {
        return Err(format!("{programs} programs ran in place of {agents}").into());
    }
    Ok(sizes.map(|sizes| (sizes.len(), sizes.iter().sum::<u64>() as f64 * 1024.0 / 1e6)))
}

/// A file of a process; empty once it is gone.
pub(crate) fn read(pid: u32, what: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default()
}

/// What a process holds, in kB, by one of the lines of its `smaps_rollup`. Of a page that several share, `Pss` counts a part.
pub(crate) fn rolled_up_kb(rollup: &str, name: &str) -> Option<u64> {
    let value = rollup.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix(" kB")?.parse().ok()
}

/// A process and everything it started, however many levels down.
pub(crate) fn tree_below(root: u32) -> Result<Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let status = read(pid, "status");
        if let Some(parent) = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut tree, mut next) = (vec![root], 0);
    while next < tree.len() {
        tree.extend(children.remove(&tree[next]).unwrap_or_default());
        next += 1;
    }
    Ok(tree)
}

/// The holder: confines so many programs, says so, and waits to be hung up.
pub(crate) fn hold(agents: &str, norma: &Path, dir: &Path) -> Result<()> {
    let sandbox = confine::sandbox(norma);
    let mut policy = confine::policy(norma, dir)?;
    // An agent has somewhere to go, so it has a proxy. Nobody goes there.
    policy.network = Network::Allow(vec![HostPort { host: "example.org".to_owned(), port: 443 }]);
    let streams = confine::nowhere()?;
    let mut held = Vec::new();
    for _ in 0..agents.parse()? {
        held.push(sandbox.prepare(&policy, &command("sleep", &["3600"]), &streams)?.start()?);
    }
    // Started is not executed yet; the program's name in the list of processes is what is counted by.
    let is_sleeping = |pid: &u32| read(*pid, "comm") == "sleep\n";
    while tree_below(std::process::id())?.iter().filter(|pid| is_sleeping(pid)).count() < held.len() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    print("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    drop(held);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_sum_is_read_by_its_name() {
        let text = "5592 - 7ffd [rollup]\nRss:  3000 kB\nPss:     812 kB\nPss_Dirty: 100 kB\n";
        assert_eq!(rolled_up_kb(text, "Pss"), Some(812));
        assert_eq!(rolled_up_kb("", "Pss"), None);
    }
}
