//! The smallest executor that can hold many tasks on one thread: wakers put a task's number into a channel.
//! Forty lines in place of a runtime; the store's tickets are plain futures and must work with any.

use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

struct TaskWaker {
    number: usize,
    due: Mutex<Sender<usize>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        // Nobody listens any more once all tasks have ended.
        let _ = self.due.lock().unwrap_or_else(PoisonError::into_inner).send(self.number);
    }
}

/// Runs all tasks on the calling thread until each has ended.
pub(crate) fn run_all(tasks: Vec<Task<'_>>) {
    let (sender, due): (Sender<usize>, Receiver<usize>) = channel();
    let wakers: Vec<Waker> = (0..tasks.len())
        .map(|number| Waker::from(Arc::new(TaskWaker { number, due: Mutex::new(sender.clone()) })))
        .collect();
    let mut open = tasks.len();
    let mut tasks: Vec<Option<Task<'_>>> = tasks.into_iter().map(Some).collect();
    wakers.iter().for_each(Waker::wake_by_ref);
    while open > 0 {
        let number = due.recv().expect("BUG: this function holds a sender");
        let Some(task) = &mut tasks[number] else { continue };
        if let Poll::Ready(()) = task.as_mut().poll(&mut Context::from_waker(&wakers[number])) {
            tasks[number] = None;
            open -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn every_task_runs_to_its_end_even_if_it_yields() {
        let done = Cell::new(0);
        let task = |yields: u32| -> Task<'_> {
            let done = &done;
            let mut left = yields;
            Box::pin(async move {
                std::future::poll_fn(move |context| {
                    if left == 0 {
                        return Poll::Ready(());
                    }
                    left -= 1;
                    context.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
                done.set(done.get() + 1);
            })
        };
        run_all(vec![task(0), task(3), task(1)]);
        assert_eq!(done.get(), 3);
    }
}
