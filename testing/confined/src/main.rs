//! The helper that the sandbox's tests execute: the set-up process, the attacker, the launcher, and
//! programs that misbehave.

use std::env;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::{fs, hint, thread, time};

use confined::{launch, plain, refuse};
use sandbox::Level;
use sandbox::drill::Tried;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["set-up"] => return sandbox::setup::main(),
        ["drill", ..] => return sandbox::drill::main(&plain::ROLES),
        ["drill-confined", level, base] => confined_drill(launch::level(level), base.as_ref()),
        ["drill-plain", base] => plain::drill(base.as_ref()),
        ["attack", world] => plain::attack(world),
        ["launch", policy, program, rest @ ..] => return launch::from_words(policy, program, rest),
        ["without-user-namespaces", user, rest @ ..] => return refuse::run(user.parse().expect("an id"), rest),
        ["probe"] => launch::probe(),
        ["overlays"] => launch::overlays(),
        ["bomb", kind] => bomb(kind),
        ["say", text] => println!("{text}"),
        other => panic!("unknown words {other:?}"),
    }
    ExitCode::SUCCESS
}

/// The drill as norma holds it; prints a line for each attack.
fn confined_drill(level: Level, base: &Path) {
    let helper = env::current_exe().expect("own path");
    let each = &mut |tried: &Tried| println!("{}", serde_json::to_string(tried).expect("plain data"));
    sandbox::drill::run(&helper, &plain::ROLES, level, base, each).expect("hold the drill");
    assert!(!base.exists(), "the drill leaves nothing");
}

/// Uses something up; prints how far it came.
fn bomb(kind: &str) {
    match kind {
        "fork" => fork_bomb(),
        "memory" => {
            let mut held = Vec::new();
            loop {
                held.push(vec![1u8; 16 << 20]);
                hint::black_box(&held);
            }
        }
        "shared" => shared_memory(),
        "memory-tree" => memory_tree(),
        "some" => {
            let held = vec![1u8; 48 << 20];
            thread::sleep(time::Duration::from_secs(20));
            hint::black_box(held);
        }
        "disk" => {
            let mut file = fs::File::create("/tmp/bomb").expect("create");
            let mut written = 0u64;
            while file.write_all(&[7; 1 << 16]).is_ok() {
                written += 1 << 16;
            }
            println!("{written}");
            std::process::exit(3);
        }
        "file" => {
            let mut file = fs::File::create("bomb").expect("create");
            while file.write_all(&[7; 1 << 16]).is_ok() {}
        }
        "cpu" => loop {
            hint::spin_loop();
        },
        "daemon" => {
            // SAFETY: the process has one thread.
            if unsafe { libc::fork() } == 0 {
                // SAFETY: as above.
                unsafe {
                    libc::setsid();
                    if libc::fork() == 0 {
                        for signal in 1..32 {
                            libc::signal(signal, libc::SIG_IGN);
                        }
                        loop {
                            thread::sleep(time::Duration::from_secs(1));
                        }
                    }
                    libc::_exit(0);
                }
            }
        }
        "stubborn" => {
            // SAFETY: ignoring a signal runs no code of ours.
            unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
            println!("ready");
            let mut rest = Vec::new();
            let _ = std::io::stdin().read_to_end(&mut rest);
            loop {
                thread::sleep(time::Duration::from_secs(1));
            }
        }
        other => panic!("unknown bomb {other}"),
    }
}

/// Neither a limit of the process nor a look at what is its own sees this.
fn shared_memory() {
    let bytes = 1 << 30;
    let (read_write, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, of the length that is then written.
    unsafe {
        let held = libc::mmap(std::ptr::null_mut(), bytes, read_write, shared, -1, 0);
        assert_ne!(held, libc::MAP_FAILED);
        libc::memset(held, 1, bytes);
    }
    println!("held");
}

/// Many who hold a part each. The first that is killed, by the kernel or with all others, tells the end.
fn memory_tree() {
    let all: Vec<_> =
        (0..8).map(|_| std::process::Command::new("/proc/self/exe").args(["bomb", "some"]).spawn()).collect();
    let mut status = 0;
    // SAFETY: the status outlives the call.
    while unsafe { libc::waitpid(-1, &raw mut status, 0) } > 0 {
        if status != 0 {
            std::process::exit(4);
        }
    }
    drop(all);
}

fn fork_bomb() {
    let mut made = 0;
    for _ in 0..5000 {
        // SAFETY: the process has one thread.
        match unsafe { libc::fork() } {
            0 => loop {
                thread::sleep(time::Duration::from_secs(1));
            },
            -1 => break,
            _ => made += 1,
        }
    }
    println!("{made}");
}
