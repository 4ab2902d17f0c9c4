//! `scripted-model [--port N] [--scenarios FILE] [--log FILE] [--key SECRET] [--stdin]`: the scripted model as a program.
//! It prints `{"port":N}` when it listens, and serves until it is ended; with `--stdin`, until its standard input is.

use scripted_model::{Options, Scripts, Server};
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: scripted-model [--port N] [--scenarios FILE] [--log FILE] [--key SECRET] [--stdin]

  --port N          on the loopback; 0, the default, takes a free one
  --scenarios FILE  scripts besides the built-in ones: {\"name\": [step, …]}
  --log FILE        one line of JSON for each request
  --key SECRET      refuse requests that do not carry it where their interface has its key
  --stdin           end when standard input does";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "scripted-model: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    let mut ends_with_stdin = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value\n\n{USAGE}"));
        match arg.as_str() {
            "--port" => options.port = value()?.parse()?,
            "--scenarios" => options.scripts = Scripts::read(Path::new(&value()?))?,
            "--log" => options.log = Some(value()?.into()),
            "--key" => options.key = Some(value()?),
            "--stdin" => ends_with_stdin = true,
            _ => return Err(format!("unknown argument `{arg}`\n\n{USAGE}").into()),
        }
    }
    let server = Server::start(options)?;
    let mut out = io::stdout();
    writeln!(out, "{}", serde_json::json!({ "port": server.port() }))?;
    out.flush()?;
    if ends_with_stdin {
        io::copy(&mut io::stdin(), &mut io::sink())?;
        return Ok(());
    }
    loop {
        std::thread::park();
    }
}
