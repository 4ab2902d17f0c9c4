//! `norma doctor`: is everything in place, and if not, what exactly to do.

mod backends;
mod drill;

use crate::error::{Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::safe;
use contract::documents::AgentRole;
use contract::{AgentConfig, Config, Role};
use runner::git::Repository;
use runner::{Context, LEVEL_MIN, Reach, Settings, Surveyed, Trust, load_settings};
use sandbox::{HeldBy, Level, Probe};
use serde::Serialize;
use std::process::ExitCode;
use store::{Layout, Reader};

/// Check that everything is in place, and print what to do where it is not
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma doctor\n  norma doctor --drill   # try to break out of the sandbox on this machine"
)]
pub(crate) struct Args {
    /// Try every known escape from inside the sandbox, on targets made for it, and list those that succeed
    #[arg(long)]
    drill: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    Info,
    Ok,
    Warn,
    Fail,
}

#[derive(Serialize)]
pub(super) struct Check {
    name: &'static str,
    status: Health,
    message: String,
    fix: Option<String>,
    /// The exit code if this fails.
    #[serde(skip)]
    code: u8,
}

impl Check {
    pub(super) fn is_good(&self) -> bool {
        self.status != Health::Fail
    }
}

fn ok(name: &'static str, message: impl Into<String>) -> Check {
    Check { name, status: Health::Ok, message: message.into(), fix: None, code: code::ENVIRONMENT }
}

fn bad(name: &'static str, status: Health, message: impl Into<String>, fix: &str) -> Check {
    Check { name, status, message: message.into(), fix: Some(fix.to_owned()), code: code::ENVIRONMENT }
}

/// What is on record contradicts itself.
fn broken(name: &'static str, message: impl Into<String>, fix: &str) -> Check {
    Check { code: code::INTEGRITY, ..bad(name, Health::Fail, message, fix) }
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        if self.drill {
            return drill::run(here);
        }
        let mut checks = examine(here);
        let probe = probe(here);
        checks.extend(sandbox_checks(probe));
        let healthy = checks.iter().all(Check::is_good);
        here.print(&serde_json::json!({"healthy": healthy, "checks": checks, "sandbox": probe}), || told(&checks));
        let worst = checks.iter().filter(|check| !check.is_good()).map(|check| check.code).max();
        Ok(worst.map_or(ExitCode::SUCCESS, ExitCode::from))
    }
}

pub(super) fn told(checks: &[Check]) -> String {
    checks.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Whether one agent could take a turn now: its configuration, itself, and what would confine it.
pub(super) fn fitness(
    here: &Surroundings,
    context: &Context,
    settings: &Settings,
    (name, agent): (&str, &AgentConfig),
) -> Vec<Check> {
    let is_trusted = match here.config {
        // Trusted, since somebody typed it; the policies beside it are not.
        Some(_) => context.trust.trusts_policies(&settings.policies),
        None => context.trust.trusts(settings),
    };
    let mut checks = vec![trusted(is_trusted)];
    checks.push(match runner::look_at(context, &settings.config, name, agent) {
        // Without a way to its model it could not, whoever configured it.
        Some(found) => match known_agent(&found) {
            check if check.fix.is_some() => Check { status: Health::Fail, ..check },
            check => check,
        },
        None => agent_check(here, &context.user, std::iter::once(agent.program())),
    });
    checks.extend(sandbox_checks(probe(here)));
    checks
}

fn line(check: &Check) -> String {
    let word = match check.status {
        Health::Info => "info",
        Health::Ok => "ok",
        Health::Warn => "warn",
        Health::Fail => "FAIL",
    };
    let fix = check.fix.as_ref().map(|fix| format!("\n             fix: {fix}")).unwrap_or_default();
    format!("{word:<5} {:<10} {}{fix}", check.name, safe(&check.message))
}

fn examine(here: &Surroundings) -> Vec<Check> {
    let mut checks = Vec::new();
    let user = match here.repository() {
        Ok(user) => user,
        Err(error) => {
            let (message, hint) = (error.message(), error.hint().unwrap_or("git init, or cd to a repository"));
            checks.push(bad("repository", Health::Fail, message, hint));
            return checks;
        }
    };
    checks.push(ok("repository", user.root.display().to_string()));
    checks.push(head(&user));
    if user.is_partial() {
        let message = "this is a partial clone: a run starts only if every file of the commit has been fetched";
        checks.push(bad("clone", Health::Warn, message, runner::REFETCH));
    }
    let layout = here.layout_of(&user);
    if !layout.exists() {
        let message = "there is none yet; the first run makes it, or norma init";
        checks.push(Check { status: Health::Info, ..ok("state", message) });
        let known = known_agents(here, Config::starting_point());
        checks.extend((!known.iter().any(is_usable)).then(no_agent));
        checks.extend(known);
        return checks;
    }
    checks.extend(state(&layout, &here.trust_of(&layout)));
    checks.extend(configuration(here, &user, &layout));
    checks
}

fn probe(here: &Surroundings) -> &'static Probe {
    sandbox::probe(&here.sandbox())
}

