//! What a decision costs, counted by the items that are looked at: whoever looks at all of them looks at more of them in a
//! larger batch.

use super::*;
use crate::persistent::visits;
use contract::Item;
use serde_json::json;

/// How the items of a batch depend on each other.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// Not at all.
    Flat,
    /// Each needs the one before.
    Line,
    /// All write the same directory.
    OnePath,
    /// The first writes a directory, all others a file in it, the last the directory again.
    OneDirectory,
}

const SHAPES: [Shape; 4] = [Shape::Flat, Shape::Line, Shape::OnePath, Shape::OneDirectory];

fn item(shape: Shape, place: u32, count: u32) -> Item {
    let needs = match shape {
        Shape::Line if place > 0 => vec![format!("i{}", place - 1)],
        _ => Vec::new(),
    };
    let paths = match shape {
        Shape::Flat | Shape::Line => Vec::new(),
        Shape::OnePath => vec!["src".to_owned()],
        Shape::OneDirectory if place == 0 || place + 1 == count => vec!["src".to_owned()],
        Shape::OneDirectory => vec![format!("src/{place}")],
    };
    let item = json!({
        "id": format!("i{place}"), "agent_id": "agent-1", "role": "WORKER", "worker": "w", "goal": "g", "needs": needs,
        "scope": {"allowed_paths": paths}, "timeout_ms": 1, "submitted": contract::hash::sha256(b""),
    });
    serde_json::from_value(item).expect("it is an item")
}

fn batch(shape: Shape, count: u32) -> State {
    let mut state = State::new();
    for index in 0..count {
        let added = ItemAdded { index, item: item(shape, index, count), earlier: None, addition: None };
        items::add(&mut state.items, &mut state.queues, &added, count).expect("it is an item of the batch");
    }
    state
}

fn success(item: u32) -> ItemEnded {
    let digest = contract::hash::sha256(b"");
    let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    let receipt = json!({"id": "", "sha256": digest, "receipt_hash": digest, "content_hash": digest});
    let ended = json!({
        "item": item, "change": item + 1, "step": 1, "status": "success", "reason": null, "message": "", "before": tree,
        "after": tree, "commit": null, "gates": [], "files": [0, 0, 0], "delta_size": 0, "tool_ops": 0,
        "tool_ops_source": "none", "took_ms": 0, "receipt": receipt, "evidence": digest,
    });
    serde_json::from_value(ended).expect("it is an end")
}

/// How many items are looked at for each item, from the first decision to the last.
fn visits_for_each(shape: Shape, count: u32) -> u64 {
    let mut state = batch(shape, count);
    let (order, visited) = visits::of(|| {
        let mut order = Vec::new();
        while let Some((place, _)) = state.ready_from(0) {
            assert!(state.may_land(place));
            items::end(&mut state.items, &mut state.queues, &success(place));
            order.push(place);
        }
        order
    });
    assert!(order.into_iter().eq(0..count) && state.level().is_none());
    visited / u64::from(count)
}

#[test]
fn what_an_item_costs_does_not_depend_on_how_many_there_are() {
    for shape in SHAPES {
        let (few, many) = (visits_for_each(shape, 100), visits_for_each(shape, 3_000));
        assert!(many <= few + few / 5 + 1, "{shape:?}: {few} items are looked at for each of 100, {many} of 3,000");
    }
}

#[test]
fn levels_are_found_in_a_line_of_ten_thousand() {
    let items: Vec<Item> = (0..10_000).map(|place| item(Shape::Line, place, 10_000)).collect();
    assert_eq!(items::levels(items.iter()), Ok((0..10_000).collect()));
}
