//! What people leave on a run while they look at it. It is kept beside the run, in the state directory's own log, so a run that
//! was sealed stays as it is; what they write is kept without its secrets, like everything that is kept.

use crate::host::Host;
use crate::host::request::Remark;
use crate::machine::redactor;
use crate::{Answer, Error, Result};
use contract::Slug;
use contract::review::Comment;
use serde_json::Value;
use store::Reader;

/// Puts it on record.
pub(super) fn leave(host: &Host, slug: &str, remark: Remark, by: String) -> Result<Answer> {
    let store = &host.state.store;
    let found = Reader::open(&store.layout)?.listed_run(slug)?;
    let found = found.ok_or_else(|| Error::usage(format!("there is no run {slug}"), "norma runs lists them"))?;
    let run: Slug = found.parse().map_err(store::Error::from)?;
    let done = |message: &str, value: Value| Ok(Answer::Done { message: message.to_owned(), value });
    match remark {
        Remark::Comment(comment) => {
            let text = redactor(&host.context).redact_str(&comment.text).0.into_owned();
            let kept = store.comment(run, Comment { text, ..comment }, by).wait()?;
            done("the comment is on record", serde_json::to_value(kept).expect("BUG: a comment is plain data"))
        }
        Remark::Withdraw { id } => {
            store.withdraw_comment(run, id, by).wait()?;
            done("the comment is taken back", Value::Null)
        }
        Remark::Sent { comments, to } => {
            store.send_comments(run, comments, to, by).wait()?;
            done("the comments are sent", Value::Null)
        }
        Remark::Arrange(moved) => {
            store.arrange(run, moved, by).wait()?;
            done("the layout is kept", Value::Null)
        }
    }
}
