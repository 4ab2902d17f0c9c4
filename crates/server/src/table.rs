//! Every route there is, in one list: the router, the document at `/openapi.json` and the tests that go over all routes
//! are made from it, so none of them can know of a route that the others do not.

use crate::call::{Call, Reply};
use crate::problem::Outcome;
use crate::route::{approvals, changes, comments, contracts, graph, intents, live, meta, page, runs, turns, work};
use crate::sessions::Right;
use crate::{App, openapi::Shape};
use axum::http::Method;
use contract::ApprovalView;
use contract::api::{
    AddNode, Chat, ContractPreview, ForkRun, Intake, NewComment, NewIntake, NewRun, PatchNode, PatchRun, PutTemplate,
    ReplayRun, ResolveApproval, ResumeRun, RunEvent, SendBack, SetEdge, StartIntent,
};
use contract::documents::Intent;
use contract::schema::{Document, Form};
use contract::view::intent::RunViewModel;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer may take.
const QUICK: Duration = Duration::from_secs(30);
/// How long one may take that runs tests, or reads a whole run.
const LONG: Duration = Duration::from_secs(600);

/// What answers a request, on a thread of its own.
pub(crate) type Answering = fn(&Arc<App>, &Call) -> Outcome<Reply>;

/// How a route is answered.
#[derive(Clone, Copy)]
pub(crate) enum Does {
    Answer(Answering),
    /// By a stream of events, over a WebSocket or SSE.
    Socket,
    Events,
}

/// A parameter of the query.
pub(crate) struct Query {
    pub(crate) name: &'static str,
    pub(crate) says: &'static str,
    /// The least number, if it is one.
    pub(crate) least: Option<u64>,
    pub(crate) is_needed: bool,
}

/// What the body of a request is.
#[derive(Clone, Copy)]
pub(crate) enum Takes {
    /// It is not read.
    Nothing,
    /// A document of this form.
    Form(fn() -> &'static Form),
    /// A document of a form that it says itself.
    Document,
}

/// One route.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) says: &'static str,
    /// What whoever asks must be allowed to; none where a ticket is all there is.
    pub(crate) right: Option<Right>,
    pub(crate) query: Vec<Query>,
    pub(crate) body: Takes,
    /// What a good answer is.
    pub(crate) status: u16,
    pub(crate) answer: Shape,
    /// Another one, where nothing was done yet.
    pub(crate) or_else: Option<(u16, Shape)>,
    pub(crate) does: Does,
    pub(crate) patience: Duration,
}

const fn word(name: &'static str, says: &'static str) -> Query {
    Query { name, says, least: None, is_needed: false }
}

const fn number(name: &'static str, least: u64, says: &'static str) -> Query {
    Query { name, says, least: Some(least), is_needed: false }
}

const VIEW: Query = word("view", "norma: the run as `norma show --json` prints it");
const AT: Query = number("at", 1, "the run as it was after this fact of its log");
const LIMIT: Query = number("limit", 1, "how many at most");
const SINCE: Query = number("since", 0, "only what comes after this fact of the run's log");

impl Route {
    fn get(path: &'static str, says: &'static str, answer: Shape, does: Answering) -> Route {
        Route {
            method: Method::GET,
            path,
            says,
            right: Some(Right::View),
            query: Vec::new(),
            body: Takes::Nothing,
            status: 200,
            answer,
            or_else: None,
            does: Does::Answer(does),
            patience: QUICK,
        }
    }

    fn post(path: &'static str, says: &'static str, answer: Shape, does: Answering) -> Route {
        Route { method: Method::POST, right: Some(Right::Operate), ..Route::get(path, says, answer, does) }
    }

    fn patch(path: &'static str, says: &'static str, answer: Shape, does: Answering) -> Route {
        Route { method: Method::PATCH, ..Route::post(path, says, answer, does) }
    }

    fn delete(path: &'static str, says: &'static str, answer: Shape, does: Answering) -> Route {
        Route { method: Method::DELETE, ..Route::post(path, says, answer, does) }
    }

    fn with<const N: usize>(self, query: [Query; N]) -> Route {
        Route { query: query.into(), ..self }
    }

    fn taking(self, body: fn() -> &'static Form) -> Route {
        Route { body: Takes::Form(body), ..self }
    }

    fn for_those_who(self, right: Right) -> Route {
        Route { right: Some(right), ..self }
    }

