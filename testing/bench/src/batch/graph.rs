//! What is carried out: levels of items, where an item starts when the whole level before it is done. Written for
//! norma and for make here; the other peers build it themselves from the same two numbers (`peers/graph.py`).

use crate::step::RESPONSE;
use serde_json::{Value, json};
use std::fmt::Write;

/// The entry of `agents` that carries out every item.
pub(crate) const AGENT: &str = "agent-1";

/// Levels of equally many items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Graph {
    pub(crate) levels: u32,
    pub(crate) width: u32,
}

impl Graph {
    /// How many items there are.
    pub(crate) fn items(self) -> u32 {
        self.levels * self.width
    }

    fn level(self, level: u32) -> Vec<String> {
        (0..self.width).map(|place| format!("item-{level}-{place}")).collect()
    }

    /// The names of each level, with those of the level before.
    fn levels(self) -> impl Iterator<Item = (Vec<String>, Vec<String>)> {
        (0..self.levels).map(move |level| {
            let before = level.checked_sub(1).map(|before| self.level(before));
            (self.level(level), before.unwrap_or_default())
        })
    }

    /// The work items that `norma batch` reads.
    pub(crate) fn work_items(self, read_only: bool) -> Value {
        let item = |id: &String, needs: &[String]| {
            let mut item = json!({
                "id": id,
                "agent_id": AGENT,
                "description": "be quick",
                "dependencies": needs,
                "constraints": {"max_files": 10, "max_delta_size": 100, "timeout_ms": 300_000},
                "budget": {"time_estimate_ms": 10, "complexity": "low"},
            });
            if read_only {
                item["read_only"] = true.into();
            }
            item
        };
        self.levels().flat_map(|(ids, needs)| ids.iter().map(|id| item(id, &needs)).collect::<Vec<_>>()).collect()
    }

    /// The same for make, which remembers an item by the file it makes.
    pub(crate) fn makefile(self) -> String {
        let last = self.level(self.levels.saturating_sub(1)).join(" ");
        let mut text = format!("all: {last}\n.PHONY: all\n");
        for (ids, needs) in self.levels() {
            let (ids, needs) = (ids.join(" "), needs.join(" "));
            let _ = write!(text, "{ids}: {needs}\n\t@/bin/echo '{RESPONSE}' > $@\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Limits;
    use contract::documents::WorkItem;

    #[test]
    fn an_item_needs_the_whole_level_before_it() {
        let graph = Graph { levels: 3, width: 2 };
        let items = graph.work_items(true);
        let needs = |index: usize| items[index]["dependencies"].clone();
        assert_eq!(items.as_array().map(Vec::len), Some(6));
        assert_eq!((needs(0), needs(5)), (json!([]), json!(["item-1-0", "item-1-1"])));
        assert_eq!((&items[5]["id"], &items[5]["read_only"]), (&json!("item-2-1"), &json!(true)));
    }

    #[test]
    fn what_is_written_for_norma_are_work_items() {
        let graph = Graph { levels: 50, width: 20 };
        for (read_only, expected) in [(true, Some(true)), (false, None)] {
            let text = serde_json::to_vec(&graph.work_items(read_only)).expect("JSON");
            let document = contract::json::parse(&text, &Limits::DOCUMENT).expect("it is not too large");
            let items: Vec<WorkItem> = serde_json::from_value(document).expect("work items");
            assert_eq!((items.len(), items[999].read_only), (1000, expected));
        }
    }

    #[test]
    fn a_makefile_has_a_rule_for_each_level() {
        let recipe = format!("\t@/bin/echo '{RESPONSE}' > $@\n");
        let expected = format!("all: item-1-0\n.PHONY: all\nitem-0-0: \n{recipe}item-1-0: item-0-0\n{recipe}");
        assert_eq!(Graph { levels: 2, width: 1 }.makefile(), expected);
    }
}
