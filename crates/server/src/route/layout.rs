//! Where people have drawn the graph of a run: kept, but no part of the run and nothing that anybody is told of.

use crate::App;
use crate::call::Call;
use crate::problem::{Outcome, Problem};
use contract::Violation;
use contract::api::LayoutWish;
use contract::review::{Arrangement, PLACE_MAX};
use contract::view::graph::{Position, Viewport};
use runner::{Remark, Request};

/// How many nodes are moved at once.
const MOVED_MAX: usize = 1000;

pub(super) fn keep(app: &App, call: &Call, slug: &str, wish: &LayoutWish) -> Outcome<()> {
    if wish.positions.len() > MOVED_MAX {
        return Err(Problem::at("/patch/layout/positions", format!("at most {MOVED_MAX} nodes at once")));
    }
    let mut strangers = Vec::new();
    for id in wish.positions.keys() {
        if app.with_reader(|reader| reader.graph_node(slug, id))?.is_none() {
            let pointer = format!("/patch/layout/positions/{}", id.replace('~', "~0").replace('/', "~1"));
            strangers.push(Violation { pointer, message: "there is no such node".to_owned() });
        }
    }
    if !strangers.is_empty() {
        return Err(Problem::violations("the body is refused", strangers));
    }
    let (run, remark) = (slug.to_owned(), Box::new(Remark::Arrange(arrangement(wish))));
    app.ask(Request::Remark { run, remark, by: call.principal.name.clone() })?;
    Ok(())
}

/// The same in whole numbers.
fn arrangement(wish: &LayoutWish) -> Arrangement {
    let near = |at: f64| (at.round() as i64).clamp(-PLACE_MAX, PLACE_MAX);
    let place = |at: &Position| (near(at.x), near(at.y));
    let seen = |it: Viewport| (near(it.x), near(it.y), (it.zoom * 1000.0).round() as u32);
    Arrangement {
        afresh: wish.afresh,
        nodes: wish.positions.iter().map(|(id, at)| (id.clone(), place(at))).collect(),
        viewport: wish.viewport.map(seen),
    }
}
