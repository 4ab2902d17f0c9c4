//! The policy gate's question to people: does what a contract asks for need approval before anything starts? Wide
//! scopes and dangerous rights do. A pure function of the contract and of how many files its scope holds, so that
//! whoever is asked, and whoever checks later, gets the same reasons.

use contract::policy::FoldedPath;
use contract::work::NetworkRight;
use contract::{Item, Policies, RepoPath};

/// How much of the tree an item's scope holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Files of the whole tree.
    pub files: u64,
    /// Files at or below any of the allowed paths, each counted once.
    pub allowed: u64,
}

/// Why this item needs approval before it starts; no reason means that it does not.
///
/// An item without allowed paths comes from a document that has no field for them, and is held by the protected paths
/// alone: there is no width to judge. One that may change nothing is not wide, whatever it names.
pub fn needs_approval(item: &Item, policies: &Policies, extent: Extent) -> Vec<String> {
    let mut reasons = if item.read_only { Vec::new() } else { wide(item, policies, extent) };
    if !item.read_only {
        reasons.extend(protected(item, policies));
    }
    if item.rights.network == NetworkRight::OnRequest {
        reasons.push("network on-request requires approval: the agent may reach what it is configured for".into());
    }
    // Commands are asked about one by one, when the agent proposes them.
    if item.scope.allow_binary {
        reasons.push("binary files require approval: nobody can read what changes in them".into());
    }
    reasons
}

/// Paths that no contract names by itself, such as git's own.
fn protected(item: &Item, policies: &Policies) -> Vec<String> {
    let reason = |path: &RepoPath| {
        let folded = FoldedPath::new(path);
        let rule = policies.protected_paths().covering(&folded).find(|rule| !rule.contractable)?;
        Some(format!("protected paths require approval: {path}: it {}", rule.reason))
    };
    item.scope.allowed_paths.iter().filter_map(reason).collect()
}

fn wide(item: &Item, policies: &Policies, extent: Extent) -> Vec<String> {
    let wide = policies.wide_paths();
    let paths = &item.scope.allowed_paths;
    let named = paths.iter().filter_map(|path| Some((path, wide.reason(path)?)));
    let mut reasons: Vec<String> =
        named.map(|(path, reason)| format!("wide paths require approval: {path}: {reason}")).collect();
    let Extent { files, allowed } = extent;
    // A single file is as narrow as a scope can be, even where it is the only one.
    let most = u128::from(allowed) * 100 > u128::from(files) * u128::from(wide.share_percent);
    if !paths.is_empty() && allowed > 1 && most {
        let share = wide.share_percent;
        let reason = format!(
            "wide paths require approval: they hold {allowed} of {files} files, more than {share} % of the tree"
        );
        reasons.push(reason);
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The reasons for an item that differs so from one that asks for nothing.
    fn reasons(change: Value, extent: (u64, u64)) -> Vec<String> {
        let mut item = json!({
            "id": "t", "agent_id": "a", "role": "WORKER", "worker": "w", "goal": "g", "timeout_ms": 1,
            "submitted": "0".repeat(64), "scope": {"allowed_paths": ["src/a"]},
        });
        for (name, value) in change.as_object().unwrap() {
            item[name] = value.clone();
        }
        let item = serde_json::from_value(item).unwrap();
        let extent = Extent { files: extent.0, allowed: extent.1 };
        needs_approval(&item, &Policies::built_in(), extent)
    }

    #[test]
    fn a_narrow_item_without_rights_needs_nobody() {
        assert_eq!(reasons(json!({}), (100, 50)), [""; 0]);
        assert_eq!(reasons(json!({"scope": {"allowed_paths": ["README.md"]}}), (1, 1)), [""; 0]);
        assert_eq!(reasons(json!({"rights": {"shell": "never", "network": "allow"}}), (9, 1)), [""; 0]);
    }

    #[test]
    fn a_wide_scope_is_told_by_its_share_of_the_tree_whatever_it_is_called() {
        assert_eq!(reasons(json!({"scope": {"allowed_paths": ["src", "docs"]}}), (100, 50)), [""; 0]);
        assert_eq!(
            reasons(json!({"scope": {"allowed_paths": ["a", "b"]}}), (100, 51)),
            ["wide paths require approval: they hold 51 of 100 files, more than 50 % of the tree"]
        );
        assert_eq!(
            reasons(json!({"scope": {"allowed_paths": ["src", "sub/.gitmodules"]}}), (9, 1)),
            ["protected paths require approval: sub/.gitmodules: it is read by git itself: it can bring in other \
              repositories or run commands"]
        );
        assert_eq!(reasons(json!({"scope": {"allowed_paths": ["src/lib"]}}), (9, 1)), [""; 0]);
        assert_eq!(reasons(json!({"scope": {"allowed_paths": ["src"]}, "read_only": true}), (9, 9)), [""; 0]);
        assert_eq!(reasons(json!({"scope": {}}), (100, 100)), [""; 0]);
    }

    #[test]
    fn each_dangerous_right_is_a_reason_of_its_own() {
        let all = json!({
            "rights": {"shell": "on-request", "network": "on-request"},
            "scope": {"allowed_paths": ["a"], "allow_binary": true},
        });
        assert_eq!(
            reasons(all, (9, 1)),
            [
                "network on-request requires approval: the agent may reach what it is configured for",
                "binary files require approval: nobody can read what changes in them",
            ]
        );
        assert_eq!(reasons(json!({"rights": {"shell": "untrusted"}}), (9, 1)), [""; 0]);
    }
}
