//! Running one foreign program in a sandbox: the same loop, the same bounds, and the sandbox in place of a
//! supervisor.
//!
//! The sandbox is built and read back before anything runs ([`get_ready`]), which a caller that has something to
//! write down can do meanwhile; [`Ready::go`] lets the program start.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::pipe::{PipeFlags, pipe_with};
use sandbox::{Confined, Effective, End as SandboxEnd, Failure, Judge, Policy, Prepared, Report, Sandbox, Streams};

use super::drive::{Keeper, Turn, Watched};
use super::input::Said;
use super::supervised::Output;
use super::{Cancel, End, Limits, Outcome};
use contract::ProcessLimit;

/// The exit code by which the loop knows a sandbox that was killed from outside.
const SIGKILL: i32 = 9;

/// A sandbox that stands, with a program that waits.
pub struct Ready {
    prepared: Prepared,
    stdin: OwnedFd,
    output: Output,
}

/// A program that ended in its sandbox.
pub struct Finished {
    /// How, and what it said.
    pub outcome: Outcome,
    /// What held it.
    pub effective: Effective,
    /// What it used and tried.
    pub report: Option<Report>,
    /// What it changed in each overlay of the policy.
    pub layers: Vec<OwnedFd>,
}

/// Builds the sandbox.
pub fn get_ready(sandbox: &Sandbox, policy: &Policy, command: &sandbox::Command) -> Result<Ready, sandbox::Error> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let failed = |error: rustix::io::Errno| sandbox::Error::BootFailure(format!("could not make a pipe: {error}"));
    let [(stdin, ours_in), (ours_out, stdout), (ours_err, stderr)] =
        [pipe().map_err(failed)?, pipe().map_err(failed)?, pipe().map_err(failed)?];
    let prepared = sandbox.prepare(policy, command, &Streams { stdin, stdout, stderr })?;
    Ok(Ready { prepared, stdin: ours_in, output: Output { stdout: ours_out, stderr: ours_err } })
}

impl Ready {
    /// What holds.
    pub fn effective(&self) -> &Effective {
        self.prepared.effective()
    }

    /// What the program reaches at its sandbox's door.
    pub fn take_door(&mut self) -> Option<std::net::TcpListener> {
        self.prepared.take_door()
    }

    /// Runs the program to its end. Nothing of it is alive when this returns.
    pub fn go(self, said: Said<'_>, limits: Limits, cancel: &Cancel) -> Result<Finished, sandbox::Error> {
        self.go_judged(said, limits, cancel, None)
    }

    /// The same, with somebody who judges what it starts.
    pub fn go_judged(
        self,
        mut said: Said<'_>,
        limits: Limits,
        cancel: &Cancel,
        judge: Option<Judge>,
    ) -> Result<Finished, sandbox::Error> {
        let started = Instant::now();
        let mut confined = self.prepared.start_judged(judge)?;
        let (effective, layers, pid) = (confined.effective().clone(), confined.take_layers(), confined.pid());
        if let Said::Talk(talk) = &mut said {
            talk.started(&layers);
        }
        let turn =
            Turn::new(Keeper::Confined(Box::new(confined)), self.stdin, self.output, (said, limits)).map_err(lost)?;
        let Watched { keeper: Keeper::Confined(confined), stopped, rest } = turn.watch(cancel).map_err(lost)? else {
            unreachable!("BUG: the keeper was given above")
        };
        let (end, report) = ended(*confined, stopped)?;
        let (stdout, stderr) = rest.read().map_err(lost)?;
        let outcome = Outcome { end, stdout, stderr, elapsed: started.elapsed(), pid };
        Ok(Finished { outcome, effective, report, layers })
    }
}

fn lost(error: io::Error) -> sandbox::Error {
    sandbox::Error::BootFailure(format!("could not keep an eye on the sandbox: {error}"))
}

/// Waits for the end of the whole tree, and says how it came.
fn ended(confined: Confined, stopped: Option<End>) -> Result<(End, Option<Report>), sandbox::Error> {
    let report = match confined.finish() {
        Err(sandbox::Error::NotStarted(why)) => return Ok((End::NotStarted(why), None)),
        other => other?,
    };
    let end = match (stopped, report.failure(), report.end) {
        (Some(reason), ..) => reason,
        (None, Some(Failure::OutOfMemory), _) => End::LimitReached(ProcessLimit::Memory),
        (None, Some(Failure::DiskFull), _) => End::LimitReached(ProcessLimit::Disk),
        (None, Some(Failure::OutOfTime), _) => End::LimitReached(ProcessLimit::CpuTime),
        (None, _, SandboxEnd::Exited(code)) => End::Exited(code),
        (None, _, SandboxEnd::Signaled(signal)) => End::Signaled(signal),
        (None, _, SandboxEnd::Killed) => End::Signaled(SIGKILL),
    };
    Ok((end, Some(report)))
}
