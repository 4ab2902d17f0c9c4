//! What a model is told, block by block: `prompt.blocks.json`. The text that is sent follows from it
//! ([`PromptBlocks::full`]), so the whole effective prompt can be made again from what is kept, also of a turn that was
//! sent only what changed.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// The blocks of a prompt, in the order they are read in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptBlocks {
    /// Always 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// What was sent of them.
    pub sent: Sent,
    /// Each block; one that has nothing to say is left out.
    pub blocks: Vec<PromptBlock>,
}

/// How much of a prompt is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sent {
    /// All of it: the agent knows nothing yet, or nothing any more.
    Full,
    /// What is not the same as in the turn before, in a conversation that continues.
    Delta,
}

/// One block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptBlock {
    /// What it is for.
    pub name: BlockName,
    /// Where it comes from: `built-in`, `templates/plan.md`, or what it was made from.
    pub source: String,
    /// The text.
    pub text: String,
}

/// What a block is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockName {
    /// How to work under contract at all.
    System,
    /// What the role is.
    Role,
    /// What the repository itself tells agents: content of its base, which widens nothing.
    Repository,
    /// In which form the answer has to be.
    Mode,
    /// What is to be done this time.
    Task,
    /// What the user wants to have said last.
    Override,
}

impl PromptBlocks {
    /// The whole effective prompt.
    pub fn full(&self) -> String {
        join(self.blocks.iter())
    }

    /// One of the blocks, if it has something to say.
    pub fn block(&self, name: BlockName) -> Option<&PromptBlock> {
        self.blocks.iter().find(|block| block.name == name)
    }

    /// What of it a conversation does not know that heard `earlier`.
    pub fn delta(&self, earlier: &PromptBlocks) -> String {
        join(self.blocks.iter().filter(|block| !earlier.blocks.iter().any(|other| other == *block)))
    }
}

fn join<'b>(blocks: impl Iterator<Item = &'b PromptBlock>) -> String {
    let texts: Vec<&str> = blocks.map(|block| block.text.trim_end()).collect();
    texts.join("\n\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(texts: &[(BlockName, &str)]) -> PromptBlocks {
        let block = |(name, text): &(BlockName, &str)| PromptBlock {
            name: *name,
            source: "built-in".to_owned(),
            text: (*text).to_owned(),
        };
        PromptBlocks { version: 1, sent: Sent::Full, blocks: texts.iter().map(block).collect() }
    }

    #[test]
    fn a_delta_says_what_is_new() {
        let first = blocks(&[(BlockName::System, "be good\n"), (BlockName::Task, "one")]);
        let second = blocks(&[(BlockName::System, "be good\n"), (BlockName::Task, "two")]);
        assert_eq!(first.full(), "be good\n\none\n");
        assert_eq!(second.delta(&first), "two\n");
    }
}
