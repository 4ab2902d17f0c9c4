//! Running a program in a machine: one request whose answer is a stream of envelopes (a flag, a length, JSON), from the
//! start of the program to its end. What goes to its standard input goes over further requests.

use std::collections::BTreeMap;

use base64ct::{Base64, Encoding as _};
use serde::Deserialize;
use serde_json::json;

use super::{Machine, parsed};
use crate::service::{Answer, Call, ServiceProblem, Until, header};

/// Longest envelope.
const ENVELOPE_BYTES_MAX: usize = 8 << 20;

/// Bytes of standard input in one request.
const INPUT_BYTES: usize = 256 << 10;

/// Seconds after which a stream that says nothing else says that it is there.
const KEEPALIVE_SECONDS: &str = "50";

/// The flag of the last envelope, which holds what went wrong, if anything did.
const LAST: u8 = 2;

const WHAT: &str = "POST /process.Process/Start";

/// A program to run. No shell is involved.
pub struct Program<'p> {
    /// Program and arguments.
    pub argv: &'p [String],
    /// Variables besides those of the machine.
    pub env: &'p BTreeMap<String, String>,
    /// Where it starts.
    pub cwd: &'p str,
    /// What is written to its standard input, which is then closed.
    pub stdin: &'p [u8],
}

/// Something that a program printed.
pub enum Printed {
    /// To standard output.
    Out(Vec<u8>),
    /// To standard error.
    Err(Vec<u8>),
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By a signal, in the machine's own words.
    Signal(String),
    /// It was never started, in the machine's own words.
    NotStarted(String),
}

#[derive(Deserialize, Default)]
struct Message {
    #[serde(default)]
    event: Event,
    #[serde(default)]
    error: Option<Trouble>,
}

#[derive(Deserialize, Default)]
struct Event {
    #[serde(default)]
    start: Option<Start>,
    #[serde(default)]
    data: Option<Data>,
    #[serde(default)]
    end: Option<End>,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    pid: u32,
}

#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    stdout: Option<String>,
    #[serde(default)]
    stderr: Option<String>,
}

/// A zero is left out by that protocol.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct End {
    #[serde(default)]
    exit_code: i32,
    #[serde(default)]
    exited: bool,
    #[serde(default)]
    status: String,
}

#[derive(Deserialize)]
struct Trouble {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Machine {
    /// Runs a program to its end, and hands over what it prints meanwhile.
    pub fn run(
        &self,
        program: &Program<'_>,
        until: &Until,
        printed: &mut dyn FnMut(Printed),
    ) -> Result<Exit, ServiceProblem> {
        let mut stream = Stream { answer: self.start(program, until)?, buffer: Vec::new() };
        let mut exit = None;
        let mut started = false;
        while let Some((is_last, bytes)) = stream.envelope()? {
            let message: Message = parsed(WHAT, &bytes)?;
            if let Some(trouble) = message.error {
                return ended_badly(started, exit, &trouble);
            }
            if is_last {
                break;
            }
            if let Some(start) = message.event.start {
                started = true;
                self.say(start.pid, program.stdin, until)?;
            }
            if let Some(data) = message.event.data {
                data.stdout
                    .map(|text| decoded(&text))
                    .transpose()?
                    .into_iter()
                    .for_each(|it| printed(Printed::Out(it)));
                data.stderr
                    .map(|text| decoded(&text))
                    .transpose()?
                    .into_iter()
                    .for_each(|it| printed(Printed::Err(it)));
            }
            if let Some(end) = message.event.end {
                exit = Some(end.into_exit());
            }
        }
        exit.ok_or_else(|| ServiceProblem::senseless(WHAT, "it ends before the program did"))
    }

