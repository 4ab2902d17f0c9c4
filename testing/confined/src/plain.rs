//! The escape drill without a sandbox: an attack that fails here proves nothing where it is confined. Only tests do
//! this, on the machine that runs them; norma itself makes no attack unconfined.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use sandbox::drill::{self, Roles, Stage, Tried};

/// How the helper takes the roles that norma takes under its hidden verbs.
pub const ROLES: Roles = Roles { drill: "drill", set_up: "set-up" };

/// Builds the world at `base`, has every attack made, and prints a line for each.
pub fn drill(base: &Path) {
    keep_mounts();
    let helper = env::current_exe().expect("own path");
    let stage = Stage::build(base, &helper, &ROLES).expect("build the world");
    let world = serde_json::to_string(&stage.world).expect("plain data");
    // In a process of its own: it forks, and this one has threads.
    let mut attacker =
        Command::new(&helper).args(["attack", &world]).stdout(Stdio::piped()).spawn().expect("start the attacker");
    for line in BufReader::new(attacker.stdout.take().expect("piped")).lines() {
        let tried: Tried = serde_json::from_str(&line.expect("text")).expect("one attack");
        print(&stage.world.judge(tried));
    }
    assert!(attacker.wait().expect("it ends").success());
    let _ = fs::remove_dir_all(base);
}

/// Makes every attack and prints a line for each.
pub fn attack(world: &str) {
    let each = &mut |tried: Tried| {
        print(&tried);
        Ok(())
    };
    drill::attack_all(world, each).expect("make every attack");
}

fn print(tried: &Tried) {
    println!("{}", serde_json::to_string(tried).expect("plain data"));
}

/// Mounts made by an attack that succeeds stay in a namespace of this process. Not possible for an ordinary user, who
/// cannot mount either.
fn keep_mounts() {
    // SAFETY: plain numbers and terminated strings.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNS) == 0 {
            let (none, root) = (c"none".as_ptr(), c"/".as_ptr());
            libc::mount(none, root, std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE, std::ptr::null());
        }
    }
}
