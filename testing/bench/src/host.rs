//! The machine that was measured, as far as it tells.

use crate::Result;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Names and values for the head of the page.
pub(crate) fn describe(dir: &Path, root: &Path) -> Result<Vec<(&'static str, String)>> {
    let cpu = field("/proc/cpuinfo", "model name");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory_kb: u64 = field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or_default();
    let (filesystem, disk) = mount(dir);
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let date = contract::Timestamp::from_unix_ms(since.as_secs() * 1000).to_string();
    Ok(vec![
        ("date", date),
        ("CPU", format!("{cpu}, {cores} cores")),
        ("memory", format!("{:.1} GiB", memory_kb as f64 / f64::from(1 << 20))),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("file system", filesystem),
        ("disk", disk),
        ("load average at start", read("/proc/loadavg")),
        ("commit", answer(Command::new("git").current_dir(root).args(["describe", "--always", "--dirty"]))),
        ("rustc", answer(Command::new("rustc").arg("--version"))),
        ("git", answer(Command::new("git").arg("--version"))),
        ("SQLite", store::sqlite_version().to_owned()),
    ])
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The value of the first `name : value` line.
fn field(path: &str, name: &str) -> String {
    let text = read(path);
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

fn answer(command: &mut Command) -> String {
    let output = command.output().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    output.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// File system with its options, and the disk under it.
fn mount(dir: &Path) -> (String, String) {
    let table = read("/proc/self/mounts");
    let mounts = table.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        Some((fields.next()?, Path::new(fields.next()?), fields.next()?, fields.next()?))
    });
    let over = mounts.filter(|(_, point, ..)| dir.starts_with(point));
    match over.max_by_key(|(_, point, ..)| point.components().count()) {
        Some((device, _, kind, options)) => (format!("{kind} ({options})"), disk(device)),
        None => ("unknown".to_owned(), "unknown".to_owned()),
    }
}

fn disk(device: &str) -> String {
    let name = device.trim_start_matches("/dev/");
    // A partition has no queue of its own; its disk is the folder above.
    let block = std::fs::canonicalize(format!("/sys/class/block/{name}")).unwrap_or_default();
    let whole = [Some(block.as_path()), block.parent()].into_iter().flatten().find(|dir| dir.join("queue").is_dir());
    let Some(whole) = whole else { return device.to_owned() };
    let told = |file: &str| std::fs::read_to_string(whole.join(file)).unwrap_or_default().trim().to_owned();
    let model =
        Some(told("device/model")).filter(|model| !model.is_empty()).unwrap_or_else(|| "no model name".to_owned());
    let kind = if told("queue/rotational") == "1" { "rotating" } else { "not rotating" };
    format!("{device}: {model}, {kind}, {} cache", told("queue/write_cache"))
}