    fn slowly(self) -> Route {
        Route { patience: LONG, ..self }
    }
}

/// Every route, in the order of the document.
pub(crate) fn routes() -> Vec<Route> {
    [
        of_pages(),
        of_the_server(),
        of_intents(),
        of_runs(),
        of_graphs(),
        of_streams(),
        of_one_run(),
        of_changes(),
        of_documents(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn of_pages() -> Vec<Route> {
    let read_by_the_page = || {
        [
            word("q", "what the list of runs is filtered by"),
            word("in", "the group of runs that is listed"),
            word("change", "the change that is reviewed"),
            word("sentence", "what a new run begins with; so do the next three"),
            word("agent", "its agent"),
            word("allow", "what it may change"),
            word("test", "its tests"),
        ]
    };
    let shown = |path, says| Route::get(path, says, Shape::Html, page::page).with(read_by_the_page());
    let of_run = |path, says| Route::get(path, says, Shape::Html, page::of_run).with(read_by_the_page());
    vec![
        shown("/", "The page people see: what needs them, and every run."),
        shown("/new", "The same, at starting a run."),
        shown("/approvals", "The same, at what waits for an approval."),
        shown("/verify", "The same, at checking a bundle."),
        of_run("/run/{id}", "The same, at a run."),
        of_run("/run/{id}/{view}", "The same, at one way to look at a run."),
        Route::get("/a/{file}", "A file of the page.", Shape::Asset, page::asset),
        Route::get("/icon.svg", "The picture of the page.", Shape::Asset, page::icon),
    ]
}

fn of_the_server() -> Vec<Route> {
    vec![
        Route {
            right: None,
            status: 303,
            ..Route::get(
                "/login",
                "Opens a session in a browser, with a ticket that is good once.",
                Shape::Empty,
                meta::login,
            )
            .with([
                Query { is_needed: true, ..word("ticket", "from the link that `norma serve` or `norma open` prints") },
                word("run", "the run that is shown first; the start page without"),
            ])
        },
        Route::post("/api/logout", "Ends the session.", Shape::Ok, meta::logout).for_those_who(Right::View),
        Route::post(
            "/api/login-ticket",
            "A login link for whoever asks.",
            Shape::Strings(&["ticket", "login"]),
            meta::login_ticket,
        )
        .for_those_who(Right::View),
        Route::post("/api/ws-ticket", "A ticket for one WebSocket.", Shape::Strings(&["ticket"]), meta::ws_ticket)
            .for_those_who(Right::View),
        Route::get("/api/sessions", "Who else is there.", Shape::List("sessions"), meta::sessions)
            .for_those_who(Right::Administer),
        Route::get("/healthz", "Whether the server answers.", Shape::Ok, meta::healthz),
        Route::get("/metrics", "Numbers for Prometheus.", Shape::Text, meta::metrics),
        Route::get("/openapi.json", "This document.", Shape::Any, meta::openapi),
    ]
}

fn of_intents() -> Vec<Route> {
    vec![
        Route {
            status: 201,
            ..Route::post("/intents", "Keeps an intent.", Shape::Strings(&["intentId"]), intents::create)
                .taking(Intent::form)
        },
        Route {
            status: 202,
            ..Route::post(
                "/intents/{id}/run",
                "Carries out an intent; once, however often it is asked for.",
                Shape::Strings(&["runId", "workflowId"]),
                intents::run,
            )
            .taking(StartIntent::form)
        },
        Route::get("/runs/{id}", "A run, in the form of intents.", Shape::Form(RunViewModel::form), intents::show),
        Route {
            status: 202,
            ..Route::post("/runs/{id}/events", "Answers what a plan waits for.", Shape::Accepted(&[]), intents::event)
                .taking(RunEvent::form)
                .for_those_who(Right::Approve)
        },
        Route {
            status: 202,
            ..Route::post(
                "/runs/{id}/retry",
                "Tries again what failed, as a run of its own.",
                Shape::Accepted(&["newRunId", "fromStep"]),
                intents::retry,
            )
        },
        Route {
            status: 202,
            ..Route::post("/runs/{id}/cancel", "Ends a run.", Shape::Accepted(&["runId"]), intents::cancel)
        },
    ]
}

fn of_runs() -> Vec<Route> {
    vec![
        Route::get("/api/runs", "Runs, the newest first.", Shape::Runs, runs::list)
            .with([LIMIT, word("cursor", "`next` of the page before")]),
        Route {
            status: 201,
            or_else: Some((200, Shape::Form(ContractPreview::form))),
            ..Route::post(
                "/api/runs",
                "Starts a run; of a sentence without `yes`, shows its contract.",
                Shape::Run,
                work::start,
            )
            .taking(NewRun::form)
        },
        Route {
            or_else: Some((201, Shape::Run)),
            ..Route::post(
                "/api/intake",
                "Proposes a contract for a sentence, with questions; with `run`, starts it.",
                Shape::Form(Intake::form),
                work::intake,
            )
            .taking(NewIntake::form)
        },
        Route::get("/api/runs/{id}", "A run.", Shape::RunOrView, runs::show).with([VIEW, AT]),
        Route::patch(
            "/api/runs/{id}",
            "Pauses, continues or completes a run, changes its modes, or keeps where its graph is drawn.",
            Shape::Run,
            work::patch,
        )
        .taking(PatchRun::form),
        Route::delete(
            "/api/runs/{id}",
            "Ends a run and takes it off the list; its evidence stays.",
            Shape::Strings(&["runId"]),
            work::delete,
        ),
    ]
}

const NODE: Shape = Shape::Part("node", "Node");

fn of_graphs() -> Vec<Route> {
    vec![
        Route {
            status: 201,
            ..Route::post("/api/runs/{id}/nodes", "Makes a node.", NODE, graph::add_node).taking(AddNode::form)
        },
        Route::patch("/api/runs/{id}/nodes/{node}", "Changes a node, from its next turn on.", NODE, graph::patch_node)
            .taking(PatchNode::form),
        Route::delete(
            "/api/runs/{id}/nodes/{node}",
            "Removes a node and its edges.",
            Shape::Strings(&["nodeId"]),
            graph::remove_node,
        ),
        Route::post(
            "/api/runs/{id}/nodes/{node}/reset",
            "Has a node begin a new conversation.",
            Shape::Ok,
            graph::reset,
        ),
        Route::post(
            "/api/runs/{id}/nodes/{node}/interrupt",
            "Ends the turn that a node is in.",
            Shape::Ok,
            graph::interrupt,
        ),
        Route::post("/api/runs/{id}/nodes/{node}/stop", "Gives a node no more turns.", Shape::Ok, graph::stop),
        Route::post("/api/runs/{id}/nodes/{node}/start", "Gives a node turns again.", Shape::Ok, graph::start),
        Route {
            status: 201,
            ..Route::post(
                "/api/runs/{id}/edges",
                "Draws an edge, or changes the one of this id.",
                Shape::Part("edge", "Edge"),
                graph::set_edge,
            )
            .taking(SetEdge::form)
        },
        Route::delete(
            "/api/runs/{id}/edges/{edge}",
            "Removes an edge.",
            Shape::Strings(&["edgeId"]),
            graph::remove_edge,
        ),
        Route {
            status: 201,
            ..Route::post("/api/runs/{id}/chat", "Tells a node something.", Shape::Strings(&["messageId"]), graph::chat)
                .taking(Chat::form)
        },
    ]
}

fn of_streams() -> Vec<Route> {
    vec![
        Route::get("/api/runs/{id}/events", "What happened, the oldest first.", Shape::Events, live::events)
            .with([SINCE, LIMIT])
            .slowly(),
        Route {
            does: Does::Events,
            ..Route::get(
                "/api/runs/{id}/stream",
                "What happens, as server-sent events.",
                Shape::Text,
                live::unreachable,
            )
            .with([SINCE])
        },
        Route {
            does: Does::Socket,
            status: 101,
            ..Route::get("/ws", "What happens, over a WebSocket: one event a frame.", Shape::Empty, live::unreachable)
                .with([
                    Query { is_needed: true, ..word("runId", "the run") },
                    SINCE,
                    word("ticket", "from /api/ws-ticket"),
                ])
        },
    ]
}

fn of_one_run() -> Vec<Route> {
    vec![
        Route::get("/api/runs/{id}/artifacts/{artifact}", "A file of a run.", Shape::Artifact, runs::artifact)
            .with([word("download", "1: the file itself")]),
        Route::post("/api/runs/{id}/land", "Lands the result of a run.", Shape::Done, work::land).slowly(),
        Route::post("/api/runs/{id}/undo", "Takes a landing back.", Shape::Done, work::undo).slowly(),
        Route::post("/api/runs/{id}/cancel", "Ends a run.", Shape::Done, work::cancel),
        Route::post("/api/runs/{id}/resume", "Continues a run.", Shape::Run, work::resume).taking(ResumeRun::form),
        Route {
            status: 201,
            ..Route::post(
                "/api/runs/{id}/fork",
                "Starts a run from the tree that this one had after an event.",
                Shape::Run,
                work::fork,
            )
            .taking(ForkRun::form)
        },
        Route::post("/api/runs/{id}/replay", "Judges a run again, or carries it out again.", Shape::Any, work::replay)
            .taking(ReplayRun::form)
            .slowly(),
        Route::get("/api/runs/{id}/verify", "Checks the log, chain and evidence of a run.", Shape::Any, runs::verify)
            .slowly(),
        Route::post("/api/runs/{id}/verify", "The same.", Shape::Any, runs::verify).for_those_who(Right::View).slowly(),
        Route::get(
            "/api/runs/{id}/bundle",
            "A sealed run as one file, which `norma-verify` checks.",
            Shape::Bytes,
            runs::bundle,
        )
        .slowly(),
        Route::get(
            "/api/runs/{id}/turns",
            "What each turn was held to: its sandbox, what it started and reached, and the calls of its model.",
            Shape::List("turns"),
            turns::list,
        )
        .slowly(),
    ]
}

/// What a run changed, and what is said about it.
fn of_changes() -> Vec<Route> {
    vec![
        Route::get(
            "/api/runs/{id}/changes",
            "What a run changed: the whole, and every change with its gates, findings and patch.",
            Shape::Any,
            changes::list,
        )
        .with([word("brief", "1: without the patches")])
        .slowly(),
        Route::get(
            "/api/runs/{id}/changes/{change}/file",
            "A text file as it was before a change; change 0 is all that the run changed.",
            Shape::Strings(&["path", "text"]),
            changes::file,
        )
        .with([Query { is_needed: true, ..word("path", "Which file.") }])
        .slowly(),
        Route {
            status: 201,
            ..Route::post(
                "/api/runs/{id}/changes/{change}/comments",
                "Puts a comment on a line of a change on record.",
                Shape::Any,
                comments::add,
            )
            .taking(NewComment::form)
        },
        Route::delete(
            "/api/runs/{id}/changes/{change}/comments/{comment}",
            "Takes back a comment that was not sent.",
            Shape::Ok,
            comments::withdraw,
        ),
        Route {
            status: 201,
            or_else: Some((200, Shape::Form(ContractPreview::form))),
            ..Route::post(
                "/api/runs/{id}/changes/{change}/send-back",
                "Sends the comments on a change to the node that made it, or to a run that fixes it; without `yes`, shows the contract of that run.",
                Shape::Any,
                comments::send_back,
            )
            .taking(SendBack::form)
            .slowly()
        },
    ]
}

fn of_documents() -> Vec<Route> {
    let approval: fn() -> &'static Form = ApprovalView::form;
    vec![
        Route {
            body: Takes::Document,
            ..Route::post(
                "/api/contracts/check",
                "Whether a contract or a batch would be accepted.",
                Shape::Any,
                contracts::check,
            )
            .for_those_who(Right::View)
        },
        Route::get(
            "/api/approvals",
            "What runs wait for a person to approve.",
            Shape::Of("approvals", approval),
            approvals::list,
        )
        .with([word("all", "1: those that were answered, too")]),
        Route::post("/api/approvals/{id}/resolve", "Answers an approval.", Shape::Resolved, approvals::resolve)
            .taking(ResolveApproval::form)
            .for_those_who(Right::Approve),
        Route::get("/api/templates", "What agents are told.", Shape::List("templates"), contracts::templates),
        Route::get("/api/templates/{name}", "One of them.", Shape::Template, contracts::template),
        Route {
            method: Method::PUT,
            ..Route::post(
                "/api/templates/{name}",
                "Writes one into the repository's state directory, for runs that start from then on.",
                Shape::Template,
                contracts::put_template,
            )
            .taking(PutTemplate::form)
            .for_those_who(Right::Administer)
        },
        Route::delete(
            "/api/templates/{name}",
            "Removes one that was written; a built-in one counts again.",
            Shape::Strings(&["name"]),
            contracts::delete_template,
        )
        .for_those_who(Right::Administer),
    ]
}
