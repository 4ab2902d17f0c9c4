//! Who is who: the server's token, users with theirs, sessions of browsers, tickets that are good once, and how often
//! somebody may guess. Only digests of secrets are kept, so that comparing them tells nothing of where they differ.
//! Sessions end with the process: its cookie has another name every time.

use crate::users::Users;
use contract::{Digest, Slug};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long a login link is good.
pub(crate) const LOGIN_TICKET: Duration = Duration::from_secs(60);
/// How long a ticket for a WebSocket is good.
pub(crate) const SOCKET_TICKET: Duration = Duration::from_secs(30);
/// How long a session lasts that nobody uses.
const SESSION_IDLE: Duration = Duration::from_secs(12 * 60 * 60);
/// How many tickets and sessions are kept; the oldest go first.
const KEPT_MAX: usize = 1000;
/// How many wrong guesses of one address in a minute are looked at.
const FAILURES_MAX: usize = 10;
const FAILURES_WINDOW: Duration = Duration::from_secs(60);
/// How many approvals one session answers in a second.
const APPROVALS_MAX: usize = 20;

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// Look.
    View,
    /// Start and stop runs.
    Operate,
    /// Answer approvals.
    Approve,
    /// See who else is there.
    Administer,
}

/// What a user is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Looks.
    Viewer,
    /// Starts and stops runs.
    Operator,
    /// Answers approvals.
    Approver,
    /// Everything.
    Admin,
}

impl Role {
    pub(crate) fn may(self, right: Right) -> bool {
        match self {
            Role::Admin => true,
            Role::Operator => matches!(right, Right::View | Right::Operate),
            Role::Approver => matches!(right, Right::View | Right::Approve),
            Role::Viewer => right == Right::View,
        }
    }
}

/// Somebody who was let in.
#[derive(Debug, Clone)]
pub(crate) struct Principal {
    /// For the record.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// What their requests are counted under, and what a log shows of their session.
    pub(crate) session: Digest,
}

/// A ticket that somebody was given.
struct Ticket {
    secret: Digest,
    until: Instant,
    opens: Opens,
    principal: Principal,
}

/// What a ticket opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Opens {
    /// A session.
    Session,
    /// A WebSocket; for one run, if it names one.
    Socket(Option<Slug>),
}

struct Session {
    principal: Principal,
    since: contract::Timestamp,
    used: Instant,
}

/// The token, sessions of browsers, tickets, and how often each may ask.
pub(crate) struct Sessions {
    /// The name of the cookie: cookies are shared by all ports of a host, so another server could be sent or overwrite one
    /// whose name it knows.
    pub(crate) cookie: String,
    token: Digest,
    owner: String,
    users: Option<Users>,
    guessing: Mutex<()>,
    state: Mutex<State>,
    /// Told when a session was ended.
    ended: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<Digest, Session>,
    tickets: Vec<Ticket>,
    failures: HashMap<IpAddr, Vec<Instant>>,
    approvals: HashMap<Digest, Vec<Instant>>,
}

