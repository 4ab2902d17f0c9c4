//! Users of a server that others reach: who they are, what they may do, and a digest of the token each of them has.
//! Their file is read once, when the server starts.

use crate::sessions::Role;
use crate::{Error, Result};
use argon2::{Argon2, PasswordHash, PasswordVerifier};
use contract::Digest;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many tokens that were right are remembered, since checking one takes a moment on purpose.
const KNOWN_MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    users: Vec<User>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct User {
    name: String,
    role: Role,
    /// The argon2id digest of the token, as `$argon2id$…`.
    token: String,
}

/// Users with the hashes of their tokens.
pub(crate) struct Users {
    users: Vec<User>,
    /// Whose a token is that was right before, by its digest.
    known: Mutex<HashMap<Digest, usize>>,
}

impl Users {
    /// Reads the file of users.
    pub(crate) fn read(path: &Path) -> Result<Users> {
        let refused = |why: String| Error::Users { path: path.to_owned(), why };
        let bytes = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
        let File { users } = serde_json::from_slice(&bytes).map_err(|error| refused(error.to_string()))?;
        for user in &users {
            let digest = PasswordHash::new(&user.token).map_err(|error| refused(format!("{}: {error}", user.name)))?;
            if digest.algorithm.as_str() != "argon2id" || user.name.trim().is_empty() {
                return Err(refused(format!("{:?} needs a name and an argon2id digest", user.name)));
            }
        }
        Ok(Users { users, known: Mutex::default() })
    }

    /// Whose token this is, if it was right before.
    pub(crate) fn remembered(&self, token: &str) -> Option<(String, Role)> {
        let digest = contract::hash::sha256(token.as_bytes());
        let at = self.known().get(&digest).copied()?;
        Some(self.named(at))
    }

    /// Whose token this is. It takes a moment, on purpose: not for a thread that others wait for.
    pub(crate) fn find(&self, token: &str) -> Option<(String, Role)> {
        let is_of = |user: &User| {
            let digest = PasswordHash::new(&user.token);
            digest.is_ok_and(|digest| Argon2::default().verify_password(token.as_bytes(), &digest).is_ok())
        };
        let at = self.users.iter().position(is_of)?;
        let mut known = self.known();
        if known.len() < KNOWN_MAX {
            known.insert(contract::hash::sha256(token.as_bytes()), at);
        }
        Some(self.named(at))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Digest, usize>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn named(&self, at: usize) -> (String, Role) {
        let user = &self.users[at];
        (user.name.clone(), user.role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use argon2::password_hash::{PasswordHasher, SaltString};

    #[test]
    fn a_user_is_known_by_a_token_and_by_nothing_else() {
        let salt = SaltString::encode_b64(b"0123456789abcdef").unwrap();
        let digest = Argon2::default().hash_password(b"token of ada", &salt).unwrap().to_string();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users.json");
        let text = serde_json::json!({"users": [{"name": "ada", "role": "approver", "token": digest}]});
        std::fs::write(&path, text.to_string()).unwrap();
        let users = Users::read(&path).unwrap();
        assert_eq!(users.remembered("token of ada"), None);
        for _ in 0..2 {
            assert_eq!(users.find("token of ada"), Some(("ada".to_owned(), Role::Approver)));
            assert_eq!(users.remembered("token of ada"), Some(("ada".to_owned(), Role::Approver)));
            assert_eq!(users.remembered("token of eve"), None);
            assert_eq!(users.find("token of eve"), None);
            assert_eq!(users.find(&digest), None);
        }
        for wrong in ["{}", r#"{"users": [{"name": "ada", "role": "king", "token": "x"}]}"#, "x"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(Users::read(&path).is_err(), "{wrong}");
        }
    }
}