/// A level as it is written, and what it means.
fn meaning(level: Level) -> (&'static str, &'static str) {
    match level {
        Level::A => ("A", "full isolation"),
        Level::AMinus => ("A-", "full isolation without Landlock, the second barrier around files"),
        Level::B => ("B", "full isolation without a user namespace; programs run as user 65528"),
        Level::C => ("C", "files cannot be hidden and workspaces not mounted, so no run starts"),
        Level::Refuse => ("refused", "agents cannot be confined, so no run starts"),
    }
}

/// What the machine can confine, and everything that keeps it from more. Without a sandbox no run starts.
fn sandbox_checks(probe: &Probe) -> Vec<Check> {
    let (level, means) = meaning(probe.level);
    let is_enough = probe.at_least(LEVEL_MIN).is_some();
    let memory = match probe.memory_by.filter(|_| is_enough) {
        Some(HeldBy::Cgroup) => ", cgroup memory limit",
        Some(_) => ", memory polled",
        None => "",
    };
    let mut checks = Vec::new();
    if probe.missing.is_empty() {
        checks.push(ok("sandbox", format!("{means} (level {level}){memory}. Verify: norma doctor --drill")));
    }
    for missing in &probe.missing {
        let message = format!("level {level}: {means}{memory}: {}", missing.what);
        let health = if is_enough { Health::Warn } else { Health::Fail };
        checks.push(bad("sandbox", health, message, &missing.fix));
    }
    checks
}

fn head(user: &Repository) -> Check {
    // It could be told without git, but whether there is one that is new enough is part of the answer.
    match user.resolve("HEAD").and_then(|_| user.head()) {
        Ok(head) => {
            ok("head", format!("{} on {}", head.commit, head.branch.as_deref().unwrap_or("no branch (detached)")))
        }
        Err(error) => bad("head", Health::Fail, error.to_string(), "git add … && git commit"),
    }
}

fn state(layout: &Layout, trust: &Trust) -> Vec<Check> {
    let reader = match Reader::open(layout) {
        Ok(reader) => reader,
        Err(error) => return vec![bad("state", Health::Fail, error.to_string(), "restore norma.db from a backup")],
    };
    let mut checks = vec![ok("state", layout.shown(&layout.state))];
    checks.push(match reader.journal_mode() {
        Ok(mode) if mode == "wal" => ok("journal", "WAL, synced at every commit"),
        Ok(mode) => bad(
            "journal",
            Health::Warn,
            format!("{mode}: slower, and readers may wait"),
            "put the state directory on a local file system",
        ),
        Err(error) => bad("journal", Health::Fail, error.to_string(), "restore norma.db from a backup"),
    });
    checks.push(match (runner::is_owned(layout), store::owner_of(layout)) {
        (true, Some(owner)) => ok("owner", format!("`{}` (pid {}) is running", owner.command, owner.pid)),
        _ => ok("owner", "no other norma is running"),
    });
    checks.push(match runner::checkpoint_problem(&reader, trust) {
        Ok(None) => ok("checkpoint", "the audit log matches its last checkpoint"),
        Ok(Some(problem)) => broken("checkpoint", problem, runner::ACCEPT),
        Err(error) => broken("checkpoint", error.to_string(), "restore norma.db from a backup"),
    });
    match records(&reader) {
        Ok(found) => checks.extend(found),
        Err(error) => checks.push(broken("record", error.to_string(), "restore norma.db from a backup")),
    }
    checks
}

