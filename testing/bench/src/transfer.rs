//! How fast a large download is through norma's proxy from inside the sandbox, beside the same download by the same
//! client without either.

use crate::confine::{self, command};
use crate::page::{Section, Table, at_least};
use crate::sample::Samples;
use crate::world::World;
use crate::{Result, print, tell};
use sandbox::{End, HostPort, Network, Policy, Root, Sandbox, Streams};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The first word that makes this program the client.
pub(crate) const FETCH: &str = "fetch";

/// Bytes sent and received at once.
const BLOCK_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 256 << 10;

const MEBIBYTE: u64 = 1 << 20;
const TARGET: f64 = 0.5;

pub(crate) fn run(world: &World) -> Result<Section> {
    let title = "Download through the proxy";
    if let Some(why) = confine::refusal(world) {
        return Ok(Section {
            title,
            about: format!("Not measured: this machine cannot confine ({why})."),
            tables: vec![],
        });
    }
    let mebibytes = u64::from(world.count(512, 64));
    let rounds = world.count(9, 3);
    let address = serve(mebibytes * MEBIBYTE)?;
    let client = std::env::current_exe()?;
    let sandbox = confine::sandbox(&world.norma);
    let mut policy = confine::policy(&world.norma, &world.dir)?;
    policy.read.push(Root::new(&client, "the client"));
    policy.network = Network::Allow(vec![HostPort::parse(&address).ok_or("an address is a destination")?]);
    let (mut direct, mut proxied) = (Samples::default(), Samples::default());
    tell(&format!("bench: transfer, {rounds} rounds of {mebibytes} MiB each way"));
    for _ in 0..rounds {
        for (samples, seconds) in [
            (&mut direct, fetch_direct(&client, &address)?),
            (&mut proxied, fetch_confined(&sandbox, &policy, &client, &address)?),
        ] {
            samples.push(mebibytes as f64 / seconds);
        }
    }
    let about = format!(
        "{mebibytes} MiB from a service on the loopback, {rounds} rounds, both ways in every round, the same client \
         program: outside, straight to the service; inside the sandbox, with `CONNECT` through norma's proxy, which \
         copies every byte once more, on the same processors as client and service. Floor: the straight download."
    );
    let mut table = Table::new(&["way", "MiB/s", "p10 MiB/s", "ratio", "target", ""]);
    let ratio = proxied.median() / direct.median();
    let mut row = |name: &str, samples: &Samples, rest: [String; 3]| {
        let figures = [name.to_owned(), format!("{:.0}", samples.median()), format!("{:.0}", samples.quantile(0.1))];
        table.row(figures.into_iter().chain(rest).collect());
    };
    row("floor: direct, outside", &direct, ["1".into(), "–".into(), "–".into()]);
    row(
        "confined, through the proxy",
        &proxied,
        [format!("{ratio:.2}"), format!("≥ {TARGET}"), at_least(ratio, TARGET)],
    );
    Ok(Section { title, about, tables: vec![table] })
}

/// A service that sends as many bytes to whoever connects.
fn serve(bytes: u64) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    std::thread::spawn(move || {
        let block = vec![7; BLOCK_BYTES];
        for mut stream in listener.incoming().flatten() {
            // A client that leaves early is its own problem: it counts what it got.
            let _ = (0..bytes / BLOCK_BYTES as u64).try_for_each(|_| stream.write_all(&block));
        }
    });
    Ok(address)
}

fn fetch_direct(client: &Path, address: &str) -> Result<f64> {
    let output = Command::new(client).args([FETCH, address]).env_clear().stdin(Stdio::null()).output()?;
    seconds(&String::from_utf8_lossy(&output.stdout))
}

fn fetch_confined(sandbox: &Sandbox, policy: &Policy, client: &Path, address: &str) -> Result<f64> {
    let (mut said, theirs) = std::io::pipe()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let streams = Streams { stdin: null.try_clone()?.into(), stdout: theirs.into(), stderr: null.into() };
    let confined = sandbox.prepare(policy, &command(&client.display().to_string(), &[FETCH, address]), &streams)?;
    let confined = confined.start()?;
    drop(streams);
    let mut text = String::new();
    said.read_to_string(&mut text)?;
    match confined.finish()?.end {
        End::Exited(0) => seconds(&text),
        end => Err(format!("the client ended with {end:?}").into()),
    }
}

fn seconds(text: &str) -> Result<f64> {
    text.trim().parse().map_err(|_| format!("the client said {text:?}").into())
}

/// The client: reads everything a service sends, through a proxy if the environment names one, and prints the
/// seconds it took.
pub(crate) fn fetch(address: &str) -> Result<()> {
    let proxy = std::env::var("HTTP_PROXY").ok();
    let started = Instant::now();
    let mut stream = match &proxy {
        None => TcpStream::connect(address)?,
        Some(proxy) => {
            let mut stream = TcpStream::connect(proxy.trim_start_matches("http://"))?;
            write!(stream, "CONNECT {address} HTTP/1.1\r\n\r\n")?;
            let mut head = [0; b"HTTP/1.1 200 Connection established\r\n\r\n".len()];
            stream.read_exact(&mut head)?;
            if !head.starts_with(b"HTTP/1.1 200 ") {
                return Err(String::from_utf8_lossy(&head).into());
            }
            stream
        }
    };
    let mut buffer = vec![0; READ_BYTES];
    let mut bytes = 0;
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            count => bytes += count as u64,
        }
    }
    if bytes < MEBIBYTE || bytes % MEBIBYTE != 0 {
        return Err(format!("{bytes} bytes came").into());
    }
    print(&started.elapsed().as_secs_f64().to_string());
    Ok(())
}
