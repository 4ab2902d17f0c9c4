//! From the table to the router: what every answer goes through, before it is routed and after.

use crate::accept::Seat;
use crate::admission::{self, Claim};
use crate::call::{self, Call, Reply};
use crate::peer::Peer;
use crate::problem::{Outcome, Problem};
use crate::sessions::{Opens, Principal};
use crate::stream::{self, Client, Wish};
use crate::table::{Does, Route, routes};
use crate::{App, channel};
use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use contract::RunId;
use std::sync::Arc;
use tokio::time::timeout;

/// Largest message that a client may send over a WebSocket; it has nothing to say.
const SOCKET_BYTES_MAX: usize = 256 << 10;
/// What is kept for reading from each of them, for the same reason; the library's own choice is 128 KiB.
const SOCKET_READ_BYTES: usize = 4 << 10;

/// The header by which a request is known when it is sent again.
const KEY: &str = "idempotency-key";

/// The route by which an answer is counted where there is none.
const NO_ROUTE: &str = "none";

/// What no answer is without.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// The router over everything that the table has.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for route in routes() {
        let filter = MethodFilter::try_from(route.method.clone()).expect("BUG: the table has known methods");
        let (path, route, app) = (route.path, Arc::new(route), app.clone());
        router = router.route(path, on(filter, move |request: Request| answer(app.clone(), route.clone(), request)));
    }
    router
        .fallback(|| async { Problem::not_found("there is no such route").into_response() })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this route has no such method").into_response()
        })
        .layer(from_fn_with_state(app.clone(), admit))
}

/// The template of the route that answered, for whoever counts.
#[derive(Clone, Copy)]
struct Answered(&'static str);

/// Looks at every request before anything else does, and dresses every answer.
async fn admit(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    let asking = principal(&app, (request.method(), request.uri(), request.headers()), peer).await;
    let (mut response, session) = match asking {
        Ok(principal) => {
            let session = principal.session.to_string();
            request.extensions_mut().insert(principal);
            (next.run(request).await, session)
        }
        Err(problem) if is_visit(&request) && problem.status == StatusCode::UNAUTHORIZED => (log_in(), String::new()),
        Err(problem) => (problem.into_response(), String::new()),
    };
    let route = response.extensions().get::<Answered>().map_or(NO_ROUTE, |answered| answered.0);
    let status = response.status().as_u16();
    app.metrics.answered(method.as_str(), route, status);
    // Never the address with its query, a body or a token.
    let session = session.get(..16).unwrap_or_default();
    tracing::info!(target: "norma::server", %method, route, status, session, "answered");
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    let policy = HeaderValue::from_str(&policy(&app.own)).expect("BUG: the policy is plain text");
    response.headers_mut().entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    response
}

/// Whether somebody typed or followed an address, so that a person reads the answer.
fn is_visit(request: &Request) -> bool {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    request.method() == Method::GET && header("sec-fetch-mode") == Some("navigate")
}

/// What a person is told who is not logged in.
fn log_in() -> Response {
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (StatusCode::UNAUTHORIZED, kind, include_str!("login.html")).into_response()
}

/// What a page of this server may do.
fn policy(own: &admission::Own) -> String {
    // A policy has no spelling for addresses of IPv6; `'self'` covers their sockets, too.
    let sockets: Vec<String> = own.sockets().filter(|socket| !socket.contains('[')).collect();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self' {}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        sockets.join(" ")
    )
}

