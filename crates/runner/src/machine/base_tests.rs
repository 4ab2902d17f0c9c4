//! How the tests of a contract do before anything has changed: each is run once on the base, in a workspace of its own,
//! confined as it is when it judges the change. It is done before an agent is paid, and nothing of it is on record: it
//! tells a person what they start from.

use crate::git::{ObjectId, Objects};
use crate::machine::acceptance::program::{Places, outside_path};
use crate::machine::confine::Program;
use crate::machine::redactor;
use crate::machine::trial::{AtHead, BuildsAtHead, at_head};
use crate::process::{Cancel, End, Limits, Said, confined};
use crate::{Context, Error, Result};
use contract::Config;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Kept of what a test prints.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// How many of its last lines are shown.
const LINES_MAX: usize = 8;

/// What a test came to on the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseTest {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Whether it succeeded.
    pub passed: bool,
    /// How it ended, in words, where it did not.
    pub why: String,
    /// The last lines that it printed, where it did not.
    pub tail: Vec<String>,
    /// How long it took.
    pub elapsed: Duration,
}

/// The program of a test command, as it is found when a change of this tree is judged: on PATH outside of the repository,
/// by its path in the commit, or in installed dependencies that workspaces show.
pub(crate) fn test_program(
    context: &Context,
    objects: &Objects,
    tree: ObjectId,
    shown: &[String],
    name: &str,
) -> Result<Option<PathBuf>> {
    let places = Places { context, objects, tree, root: &context.layout.root, shown };
    Ok(places.find(name)?.map(|program| program.path))
}

/// Runs the tests on HEAD, one after another; `told` hears of each before it starts. What was cancelled is not tried.
pub fn try_on_base(
    context: &Context,
    config: &Config,
    shown: &[String],
    tests: &[Vec<String>],
    timeout: Duration,
    told: &dyn Fn(&[String]),
) -> Result<Vec<BaseTest>> {
    let mut config = config.clone();
    config.sandbox.read = shown.to_vec();
    let at = AtHead::new(context, &context.layout, &config)?;
    let builds = BuildsAtHead::new(context, &config, &at)?;
    let AtHead { objects, stand, tools } = &at;
    let redactor = redactor(context);
    let cancel = Cancel::new().map_err(|source| Error::io("watch", &context.layout.root, source))?;
    let mut tried = Vec::new();
    for argv in tests {
        told(argv);
        let Some(program) = test_program(context, objects, stand.tree, shown, &argv[0])? else {
            tried.push(BaseTest::failed(argv, format!("{} was not found", argv[0])));
            continue;
        };
        let mut scene = at_head(context, &config, stand, tools);
        builds.show_in(&mut scene);
        let arguments = argv.iter().skip(1).map(Path::new).filter(|path| path.is_absolute());
        let named = [program.as_path()].into_iter().chain(arguments).collect();
        let path = outside_path(context, shown).into_string().map(|path| ("PATH".to_owned(), path));
        let env: BTreeMap<String, String> = path.into_iter().collect();
        let wanted = Program { cwd: &context.layout.root, named, read: Vec::new(), env, network: &[] };
        let command = sandbox::Command { program: program.to_string_lossy().into_owned(), args: argv[1..].to_vec() };
        let limits = Limits { wall: timeout, idle: None, output_bytes_max: OUTPUT_BYTES_MAX, clock: None };
        let refused = |why: String| Error::environment(why, "what is missing: norma doctor");
        let policy = scene.policy(wanted).map_err(refused)?;
        let ready = confined::get_ready(&context.sandbox, &policy, &command);
        let ready = ready.map_err(|error| refused(error.to_string()))?;
        let finished = ready.go(Said::Bytes(&[]), limits, &cancel).map_err(|error| refused(error.to_string()))?;
        let outcome = finished.outcome;
        let printed = [&outcome.stdout.bytes[..], &outcome.stderr.bytes[..]].concat();
        let printed = String::from_utf8_lossy(&redactor.redact(&printed).bytes).into_owned();
        let mut test = BaseTest::failed(argv, ended(&outcome.end));
        test.elapsed = outcome.elapsed;
        match outcome.end == End::Exited(0) {
            true => test.passed = true,
            false => test.tail = tail(&printed),
        }
        tried.push(test);
    }
    Ok(tried)
}

impl BaseTest {
    fn failed(argv: &[String], why: String) -> BaseTest {
        BaseTest { argv: argv.to_vec(), passed: false, why, tail: Vec::new(), elapsed: Duration::ZERO }
    }
}

fn ended(end: &End) -> String {
    match end {
        End::Exited(code) => format!("exit code {code}"),
        End::Signaled(signal) => format!("killed by signal {signal}"),
        End::WallDeadline => "not finished in time".to_owned(),
        End::NotStarted(why) | End::NotConfined(why) => format!("not started: {why}"),
        other => format!("{other:?}"),
    }
}

fn tail(printed: &str) -> Vec<String> {
    let lines: Vec<&str> = printed.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].iter().map(|line| (*line).to_owned()).collect()
}
