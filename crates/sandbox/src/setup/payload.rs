//! The last steps of the process that becomes the program.
//!
//! They run in this order because each makes the next impossible to do: streams, limits, the second
//! wall, the filter. Then the process reads back what holds for it, tells the caller, waits for the
//! word, and executes.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::cgroup::Held;
use super::seccomp::Wanted;
use super::{landlock, mounts, seccomp, sys};
use crate::control::{self, Job, Message};
use crate::effective::Effective;
use crate::policy::{Network, Policy};
use crate::proxy::PROXY_PORT;

/// What a program that could not be executed "ends" with, as a shell would say it.
const NOT_EXECUTED: i32 = 127;

/// Becomes the program.
pub(super) fn become_program(job: &Job, streams: [OwnedFd; 3], control: BorrowedFd<'_>, held: Held) -> ! {
    let (effective, listener) = match confine(&job.policy, streams, held) {
        Ok(confined) => confined,
        Err(why) => give_up(control, &Message::BootFailure(why)),
    };
    if let Some(listener) = listener
        && let Err(error) = control::tell(control, &Message::Listener, &[listener.as_fd()])
    {
        give_up(control, &Message::BootFailure(format!("could not hand out the listener: {error}")));
    }
    if control::tell(control, &Message::Ready(Box::new(effective)), &[]).is_err() || !control::wait_for_go(control) {
        sys::exit_now(NOT_EXECUTED);
    }
    let error = execute(job);
    give_up(control, &Message::NotStarted(format!("could not run {}: {error}", job.program)))
}

fn give_up(control: BorrowedFd<'_>, last_words: &Message) -> ! {
    let _ = control::tell(control, last_words, &[]);
    sys::exit_now(NOT_EXECUTED)
}

fn confine(policy: &Policy, streams: [OwnedFd; 3], held: Held) -> Result<(Effective, Option<OwnedFd>), String> {
    let step = |what: &'static str| move |error: io::Error| format!("could not {what}: {error}");
    rustix::process::setsid().map_err(|error| step("leave the session")(error.into()))?;
    take_streams(streams).map_err(step("take the standard streams"))?;
    sys::close_all_on_exec().map_err(step("mark the descriptors to be closed"))?;
    rustix::process::chdir(&policy.cwd).map_err(|error| step("enter the working directory")(error.into()))?;
    limit(policy, held).map_err(step("set the limits"))?;
    let abi = landlock::enforce(policy).map_err(step("raise the Landlock wall"))?;
    let wanted = Wanted { heard: policy.heard.is_some(), no_files_in_memory: policy.startable.is_some() };
    let listener = seccomp::enforce(policy.level, wanted).map_err(step("filter the kernel calls"))?;
    let effective = Effective::read(policy, abi, held).map_err(step("read the confinement back"))?;
    Ok((effective, listener))
}

fn take_streams([stdin, stdout, stderr]: [OwnedFd; 3]) -> io::Result<()> {
    rustix::stdio::dup2_stdin(stdin.as_fd())?;
    rustix::stdio::dup2_stdout(stdout.as_fd())?;
    rustix::stdio::dup2_stderr(stderr.as_fd())?;
    Ok(())
}

fn limit(policy: &Policy, held: Held) -> io::Result<()> {
    let limits = &policy.limits;
    let most = |most| Rlimit { current: Some(most), maximum: Some(most) };
    let all = [
        (Resource::Core, most(0)),
        (Resource::Cpu, most(limits.cpu_seconds_of_one())),
        (Resource::Data, most(limits.memory_bytes)),
        (Resource::Fsize, most(limits.file_bytes)),
    ];
    for (which, limit) in all {
        setrlimit(which, limit)?;
    }
    // Counted in the new user namespace, where only this tree lives; not enforced for root, for whom the
    // PID namespace's own limit is. Without a user namespace others of the same user count, too, so there
    // it is the last resort.
    let counted_elsewhere = held.pids || policy.level.has_namespaces() && mounts::has_own_pid_max();
    if policy.level.maps_user() || !counted_elsewhere {
        setrlimit(Resource::Nproc, most(u64::from(limits.pids)))?;
    }
    let own = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    setrlimit(Resource::Nofile, most(limits.open_files.min(own)))?;
    Ok(())
}

/// Executes the program, looked for on the policy's own PATH when it is a bare name.
fn execute(job: &Job) -> io::Error {
    let strings = |strings: &mut dyn Iterator<Item = String>| strings.map(CString::new).collect::<Result<Vec<_>, _>>();
    let prepared = || -> io::Result<(Vec<CString>, Vec<CString>)> {
        let args = strings(&mut [job.program.clone()].into_iter().chain(job.args.iter().cloned()))?;
        let env = strings(&mut environment(&job.policy).map(|(name, value)| format!("{name}={value}")))?;
        Ok((args, env))
    };
    let (args, env) = match prepared() {
        Ok(both) => both,
        Err(error) => return error,
    };
    rustix::process::umask(rustix::fs::Mode::from(0o022));
    sys::reset_signals();
    if let Err(error) = sys::block_exactly(&[]) {
        return error;
    }
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for candidate in candidates(job) {
        match sys::c_path(Path::new(&candidate)) {
            Ok(path) => last = sys::execute(&path, &args, &env),
            Err(error) => return error,
        }
        if last.kind() != io::ErrorKind::NotFound {
            break;
        }
    }
    last
}

fn candidates(job: &Job) -> Vec<String> {
    if job.program.contains('/') {
        return vec![job.program.clone()];
    }
    let path = job.policy.env.get("PATH").map_or("", String::as_str);
    path.split(':').filter(|dir| dir.starts_with('/')).map(|dir| format!("{dir}/{}", job.program)).collect()
}

/// The policy's variables, and the way to the proxy where there is one.
fn environment(policy: &Policy) -> impl Iterator<Item = (String, String)> {
    let mut env = policy.env.clone();
    if let Network::Allow(_) = policy.network {
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        let direct = "localhost,127.0.0.1,::1".to_owned();
        for (name, value) in
            [("HTTP_PROXY", &proxy), ("HTTPS_PROXY", &proxy), ("ALL_PROXY", &proxy), ("NO_PROXY", &direct)]
        {
            env.insert(name.to_owned(), value.clone());
            env.insert(name.to_ascii_lowercase(), value.clone());
        }
    }
    env.into_iter()
}
