//! `norma doctor`: whether the backends elsewhere that a trusted configuration names could be used now. Nothing is started
//! on them.

use super::{Check, Health, bad, ok};
use crate::surroundings::Surroundings;
use contract::{Backend, Config};
use runner::process::Cancel;
use runner::{Means, check_backend};

pub(super) fn checks(here: &Surroundings, config: &Config) -> Vec<Check> {
    let named =
        [(Backend::Microsandbox, config.sandbox.microsandbox.is_some()), (Backend::E2b, config.sandbox.e2b.is_some())];
    let named = named.into_iter().filter(|(_, is_named)| *is_named).map(|(backend, _)| backend);
    named.filter_map(|backend| check(here, config, backend)).collect()
}

fn check(here: &Surroundings, config: &Config, backend: Backend) -> Option<Check> {
    let (sandbox, supervisor, user_env) = (here.sandbox(), here.supervisor(), std::env::vars_os().collect());
    let means = Means {
        sandbox: &sandbox,
        supervisor: &supervisor,
        env: here.agent_env(),
        user_env: &user_env,
        backends: &config.sandbox.backends(),
        extra_roots_pem: None,
    };
    // Runs need the one that the configuration chooses; another one is needed by who asks for it.
    let health = if config.sandbox.backend == backend { Health::Fail } else { Health::Warn };
    Some(match check_backend(backend, &means, &Cancel::new().ok()?) {
        Ok(()) => ok("backend", format!("{} can be used", backend.as_str())),
        Err(error) => bad("backend", health, error.to_string(), error.hint().unwrap_or("norma help backends")),
    })
}
