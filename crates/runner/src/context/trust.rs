//! What is kept outside the repository: which settings a person trusts, the last checkpoint of the audit log, and the
//! key that norma signs with.
//! A repository can carry a `config.json` that would choose what runs on somebody's machine, and policies that
//! would let it do more there; they count only if their exact bytes were trusted here, for this very place.

mod described;

use crate::context::confinement::{check_sandbox, check_workspace};
use crate::context::policy::load_policies;
use crate::{Context, Error, Keys, Result};
use contract::attestation::predicate::{CHECKPOINT, checkpoint};
use contract::{AgentConfig, AuditHead, Config, Digest, Mode, Policies, SandboxConfig, Violation};
use run::Run;
use run::redact::Redactor;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use store::Layout;

/// A configuration is at most this large.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Where the last checkpoint is.
const CHECKPOINT_FILE: &str = "checkpoint.json";

/// How many started contracts are remembered; older ones have long ended.
const CONTRACTS_MAX: usize = 1000;

/// Which configurations and policies this user trusts, by digest.
#[derive(Debug, Clone)]
pub struct Trust {
    dir: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    /// Digests of trusted configurations with the policies beside them, newest last.
    config: Vec<Digest>,
    /// Digests of trusted policies by themselves, newest last.
    #[serde(default)]
    policies: Vec<Digest>,
    /// Digests of contracts that were started here, newest last.
    #[serde(default)]
    contracts: Vec<Digest>,
    /// Trusted recipes, by id and version.
    #[serde(default)]
    recipes: BTreeMap<String, KeptRecipe>,
}

/// A recipe as it was trusted.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct KeptRecipe {
    sha256: Digest,
    /// From then on that version never changes.
    stable: bool,
}

impl Trust {
    /// What is kept for one state directory; `data_home` is the user's own (`$XDG_DATA_HOME/norma`).
    pub fn new(data_home: &Path, state: &Path) -> Trust {
        let id = contract::hash::sha256(place(state).as_os_str().as_encoded_bytes()).to_string();
        Trust { dir: data_home.join(&id[..16]) }
    }

    /// Whether exactly this configuration with exactly these policies is trusted. Anything unreadable is not.
    pub fn trusts(&self, settings: &Settings) -> bool {
        self.kept().config.contains(&settings.digest)
    }

    /// Whether exactly these policies are trusted, whatever the configuration. The built-in ones always are.
    pub fn trusts_policies(&self, policies: &Policies) -> bool {
        policies.trust_digest().is_none_or(|digest| self.kept().policies.contains(&digest))
    }

    /// Trusts these settings from now on.
    pub fn trust(&self, settings: &Settings) -> Result<()> {
        self.keep_trusted(settings.digest, settings.policies.trust_digest())
    }

    /// Trusts a configuration that norma itself wrote, with the built-in policies and no others.
    pub fn trust_written(&self, config: &[u8]) -> Result<()> {
        self.keep_trusted(Config::trust_digest(config, &Policies::built_in()), None)
    }

    fn keep_trusted(&self, config: Digest, policies: Option<Digest>) -> Result<()> {
        let _alone = self.alone()?;
        let mut kept = self.kept();
        for (list, digest) in [(&mut kept.config, Some(config)), (&mut kept.policies, policies)] {
            list.retain(|known| Some(*known) != digest);
            list.extend(digest);
        }
        self.write("trust.json", &kept)
    }

    /// Whether exactly this recipe is trusted.
    pub fn trusts_recipe(&self, reference: &str, sha256: &Digest) -> bool {
        self.kept().recipes.get(reference).is_some_and(|kept| kept.sha256 == *sha256)
    }

    /// Trusts a recipe from now on. A version that was trusted as stable is that version for ever: another text under the
    /// same name is refused with the digest of the one that counts.
    pub fn trust_recipe(
        &self,
        reference: &str,
        sha256: Digest,
        stable: bool,
    ) -> Result<std::result::Result<(), Digest>> {
        let _alone = self.alone()?;
        let mut kept = self.kept();
        if let Some(before) = kept.recipes.get(reference).filter(|before| before.stable && before.sha256 != sha256) {
            return Ok(Err(before.sha256));
        }
        kept.recipes.insert(reference.to_owned(), KeptRecipe { sha256, stable });
        self.write("trust.json", &kept).map(Ok)
    }

    /// Whether a run under this contract was started here: only such a run is continued, since a
    /// repository could carry a database that somebody else filled.
    pub fn started(&self, contract: &Digest) -> bool {
        self.kept().contracts.contains(contract)
    }

