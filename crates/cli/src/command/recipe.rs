//! `norma recipe`: named, versioned templates of intents. They lie in `.norma/recipes/` and count only as they were trusted
//! here, like the configuration: a repository can carry one that nobody has read.

use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::{bytes_out, named, out, safe};
use clap::Subcommand;
use contract::documents::{Recipe, RecipeStatus};
use contract::{Digest, Violation, hash, json};
use runner::Context;
use serde_json::{Map, Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Longest recipe or form in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Make, check and fill templates of intents
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma recipe new daily-brief -o brief.json   # a draft to write on\n  norma recipe add brief.json                  # checked with its fixtures, kept and trusted\n  norma recipe list\n  norma recipe render daily-brief --set topic=infra | norma intent compile -"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the recipes of this repository
    List,
    /// Print a recipe
    Show {
        /// Its id, or ID@VERSION; without a version, the newest stable one, else the newest
        recipe: String,
    },
    /// Write a draft to begin with
    New {
        /// Its id: lower-case letters, digits and -
        id: String,
        /// Where to write it; printed if left out
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Check a recipe with its fixtures, and keep and trust it; a stable version is never replaced
    Add {
        /// A file with a recipe, or - for stdin
        file: PathBuf,
    },
    /// Trust a recipe that lies in .norma/recipes as it is now
    Trust {
        /// Its id, or ID@VERSION
        recipe: String,
    },
    /// Print the intent that comes of a form
    Render {
        /// Its id, or ID@VERSION
        recipe: String,
        /// A file with the form, or - for stdin
        #[arg(long, value_name = "FILE")]
        form: Option<PathBuf>,
        /// A field of the form; the value is JSON, or text where it is none (can be repeated)
        #[arg(long, value_name = "FIELD=VALUE")]
        set: Vec<String>,
    },
}

/// A recipe that lies in the state directory.
struct Kept {
    recipe: Recipe,
    sha256: Digest,
    bytes: Vec<u8>,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        match self.verb {
            Verb::New { id, output } => new(here, &id, output.as_deref()),
            Verb::Add { file } => add(here, &file),
            Verb::List => list(here),
            Verb::Show { recipe } => {
                let context = here.context()?;
                bytes_out(&find(&context, &recipe)?.bytes);
                Ok(ExitCode::SUCCESS)
            }
            Verb::Trust { recipe } => {
                let context = here.context()?;
                let kept = find(&context, &recipe)?;
                trust(&context, &kept.recipe, kept.sha256)?;
                let value = json!({"recipe": kept.recipe.reference(), "sha256": kept.sha256});
                Ok(here.print(&value, || format!("{} is trusted", kept.recipe.reference())))
            }
            Verb::Render { recipe, form, set } => render(here, &recipe, form.as_deref(), &set),
        }
    }
}

fn new(here: &Surroundings, id: &str, output: Option<&Path>) -> Outcome<ExitCode> {
    let draft = json!({
        "id": id, "version": 1, "status": "draft", "name": id,
        "formSchema": {"type": "object", "additionalProperties": false, "required": ["topic"],
            "properties": {"topic": {"type": "string", "minLength": 1}}},
        "intentTmpl": {"goal": "what is wanted about {{topic}}", "inputs": {"topic": "{{topic}}"}, "constraints": {}},
        "fixtures": [{"name": "an example", "formData": {"topic": "infra"}}],
    });
    let text = serde_json::to_string_pretty(&draft).expect("BUG: a draft is plain data") + "\n";
    Recipe::read(text.as_bytes()).map_err(|problems| invalid("that recipe", &problems))?;
    let Some(file) = output else {
        bytes_out(text.as_bytes());
        return Ok(ExitCode::SUCCESS);
    };
    super::contract::write_new(&here.cwd.join(file), &text)?;
    let shown = safe(&file.to_string_lossy());
    Ok(here
        .print(&json!({"file": file}), || format!("{shown} is a draft; write on it, then: norma recipe add {shown}")))
}

