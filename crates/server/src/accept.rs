//! Accepting connections, each within its limits: how many, how long a head may be and may take, and what is done when
//! the server ends. What is routed how is the router's.

use crate::App;
use crate::metrics::{self, Lasting};
use crate::patience::Patient;
use crate::peer::Peer;
use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// How long a head may take, and how long a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a head may be.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long whoever is sent something may take none of it.
const UNREAD_MAX: Duration = Duration::from_secs(30);
/// How long to wait before accepting again after an error, for example when this process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a connection may take to end once the server does.
const LEAVE_MAX: Duration = Duration::from_secs(3);

/// One of the connections that are open, counted until everything on it is over.
#[derive(Clone)]
pub(crate) struct Seat(
    #[expect(dead_code, reason = "it is given back when it is dropped")] Arc<(OwnedSemaphorePermit, Lasting)>,
);

/// Serves until the server ends and everybody has left.
pub(crate) async fn serve(
    app: &Arc<App>,
    router: Router,
    listeners: Vec<std::net::TcpListener>,
    tls: Option<Arc<ServerConfig>>,
    connections: usize,
) {
    let seats = Arc::new(Semaphore::new(connections));
    let mut accepting = Vec::new();
    for listener in listeners {
        let Ok(listener) = TcpListener::from_std(listener) else { continue };
        let door = Door { app: app.clone(), router: router.clone(), tls: tls.clone(), seats: seats.clone() };
        accepting.push(tokio::spawn(accept(listener, door)));
    }
    for task in accepting {
        let _ = task.await;
    }
    // Everybody has left when every seat is free again.
    let _ = timeout(LEAVE_MAX, seats.acquire_many(connections as u32)).await;
}

#[derive(Clone)]
struct Door {
    app: Arc<App>,
    router: Router,
    tls: Option<Arc<ServerConfig>>,
    seats: Arc<Semaphore>,
}

async fn accept(listener: TcpListener, door: Door) {
    let mut closing = door.app.closing.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = closing.wait_for(|closing| *closing) => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let metrics = &door.app.metrics;
        let Ok(permit) = door.seats.clone().try_acquire_owned() else {
            metrics.refused_connections.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let seat = Seat(Arc::new((permit, metrics::lasting(&metrics.connections))));
        tokio::spawn(connection(door.clone(), stream, seat));
    }
}

async fn connection(door: Door, stream: TcpStream, seat: Seat) {
    let (Ok(there), Ok(here)) = (stream.peer_addr(), stream.local_addr()) else { return };
    let _ = stream.set_nodelay(true);
    let peer = Arc::new(Peer::new(there, here));
    match door.tls.clone() {
        None => speak(door, stream, peer, seat).await,
        Some(config) => {
            let shaken = timeout(HEAD_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await;
            if let Ok(Ok(stream)) = shaken {
                speak(door, stream, peer, seat).await;
            }
        }
    }
}

async fn speak(door: Door, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Arc<Peer>, seat: Seat) {
    let routed = TowerToHyperService::new(door.router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(seat.clone());
        routed.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Patient::new(stream, UNREAD_MAX)), service)
        .with_upgrades();
    tokio::pin!(connection);
    let mut closing = door.app.closing.subscribe();
    let ends = async move { closing.wait_for(|closing| *closing).await.map(drop) };
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = ends => {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(LEAVE_MAX, connection).await;
        }
    }
}
