//! The service e2b: its API and the daemon of its machines behind one address, as a service of one's own would have them.
//! The wire is what the official Python library 2.63 speaks. A machine is a directory, and programs run on this machine
//! with the machine's paths replaced by it.

use crate::http::{Asked, answer, read};
use base64ct::{Base64, Encoding};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Where the files of a machine begin for whoever speaks to it.
const HOME: &str = "/home/user";

/// How the service behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// As it should.
    Well,
    /// It takes no key.
    Unauthorized,
    /// It is overloaded the first time.
    BusyOnce,
    /// What it says about a machine is not JSON.
    NotJson,
    /// The name that it gives a machine leads elsewhere.
    OddName,
    /// It never answers when a machine is to be made.
    Silent,
    /// It hangs up in the middle of what a program prints.
    DiesMidway,
    /// An envelope says that it is four gigabytes long.
    HugeEnvelope,
    /// Files are said to lie outside of the directory.
    Traversal,
    /// A file is longer than it was said to be.
    LongFile,
}

struct Machine {
    dir: tempfile::TempDir,
    groups: Vec<u32>,
}

#[derive(Default)]
struct Inside {
    machines: BTreeMap<String, Machine>,
    stdin: BTreeMap<u32, ChildStdin>,
    asked: Vec<Asked>,
    made: u32,
}

/// The service.
pub struct E2b {
    port: u16,
    inside: Arc<Mutex<Inside>>,
}

impl E2b {
    /// Starts it on a port of its own; it ends with the process.
    pub fn start(behaviour: Behaviour) -> E2b {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
        let port = listener.local_addr().expect("it has an address").port();
        let inside = Arc::new(Mutex::new(Inside::default()));
        let shared = inside.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let inside = shared.clone();
                std::thread::spawn(move || drop(serve(stream, behaviour, &inside)));
            }
        });
        E2b { port, inside }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.lock().asked.clone()
    }

    /// How many machines there are now, and how many were ever made.
    pub fn machines(&self) -> (usize, u32) {
        let inside = self.lock();
        (inside.machines.len(), inside.made)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().expect("nobody panicked with it")
    }
}

