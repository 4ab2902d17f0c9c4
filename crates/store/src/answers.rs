//! What programs were answered, by the key with which they may ask again. A key is put down before anything is done under
//! it, so that nothing is done twice, whenever the process dies. This is no projection of a log: it is kept for a day,
//! and nothing of a run depends on it.

use crate::log::now;
use crate::{Result, Store, Ticket};
use contract::{Digest, Timestamp};
use rusqlite::{OptionalExtension, params};

/// How long an answer is kept.
const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// How many are; the oldest go first.
const KEPT_MAX: i64 = 10_000;

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Nothing: from now on it is taken.
    Now,
    /// It was used for another request.
    Otherwise,
    /// Somebody began with it and died; nobody knows what came of it.
    CutOff,
    /// This was answered.
    Before {
        /// Of the answer.
        status: u16,
        /// As it was sent.
        body: String,
    },
}

impl Store {
    /// Takes a key for a request, or answers what became of it.
    pub fn take_key(&self, key: Digest, request: Digest) -> Ticket<Asked> {
        self.submit(move |tx| {
            let sql = "SELECT request, status, body FROM answers WHERE key = ?1";
            let columns = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let found: Option<(String, Option<u16>, Option<String>)> =
                tx.db.prepare_cached(sql)?.query_row([key.to_string()], columns).optional()?;
            match found {
                None => {}
                Some((of, ..)) if of != request.to_string() => return Ok(Asked::Otherwise),
                Some((_, Some(status), body)) => {
                    return Ok(Asked::Before { status, body: body.unwrap_or_default() });
                }
                Some((_, None, _)) => return Ok(Asked::CutOff),
            }
            let now = now();
            forget_old(tx.db, now)?;
            tx.db.prepare_cached("INSERT INTO answers (key, request, asked_at) VALUES (?1, ?2, ?3)")?.execute([
                key.to_string(),
                request.to_string(),
                now.to_string(),
            ])?;
            Ok(Asked::Now)
        })
    }

    /// Keeps what was answered under a key.
    pub fn keep_answer(&self, key: Digest, status: u16, body: String) -> Ticket<()> {
        self.submit(move |tx| {
            let mut keep = tx.db.prepare_cached("UPDATE answers SET status = ?2, body = ?3 WHERE key = ?1")?;
            keep.execute(params![key.to_string(), status, body])?;
            Ok(())
        })
    }

    /// Gives a key back: nothing was done under it.
    pub fn give_key_back(&self, key: Digest) -> Ticket<()> {
        self.submit(move |tx| {
            tx.db.prepare_cached("DELETE FROM answers WHERE key = ?1")?.execute([key.to_string()])?;
            Ok(())
        })
    }
}

fn forget_old(db: &rusqlite::Connection, now: Timestamp) -> Result<()> {
    let since = Timestamp::from_unix_ms(now.unix_ms().saturating_sub(KEPT_MS));
    db.prepare_cached("DELETE FROM answers WHERE asked_at < ?1")?.execute([since.to_string()])?;
    let sql = "DELETE FROM answers WHERE key IN
        (SELECT key FROM answers ORDER BY asked_at DESC LIMIT -1 OFFSET ?1)";
    db.prepare_cached(sql)?.execute([KEPT_MAX - 1])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;
    use contract::hash::sha256;

    #[test]
    fn a_key_is_taken_once_and_its_answer_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path(), None);
        let (key, request) = (sha256(b"key"), sha256(b"request"));
        let store = Store::open(&layout).unwrap();
        assert_eq!(store.take_key(key, request).wait().unwrap(), Asked::Now);
        assert_eq!(store.take_key(key, request).wait().unwrap(), Asked::CutOff);
        assert_eq!(store.take_key(key, sha256(b"another")).wait().unwrap(), Asked::Otherwise);
        store.keep_answer(key, 201, "{}".to_owned()).wait().unwrap();
        drop(store);
        let store = Store::open(&layout).unwrap();
        let before = Asked::Before { status: 201, body: "{}".to_owned() };
        assert_eq!(store.take_key(key, request).wait().unwrap(), before);
        store.give_key_back(key).wait().unwrap();
        assert_eq!(store.take_key(key, request).wait().unwrap(), Asked::Now);
    }

    #[test]
    fn only_so_many_are_kept_and_only_for_so_long() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Layout::new(dir.path(), None)).unwrap();
        let counted = |store: &Store| {
            let count = |tx: &mut crate::log::Tx<'_>| {
                Ok(tx.db.query_row("SELECT count(*) FROM answers", [], |row| row.get::<_, i64>(0))?)
            };
            store.submit(count).wait().unwrap()
        };
        let fill = |tx: &mut crate::log::Tx<'_>| {
            for number in 0..KEPT_MAX + 10 {
                let row = [format!("{number}"), String::new(), now().to_string()];
                tx.db.execute("INSERT INTO answers (key, request, asked_at) VALUES (?1, ?2, ?3)", row)?;
            }
            Ok(())
        };
        store.submit(fill).wait().unwrap();
        assert_eq!(store.take_key(sha256(b"one"), sha256(b"")).wait().unwrap(), Asked::Now);
        assert_eq!(counted(&store), KEPT_MAX);
        let age = |tx: &mut crate::log::Tx<'_>| Ok(tx.db.execute("UPDATE answers SET asked_at = '2020'", [])?);
        store.submit(age).wait().unwrap();
        assert_eq!(store.take_key(sha256(b"two"), sha256(b"")).wait().unwrap(), Asked::Now);
        assert_eq!(counted(&store), 1);
    }
}