/// Keeps a recipe. It is trusted, since whoever adds it has named it.
fn add(here: &Surroundings, file: &Path) -> Outcome<ExitCode> {
    let shown = file.to_string_lossy().into_owned();
    let bytes = read(here, file)?;
    let recipe = Recipe::read(&bytes).map_err(|problems| invalid(&shown, &problems))?;
    let context = here.context()?;
    let path = place(&context, &recipe.id, recipe.version);
    let sha256 = hash::sha256(&bytes);
    if let Ok(before) = load(&path)
        && before.recipe.status == RecipeStatus::Stable
        && before.sha256 != sha256
    {
        return Err(immutable(&recipe));
    }
    trust(&context, &recipe, sha256)?;
    let dir = path.parent().expect("BUG: a recipe lies in a directory");
    std::fs::create_dir_all(dir).map_err(|error| {
        CommandError::new(
            code::ENVIRONMENT,
            format!("could not make {}: {error}", dir.display()),
            "check the directory",
        )
    })?;
    store::write_whole(&path, &bytes)?;
    let (reference, status) = (recipe.reference(), recipe.status.as_str());
    let value = json!({"recipe": reference, "status": status, "sha256": sha256, "path": context.layout.shown(&path)});
    Ok(here.print(&value, || {
        let fixtures = recipe.fixtures.len();
        format!("{reference} ({status}) is kept and trusted; {fixtures} fixture(s) hold\nnext: norma recipe render {reference} --set FIELD=VALUE")
    }))
}

fn list(here: &Surroundings) -> Outcome<ExitCode> {
    let context = here.context()?;
    let kept = all(&context)?;
    let rows: Vec<Value> = kept
        .iter()
        .map(|(path, kept)| match kept {
            Ok(kept) => {
                let Recipe { id, version, status, name, .. } = &kept.recipe;
                let trusted = context.trust.trusts_recipe(&kept.recipe.reference(), &kept.sha256);
                json!({"id": id, "version": version, "status": status, "name": name, "trusted": trusted, "sha256": kept.sha256})
            }
            Err(problem) => json!({"path": context.layout.shown(path), "invalid": problem.message()}),
        })
        .collect();
    Ok(here.print(&rows, || {
        if kept.is_empty() {
            return "no recipes; make one: norma recipe new ID -o FILE".to_owned();
        }
        let line = |(path, kept): &(PathBuf, Outcome<Kept>)| match kept {
            Ok(kept) => {
                let trusted = context.trust.trusts_recipe(&kept.recipe.reference(), &kept.sha256);
                let note = if trusted { "" } else { "  NOT TRUSTED" };
                let Recipe { status, name, .. } = &kept.recipe;
                format!("{:<24} {:<9} {}{note}", kept.recipe.reference(), status.as_str(), safe(name))
            }
            Err(_) => format!("{:<24} not valid: norma recipe add {0}", context.layout.shown(path)),
        };
        kept.iter().map(line).collect::<Vec<_>>().join("\n")
    }))
}

fn render(here: &Surroundings, name: &str, form: Option<&Path>, set: &[String]) -> Outcome<ExitCode> {
    let context = here.context()?;
    let Kept { recipe, sha256, .. } = find(&context, name)?;
    let reference = recipe.reference();
    if !context.trust.trusts_recipe(&reference, &sha256) {
        let message = format!("{reference} is not trusted as it is now, so it is not used");
        let hint =
            format!("read it: norma recipe show {reference}; if that is what you want: norma recipe trust {reference}");
        return Err(CommandError::new(code::ENVIRONMENT, message, hint));
    }
    let intent = recipe.render(&fields(here, form, set)?).map_err(|problems| {
        let lines: String = problems.iter().map(|problem| format!("\n  {}", safe(&problem.to_string()))).collect();
        let needed = recipe.form_schema.get("properties").and_then(Value::as_object);
        let names = named(needed.into_iter().flat_map(Map::keys).cloned());
        CommandError::usage(format!("{reference} does not take that form:{lines}"), format!("its fields: {names}"))
    })?;
    let bytes = json::canonical(&intent).expect("BUG: an intent that was read strictly has a canonical form");
    out(&String::from_utf8_lossy(&bytes));
    Ok(ExitCode::SUCCESS)
}

fn fields(here: &Surroundings, form: Option<&Path>, set: &[String]) -> Outcome<Map<String, Value>> {
    let mut fields = match form {
        None => Map::new(),
        Some(file) => {
            let parsed = json::parse(&read(here, file)?, &contract::Limits::DOCUMENT);
            let parsed = parsed.map_err(|problems| invalid(&file.to_string_lossy(), &problems))?;
            let Value::Object(fields) = parsed else {
                return Err(CommandError::usage("a form is an object", "for example {\"topic\": \"infra\"}"));
            };
            fields
        }
    };
    for pair in set {
        let (name, text) = pair.split_once('=').ok_or_else(|| {
            CommandError::usage(format!("--set {:?} has no value", safe(pair)), "for example --set topic=infra")
        })?;
        let value = json::parse(text.as_bytes(), &contract::Limits::DOCUMENT).unwrap_or_else(|_| text.into());
        fields.insert(name.to_owned(), value);
    }
    Ok(fields)
}

