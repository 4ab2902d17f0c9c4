//! A small world around a workspace, with everything in it that an attacker would like to reach.
//!
//! All of it is the drill's own: files below one directory, services on ports and names of the moment, and a victim,
//! which is this program again. Nothing of the user's is a target.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use serde::{Deserialize, Serialize};

use super::{Roles, Tried};

/// A word that must never be seen inside.
pub const CANARY: &str = "canary-5b1f";

/// Where everything is.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// One for datagrams.
    pub datagrams: PathBuf,
    /// An abstract one.
    pub abstract_name: String,
}

impl World {
    /// A file that an attack on a private directory leaves; seen out here only if the directory is not private.
    pub(super) fn mark_in(&self, directory: &str) -> PathBuf {
        Path::new(directory).join(format!("norma-drill-{}", self.launcher))
    }

    /// What an attack leaves behind, where success shows only on the machine.
    fn mark_of(&self, attack: &str) -> Option<PathBuf> {
        match attack {
            "change a start-up file of the user" => Some(self.home.join(".bashrc")),
            "leave a file in /tmp" => Some(self.mark_in("/tmp")),
            "leave a file in /dev/shm" => Some(self.mark_in("/dev/shm")),
            _ => None,
        }
    }

    /// Corrects what the attacker says by what arrived on the machine, and takes that away.
    pub fn judge(&self, tried: Tried) -> Tried {
        let arrived = self.mark_of(&tried.attack).is_some_and(|path| fs::remove_file(path).is_ok());
        if arrived { Tried { blocked: false, detail: "it arrived on the machine".to_owned(), ..tried } } else { tried }
    }
}

/// A world that is alive; dropping it ends its victim. Its services end with the process.
pub struct Stage {
    /// Where everything is.
    pub world: World,
    victim: Child,
    /// Memory that the machine shares, under a number that an attacker can guess.
    shared: i32,
    /// What a careless launcher would let the program inherit.
    _inherited: File,
}

impl Stage {
    /// Builds the world at `base`. The calling process is the launcher, and has the canary in its environment.
    pub fn build(base: &Path, program: &Path, roles: &Roles) -> io::Result<Self> {
        let environment = fs::read("/proc/self/environ")?;
        if !environment.windows(CANARY.len()).any(|it| it == CANARY.as_bytes()) {
            return Err(io::Error::other("the drill's launcher has no secret in its environment to be found"));
        }
        let mut world = files(base)?;
        serve(&mut world)?;
        let (victim, address) = start_victim(program, roles)?;
        world.victim = i32::try_from(victim.id()).map_err(io::Error::other)?;
        world.victim_address = address;
        let shared = share_memory(&world)?;
        let inherited = File::open(&world.outside)?;
        // SAFETY: the descriptor is open; without the flag it would not be inherited by anybody.
        unsafe { libc::fcntl(inherited.as_raw_fd(), libc::F_SETFD, 0) };
        Ok(Self { world, victim, shared, _inherited: inherited })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // SAFETY: plain numbers; nobody is attached.
        unsafe { libc::shmctl(self.shared, libc::IPC_RMID, std::ptr::null_mut()) };
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// Open to every user of the machine, for the same reason as the sockets.
fn share_memory(world: &World) -> io::Result<i32> {
    // SAFETY: plain numbers.
    let id = unsafe { libc::shmget(world.launcher as i32, 4096, libc::IPC_CREAT | 0o666) };
    if id < 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
}

fn start_victim(program: &Path, roles: &Roles) -> io::Result<(Child, u64)> {
    let mut command = Command::new(program);
    command.args([roles.drill, "victim"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut victim = command.spawn()?;
    let mut line = String::new();
    if let Some(stdout) = victim.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    let address = line.trim().parse().map_err(|_| io::Error::other(format!("the victim says {line:?}")))?;
    Ok((victim, address))
}

/// The process that is attacked: it holds the canary in its environment, which it inherits, and in its memory. It
/// ends when whoever started it does.
pub(super) fn victim() -> io::Result<()> {
    let secret = CANARY.as_bytes().to_vec();
    writeln!(io::stdout(), "{}", secret.as_ptr().addr())?;
    let mut rest = Vec::new();
    io::stdin().read_to_end(&mut rest)?;
    std::hint::black_box(secret);
    Ok(())
}

fn files(base: &Path) -> io::Result<World> {
    let at = |name: &str| base.join(name);
    for directory in ["work/.git/hooks", "outside", "home/.ssh", "home/.cargo/bin"] {
        fs::create_dir_all(at(directory))?;
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
        fs::write(at(name), text)?;
    }
    Ok(World {
        work: at("work"),
        outside: at("outside"),
        home: at("home"),
        victim: 0,
        victim_address: 0,
        launcher: std::process::id(),
        tcp: 0,
        udp: 0,
        unix: at("outside/socket"),
        datagrams: at("outside/datagrams"),
        abstract_name: format!("norma-drill-{}", std::process::id()),
    })
}

/// Services that answer with the canary.
fn serve(world: &mut World) -> io::Result<()> {
    let tcp = TcpListener::bind("127.0.0.1:0")?;
    world.tcp = tcp.local_addr()?.port();
    thread::spawn(move || tcp.incoming().flatten().for_each(|mut it| drop(it.write_all(CANARY.as_bytes()))));
    let udp = UdpSocket::bind("127.0.0.1:0")?;
    world.udp = udp.local_addr()?.port();
    thread::spawn(move || {
        while let Ok((_, from)) = udp.recv_from(&mut [0; 16]) {
            let _ = udp.send_to(CANARY.as_bytes(), from);
        }
    });
    let unix = UnixListener::bind(&world.unix)?;
    let named = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&world.abstract_name)?)?;
    for listener in [unix, named] {
        thread::spawn(move || listener.incoming().flatten().for_each(|mut it| drop(it.write_all(CANARY.as_bytes()))));
    }
    let datagrams = UnixDatagram::bind(&world.datagrams)?;
    thread::spawn(move || while datagrams.recv(&mut [0; 16]).is_ok() {});
    // Open to whoever reaches them, so that it is the walls that keep the attacker away and not who it is.
    for path in [&world.unix, &world.datagrams] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drill::ATTACKS;

    #[test]
    fn an_attack_that_arrived_on_the_machine_succeeded_whatever_it_says() {
        let base = tempfile::tempdir().expect("a directory");
        let world = files(base.path()).expect("make");
        let tried =
            || Tried { attack: "change a start-up file of the user".to_owned(), blocked: true, detail: String::new() };
        assert!(ATTACKS.iter().any(|attack| attack.name == tried().attack));
        assert!(world.judge(tried()).blocked);
        fs::write(world.home.join(".bashrc"), "x").expect("write");
        assert!(!world.judge(tried()).blocked);
        assert!(world.judge(tried()).blocked, "what arrived is taken away");
        let marked = ATTACKS.iter().filter(|attack| world.mark_of(attack.name).is_some()).count();
        assert_eq!(marked, 3, "every mark belongs to an attack");
    }
}
