//! A small world around a workspace, with everything in it that an attacker would like to reach.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, thread};

use sandbox::Root;
use serde::{Deserialize, Serialize};

use crate::{attack, launch};

/// A word that must never be seen inside.
pub const CANARY: &str = "canary-5b1f";

/// Where everything is.
#[derive(Debug, Serialize, Deserialize)]
pub struct World {
    /// Writable inside, with `.git` protected and `.env` hidden.
    pub work: PathBuf,
    /// Not visible inside.
    pub outside: PathBuf,
    /// The user's home, private inside, with a toolchain in it.
    pub home: PathBuf,
    /// A process of the same user.
    pub victim: i32,
    /// An address in its memory that holds the canary.
    pub victim_address: u64,
    /// Who started the attacker.
    pub launcher: u32,
    /// A service on the machine's loopback.
    pub tcp: u16,
    /// Another.
    pub udp: u16,
    /// A unix socket.
    pub unix: PathBuf,
    /// An abstract one.
    pub abstract_name: String,
}

/// The process that is attacked: it holds the canary in its environment and in its memory.
pub fn victim() {
    let secret = CANARY.as_bytes().to_vec();
    println!("{}", secret.as_ptr() as u64);
    let mut rest = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut rest);
    std::hint::black_box(secret);
}

/// Builds the world at `base`, runs every attack `plain` or `confined`, and prints the results.
pub fn drill(how: &str, base: &Path) {
    if how == "plain" {
        // Mounts made by an attack that succeeds stay in here. Not possible for an ordinary user,
        // who cannot mount either.
        // SAFETY: plain numbers and terminated strings.
        unsafe {
            if libc::unshare(libc::CLONE_NEWNS) == 0 {
                let (none, root) = (c"none".as_ptr(), c"/".as_ptr());
                libc::mount(none, root, std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE, std::ptr::null());
            }
        }
    }
    assert_eq!(
        env::var("NORMA_CANARY").as_deref(),
        Ok(CANARY),
        "the drill is started with a secret in its environment"
    );
    let helper = env::current_exe().expect("own path");
    let mut victim = Command::new(&helper)
        .arg("victim")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the victim");
    let mut line = String::new();
    let stdout = victim.stdout.take().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("the victim's address");
    let mut world = files(base);
    world.victim = i32::try_from(victim.id()).expect("an id");
    world.victim_address = line.trim().parse().expect("an address");
    serve(&mut world);
    let inherited = fs::File::open(&world.outside).expect("open");
    // SAFETY: the descriptor is open; without the flag it would not be inherited by anybody.
    unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&inherited), libc::F_SETFD, 0) };
    let text = serde_json::to_string(&world).expect("plain data");
    match how {
        "plain" => attack::all(&text),
        _ => {
            let ran = launch::run(&policy(&helper, &world), &helper, &helper.display().to_string(), &["attack", &text]);
            let ran = ran.expect("run confined");
            print!("{}", ran.stdout);
            eprint!("{}", ran.stderr);
            assert_eq!(ran.report.end, sandbox::End::Exited(0), "{ran:?}");
        }
    }
    attack::judge_left(&world);
    let _ = victim.kill();
    let _ = victim.wait();
}

fn files(base: &Path) -> World {
    let at = |name: &str| base.join(name);
    for directory in ["work/.git/hooks", "outside", "home/.ssh", "home/.cargo/bin"] {
        fs::create_dir_all(at(directory)).expect("make");
    }
    let contents = [
        ("work/.git/config", "[core]\n"),
        ("work/.env", CANARY),
        ("work/mine", "x"),
        ("outside/file", CANARY),
        ("outside/second", "x"),
        ("home/.ssh/id_rsa", CANARY),
        ("home/.cargo/credentials.toml", CANARY),
    ];
    for (name, text) in contents {
        fs::write(at(name), text).expect("write");
    }
    World {
        work: at("work"),
        outside: at("outside"),
        home: at("home"),
        victim: 0,
        victim_address: 0,
        launcher: std::process::id(),
        tcp: 0,
        udp: 0,
        unix: at("outside/socket"),
        abstract_name: format!("norma-drill-{}", std::process::id()),
    }
}

/// Services that answer with the canary.
fn serve(world: &mut World) {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("listen");
    world.tcp = tcp.local_addr().expect("bound").port();
    thread::spawn(move || tcp.incoming().flatten().for_each(|mut it| drop(it.write_all(CANARY.as_bytes()))));
    let udp = UdpSocket::bind("127.0.0.1:0").expect("bind");
    world.udp = udp.local_addr().expect("bound").port();
    thread::spawn(move || {
        while let Ok((_, from)) = udp.recv_from(&mut [0; 16]) {
            let _ = udp.send_to(CANARY.as_bytes(), from);
        }
    });
    let unix = UnixListener::bind(&world.unix).expect("listen");
    let abstract_address = SocketAddr::from_abstract_name(&world.abstract_name).expect("a name");
    let named = UnixListener::bind_addr(&abstract_address).expect("listen");
    for listener in [unix, named] {
        thread::spawn(move || listener.incoming().flatten().for_each(|mut it| drop(it.write_all(CANARY.as_bytes()))));
    }
    let _ = fs::set_permissions(&world.unix, fs::Permissions::from_mode(0o777));
}

fn policy(helper: &Path, world: &World) -> sandbox::Policy {
    let mut policy = launch::policy(helper, &world.work);
    policy.read.retain(|root| !root.path.starts_with(env::var("HOME").unwrap_or_else(|_| "/nonexistent".to_owned())));
    policy.read.push(Root::new(world.home.join(".cargo"), "a toolchain on the PATH"));
    policy.home.clone_from(&world.home);
    policy.hidden = sandbox::visible::secrets(&policy.read, &world.home);
    policy.hidden.extend(sandbox::visible::find_secrets(&world.work).expect("search"));
    policy.protected.push(Root::new(world.work.join(".git"), "history and hooks"));
    policy
}