/// Runs whose log is damaged, that are missing, or that were set aside. Evidence is for `norma verify` to look at.
fn records(reader: &Reader) -> store::Result<Vec<Check>> {
    let fix = |slug: &str| {
        format!("every problem: norma verify {slug}; to set it aside: norma quarantine {slug} --reason TEXT")
    };
    let mut checks = Vec::new();
    for (word, found) in [("damaged", reader.damaged_runs()?), ("missing", reader.missing_runs()?)] {
        let told = found.iter().map(|it| broken(word, format!("run {}: {}", it.run_id, it.why), &fix(&it.run_id)));
        checks.extend(told);
    }
    for aside in reader.quarantined_runs()? {
        let message = format!("run {} was set aside by {}: {}", aside.run_id, aside.by, aside.reason);
        checks.push(Check { status: Health::Info, ..ok("quarantine", message) });
    }
    if checks.iter().all(Check::is_good) {
        checks.push(ok("record", "no run is damaged or missing"));
    }
    Ok(checks)
}

fn configuration(here: &Surroundings, user: &Repository, layout: &Layout) -> Vec<Check> {
    let settings = match load_settings(&layout.config(), layout) {
        Ok(loaded) => loaded,
        Err(error) => {
            return vec![bad("config", Health::Fail, error.to_string(), error.hint().unwrap_or("norma help config"))];
        }
    };
    let (config, is_trusted) = (&settings.config, here.trust_of(layout).trusts(&settings));
    let mut checks = Vec::new();
    checks.push(trusted(is_trusted));
    checks.push(policies(&settings.policies));
    let missing: Vec<&str> =
        Role::PDCA.iter().map(|role| role.as_str()).filter(|role| !config.agents.contains_key(*role)).collect();
    // Nothing of a configuration that nobody trusts is started, not even to ask for its version.
    let known = known_agents(here, if is_trusted { config.clone() } else { Config::starting_point() });
    let of_loop = match (config.pdca_agents(), missing.is_empty()) {
        (Ok(agents), _) => agent_check(here, user, agents.values().map(AgentConfig::program)),
        (Err(_), false) => {
            let message = format!("no agent for {}, so the plan-do-check-act loop cannot run", missing.join(", "));
            let fix = "add one to .norma/config.json (norma help config), then: norma trust";
            bad("agents", Health::Fail, message, fix)
        }
        (Err(problems), true) => bad("agents", Health::Fail, problems[0].to_string(), "norma help config"),
    };
    // Contracts need one agent, whoever it is; the loop needs four roles, and not everybody wants it.
    let contracts_run = known.iter().any(is_usable) || is_trusted && has_worker(here, user, &settings);
    checks.push(match of_loop.is_good() || !contracts_run {
        true => of_loop,
        false => Check { status: Health::Warn, ..of_loop },
    });
    checks.extend(known);
    if is_trusted {
        checks.extend(backends::checks(here, config));
    }
    checks
}

/// Whether an agent can take a turn now.
fn is_usable(known: &Check) -> bool {
    known.status == Health::Ok
}

fn no_agent() -> Check {
    let fix = "install one of these and sign in, or add your own: norma agent add NAME -- COMMAND";
    bad("agents", Health::Fail, "no agent is installed and signed in", fix)
}

