//! What a crash leaves on a disk beyond what the dead process meant to: a mirror that stops in the middle, small
//! files that never got their blocks, directories under temporary names, things that do not belong. And, rarely,
//! somebody who changes evidence, which must never be mended in silence.

use crate::dice::Dice;
use crate::place::{entries, walk};
use crate::world::Outside;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use store::{Layout, Reader};

/// Damages every run that is not sealed.
pub(crate) fn damage(layout: &Layout, outside: &mut Outside<'_>) {
    if !layout.exists() {
        return;
    }
    let reader = Reader::open(layout).unwrap();
    for slug in reader.unsealed().unwrap() {
        let Some(view) = reader.run(&slug).unwrap() else { continue };
        if outside.spoilt.contains(&slug) {
            continue;
        }
        let dir = layout.run(&slug);
        let dice = &mut outside.dice;
        leave_strays(&dir, dice);
        cut_mirror(&dir.join("events.jsonl"), dice);
        let (small, large) = recorded(layout, &slug);
        for path in &small {
            if dice.percent(4) {
                unfinish(&dir.join(path), dice);
            }
        }
        spoil_unrecorded(&dir, &small, dice);
        if large.is_empty() && !view.status.is_terminal() && dice.percent(3) {
            std::fs::remove_dir_all(&dir).unwrap();
        } else if let Some(path) = large.first().or(small.iter().find(|path| dir.join(path).exists()))
            && !view.status.is_terminal()
            && dice.percent(2)
        {
            std::fs::write(dir.join(path), "somebody was here\n").unwrap();
            outside.spoilt.push(slug.clone());
        }
    }
    if outside.dice.percent(5) {
        std::fs::write(layout.runs().join("stray"), "not a run\n").unwrap();
    }
}

fn leave_strays(dir: &Path, dice: &mut Dice) {
    for name in ["steps/009-do.tmp-dead/files", "changes/001.tmp-dead", "manifest.json.tmp-dead"] {
        if dice.percent(10) && dir.exists() {
            std::fs::create_dir_all(dir.join(name)).unwrap();
        }
    }
}

fn cut_mirror(path: &Path, dice: &mut Dice) {
    let Ok(bytes) = std::fs::read(path) else { return };
    match dice.below(10) {
        0 => std::fs::remove_file(path).unwrap(),
        1..=3 => std::fs::write(path, &bytes[..dice.below(bytes.len() as u64 + 1) as usize]).unwrap(),
        _ => {}
    }
}

/// Files on record: those whose bytes are in the commit, and those that were synced.
fn recorded(layout: &Layout, slug: &str) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let db = Connection::open_with_flags(layout.db(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let files = |condition: &str| -> Vec<PathBuf> {
        let sql = format!("SELECT dir || '/' || path FROM artifacts WHERE run_id = ?1 AND {condition} ORDER BY 1");
        let mut statement = db.prepare(&sql).unwrap();
        let rows = statement.query_map([slug], |row| row.get::<_, String>(0)).unwrap();
        rows.map(|row| PathBuf::from(row.unwrap())).collect()
    };
    let is_committed =
        "size <= 65536 AND (run_id, dir) IN (SELECT run_id, dir FROM directories JOIN copies USING (id))";
    (files(is_committed), files(&format!("NOT ({is_committed})")))
}

/// Leaves of a file what a power cut would.
fn unfinish(path: &Path, dice: &mut Dice) {
    let Ok(mut bytes) = std::fs::read(path) else { return };
    match dice.below(4) {
        0 => return std::fs::remove_file(path).unwrap(),
        1 => bytes.clear(),
        2 => bytes.truncate(bytes.len() / 2),
        _ => bytes.iter_mut().skip(3).for_each(|byte| *byte = 0),
    }
    std::fs::write(path, bytes).unwrap();
}

/// Of a directory that got its name but not its record, anything may be missing.
fn spoil_unrecorded(dir: &Path, small: &[PathBuf], dice: &mut Dice) {
    let known = |path: &Path| small.iter().any(|file| dir.join(file).starts_with(path));
    for sub in ["steps", "changes"] {
        for path in entries(&dir.join(sub)) {
            if known(&path) || !dice.percent(25) {
                continue;
            }
            for file in walk(&path).into_iter().filter(|file| file.is_file()) {
                if dice.percent(50) {
                    unfinish(&file, dice);
                }
            }
        }
    }
}
