//! The connections that are open, so that all of them can be hung up at once.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The open connections.
#[derive(Default)]
pub(crate) struct Registry {
    open: Mutex<Open>,
    /// Told when one is over.
    over: Condvar,
}

#[derive(Default)]
struct Open {
    is_stopped: bool,
    next: u64,
    /// The program's side, and the provider's while there is one.
    connections: BTreeMap<u64, (Arc<TcpStream>, Option<Arc<TcpStream>>)>,
}

/// The place of one open connection; given back when it is dropped.
pub(crate) struct Place<'a> {
    registry: &'a Registry,
    id: u64,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// The gateway was stopped.
    Stopped,
    /// There are as many as may be.
    Full,
}

impl Registry {
    /// A place for a connection, if there are fewer than `most`.
    pub(crate) fn enter(&self, client: &Arc<TcpStream>, most: usize) -> Result<Place<'_>, NoPlace> {
        let mut open = self.lock();
        if open.is_stopped {
            return Err(NoPlace::Stopped);
        }
        if open.connections.len() >= most {
            return Err(NoPlace::Full);
        }
        let id = open.next;
        open.next += 1;
        open.connections.insert(id, (client.clone(), None));
        Ok(Place { registry: self, id })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// Hangs up both sides of all, and waits until nobody serves any more.
    pub(crate) fn stop(&self) {
        let mut open = self.lock();
        open.is_stopped = true;
        for (client, provider) in open.connections.values() {
            hang_up(client);
            provider.iter().for_each(|provider| hang_up(provider));
        }
        while !open.connections.is_empty() {
            open = self.over.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Names the connection to the provider that is to be hung up too. If that was asked for meanwhile, it is done.
    pub(crate) fn reaches(&self, provider: &Arc<TcpStream>) {
        let mut open = self.registry.lock();
        if open.is_stopped {
            hang_up(provider);
        }
        if let Some(connection) = open.connections.get_mut(&self.id) {
            connection.1 = Some(provider.clone());
        }
    }

    /// There is no connection to the provider any more.
    pub(crate) fn reaches_nobody(&self) {
        if let Some(connection) = self.registry.lock().connections.get_mut(&self.id) {
            connection.1 = None;
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.registry.is_stopped()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.registry.lock().connections.remove(&self.id);
        self.registry.over.notify_all();
    }
}

fn hang_up(socket: &TcpStream) {
    // It may be closed already, which is as well.
    let _ = socket.shutdown(Shutdown::Both);
}