/// Whether an agent of the configuration may carry out contracts, and its program is there.
fn has_worker(here: &Surroundings, user: &Repository, settings: &Settings) -> bool {
    let registry = settings.policies.agent_registry();
    let workers = settings.config.agents.iter().filter(|(name, _)| registry.require(name, AgentRole::Worker).is_ok());
    let path = here.agent_path();
    workers.into_iter().any(|(_, agent)| runner::process::resolve(agent.program(), &path, &user.root).is_some())
}

fn trusted(is_trusted: bool) -> Check {
    match is_trusted {
        true => ok("config", "valid and trusted"),
        false => {
            bad("config", Health::Fail, "valid, but not trusted", "read it (norma trust --show), then: norma trust")
        }
    }
}

/// Each of the known command lines: is it there, which one is it, and can it reach its model?
fn known_agents(here: &Surroundings, config: Config) -> Vec<Check> {
    let Ok(context) = here.context_to_be() else { return Vec::new() };
    runner::survey(&context, &config).iter().map(known_agent).collect()
}

fn known_agent(agent: &Surveyed) -> Check {
    let name = &agent.name;
    let Some(program) = &agent.program else {
        let health = if agent.configured { Health::Fail } else { Health::Info };
        let install = agent.install.map_or_else(|| "install it".to_owned(), |command| format!("install it: {command}"));
        let fix = format!("{install}, or give its path: \"agents\": {{ \"{name}\": {{ \"bin\": \"…\" }} }}");
        return bad("agent", health, format!("{name}: not installed"), &fix);
    };
    let version = agent.version.as_deref().unwrap_or("unknown version");
    let said = format!("{name}: {version} ({})", program.display());
    if let Some(problem) = agent.handshake.as_ref().and_then(|handshake| handshake.problem.as_ref()) {
        let fix = format!("details: norma agent list; or remove it: norma agent remove {name}");
        return bad("agent", Health::Warn, format!("{said}: {}", problem.message()), &fix);
    }
    if let Some(unused) = agent.unused_address.as_ref().filter(|_| !matches!(agent.reach, Reach::Not(_))) {
        return bad("agent", Health::Warn, said, unused);
    }
    match &agent.reach {
        Reach::Key(variable) => ok("agent", format!("{said}, key in {variable} (never shown to agents)")),
        Reach::Address(url) => ok("agent", format!("{said}, model at {url}")),
        Reach::SignIn => ok("agent", format!("{said}, signed in")),
        Reach::Own => ok("agent", format!("{said}, opens a session")),
        Reach::Not(what_to_do) => {
            let health = if agent.configured { Health::Warn } else { Health::Info };
            bad("agent", health, format!("{said}, not signed in"), what_to_do)
        }
    }
}

/// Valid they are, or there would be no settings.
fn policies(policies: &contract::Policies) -> Check {
    let changed: Vec<&str> = policies.changed().into_keys().collect();
    if !policies.missing.is_empty() {
        let message = format!("no file, so the built-in one applies: {}", policies.missing.join(", "));
        bad("policies", Health::Warn, message, "norma init")
    } else if changed.is_empty() {
        ok("policies", "built-in")
    } else {
        ok("policies", format!("your own: {}", changed.join(", ")))
    }
}

/// Programs by name or absolute path; those of the run's tree are checked when a run starts.
fn agent_check<'a>(here: &Surroundings, user: &Repository, programs: impl Iterator<Item = &'a str>) -> Check {
    let path = here.agent_path();
    let absent: Vec<&str> =
        programs.filter(|program| runner::process::resolve(program, &path, &user.root).is_none()).collect();
    if absent.is_empty() {
        ok("agents", "every program was found")
    } else {
        bad(
            "agents",
            Health::Fail,
            format!("not found: {}", absent.join(", ")),
            "install it, or change .norma/config.json",
        )
    }
}
