//! One client that watches one run, over a WebSocket or over SSE: what it missed, if it asks for that, then what
//! happens, until one of the two leaves. A client that reads nothing is let go, and knows from where to continue.

use crate::App;
use crate::hub::{self, Batch, Watching};
use crate::problem::Outcome;
use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use contract::{Digest, RunId, Slug};
use futures_util::SinkExt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::{Instant, interval, timeout};

/// How often a client is asked whether it is still there.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// How long one may be silent that is asked.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long one piece may take to be sent.
const SEND_MAX: Duration = Duration::from_secs(10);
/// How many frames a client may send between two heartbeats: it has nothing to say.
const FRAMES_MAX: u32 = 100;
/// How many facts of the past are on their way from the log.
const HISTORY_AHEAD: usize = 16;

/// What somebody watches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) run: RunId,
    /// After which fact; without one, from now on.
    pub(crate) since: Option<u64>,
    /// Of whoever watches.
    pub(crate) session: Digest,
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The client left, or does not answer.
    Gone,
    /// The server ends.
    Closing,
    /// The client is too slow.
    Slow,
    /// The client says more than one that watches has to.
    Noisy,
    /// The client has logged out.
    LoggedOut,
    /// norma could not.
    Failed,
}

/// Where a stream goes.
pub(crate) enum Client {
    Socket(Box<WebSocket>),
    Events(Sender<io::Result<Bytes>>),
}

/// Serves one client until one of the two leaves.
pub(crate) async fn serve(app: Arc<App>, mut client: Client, wish: Wish) {
    let mut cursor = wish.since;
    let _watching = app.metrics.watching();
    let end = tokio::select! {
        end = watch(&app, &mut client, wish.run, &mut cursor) => end.unwrap_or(End::Failed),
        () = logged_out(&app, wish.session) => End::LoggedOut,
    };
    client.close(end, cursor).await;
}

/// Waits until a session that is open now is not any more; for ever, if there is none.
async fn logged_out(app: &Arc<App>, session: Digest) {
    let mut endings = app.sessions.endings();
    if !app.sessions.is_open(&session) {
        return std::future::pending().await;
    }
    while app.sessions.is_open(&session) {
        let _ = timeout(HEARTBEAT, endings.changed()).await;
    }
}

async fn watch(app: &Arc<App>, client: &mut Client, run: RunId, cursor: &mut Option<u64>) -> Outcome<End> {
    loop {
        let mut watching = attach(app, run, *cursor).await?;
        if let (Some(since), false) = (*cursor, watching.is_whole) {
            if let Err(end) = replay(app, client, run, since, watching.seq).await? {
                return Ok(end);
            }
            *cursor = Some(watching.seq.max(since));
        }
        match follow(app, client, &mut watching, cursor).await {
            // Whoever was held up by what it missed itself has had no chance to read what happened since.
            End::Slow if cursor.is_some_and(|cursor| cursor <= watching.seq) => {}
            end => return Ok(end),
        }
    }
}

async fn attach(app: &Arc<App>, run: RunId, since: Option<u64>) -> Outcome<Watching> {
    let reading = app.clone();
    let read = move || {
        let end = reading.followed(&run.slug(), u64::MAX)?;
        Ok((end.past().projector().clone(), end.seq()))
    };
    app.hub.watch(run, since, read).await
}

/// Sends what a client missed, from the log.
async fn replay(app: &Arc<App>, client: &mut Client, run: RunId, since: u64, until: u64) -> Outcome<Result<(), End>> {
    let (sender, mut batches) = channel::<Batch>(HISTORY_AHEAD);
    let (reading, slug): (Arc<App>, Slug) = (app.clone(), run.slug());
    let reader = tokio::task::spawn_blocking(move || {
        let mut followed = reading.followed(&slug, since)?;
        reading.with_reader(|reader| {
            reader.follow(&mut followed, until, |at, events| {
                reading.pasts.keep(&slug, at);
                events.is_empty() || sender.blocking_send(hub::batch(at.seq(), &events)).is_ok()
            })
        })
    });
    while let Some(batch) = batches.recv().await {
        if let Err(end) = client.send(&batch, &app.metrics).await {
            return Ok(Err(end));
        }
    }
    let read = reader.await.map_err(|why| crate::problem::Problem::internal(&why))?;
    read?;
    Ok(client.flush().await)
}

