//! The user's own configuration (`$XDG_CONFIG_HOME/norma/config.json`): what counts in a repository that has none, or none
//! that is trusted. It is the user's by where it lies, so nothing has to be trusted first. It has the form of a
//! repository's, and may leave everything out.

use crate::context::policy::own_policies;
use crate::context::trust::{Settings, invalid, trusted_settings};
use crate::{Context, Error, Result, load_policies};
use contract::policy::POLICY_FILES;
use contract::{Config, Policies};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// A configuration is at most this large.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The settings of somebody who asks for something that needs nothing of the repository's own settings.
pub struct InForce {
    /// What counts.
    pub settings: Settings,
    /// What of the repository does not count, in a line for people.
    pub unused: Option<String>,
}

/// The user's own settings, with the built-in policies. Nothing of the repository counts.
pub fn own_settings(context: &Context) -> Result<Settings> {
    let path = &context.own_config;
    let (config, bytes) = read(path)?;
    let settings = Settings::new(config, &bytes, path, Policies::built_in());
    settings.refuse_plain_secrets().map(|()| settings)
}

/// The user's own configuration, for whoever is in no repository.
pub fn own_config(path: &Path) -> Result<Config> {
    read(path).map(|(config, _)| config)
}

/// The trusted settings of the repository, else the user's own. A configuration that was named must be good by itself.
pub fn settings_in_force(context: &Context, named: Option<&Path>) -> Result<InForce> {
    let layout = &context.layout;
    let trusted = trusted_settings(context, named);
    // Whoever uses norma here is told what is wrong with their settings, instead of working without them.
    let is_broken = layout.exists() && matches!(&trusted, Err(Error::Usage { .. }));
    if named.is_some() || trusted.is_ok() || is_broken {
        return Ok(InForce { settings: trusted?, unused: None });
    }
    let own = POLICY_FILES.iter().map(|file| own_policies(layout).join(file.name)).find(|path| path.exists());
    let own = own.map(|_| own_policies(layout));
    let places = [layout.config(), layout.policies()].into_iter().filter(|path| path.exists()).chain(own);
    let ignored: Vec<String> = places.map(|path| layout.shown(&path)).collect();
    let unused = match ignored.is_empty() || is_built_in(context) {
        true => None,
        false => Some(format!("{} not trusted, so not used; read it: norma trust --show", ignored.join(" and "))),
    };
    Ok(InForce { settings: own_settings(context)?, unused })
}

/// Whether the repository says nothing that differs from what counts anyway.
fn is_built_in(context: &Context) -> bool {
    !context.layout.config().exists() && load_policies(&context.layout).is_ok_and(|it| it.trust_digest().is_none())
}

/// Keeps who works where nobody is named; everything else in the file stays as it is.
pub fn keep_default_agent(context: &Context, name: &str) -> Result<()> {
    let path = &context.own_config;
    let (_, bytes) = read(path)?;
    let mut document: Value = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!({}));
    document["default_agent"] = name.into();
    let dir = path.parent().unwrap_or(Path::new("/"));
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|source| Error::io("create", dir, source))?;
    let text = serde_json::to_string_pretty(&document).expect("BUG: a configuration is plain data") + "\n";
    Ok(store::write_whole(path, text.as_bytes())?)
}

/// The configuration and the bytes that it was read from; none there is an empty one.
pub(crate) fn read(path: &Path) -> Result<(Config, Vec<u8>)> {
    let mut bytes = Vec::new();
    match std::fs::File::open(path) {
        Ok(file) => {
            let read = file.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes);
            read.map_err(|source| Error::io("read", path, source))?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => bytes.extend_from_slice(b"{}"),
        Err(source) => return Err(Error::io("open", path, source)),
    }
    let config = Config::parse_own(&bytes).map_err(|violations| invalid(path, &violations))?;
    Ok((config, bytes))
}
