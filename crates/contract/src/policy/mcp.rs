//! `mcp_allowlist.json`: which MCP servers and tools a contract may name at all. What a single agent may call of them is
//! in the registry.

use crate::json::{self, Limits, Violation};
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpAllowlist {
    /// Version of the form.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// What may be named.
    #[schemars(inner(length(min = 1)))]
    pub allow: Vec<String>,
    /// What may not, whatever is allowed.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub deny: Vec<String>,
}

impl McpAllowlist {
    /// Name of the file in `policies/`.
    pub const FILE: &'static str = "mcp_allowlist.json";

    /// What counts where there is no such file, and what a new state directory starts with.
    pub const BUILTIN: &'static str = include_str!("mcp_allowlist.json");

    /// Reads the document; on failure every violation with its JSON pointer.
    pub fn parse(bytes: &[u8]) -> Result<McpAllowlist, Vec<Violation>> {
        json::decode(bytes, &Limits::DOCUMENT)
    }

    /// Whether a contract may name it, letter by letter.
    pub fn allows(&self, name: &str) -> bool {
        let names = |list: &[String]| list.iter().any(|entry| entry == name);
        names(&self.allow) && !names(&self.deny)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_is_not_allowed_and_what_is_unknown_is_neither() {
        let list = McpAllowlist::parse(br#"{"version":1,"allow":["codex","search"],"deny":["search"]}"#).unwrap();
        assert_eq!(["codex", "search", "Codex", ""].map(|name| list.allows(name)), [true, false, false, false]);
        assert_eq!(McpAllowlist::parse(br#"{"version":2,"allow":[""]}"#).unwrap_err().len(), 2);
    }
}
