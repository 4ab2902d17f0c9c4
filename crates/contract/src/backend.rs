//! What confines programs, and what each of them needs to be told. Which one is used is said in a trusted configuration;
//! a contract may ask for another one that is configured, and never for none.

use crate::AgentType;
use crate::json::Violation;
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// What confines a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The kernel's own means: namespaces, Landlock, seccomp, limits.
    #[default]
    Native,
    /// A virtual machine on this machine, which the program `msb` starts.
    Microsandbox,
    /// A virtual machine of the service e2b, or of one that speaks its protocol.
    E2b,
    /// Nothing does; on record in every run that used it.
    None,
}

impl Backend {
    /// The word in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Backend::Native => "native",
            Backend::Microsandbox => "microsandbox",
            Backend::E2b => "e2b",
            Backend::None => "none",
        }
    }

    /// Whether programs run in another system, to which files go and from which they come back.
    pub fn is_elsewhere(self) -> bool {
        matches!(self, Backend::Microsandbox | Backend::E2b)
    }
}

/// What the backends elsewhere need to be told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Backends {
    /// Virtual machines on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microsandbox: Option<MicrosandboxConfig>,
    /// Virtual machines of a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e2b: Option<E2bConfig>,
}

/// Virtual machines on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MicrosandboxConfig {
    /// The program `msb`, as an absolute path; without it, the one on PATH.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bin: Option<String>,
    /// Where it keeps its machines (`MSB_HOME`), as an absolute path; without it, its own default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// The root directory of a machine, as an absolute path, or the name of an image that `msb` has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rootfs: Option<String>,
}

/// Virtual machines of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct E2bConfig {
    /// Where the service is.
    pub url: String,
    /// The variable of the user's environment that holds its key.
    pub key_env: String,
    /// What its machines are made from.
    pub template: String,
}

impl Default for E2bConfig {
    fn default() -> Self {
        E2bConfig {
            url: "https://api.e2b.app".to_owned(),
            key_env: "E2B_API_KEY".to_owned(),
            template: "base".to_owned(),
        }
    }
}

impl Backends {
    /// Whether nothing is said of any.
    pub fn is_empty(&self) -> bool {
        *self == Backends::default()
    }

    /// Why a backend cannot be used with what is said of it; none if it can. Native and none need nothing.
    pub fn missing(&self, backend: Backend) -> Option<String> {
        match backend {
            Backend::Microsandbox if self.microsandbox.is_none() => {
                Some("there is no sandbox.microsandbox in the configuration that says where it is".to_owned())
            }
            Backend::E2b if self.e2b.is_none() => {
                Some("there is no sandbox.e2b in the configuration that says where it is".to_owned())
            }
            _ => None,
        }
    }

    pub(crate) fn violations(&self) -> Vec<Violation> {
        let mut problems = Vec::new();
        let mut add = |field: &str, message: &str| {
            problems.push(Violation { pointer: format!("/sandbox/{field}"), message: message.to_owned() });
        };
        if let Some(MicrosandboxConfig { bin, home, rootfs }) = &self.microsandbox {
            for (field, path) in [("bin", bin), ("home", home)] {
                if path.as_ref().is_some_and(|path| !is_absolute(path)) {
                    add(&format!("microsandbox/{field}"), "it must be an absolute path");
                }
            }
            if rootfs.as_ref().is_some_and(|text| text.is_empty() || text.starts_with('-') || text.contains('\0')) {
                add("microsandbox/rootfs", "it must be an absolute path, or the name of an image");
            }
        }
        if let Some(E2bConfig { url, key_env, template }) = &self.e2b {
            if !(url.starts_with("https://") || url.starts_with("http://")) {
                add("e2b/url", "it must begin with https://, or with http:// for a service of your own");
            }
            if key_env.is_empty() || key_env.contains(['=', '\0']) {
                add("e2b/key_env", "it must be the name of a variable");
            }
            if template.is_empty() {
                add("e2b/template", "it must name a template");
            }
        }
        problems
    }
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') && path != "/" && !path.contains('\0') && path.split('/').all(|part| part != "..")
}

/// Why an agent cannot work on a backend; none if it can. A known command line needs its own files, its sign-in and a way
/// to its model, none of which is taken to another system.
pub fn refuses_agent(backend: Backend, kind: AgentType) -> Option<String> {
    (backend.is_elsewhere() && kind != AgentType::Exec).then(|| {
        format!(
            "an agent of type {} works on this machine only: its program, its sign-in and the way to its model are here; \
             use sandbox backend native for it",
            kind.as_str()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_backends_are_told_is_checked() {
        let wrong = Backends {
            microsandbox: Some(MicrosandboxConfig {
                bin: Some("msb".to_owned()),
                home: Some("/a/../b".to_owned()),
                rootfs: Some("--privileged".to_owned()),
            }),
            e2b: Some(E2bConfig { url: "ftp://x".to_owned(), key_env: "A=B".to_owned(), template: String::new() }),
        };
        let pointers: Vec<_> = wrong.violations().into_iter().map(|it| it.pointer).collect();
        assert_eq!(
            pointers,
            ["microsandbox/bin", "microsandbox/home", "microsandbox/rootfs", "e2b/url", "e2b/key_env", "e2b/template"]
                .map(|field| format!("/sandbox/{field}"))
        );
        let fine = Backends { microsandbox: Some(MicrosandboxConfig::default()), e2b: Some(E2bConfig::default()) };
        assert!(fine.violations().is_empty());
        assert!([Backend::Microsandbox, Backend::E2b].iter().all(|it| fine.missing(*it).is_none()));
        assert!([Backend::Microsandbox, Backend::E2b].iter().all(|it| Backends::default().missing(*it).is_some()));
        assert!([Backend::Native, Backend::None].iter().all(|it| Backends::default().missing(*it).is_none()));
    }
}