fn serve(stream: TcpStream, behaviour: Behaviour, inside: &Mutex<Inside>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let asked = read(&mut reader)?;
    let busy = {
        let mut inside = inside.lock().expect("nobody panicked with it");
        inside.asked.push(asked.clone());
        behaviour == Behaviour::BusyOnce && inside.asked.len() == 1
    };
    let mut out = stream;
    if busy {
        return answer(&mut out, 503, "application/json", b"{}", "retry-after: 0\r\n");
    }
    let (path, query) = asked.what.split_once('?').unwrap_or((&asked.what, ""));
    match path {
        "POST /v2/sandboxes" => create(&mut out, &asked, behaviour, inside),
        "POST /process.Process/Start" => start(&mut out, &asked, behaviour, inside),
        _ if asked.headers.contains_key("x-api-key") && path.starts_with("DELETE /sandboxes/") => {
            end(&path["DELETE /sandboxes/".len()..], inside);
            answer(&mut out, 204, "text/plain", b"", "")
        }
        _ => match daemon(path, query, &asked, behaviour, inside) {
            Some((status, kind, body)) => answer(&mut out, status, kind, &body, ""),
            None => answer(&mut out, 404, "application/json", br#"{"code":404,"message":"not found"}"#, ""),
        },
    }
}

fn create(out: &mut TcpStream, asked: &Asked, behaviour: Behaviour, inside: &Mutex<Inside>) -> std::io::Result<()> {
    match behaviour {
        Behaviour::Silent => std::thread::sleep(Duration::from_secs(600)),
        Behaviour::Unauthorized => {
            let key = asked.headers.get("x-api-key").cloned().unwrap_or_default();
            let said = json!({"code": 401, "message": format!("invalid key {key}")}).to_string();
            return answer(out, 401, "application/json", said.as_bytes(), "");
        }
        Behaviour::NotJson => return answer(out, 201, "application/json", b"{\"sandboxID\": oops", ""),
        _ => {}
    }
    let id = {
        let mut inside = inside.lock().expect("nobody panicked with it");
        inside.made += 1;
        let id = format!("i{:06}", inside.made);
        let dir = tempfile::tempdir()?;
        std::fs::create_dir_all(dir.path().join("home/user"))?;
        inside.machines.insert(id.clone(), Machine { dir, groups: Vec::new() });
        id
    };
    let id = if behaviour == Behaviour::OddName { "../../v2/other".to_owned() } else { id };
    let body = json!({"sandboxID": id, "templateID": "base", "clientID": "c", "envdVersion": "0.5.8",
        "envdAccessToken": "token-of-the-machine", "domain": null, "more": {"than": "is known"}});
    answer(out, 201, "application/json", body.to_string().as_bytes(), "")
}

fn end(id: &str, inside: &Mutex<Inside>) {
    let machine = inside.lock().expect("nobody panicked with it").machines.remove(id);
    for group in machine.iter().flat_map(|machine| &machine.groups) {
        // Not by the program `kill`: procps takes `-9 -1234` for every process there is.
        let group = i32::try_from(*group).ok().and_then(rustix::process::Pid::from_raw);
        let _ = group.map(|group| rustix::process::kill_process_group(group, rustix::process::Signal::KILL));
    }
}

/// What the daemon of a machine answers, if whoever asks has the machine's token.
fn daemon(
    path: &str,
    query: &str,
    asked: &Asked,
    behaviour: Behaviour,
    inside: &Mutex<Inside>,
) -> Option<(u16, &'static str, Vec<u8>)> {
    let dir = directory(asked, inside)?;
    let body = || serde_json::from_slice::<Value>(&asked.body).ok();
    let json = |value: Value| Some((200, "application/json", value.to_string().into_bytes()));
    match path {
        "GET /health" => Some((204, "text/plain", Vec::new())),
        "POST /files" => json(write_files(&dir, query, asked)?),
        "GET /files" => {
            let mut bytes = std::fs::read(place(&dir, &decoded(query.strip_prefix("path=")?))).ok()?;
            if behaviour == Behaviour::LongFile {
                bytes.extend([b'x'; 1000]);
            }
            Some((200, "application/octet-stream", bytes))
        }
        "POST /filesystem.Filesystem/ListDir" => {
            let root = body()?["path"].as_str()?.to_owned();
            let mut entries = Vec::new();
            list(&dir, &place(&dir, &root), &mut entries);
            if behaviour == Behaviour::Traversal {
                let odd = |path: &str| json!({"name": "x", "type": "FILE_TYPE_FILE", "path": format!("{root}/{path}"), "size": "1"});
                entries.extend([odd("work/../../../etc/passwd"), odd("work/.git/hooks/pre-commit")]);
            }
            json(json!({ "entries": entries }))
        }
        "POST /process.Process/SendInput" => {
            let body = body()?;
            let pid = u32::try_from(body["process"]["pid"].as_u64()?).ok()?;
            let bytes = Base64::decode_vec(body["input"]["stdin"].as_str()?).ok()?;
            inside.lock().ok()?.stdin.get_mut(&pid)?.write_all(&bytes).ok()?;
            json(json!({}))
        }
        "POST /process.Process/CloseStdin" => {
            let pid = u32::try_from(body()?["process"]["pid"].as_u64()?).ok()?;
            inside.lock().ok()?.stdin.remove(&pid)?;
            json(json!({}))
        }
        _ => None,
    }
}

fn directory(asked: &Asked, inside: &Mutex<Inside>) -> Option<PathBuf> {
    let token = asked.headers.get("x-access-token")? == "token-of-the-machine";
    let id = asked.headers.get("e2b-sandbox-id").filter(|_| token)?;
    Some(inside.lock().ok()?.machines.get(id)?.dir.path().to_owned())
}

fn start(out: &mut TcpStream, asked: &Asked, behaviour: Behaviour, inside: &Mutex<Inside>) -> std::io::Result<()> {
    let Some(dir) = directory(asked, inside) else { return answer(out, 404, "application/json", b"{}", "") };
    let request: Value = serde_json::from_slice(asked.body.get(5..).unwrap_or_default()).unwrap_or_default();
    let process = &request["process"];
    let here = |text: &str| text.replace(HOME, &dir.join("home/user").to_string_lossy());
    let text = |value: &Value| here(value.as_str().unwrap_or_default());
    let mut command = Command::new(text(&process["cmd"]));
    command.args(process["args"].as_array().into_iter().flatten().map(text)).current_dir(text(&process["cwd"]));
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").process_group(0);
    command.envs(process["envs"].as_object().into_iter().flatten().map(|(name, value)| (name.clone(), text(value))));
    let wants_stdin = request["stdin"] == true;
    command
        .stdin(if wants_stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    write!(out, "HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\ntransfer-encoding: chunked\r\n\r\n")?;
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            envelope(out, 2, &json!({"error": {"code": "invalid_argument", "message": error.to_string()}}))?;
            return write!(out, "0\r\n\r\n");
        }
    };
    {
        let mut inside = inside.lock().expect("nobody panicked with it");
        if let Some(machine) = asked.headers.get("e2b-sandbox-id").cloned().and_then(|id| inside.machines.get_mut(&id))
        {
            machine.groups.push(child.id());
        }
        if let Some(stdin) = child.stdin.take() {
            inside.stdin.insert(child.id(), stdin);
        }
    }
    envelope(out, 0, &json!({"event": {"start": {"pid": child.id()}}}))?;
    let is_tool = ["rm", "chmod", "ln"].contains(&process["cmd"].as_str().unwrap_or_default());
    match behaviour {
        Behaviour::DiesMidway if !is_tool => return Ok(()),
        Behaviour::HugeEnvelope if !is_tool => return piece(out, &[0, 0xff, 0xff, 0xff, 0xff]),
        _ => {}
    }
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.as_mut().map(|pipe| pipe.read_to_end(&mut bytes));
        bytes
    });
    let mut buffer = [0; 8192];
    while let Some(count) = stdout.as_mut().and_then(|pipe| pipe.read(&mut buffer).ok()).filter(|count| *count > 0) {
        envelope(out, 0, &json!({"event": {"data": {"stdout": Base64::encode_string(&buffer[..count])}}}))?;
    }
    envelope(out, 0, &json!({"event": {"keepalive": {}}}))?;
    let errors = errors.join().unwrap_or_default();
    if !errors.is_empty() {
        envelope(out, 0, &json!({"event": {"data": {"stderr": Base64::encode_string(&errors)}}}))?;
    }
    let status = child.wait()?;
    let end = match status.code() {
        // A zero is left out by that protocol.
        Some(0) => json!({"exited": true, "status": "exit status 0"}),
        Some(code) => json!({"exitCode": code, "exited": true, "status": format!("exit status {code}")}),
        None => json!({"exitCode": -1, "status": "signal: killed"}),
    };
    envelope(out, 0, &json!({"event": {"end": end}}))?;
    envelope(out, 2, &json!({}))?;
    write!(out, "0\r\n\r\n")
}

