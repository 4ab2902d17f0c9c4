//! `norma config`: the configuration that counts here, and where each value is from.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::safe;
use clap::Subcommand;
use contract::Mode;
use runner::load_settings;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;

/// Show the configuration that counts here
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  norma config show\n  norma config show --origin")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Print every value
    Show {
        /// Say where each value is from
        #[arg(long)]
        origin: bool,
    },
}

/// Where a value is from.
#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Origin {
    /// Nobody said otherwise.
    Default,
    /// The user's own configuration, which counts where the repository has none.
    User,
    /// The state directory's configuration, as it was trusted.
    Repository,
    /// The same, but nobody trusts it: a run does not use it.
    RepositoryUntrusted,
    /// The file that was named by `--config`.
    CommandLine,
    /// A variable of the environment.
    Environment,
}

impl Origin {
    fn words(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::User => "your own configuration",
            Origin::Repository => "repository, trusted",
            Origin::RepositoryUntrusted => "repository, NOT trusted",
            Origin::CommandLine => "--config",
            Origin::Environment => "NORMA_MODE",
        }
    }
}

/// One value, by its place.
#[derive(Serialize)]
struct Setting {
    key: String,
    value: Value,
    origin: Origin,
}

/// A policy, and whether it is norma's own.
#[derive(Serialize)]
struct PolicyFile {
    name: &'static str,
    origin: Origin,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let Verb::Show { origin } = self.verb;
        let context = here.context_to_be()?;
        let layout = &context.layout;
        let path = here.config.as_ref().map_or_else(|| layout.config(), |path| here.cwd.join(path));
        let is_own = !path.exists() && here.config.is_none();
        let path = if is_own { context.own_config.clone() } else { path };
        let settings = if is_own { runner::own_settings(&context)? } else { load_settings(&path, layout)? };
        let policies = if is_own { runner::load_policies(layout)? } else { settings.policies.clone() };
        let trusted = is_own || here.config.is_some() || context.trust.trusts(&settings);
        let (config, found) = (settings.config, path.exists());
        let from_file = match (is_own, &here.config, trusted) {
            (true, ..) => Origin::User,
            (false, Some(_), _) => Origin::CommandLine,
            (false, None, true) => Origin::Repository,
            (false, None, false) => Origin::RepositoryUntrusted,
        };
        let written = if found { written(&path) } else { Value::Null };
        let mut values = Vec::new();
        let whole = serde_json::to_value(&config).expect("BUG: a configuration is plain data");
        flatten(String::new(), &whole, Some(&written), from_file, &mut values);
        if here.mode > config.mode {
            for value in values.iter_mut().filter(|value| value.key == "mode") {
                (value.value, value.origin) =
                    (serde_json::json!(Mode::max(here.mode, config.mode)), Origin::Environment);
            }
        }
        let changed = policies.changed();
        let policy = |name: &'static str| {
            let own = changed.contains_key(name);
            let is_trusted = context.trust.trusts_policies(&policies);
            let origin = match (own, is_trusted) {
                (false, _) => Origin::Default,
                (true, true) => Origin::Repository,
                (true, false) => Origin::RepositoryUntrusted,
            };
            PolicyFile { name, origin }
        };
        let policies: Vec<PolicyFile> = contract::policy::POLICY_FILES.iter().map(|file| policy(file.name)).collect();
        let file = found.then(|| layout.shown(&path));
        let value = serde_json::json!({"file": file, "trusted": trusted, "values": values, "policies": policies});
        Ok(here.print(&value, || describe(&values, &policies, file.as_deref(), trusted, origin)))
    }
}

fn describe(values: &[Setting], policies: &[PolicyFile], file: Option<&str>, trusted: bool, origin: bool) -> String {
    let mut text = match (file, trusted) {
        (None, _) => "there is no configuration file, so every value is the default\n".to_owned(),
        (Some(file), true) => format!("{}\n", safe(file)),
        (Some(file), false) => {
            format!(
                "{} is NOT trusted, so no run uses it; read it (norma trust --show), then: norma trust\n",
                safe(file)
            )
        }
    };
    let width = values.iter().map(|value| value.key.len()).max().unwrap_or_default();
    for Setting { key, value, origin: from } in values {
        let from = if origin { format!("   # {}", from.words()) } else { String::new() };
        text.push_str(&format!("{:<width$} = {}{from}\n", safe(key), safe(&value.to_string())));
    }
    for PolicyFile { name, origin: from } in policies.iter().filter(|policy| origin || policy.origin != Origin::Default)
    {
        text.push_str(&format!(
            "policies/{name}   # {}\n",
            if *from == Origin::Default { "built-in" } else { from.words() }
        ));
    }
    text
}

/// What the file says, whatever it leaves out.
fn written(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Every value by its dotted place. A list is one value: it is written as a whole.
fn flatten(place: String, value: &Value, written: Option<&Value>, from_file: Origin, values: &mut Vec<Setting>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                flatten(place, member, written.and_then(|it| it.get(name)), from_file, values);
            }
        }
        value => {
            let is_written = written.is_some_and(|it| !it.is_null());
            let origin = if is_written { from_file } else { Origin::Default };
            values.push(Setting { key: place, value: value.clone(), origin });
        }
    }
}