/// Who asks, if they may be answered at all.
async fn principal(app: &Arc<App>, head: (&Method, &Uri, &HeaderMap), peer: Option<Arc<Peer>>) -> Outcome<Principal> {
    let (method, uri, headers) = head;
    let claim = admission::judge(method, uri, headers, &app.own, &app.sessions.cookie)
        .map_err(|refusal| Problem::new(refusal.status, refusal.why))?;
    let peer = peer.ok_or_else(|| Problem::internal(&"a connection of nobody"))?;
    let ip = peer.there.ip();
    let unknown = || Problem::new(StatusCode::UNAUTHORIZED, "say who you are: a token, or log in: norma open");
    match claim {
        // Who has the token is let in however often others of the same address guess: else any process of this machine
        // could lock everybody out.
        Claim::Bearer(token) => match app.sessions.by_known_token(token) {
            Some(known) => Ok(known),
            None => {
                let (asked, token) = (app.clone(), token.to_owned());
                let looking = tokio::task::spawn_blocking(move || asked.sessions.by_new_token(&token, ip)).await;
                let found = looking.map_err(|why| Problem::internal(&why))?.map_err(Problem::too_many)?;
                found.ok_or_else(unknown)
            }
        },
        Claim::Ticket => by_ticket(app, uri).ok_or_else(|| match app.sessions.is_held_off(ip) {
            Some(seconds) => Problem::too_many(seconds),
            None => {
                app.sessions.guessed_wrong(ip);
                unknown()
            }
        }),
        Claim::Cookie(value) => app.sessions.by_cookie(value).ok_or_else(unknown),
        // Another process of the same user is that user, unless an agent may be one.
        Claim::OwnUser if !app.is_tls && !app.hosting.is_unconfined() && peer.is_own_user() => {
            Ok(app.sessions.owner("this machine"))
        }
        Claim::OwnUser => {
            // Without being the own user, a session counts as it does for a browser, to look.
            let session = admission::session(headers, &app.sessions.cookie).filter(|_| method.is_safe());
            session
                .filter(|_| !admission::is_upgrade(headers))
                .and_then(|value| app.sessions.by_cookie(value))
                .ok_or_else(unknown)
        }
        Claim::Nothing => Err(unknown()),
    }
}

fn by_ticket(app: &App, uri: &Uri) -> Option<Principal> {
    let query: Vec<(String, String)> = admission::query(uri).collect();
    let value = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let run = value("runId");
    app.sessions.redeem(value("ticket")?, |opens| match (uri.path(), opens) {
        ("/login", Opens::Session) | ("/ws", Opens::Socket(None)) => true,
        ("/ws", Opens::Socket(Some(of))) => {
            run.is_some_and(|run| run == of.as_str() || RunId::parse(run).is_ok_and(|id| id.slug() == *of))
        }
        _ => false,
    })
}

async fn answer(app: Arc<App>, route: Arc<Route>, request: Request) -> Response {
    let answered = Answered(route.path);
    let mut response = match dispatch(app, route, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    response.extensions_mut().insert(answered);
    response
}

async fn dispatch(app: Arc<App>, route: Arc<Route>, request: Request) -> Outcome<Response> {
    let principal = request.extensions().get::<Principal>().cloned();
    let principal = principal.ok_or_else(|| Problem::internal(&"a request of nobody"))?;
    if route.right.is_some_and(|right| !principal.role.may(right)) {
        return Err(Problem::new(StatusCode::FORBIDDEN, "you may look, but not do this"));
    }
    let (mut parts, body) = request.into_parts();
    let names = names(&mut parts).await?;
    let query = query(&route, &parts.uri)?;
    match route.does {
        Does::Answer(_) => {
            let body = match route.method.is_safe() {
                true => axum::body::Bytes::new(),
                false => timeout(route.patience, call::body_of(&parts.headers, body))
                    .await
                    .map_err(|_| Problem::invalid("the body took too long"))??,
            };
            let call = Call { principal, names, query, body, headers: parts.headers };
            on_thread(app, route, call).await
        }
        Does::Events => {
            let call = Call { principal, names, query, body: axum::body::Bytes::new(), headers: parts.headers };
            let seat = parts.extensions.get::<Seat>().cloned();
            events(app, call, seat).await
        }
        Does::Socket => {
            let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
            let upgrade =
                upgrade.map_err(|_| Problem::new(StatusCode::UPGRADE_REQUIRED, "this route is for WebSockets"))?;
            let call = Call { principal, names, query, body: axum::body::Bytes::new(), headers: parts.headers };
            let seat = parts.extensions.get::<Seat>().cloned();
            socket(app, call, upgrade, seat).await
        }
    }
}

/// The names in the path, decoded.
async fn names(parts: &mut axum::http::request::Parts) -> Outcome<Vec<String>> {
    let params = RawPathParams::from_request_parts(parts, &()).await;
    let params = params.map_err(|_| Problem::not_found("there is no such thing"))?;
    Ok(params.iter().map(|(_, value)| value.to_owned()).collect())
}

/// The query, in which nothing else is than the route knows, and nothing twice.
fn query(route: &Route, uri: &Uri) -> Outcome<Vec<(String, String)>> {
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, value) in admission::query(uri) {
        if !route.query.iter().any(|known| known.name == name) || found.iter().any(|(other, _)| *other == name) {
            return Err(Problem::invalid(format!("the query has {name:?}, which is unknown or there twice")));
        }
        found.push((name, value));
    }
    let missing = route.query.iter().find(|known| known.is_needed && !found.iter().any(|(name, _)| name == known.name));
    match missing {
        Some(missing) => Err(Problem::invalid(format!("the query needs {}", missing.name))),
        None => Ok(found),
    }
}

