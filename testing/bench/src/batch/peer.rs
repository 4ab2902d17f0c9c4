//! The peers: how each is installed, once, below the build folder, and how it is had to carry out a graph. What
//! cannot be had here is told with the reason. The programs themselves are in `testing/bench/peers`.

use super::graph::Graph;
use super::program::{Ended, last_line};
use crate::step::RESPONSE;
use crate::world::World;
use crate::{Result, tell};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An engine that people would take.
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    /// The program, and what it needs, below `testing/bench/peers`.
    program: &'static str,
    pins: &'static str,
    server: Server,
}

/// The engine's own process, if it has one.
enum Server {
    None,
    /// Comes with the program's packages.
    Packaged(&'static str),
    /// A package of npm, its version, and the program in it.
    Npm(&'static str, &'static str, &'static str),
}

pub(crate) const RECIPES: [Recipe; 4] = [
    Recipe { name: "LangGraph", program: "langgraph_sqlite.py", pins: "langgraph.txt", server: Server::None },
    Recipe { name: "DBOS", program: "dbos_sqlite.py", pins: "dbos.txt", server: Server::None },
    Recipe {
        name: "Temporal",
        program: "temporal_dev.py",
        pins: "temporal.txt",
        server: Server::Packaged("bin/temporal"),
    },
    Recipe {
        name: "Restate",
        program: "restate_server.py",
        pins: "restate.txt",
        server: Server::Npm("@restatedev/restate-server-linux-x64", "1.7.12", "bin/restate-server"),
    },
];

/// An engine that is here.
pub(crate) struct Peer {
    python: PathBuf,
    program: PathBuf,
    server: Option<PathBuf>,
    /// What it consists of besides the packages that it names itself.
    besides: Option<String>,
}

/// What a peer says of itself.
pub(crate) struct Told {
    /// For the graph alone.
    pub(crate) seconds: f64,
    pub(crate) engine: String,
}

impl Recipe {
    /// Installs it unless it is there; an error says why it cannot be had.
    pub(crate) fn obtain(&self, world: &World) -> Result<Peer> {
        let dir = world.tools.join(self.name.to_lowercase());
        let pins = world.peers.join(self.pins);
        let wanted = format!("{}{}", std::fs::read_to_string(&pins)?, self.npm_package().unwrap_or_default());
        // Written last, so what it lies in is whole.
        let installed = dir.join("installed.txt");
        if std::fs::read_to_string(&installed).ok().as_ref() != Some(&wanted) {
            tell(&format!("bench: batch, installing {}", self.name));
            self.install(&dir, &pins)?;
            std::fs::write(&installed, &wanted)?;
        }
        let server = match &self.server {
            Server::None => None,
            Server::Packaged(program) => Some(dir.join(program)),
            Server::Npm(package, _, program) => Some(dir.join("node_modules").join(package).join(program)),
        };
        let (python, program) = (dir.join("bin/python"), world.peers.join(self.program));
        Ok(Peer { python, program, server, besides: self.npm_package() })
    }

    fn install(&self, dir: &Path, pins: &Path) -> Result<()> {
        if dir.exists() {
            std::fs::remove_dir_all(dir)?;
        }
        installs(Command::new("python3").args(["-m", "venv"]).arg(dir))?;
        // Wheels only, and nothing but what is pinned: no package's own code runs to install it.
        let mut pip = Command::new(dir.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        installs(pip.args(["--only-binary", ":all:", "--requirement"]).arg(pins))?;
        match self.npm_package() {
            Some(package) => {
                let mut npm = Command::new("npm");
                npm.args(["install", "--loglevel=error", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]);
                installs(npm.arg(dir).arg(package))
            }
            None => Ok(()),
        }
    }

    fn npm_package(&self) -> Option<String> {
        match self.server {
            Server::Npm(package, version, _) => Some(format!("{package}@{version}")),
            Server::None | Server::Packaged(_) => None,
        }
    }
}

/// Runs an installer, in the user's own environment: it says where packages come from.
fn installs(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("could not start {name}: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(last_line(&output.stderr).into()) }
}

impl Peer {
    /// The command that carries out a graph in an empty folder.
    pub(crate) fn command(&self, world: &World, graph: Graph, jobs: u32, dir: &Path) -> Command {
        // -B: no compiled files beside the sources.
        let mut command = world.command(&self.python, dir);
        command.arg("-B").arg(&self.program).arg("--dir").arg(dir).args(["--response", RESPONSE]);
        for (name, number) in [("--levels", graph.levels), ("--width", graph.width), ("--jobs", jobs)] {
            command.arg(name).arg(number.to_string());
        }
        if let Some(server) = &self.server {
            command.arg("--server").arg(server);
        }
        command
    }

    /// What was measured, with versions.
    pub(crate) fn engine(&self, told: &Told) -> String {
        let besides = self.besides.iter().map(|package| format!(", {package}"));
        besides.fold(told.engine.clone(), |engine, more| engine + &more)
    }
}

/// Reads a peer's answer.
pub(crate) fn told(ended: &Ended) -> Result<Told> {
    let answer: serde_json::Value = serde_json::from_str(ended.stdout.lines().last().unwrap_or_default())?;
    let seconds = answer["seconds"].as_f64().ok_or("the peer tells no time")?;
    Ok(Told { seconds, engine: answer["engine"].as_str().unwrap_or_default().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_tells_its_time_in_its_last_line() {
        let ended = |stdout: &str| Ended { seconds: 9.0, stdout: stdout.to_owned() };
        let told_one = told(&ended("noise\n{\"seconds\": 0.5, \"engine\": \"e 1\"}\n")).expect("an answer");
        assert_eq!((told_one.seconds, told_one.engine.as_str()), (0.5, "e 1"));
        assert!(told(&ended("noise\n")).is_err());
        assert!(told(&ended("{}")).is_err());
    }

    #[test]
    fn every_peer_has_its_program_and_its_pins() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        for recipe in &RECIPES {
            assert!(peers.join(recipe.program).is_file(), "{}", recipe.program);
            let pins = std::fs::read_to_string(peers.join(recipe.pins)).expect("pins");
            let loose: Vec<&str> = pins.lines().skip(1).filter(|line| !line.contains("==")).collect();
            assert_eq!(loose, Vec::<&str>::new(), "{}", recipe.pins);
        }
    }
}