fn write_files(dir: &Path, query: &str, asked: &Asked) -> Option<Value> {
    let boundary = asked.headers.get("content-type")?.split_once("boundary=")?.1.to_owned();
    let mut written = Vec::new();
    for (path, content) in parts(&asked.body, &boundary) {
        let path = query.strip_prefix("path=").map(decoded).unwrap_or(path);
        let to = place(dir, &path);
        std::fs::create_dir_all(to.parent()?).ok()?;
        std::fs::write(&to, content).ok()?;
        written.push(json!({"name": to.file_name()?.to_str()?, "type": "file", "path": path}));
    }
    Some(written.into())
}

/// The files of a form, by the name that each was sent with.
fn parts(body: &[u8], boundary: &str) -> Vec<(String, Vec<u8>)> {
    let find =
        |from: usize, what: &[u8]| body[from..].windows(what.len()).position(|it| it == what).map(|at| from + at);
    let line = format!("--{boundary}");
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(begin) = find(at, line.as_bytes()) {
        let Some(head_end) = find(begin, b"\r\n\r\n") else { break };
        let head = String::from_utf8_lossy(&body[begin..head_end]).into_owned();
        let Some(end) = find(head_end, format!("\r\n{line}").as_bytes()) else { break };
        if let Some((_, name)) = head.split_once("filename=\"") {
            let name = name.split("\"\r\n").next().unwrap_or_default().trim_end_matches('"').replace("\\\"", "\"");
            found.push((name, body[head_end + 4..end].to_vec()));
        }
        at = end;
    }
    found
}

fn place(dir: &Path, path: &str) -> PathBuf {
    dir.join(path.trim_start_matches('/'))
}

fn list(root: &Path, dir: &Path, entries: &mut Vec<Value>) {
    let Ok(found) = std::fs::read_dir(dir) else { return };
    for entry in found.flatten() {
        let (Ok(meta), Ok(inside)) =
            (entry.path().symlink_metadata(), entry.path().strip_prefix(root).map(Path::to_owned))
        else {
            continue;
        };
        let path = format!("/{}", inside.display());
        let mut shown =
            json!({"name": entry.file_name().to_string_lossy(), "path": path, "owner": "user", "group": "user"});
        if let Ok(target) = std::fs::read_link(entry.path()) {
            shown["type"] = json!("FILE_TYPE_FILE");
            shown["symlinkTarget"] = json!(target.to_string_lossy());
        } else if meta.is_dir() {
            shown["type"] = json!("FILE_TYPE_DIRECTORY");
            list(root, &entry.path(), entries);
        } else {
            shown["type"] = json!("FILE_TYPE_FILE");
            shown["size"] = json!(meta.len().to_string());
            shown["mode"] = json!(meta.permissions().mode() & 0o777);
            let modified = meta.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            shown["modifiedTime"] =
                json!(modified.map(|time| format!("{}.{:09}Z", time.as_secs(), time.subsec_nanos())));
        }
        entries.push(shown);
    }
}

fn envelope(out: &mut TcpStream, flag: u8, message: &Value) -> std::io::Result<()> {
    let text = message.to_string();
    let mut bytes = vec![flag];
    bytes.extend((text.len() as u32).to_be_bytes());
    bytes.extend(text.as_bytes());
    piece(out, &bytes)
}

fn piece(out: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    write!(out, "{:x}\r\n", bytes.len())?;
    out.write_all(bytes)?;
    out.write_all(b"\r\n")
}

/// A part of a query, without its escapes.
fn decoded(text: &str) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let escaped =
            text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(escaped.unwrap_or(bytes[at]));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}