async fn on_thread(app: Arc<App>, route: Arc<Route>, call: Call) -> Outcome<Response> {
    let patience = route.patience;
    let answering = tokio::task::spawn_blocking(move || {
        let reply = carry_out(&app, &route, &call)?;
        Ok(reply.into_response())
    });
    match timeout(patience, answering).await {
        Ok(Ok(answered)) => answered,
        Ok(Err(panicked)) => Err(Problem::internal(&panicked)),
        Err(_) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "it takes longer; look at the run later")),
    }
}

/// Answers a request; one that was answered before, as before.
fn carry_out(app: &Arc<App>, route: &Route, call: &Call) -> Outcome<Reply> {
    let Does::Answer(answer) = route.does else { return Err(Problem::internal(&"a stream is no answer")) };
    let key = call.headers.get(KEY).filter(|_| route.method != Method::GET);
    let Some(key) = key else { return answer(app, call) };
    let key = key.to_str().map_err(|_| Problem::invalid("the Idempotency-Key is not text"))?;
    let what = format!("{} {} {}", route.method, route.path, call.names.join(" "));
    let (store, request) = (&app.hosting.state().store, [what.as_bytes(), &call.body]);
    let once = app.answers.once(store, &call.principal, (key, &request), || match answer(app, call)? {
        Reply::Json(status, value) => Ok((status, value.to_string())),
        Reply::Spelled(status, text) => Ok((status, text)),
        _ => Err(Problem::internal(&"only JSON is remembered")),
    });
    once.map(|(status, text)| Reply::Spelled(status, text))
}

/// What somebody wants to watch.
async fn wish(app: &Arc<App>, call: Call, given: String) -> Outcome<Wish> {
    let app = app.clone();
    let looking = tokio::task::spawn_blocking(move || {
        let slug = crate::route::run_of(&app, &given)?;
        let run = app.with_reader(|reader| reader.run(&slug))?.map(|view| view.id);
        let run = run.ok_or_else(|| Problem::not_found("there is no such run"))?;
        let most = crate::route::live::SEQ_MAX;
        let since = match call.number("since", 0..=most)? {
            Some(since) => Some(since),
            None => last_event(&call.headers),
        };
        Ok(Wish { run, since, session: call.principal.session })
    });
    looking.await.map_err(|why| Problem::internal(&why))?
}

/// Where a browser that comes back by itself wants to continue.
fn last_event(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

async fn events(app: Arc<App>, call: Call, seat: Option<Seat>) -> Outcome<Response> {
    let given = call.name(0).to_owned();
    let wish = wish(&app, call, given).await?;
    let (sender, body) = channel::body();
    tokio::spawn(async move {
        stream::serve(app, Client::Events(sender), wish).await;
        drop(seat);
    });
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

async fn socket(app: Arc<App>, call: Call, upgrade: WebSocketUpgrade, seat: Option<Seat>) -> Outcome<Response> {
    let given = call.query("runId").unwrap_or_default().to_owned();
    let wish = wish(&app, call, given).await?;
    let upgrade = upgrade.max_message_size(SOCKET_BYTES_MAX).max_frame_size(SOCKET_BYTES_MAX);
    let upgrade = upgrade.read_buffer_size(SOCKET_READ_BYTES);
    Ok(upgrade.on_upgrade(move |socket| async move {
        stream::serve(app, Client::Socket(Box::new(socket)), wish).await;
        drop(seat);
    }))
}
