//! How this process keeps its memory.

use std::ops::Range;

/// How many pools of memory all threads share. With one, threads waited for each other for a twelfth of what they did about an
/// item; with more than two nothing is quicker.
#[cfg(target_env = "gnu")]
const POOLS: libc::c_int = 2;

/// Has all threads allocate from a few pools. Each would have one of its own, and what one of them has freed would be of no
/// use to the others: at the end of a thousand items that was a quarter of all memory. Whether the C library knows how to.
pub fn share_pools() -> bool {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number of the allocator, and is called before there are other threads.
    return unsafe { libc::mallopt(libc::M_ARENA_MAX, POOLS) } == 1;
    #[cfg(not(target_env = "gnu"))]
    true
}

/// Gives back to the kernel what this process will not need for a while: what was allocated and is free again, and the
/// program's own code and constants. The allocator keeps what lies below anything that is still in use: a server that read a log of
/// 100,000 facts when it started held 30 MB of which it used 2. Of the code the kernel keeps mapped whatever was ever called, and all
/// around it; what is called from here on is mapped again, mostly from memory. That takes a fraction of a millisecond.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and may be called at any time by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
    for part in own_code() {
        // SAFETY: these are pages of the program's file that nobody can write to, so dropping one changes nothing but when
        // it is read: whoever touches it finds the same bytes.
        unsafe { libc::madvise(part.start as *mut libc::c_void, part.len(), libc::MADV_DONTNEED) };
    }
}

/// A part of this process's memory that is a part of a file, which nobody can write to.
#[derive(Debug, PartialEq, Eq)]
struct Mapped<'m> {
    addresses: Range<usize>,
    is_code: bool,
    inode: &'m str,
}

/// Where the program's code is mapped, and the constants that lie before it in its file. What lies behind it can be read-only,
/// too, but the loader has written addresses to it before.
fn own_code() -> Vec<Range<usize>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapped: Vec<Mapped<'_>> = maps.lines().filter_map(mapped).collect();
    let here = give_memory_back as fn() as usize;
    let Some(code) = mapped.iter().find(|it| it.is_code && it.addresses.contains(&here)) else { return Vec::new() };
    let is_own = |it: &&Mapped<'_>| it.inode == code.inode && it.addresses.start <= code.addresses.start;
    mapped.iter().filter(is_own).map(|it| it.addresses.clone()).collect()
}

/// What a line of `maps` says of a part that is read from a file and cannot be written to.
fn mapped(line: &str) -> Option<Mapped<'_>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_code = match words.next()? {
        "r-xp" => true,
        "r--p" => false,
        _ => return None,
    };
    let inode = words.nth(2).filter(|inode| *inode != "0")?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(Mapped { addresses: address(start)?..address(end)?, is_code, inode })
}

#[cfg(test)]
mod tests {
    use super::{Mapped, mapped, own_code};
    use std::ops::Range;

    #[test]
    fn the_allocator_knows_the_setting() {
        assert!(super::share_pools());
    }

    #[test]
    fn only_what_is_as_in_a_file_is_given_back() {
        let part = |is_code| Some(Mapped { addresses: 0x1000..0x3000, is_code, inode: "42" });
        assert_eq!(mapped("1000-3000 r-xp 00001000 08:01 42   /usr/bin/norma"), part(true));
        assert_eq!(mapped("1000-3000 r--p 00001000 08:01 42   /usr/bin/norma"), part(false));
        for other in [
            "1000-3000 rw-p 00001000 08:01 42   /usr/bin/norma",
            "1000-3000 rwxp 00001000 08:01 42   /usr/bin/norma",
            "1000-3000 r-xs 00001000 08:01 42   /usr/bin/norma",
            "1000-3000 r-xp 00000000 00:00 0    [vdso]",
            "",
        ] {
            assert_eq!(mapped(other), None, "{other}");
        }
    }

    #[test]
    fn what_was_given_back_is_there_when_it_is_used() {
        let held = || {
            let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let of = |part: &Range<usize>| {
                let begin = format!("{:x}-", part.start);
                let line = smaps.lines().skip_while(|line| !line.starts_with(&begin)).find(|it| it.starts_with("Rss:"));
                line.unwrap().split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
            };
            own_code().iter().map(of).sum::<u64>()
        };
        // Whatever reads a file and looks through it has touched a part of it.
        held();
        let before = held();
        super::give_memory_back();
        let after = held();
        assert!(after < before, "{before} KB before, {after} KB after");
    }
}