    /// Remembers that a run under this contract was started here.
    pub fn keep_started(&self, contract: Digest) -> Result<()> {
        let _alone = self.alone()?;
        let mut kept = self.kept();
        if kept.contracts.contains(&contract) {
            return Ok(());
        }
        kept.contracts.push(contract);
        let surplus = kept.contracts.len().saturating_sub(CONTRACTS_MAX);
        kept.contracts.drain(..surplus);
        self.write("trust.json", &kept)
    }

    fn kept(&self) -> Kept {
        let text = std::fs::read(self.dir.join("trust.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// The last checkpoint, if there is one; or why it cannot be relied on. Before checkpoints were signed it was only
    /// the place in the log.
    pub fn checkpoint(&self) -> std::result::Result<Option<AuditHead>, String> {
        let path = self.dir.join(CHECKPOINT_FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(format!("the checkpoint {} cannot be read: {e}", path.display())),
        };
        if let Ok(unsigned) = serde_json::from_slice(&bytes) {
            return Ok(Some(unsigned));
        }
        let keys = self.public_keys().map_err(|error| error.to_string())?;
        let said = crate::context::keys::open(&bytes, &keys).and_then(|said| match said.predicate_type.as_str() {
            CHECKPOINT => serde_json::from_value(said.predicate).map_err(|e| format!("cannot be read: {e}")),
            other => Err(format!("says {other}, which is no checkpoint")),
        });
        said.map(Some).map_err(|why| format!("the checkpoint {} {why}", path.display()))
    }

    /// Remembers where the audit log ends, under this signature.
    pub fn keep_checkpoint(&self, head: AuditHead, keys: &Keys) -> Result<()> {
        let _alone = self.alone()?;
        self.write_bytes(CHECKPOINT_FILE, &keys.sign(&checkpoint(&head)))
    }

    /// The key of this state directory, made on first need.
    pub fn keys(&self) -> Result<Keys> {
        let _alone = self.alone()?;
        Keys::open_or_create(&self.dir.join("keys"))
    }

    /// Every public key that ever signed for this state directory. Makes none.
    pub fn public_keys(&self) -> Result<Vec<verify::PublicKey>> {
        crate::context::keys::known(&self.dir.join("keys"))
    }

    /// Where the server keeps its token: no agent sees it there.
    pub fn server_token(&self) -> Result<PathBuf> {
        drop(self.alone()?);
        Ok(self.dir.join("server-token"))
    }

    /// One process changes what is kept at a time, so that none loses what another one has just written.
    fn alone(&self) -> Result<std::fs::File> {
        let failed = |source| Error::io("lock", &self.dir, source);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(failed)?;
        let dir = std::fs::File::open(&self.dir).map_err(failed)?;
        rustix::fs::flock(&dir, rustix::fs::FlockOperation::LockExclusive).map_err(|e| failed(e.into()))?;
        Ok(dir)
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<()> {
        self.write_bytes(name, &serde_json::to_vec_pretty(value).expect("BUG: what is kept is plain data"))
    }

    fn write_bytes(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.dir.join(name);
        let failed = |source| Error::io("write", &path, source);
        // Always the same name: what a killed process left of it is written over.
        let tmp = path.with_extension("json.tmp");
        let options = std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).clone();
        let mut file = options.open(&tmp).map_err(failed)?;
        std::io::Write::write_all(&mut file, bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        std::fs::rename(&tmp, &path).map_err(failed)?;
        // What follows may be on another disk and must not be there without this.
        std::fs::File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(failed)
    }
}

/// The one name of a directory, however it was reached and whether or not it exists yet.
fn place(dir: &Path) -> PathBuf {
    match (dir.canonicalize(), dir.parent(), dir.file_name()) {
        (Ok(place), _, _) => place,
        (Err(_), Some(parent), Some(name)) => place(parent).join(name),
        (Err(_), _, _) => dir.to_owned(),
    }
}

/// What a run is started with, all of it read at one time: a configuration and the policies beside it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The configuration.
    pub config: Config,
    /// Where it was read.
    pub path: PathBuf,
    /// The SHA-256 of its bytes.
    pub config_digest: Digest,
    /// The policies of the state directory.
    pub policies: Policies,
    /// What trust is bound to.
    pub digest: Digest,
}

impl Settings {
    /// A configuration that was read from these bytes, with these policies.
    pub fn new(config: Config, bytes: &[u8], path: &Path, policies: Policies) -> Settings {
        let digest = Config::trust_digest(bytes, &policies);
        Settings { config, path: path.to_owned(), config_digest: contract::hash::sha256(bytes), policies, digest }
    }

    /// Refuses a configuration with a key in it: it is a file that people commit.
    pub(crate) fn refuse_plain_secrets(&self) -> Result<()> {
        let violations: Vec<Violation> = self.config.agents.iter().flat_map(plain_secrets).collect();
        if violations.is_empty() { Ok(()) } else { Err(invalid(&self.path, &violations)) }
    }
}

/// What looks like a key among the variables and arguments of an agent.
fn plain_secrets((name, agent): (&String, &AgentConfig)) -> Vec<Violation> {
    let redactor = Redactor::patterns();
    let found = |text: &str| redactor.spans(text.as_bytes()).first().map(|span| span.kind.description());
    let mut violations = Vec::new();
    for (variable, value) in &agent.env {
        if let Some(kind) = found(&format!("{variable}=\"{value}\"")) {
            let message = format!(
                "this looks like {kind}; keep it in your environment and name the variable: \"key_env\" for a key that norma \
                 holds for the agent, or \"pass_env\": [{variable:?}] for one that the agent itself is given"
            );
            violations.push(Violation { pointer: format!("/agents/{name}/env/{variable}"), message });
        }
    }
    for (index, arg) in agent.cmd.iter().chain(&agent.args).enumerate() {
        if let Some(kind) = found(arg) {
            let message = format!("this looks like {kind}; keep it in your environment and name it in \"pass_env\"");
            violations.push(Violation { pointer: format!("/agents/{name}/cmd/{index}"), message });
        }
    }
    violations
}

/// Reads a configuration, and the policies of a state directory; every violation is in the message.
pub fn load_settings(path: &Path, layout: &Layout) -> Result<Settings> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => {
            Error::environment(format!("there is no configuration at {}", path.display()), "make one: norma init")
        }
        _ => Error::io("open", path, source),
    })?;
    file.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|source| Error::io("read", path, source))?;
    let config = Config::parse(&bytes).map_err(|violations| invalid(path, &violations))?;
    let settings = Settings::new(config, &bytes, path, load_policies(layout)?);
    settings.refuse_plain_secrets().map(|()| settings)
}

