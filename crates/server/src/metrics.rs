//! Numbers for operators, in the text form that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is counted while the server runs.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(String, &'static str, u16), u64>>,
    pub(crate) connections: Arc<AtomicU64>,
    pub(crate) refused_connections: AtomicU64,
    watching: Arc<AtomicU64>,
    delivered: AtomicU64,
}

/// Counts something while it lasts.
pub(crate) struct Lasting(Arc<AtomicU64>);

impl Drop for Lasting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn lasting(count: &Arc<AtomicU64>) -> Lasting {
    count.fetch_add(1, Ordering::Relaxed);
    Lasting(count.clone())
}

impl Metrics {
    pub(crate) fn watching(&self) -> Lasting {
        lasting(&self.watching)
    }

    pub(crate) fn delivered(&self, events: u64) {
        self.delivered.fetch_add(events, Ordering::Relaxed);
    }

    /// Counts an answer, by the route and never by the address, which anybody can make up.
    pub(crate) fn answered(&self, method: &str, route: &'static str, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let method = if matches!(method, "GET" | "POST" | "PATCH" | "DELETE" | "HEAD") { method } else { "other" };
        *requests.entry((method.to_owned(), route, status)).or_default() += 1;
    }

    /// Everything, with how many runs are in each state and how many are being carried out.
    pub(crate) fn text(&self, states: &[(String, u64)], live: usize, waiting: usize) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, lines: Vec<(String, u64)>| {
            let _ = writeln!(text, "# HELP norma_{name} {help}\n# TYPE norma_{name} {kind}");
            for (labels, value) in lines {
                let _ = writeln!(text, "norma_{name}{labels} {value}");
            }
        };
        let plain = |value: u64| vec![(String::new(), value)];
        let of_state = |(state, count): &(String, u64)| (format!("{{state=\"{state}\"}}"), *count);
        family("runs", "gauge", "Runs by state.", states.iter().map(of_state).collect());
        family("runs_live", "gauge", "Runs that are being carried out.", plain(live as u64));
        family("approvals_pending", "gauge", "Approvals that nobody has answered.", plain(waiting as u64));
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        family("connections", "gauge", "Open connections.", plain(load(&self.connections)));
        let refused = load(&self.refused_connections);
        family(
            "connections_refused_total",
            "counter",
            "Connections closed because there were too many.",
            plain(refused),
        );
        family("streams", "gauge", "Clients that watch a run.", plain(load(&self.watching)));
        family("events_delivered_total", "counter", "Events sent to them.", plain(load(&self.delivered)));
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |((method, route, status), count): (&(String, &'static str, u16), &u64)| {
            (format!("{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}}"), *count)
        };
        family("requests_total", "counter", "Answers by route and status.", requests.iter().map(line).collect());
        text
    }
}