async fn follow(app: &Arc<App>, client: &mut Client, watching: &mut Watching, cursor: &mut Option<u64>) -> End {
    let mut closing = app.closing.subscribe();
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.reset();
    let (mut heard, mut frames) = (Instant::now(), 0);
    loop {
        if *closing.borrow() {
            return End::Closing;
        }
        tokio::select! {
            next = watching.next() => {
                let Some(mut batch) = next else { return End::Slow };
                loop {
                    if let Err(end) = client.send(&batch, &app.metrics).await {
                        return end;
                    }
                    *cursor = batch.seq.or(*cursor);
                    match watching.try_next() {
                        Some(more) => batch = more,
                        None => break,
                    }
                }
                if client.flush().await.is_err() {
                    return End::Gone;
                }
            }
            said = client.heard() => match said {
                Heard::Something => {
                    (heard, frames) = (Instant::now(), frames + 1);
                    if frames > FRAMES_MAX {
                        return End::Noisy;
                    }
                }
                Heard::Nothing => return End::Gone,
            },
            _ = heartbeat.tick() => {
                frames = 0;
                if heard.elapsed() > SILENCE_MAX && client.is_asked() {
                    return End::Gone;
                }
                if client.beat().await.is_err() {
                    return End::Gone;
                }
            }
            _ = closing.changed() => {}
        }
    }
}

/// What came from a client.
enum Heard {
    Something,
    /// It left.
    Nothing,
}

impl Client {
    /// Sends everything of one fact; nothing else comes in between.
    async fn send(&mut self, batch: &Batch, metrics: &crate::metrics::Metrics) -> Result<(), End> {
        metrics.delivered(batch.texts.len() as u64);
        let sending = async {
            match self {
                Client::Socket(socket) => {
                    for text in batch.texts.iter() {
                        socket.feed(Message::Text(text.json.clone())).await.map_err(|_| End::Gone)?;
                    }
                    Ok(())
                }
                Client::Events(sender) => {
                    let text = spelled(batch);
                    sender.send(Ok(text.into())).await.map_err(|_| End::Gone)
                }
            }
        };
        timeout(SEND_MAX, sending).await.unwrap_or(Err(End::Slow))
    }

    async fn flush(&mut self) -> Result<(), End> {
        match self {
            Client::Socket(socket) => {
                timeout(SEND_MAX, socket.flush()).await.map_err(|_| End::Slow)?.map_err(|_| End::Gone)
            }
            Client::Events(_) => Ok(()),
        }
    }

    /// What a client says, which is nothing but that it is there.
    async fn heard(&mut self) -> Heard {
        match self {
            Client::Socket(socket) => match socket.recv().await {
                Some(Ok(Message::Close(_))) | Some(Err(_)) | None => Heard::Nothing,
                Some(Ok(_)) => Heard::Something,
            },
            Client::Events(sender) => {
                sender.closed().await;
                Heard::Nothing
            }
        }
    }

    /// Whether a client answers when it is asked whether it is there.
    fn is_asked(&self) -> bool {
        matches!(self, Client::Socket(_))
    }

    async fn beat(&mut self) -> Result<(), End> {
        let beating = async {
            match self {
                Client::Socket(socket) => socket.send(Message::Ping(Bytes::new())).await.map_err(|_| End::Gone),
                Client::Events(sender) => sender.send(Ok(": \n\n".into())).await.map_err(|_| End::Gone),
            }
        };
        timeout(SEND_MAX, beating).await.unwrap_or(Err(End::Slow))
    }

    async fn close(self, end: End, cursor: Option<u64>) {
        let Client::Socket(mut socket) = self else { return };
        let since = cursor.map_or_else(String::new, |seq| format!("; continue with since={seq}"));
        let (code, reason) = match end {
            End::Gone => return,
            End::Closing => (close_code::AWAY, format!("the server ends{since}")),
            End::Slow => (close_code::AGAIN, format!("too slow{since}")),
            End::Noisy => (close_code::POLICY, "there is nothing to say here".to_owned()),
            End::LoggedOut => (close_code::POLICY, "the session has ended".to_owned()),
            End::Failed => (close_code::ERROR, "norma could not; its log says why".to_owned()),
        };
        let frame = CloseFrame { code, reason: reason.into() };
        let _ = timeout(Duration::from_secs(1), socket.send(Message::Close(Some(frame)))).await;
    }
}

/// The events of one fact for SSE. Only the last has the number: whoever is cut off in the middle is sent all of them
/// again, and knows those it has by their ids.
fn spelled(batch: &Batch) -> String {
    let mut text = String::new();
    for (at, event) in (1..).zip(batch.texts.iter()) {
        if let Some(seq) = batch.seq.filter(|_| at == batch.texts.len()) {
            text.push_str(&format!("id: {seq}\n"));
        }
        text.push_str(&format!("data: {}\n\n", event.json));
    }
    text
}