    fn start(&self, program: &Program<'_>, until: &Until) -> Result<Answer, ServiceProblem> {
        let request = json!({
            "process": {"cmd": program.argv[0], "args": program.argv[1..], "envs": program.env, "cwd": program.cwd},
            "stdin": !program.stdin.is_empty(),
        });
        let request = request.to_string();
        let mut body = vec![0];
        let length =
            u32::try_from(request.len()).map_err(|_| ServiceProblem::Settings("the command is too long".to_owned()))?;
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(request.as_bytes());
        let mut headers = self.headers(Some("application/connect+json"));
        headers.push(header("connect-protocol-version", "1"));
        headers.push(header("connect-timeout-ms", until.left().as_millis().to_string()));
        headers.push(header("keepalive-ping-interval", KEEPALIVE_SECONDS));
        let call = Call { method: "POST", target: "/process.Process/Start".to_owned(), headers, body: &body };
        let answer = self.daemon.call(&call, until)?;
        if answer.status != 200 {
            return Err(self.daemon.refused(answer));
        }
        match answer.header("content-type") {
            Some("application/connect+json") => Ok(answer),
            other => Err(ServiceProblem::senseless(WHAT, format!("its content type is {other:?}"))),
        }
    }

    /// Writes to the standard input of a program, and closes it.
    fn say(&self, pid: u32, stdin: &[u8], until: &Until) -> Result<(), ServiceProblem> {
        if stdin.is_empty() {
            return Ok(());
        }
        let process = json!({"pid": pid});
        for bytes in stdin.chunks(INPUT_BYTES) {
            let body = json!({"process": process, "input": {"stdin": Base64::encode_string(bytes)}});
            match self.ask("/process.Process/SendInput", &body, ENVELOPE_BYTES_MAX, until) {
                // One that ended without reading all of it is gone by now.
                Err(ServiceProblem::Refused { .. }) => return Ok(()),
                said => said.map(drop)?,
            }
        }
        match self.ask("/process.Process/CloseStdin", &json!({"process": process}), ENVELOPE_BYTES_MAX, until) {
            Err(ServiceProblem::Refused { status: 404, .. }) | Ok(_) => Ok(()),
            Err(problem) => Err(problem),
        }
    }
}

/// What an error at the end of a stream means: a program that was never started, or a stream that broke.
fn ended_badly(started: bool, exit: Option<Exit>, trouble: &Trouble) -> Result<Exit, ServiceProblem> {
    let said = format!("{}: {}", trouble.code, trouble.message);
    match (started, exit) {
        (_, Some(exit)) => Ok(exit),
        (false, None) if trouble.code == "deadline_exceeded" => Err(ServiceProblem::TimedOut(WHAT.to_owned())),
        (false, None) => Ok(Exit::NotStarted(said.chars().take(300).collect())),
        (true, None) if trouble.code == "deadline_exceeded" => Err(ServiceProblem::TimedOut(WHAT.to_owned())),
        (true, None) => Err(ServiceProblem::senseless(WHAT, said.escape_debug())),
    }
}

impl End {
    fn into_exit(self) -> Exit {
        if self.exited || !self.status.starts_with("signal") {
            Exit::Code(self.exit_code)
        } else {
            Exit::Signal(self.status)
        }
    }
}

fn decoded(text: &str) -> Result<Vec<u8>, ServiceProblem> {
    Base64::decode_vec(text).map_err(|_| ServiceProblem::senseless(WHAT, "what was printed is not base64"))
}

/// The envelopes of an answer.
struct Stream {
    answer: Answer,
    buffer: Vec<u8>,
}

impl Stream {
    /// The next one, and whether it is the last; none where the answer ends without one.
    fn envelope(&mut self) -> Result<Option<(bool, Vec<u8>)>, ServiceProblem> {
        loop {
            if let Some((&[flag, a, b, c, d], rest)) = self.buffer.split_first_chunk::<5>() {
                let length = u32::from_be_bytes([a, b, c, d]) as usize;
                if length > ENVELOPE_BYTES_MAX {
                    let why = format!("an envelope has {length} bytes");
                    return Err(ServiceProblem::senseless(self.answer.what(), why));
                }
                if flag & !LAST != 0 {
                    return Err(ServiceProblem::senseless(self.answer.what(), "an envelope is compressed"));
                }
                if rest.len() >= length {
                    let message = rest[..length].to_vec();
                    self.buffer.drain(..5 + length);
                    return Ok(Some((flag & LAST != 0, message)));
                }
            }
            match self.answer.piece()? {
                Some(piece) => self.buffer.extend_from_slice(&piece),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(ServiceProblem::senseless(self.answer.what(), "it ends in an envelope")),
            }
        }
    }
}