/// 256 random bits.
pub(crate) fn secret() -> String {
    let mut bytes = [0_u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        let got = rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty());
        filled += got.unwrap_or(0);
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest(secret: &str) -> Digest {
    contract::hash::sha256(secret.as_bytes())
}

impl Sessions {
    /// `owner` is who started the server, and who everybody is where there are no users.
    pub(crate) fn new(token: &str, owner: String, users: Option<Users>) -> Sessions {
        let cookie = format!("norma_{}", &secret()[..12]);
        Sessions {
            cookie,
            token: digest(token),
            owner,
            users,
            guessing: Mutex::default(),
            state: Mutex::default(),
            ended: watch::Sender::new(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever started the server.
    pub(crate) fn owner(&self, session: &str) -> Principal {
        Principal { name: self.owner.clone(), role: Role::Admin, session: digest(session) }
    }

    /// Whether an address has guessed wrong too often; answers for how many seconds it is not listened to.
    pub(crate) fn is_held_off(&self, ip: IpAddr) -> Option<u64> {
        let state = self.lock();
        let recent = state.failures.get(&ip)?.iter().filter(|at| at.elapsed() < FAILURES_WINDOW);
        let (count, oldest) =
            recent.fold((0, None::<&Instant>), |(count, oldest), at| (count + 1, oldest.or(Some(at))));
        let left = FAILURES_WINDOW.saturating_sub(oldest?.elapsed());
        (count >= FAILURES_MAX).then(|| left.as_secs().max(1))
    }

    pub(crate) fn guessed_wrong(&self, ip: IpAddr) {
        let mut state = self.lock();
        state.failures.retain(|_, times| times.iter().any(|at| at.elapsed() < FAILURES_WINDOW));
        if state.failures.len() < KEPT_MAX {
            let times = state.failures.entry(ip).or_default();
            times.retain(|at| at.elapsed() < FAILURES_WINDOW);
            if times.len() < FAILURES_MAX {
                times.push(Instant::now());
            }
        }
    }

    /// Whoever this token is of, where that can be told at once.
    pub(crate) fn by_known_token(&self, token: &str) -> Option<Principal> {
        if digest(token) == self.token {
            return Some(self.owner(token));
        }
        let (name, role) = self.users.as_ref()?.remembered(token)?;
        Some(Principal { name, role, session: digest(token) })
    }

    /// The same for one that was not seen before, which takes a moment: one after another, so that whoever guesses many at
    /// once is slowed down like others. The error is for how many seconds they are not listened to.
    pub(crate) fn by_new_token(&self, token: &str, ip: IpAddr) -> Result<Option<Principal>, u64> {
        let _one_at_a_time = self.guessing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seconds) = self.is_held_off(ip) {
            return Err(seconds);
        }
        let found = self.users.as_ref().and_then(|users| users.find(token));
        if found.is_none() {
            self.guessed_wrong(ip);
        }
        Ok(found.map(|(name, role)| Principal { name, role, session: digest(token) }))
    }

    /// Whoever this session is of.
    pub(crate) fn by_cookie(&self, value: &str) -> Option<Principal> {
        let mut state = self.lock();
        state.sessions.retain(|_, session| session.used.elapsed() < SESSION_IDLE);
        let session = state.sessions.get_mut(&digest(value))?;
        session.used = Instant::now();
        Some(session.principal.clone())
    }

    /// A ticket for somebody.
    pub(crate) fn issue(&self, principal: Principal, opens: Opens) -> String {
        let ticket = secret();
        let lifetime = if opens == Opens::Session { LOGIN_TICKET } else { SOCKET_TICKET };
        let mut state = self.lock();
        state.tickets.retain(|ticket| ticket.until > Instant::now());
        if state.tickets.len() >= KEPT_MAX {
            state.tickets.remove(0);
        }
        let until = Instant::now() + lifetime;
        state.tickets.push(Ticket { secret: digest(&ticket), until, opens, principal });
        ticket
    }

    /// Uses a ticket up; answers whose it is, if it opens this.
    pub(crate) fn redeem(&self, ticket: &str, opens: impl Fn(&Opens) -> bool) -> Option<Principal> {
        let mut state = self.lock();
        let at = state.tickets.iter().position(|known| known.secret == digest(ticket))?;
        let ticket = state.tickets.remove(at);
        (ticket.until > Instant::now() && opens(&ticket.opens)).then_some(ticket.principal)
    }

    /// A session of a browser; answers the value of its cookie.
    pub(crate) fn open(&self, principal: Principal) -> String {
        let value = secret();
        let mut state = self.lock();
        if state.sessions.len() >= KEPT_MAX {
            let oldest = state.sessions.iter().min_by_key(|(_, session)| session.used).map(|(key, _)| *key);
            oldest.map(|key| state.sessions.remove(&key));
        }
        let principal = Principal { session: digest(&value), ..principal };
        state.sessions.insert(digest(&value), Session { principal, since: store::now(), used: Instant::now() });
        value
    }

    /// Ends a session.
    pub(crate) fn close(&self, session: &Digest) -> bool {
        let was_open = self.lock().sessions.remove(session).is_some();
        self.ended.send_replace(());
        was_open
    }

    /// Whether this is a session of a browser, and open. Whoever asks uses it.
    pub(crate) fn is_open(&self, session: &Digest) -> bool {
        let mut state = self.lock();
        let Some(session) = state.sessions.get_mut(session) else { return false };
        let is_open = session.used.elapsed() < SESSION_IDLE;
        session.used = if is_open { Instant::now() } else { session.used };
        is_open
    }

    /// Is told whenever a session is ended.
    pub(crate) fn endings(&self) -> watch::Receiver<()> {
        self.ended.subscribe()
    }

    /// Every session: a part of its digest, whose it is, since when.
    pub(crate) fn list(&self) -> Vec<(String, String, contract::Timestamp)> {
        let state = self.lock();
        let shown = |(key, session): (&Digest, &Session)| {
            (key.to_string()[..16].to_owned(), session.principal.name.clone(), session.since)
        };
        state.sessions.iter().map(shown).collect()
    }

    /// Counts an answer to an approval; false if there were too many of this session in the last second.
    pub(crate) fn may_answer(&self, principal: &Principal) -> bool {
        let mut state = self.lock();
        let recent = |times: &mut Vec<Instant>| times.retain(|at| at.elapsed() < Duration::from_secs(1));
        state.approvals.retain(|_, times| {
            recent(times);
            !times.is_empty()
        });
        let times = state.approvals.entry(principal.session).or_default();
        times.push(Instant::now());
        times.len() <= APPROVALS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> Sessions {
        Sessions::new("secret token", "Ada <ada@example.org>".to_owned(), None)
    }

    #[test]
    fn a_ticket_is_good_once_and_for_what_it_was_made() {
        let sessions = sessions();
        let owner = || sessions.owner("x");
        let ticket = sessions.issue(owner(), Opens::Session);
        let is_session = |opens: &Opens| *opens == Opens::Session;
        assert!(sessions.redeem(&ticket, is_session).is_some());
        assert!(sessions.redeem(&ticket, is_session).is_none());
        let ticket = sessions.issue(owner(), Opens::Socket(None));
        assert!(sessions.redeem(&ticket, is_session).is_none());
        // Whoever tried it where it does not belong has used it up.
        assert!(sessions.redeem(&ticket, |opens| *opens == Opens::Socket(None)).is_none());
    }

    #[test]
    fn a_session_is_known_by_its_cookie_until_it_is_closed() {
        let sessions = sessions();
        let value = sessions.open(sessions.owner("x"));
        let found = sessions.by_cookie(&value).unwrap();
        assert_eq!((found.name.as_str(), found.role), ("Ada <ada@example.org>", Role::Admin));
        assert!(sessions.by_cookie("x").is_none());
        assert!(sessions.is_open(&found.session) && !sessions.is_open(&sessions.owner("x").session));
        assert!(sessions.close(&found.session) && sessions.by_cookie(&value).is_none());
        assert!(!sessions.is_open(&found.session));
    }

    #[test]
    fn who_guesses_wrong_too_often_is_not_listened_to_for_a_while() {
        let (sessions, ip) = (sessions(), IpAddr::from([127, 0, 0, 1]));
        for _ in 0..FAILURES_MAX {
            assert_eq!(sessions.is_held_off(ip), None);
            sessions.guessed_wrong(ip);
        }
        assert!(sessions.is_held_off(ip).is_some());
        assert_eq!(sessions.is_held_off(IpAddr::from([127, 0, 0, 2])), None);
    }

    #[test]
    fn a_session_answers_only_so_many_approvals_a_second() {
        let sessions = sessions();
        let (one, other) = (sessions.owner("one"), sessions.owner("other"));
        let answered = (0..APPROVALS_MAX + 5).filter(|_| sessions.may_answer(&one)).count();
        assert!(answered >= APPROVALS_MAX && sessions.may_answer(&other));
    }

    #[test]
    fn a_role_may_what_it_is_for() {
        let rights = [Right::View, Right::Operate, Right::Approve, Right::Administer];
        for (role, expected) in [
            (Role::Viewer, [true, false, false, false]),
            (Role::Operator, [true, true, false, false]),
            (Role::Approver, [true, false, true, false]),
            (Role::Admin, [true; 4]),
        ] {
            assert_eq!(rights.map(|right| role.may(right)), expected, "{role:?}");
        }
    }
}