fn trust(context: &Context, recipe: &Recipe, sha256: Digest) -> Outcome<()> {
    let stable = recipe.status == RecipeStatus::Stable;
    context.trust.trust_recipe(&recipe.reference(), sha256, stable)?.map_err(|_| immutable(recipe))
}

fn immutable(recipe: &Recipe) -> CommandError {
    let Recipe { id, version, .. } = recipe;
    let message =
        format!("{} is stable and never changes:\n  /version: {version} is taken by another text", recipe.reference());
    CommandError::usage(message, format!("make it version {} of {id}", version + 1))
}

fn place(context: &Context, id: &str, version: u32) -> PathBuf {
    context.layout.recipes().join(id).join(format!("{version}.json"))
}

/// Every recipe that lies there, by id and version.
fn all(context: &Context) -> Outcome<Vec<(PathBuf, Outcome<Kept>)>> {
    let files = |dir: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let mut paths: Vec<PathBuf> = files(&context.layout.recipes()).iter().flat_map(|dir| files(dir)).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
    let version = |path: &PathBuf| path.file_stem().and_then(|it| it.to_str()?.parse::<u32>().ok());
    paths.sort_by_key(|path| (path.parent().map(Path::to_owned), version(path)));
    Ok(paths.into_iter().map(|path| (path.clone(), load(&path))).collect())
}

/// Reads a recipe; one that lies under another's name is none.
fn load(path: &Path) -> Outcome<Kept> {
    let shown = path.to_string_lossy().into_owned();
    let failed = |error| CommandError::usage(format!("could not read {}: {error}", safe(&shown)), "norma recipe list");
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(failed)?;
    let recipe = Recipe::read(&bytes).map_err(|problems| invalid(&shown, &problems))?;
    let right = Path::new(&recipe.id).join(format!("{}.json", recipe.version));
    if !path.ends_with(&right) {
        let message = format!("{} says that it is {}", safe(&shown), recipe.reference());
        return Err(CommandError::usage(message, format!("it belongs to {}", right.display())));
    }
    Ok(Kept { recipe, sha256: hash::sha256(&bytes), bytes })
}

/// The recipe of this name: of this version, or the newest stable one, or the newest.
fn find(context: &Context, name: &str) -> Outcome<Kept> {
    let missing =
        || CommandError::usage(format!("there is no recipe {:?}", safe(name)), "norma recipe list shows them");
    let (id, version) = match name.split_once('@') {
        Some((id, version)) => (id, Some(version.parse::<u32>().map_err(|_| missing())?)),
        None => (name, None),
    };
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if id.is_empty() || !id.chars().all(fits) {
        return Err(missing());
    }
    if let Some(version) = version {
        let path = place(context, id, version);
        return if path.exists() { load(&path) } else { Err(missing()) };
    }
    let dir = context.layout.recipes().join(id);
    let mut found = Vec::new();
    for (path, kept) in all(context)? {
        if path.parent() == Some(&dir) {
            found.push(kept?);
        }
    }
    found.sort_by_key(|kept| (kept.recipe.status == RecipeStatus::Stable, kept.recipe.version));
    found.pop().ok_or_else(missing)
}

fn read(here: &Surroundings, file: &Path) -> Outcome<Vec<u8>> {
    super::contract::read_from(
        match file == Path::new("-") {
            true => Ok(Box::new(std::io::stdin().lock()) as Box<dyn Read>),
            false => std::fs::File::open(here.cwd.join(file)).map(|file| Box::new(file) as Box<dyn Read>),
        },
        &file.to_string_lossy(),
        "name a file, or - for stdin",
    )
}

fn invalid(name: &str, problems: &[Violation]) -> CommandError {
    let lines: String = problems.iter().map(|problem| format!("\n  {}", safe(&problem.to_string()))).collect();
    CommandError::usage(
        format!("{} is not valid:{lines}", safe(name)),
        "fix it: norma help recipes, norma schema recipe",
    )
}
