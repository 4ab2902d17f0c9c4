//! `norma open`: the server that runs here, or one run on it, in the browser, logged in.

use super::background::{browser, whereabouts};
use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use runner::Context;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

/// How long the server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Open the running server, or a run on it, in the browser, logged in
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma serve --background\n  norma open @last")]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    run: Option<String>,
    /// Only print the link
    #[arg(long)]
    print: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let context = here.context()?;
        let reader = here.reader()?;
        let run = self.run.as_ref().map(|given| reader.find_run(given)).transpose()?;
        let Some(found) = whereabouts(&context.layout) else {
            return Err(CommandError::new(
                code::FAILED,
                "no server is running here",
                "start one: norma serve --background",
            ));
        };
        let login = login(&context, &found.url, run.as_deref())?;
        if !self.print && !here.json && here.terminal {
            browser(&login);
        }
        let page = run.as_ref().map(|run| format!("{}{}", found.url, place(run)));
        let value = serde_json::json!({"url": page.unwrap_or(found.url), "login": login, "run_id": run});
        Ok(here.print(&value, || login.clone()))
    }
}

/// Where a run is on the server.
fn place(run: &str) -> String {
    format!("/run/{run}")
}

/// A link that logs a browser in, once, and shows it the start page or a run.
pub(super) fn login(context: &Context, url: &str, run: Option<&str>) -> Outcome<String> {
    let token = std::fs::read_to_string(context.trust.server_token()?).unwrap_or_default();
    let link = ask_for_login(url, token.trim()).map_err(|why| {
        CommandError::new(code::ENVIRONMENT, format!("the server does not answer: {why}"), "see norma doctor")
    })?;
    Ok(run.map_or(link.clone(), |run| format!("{link}&run={run}")))
}

/// Asks the server for a login link.
fn ask_for_login(url: &str, token: &str) -> std::io::Result<String> {
    let wrong = |why: &str| std::io::Error::other(why.to_owned());
    let host = url.strip_prefix("http://").ok_or_else(|| wrong("it is not served on this machine alone"))?;
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    write!(
        stream,
        "POST /api/login-ticket HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").ok_or_else(|| wrong("its answer is cut off"))?;
    let value: serde_json::Value = serde_json::from_str(body).map_err(std::io::Error::other)?;
    value["login"]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| wrong(value["error"].as_str().unwrap_or("it says nothing")))
}