/// The settings of somebody who asks, if they are trusted. A configuration that was named is; the policies of the state
/// directory are not trusted with it, since nobody named them.
pub fn trusted_settings(context: &Context, named: Option<&Path>) -> Result<Settings> {
    let Context { layout, trust, .. } = context;
    let untrusted = |message: String| Err(Error::environment(message, "if that is what you want: norma trust"));
    let Some(path) = named else {
        let settings = load_settings(&layout.config(), layout)?;
        if trust.trusts(&settings) {
            return Ok(settings);
        }
        let (files, said) = (settings.files(layout), settings.describe(layout));
        return untrusted(format!("{files} is not trusted, so nothing was run\n{said}"));
    };
    let settings = load_settings(path, layout)?;
    if trust.trusts_policies(&settings.policies) {
        return Ok(settings);
    }
    let (dir, said) = (layout.shown(&layout.policies()), settings.describe_policies(layout));
    untrusted(format!("the policies in {dir} are not trusted, so nothing was run{said}"))
}

/// Something of a recorded run is started only by whoever started the run here, and only confined as the run was.
pub fn require_own(context: &Context, settings: &Settings, mode: Mode, run: &Run, so: &str) -> Result<()> {
    if !context.trust.started(&run.started.contract_digest) {
        let message = format!("run {} was not started by you on this machine, so {so}", run.id.slug());
        return Err(Error::environment(message, "start over: norma run … --new"));
    }
    let sandbox = SandboxConfig { backend: run.started.contract.sandbox, ..settings.config.sandbox.clone() };
    check_sandbox(&sandbox, settings.config.mode.max(mode), &context.sandbox)?;
    check_workspace(&run.started.contract.workspace, sandbox.backend, &context.sandbox)
}

pub(crate) fn invalid(path: &Path, violations: &[Violation]) -> Error {
    let lines: Vec<String> = violations.iter().map(|violation| format!("\n  {violation}")).collect();
    Error::usage(
        format!("{} is not a valid configuration:{}", path.display(), lines.concat()),
        "every setting: norma help config; schema: norma schema config",
    )
}
