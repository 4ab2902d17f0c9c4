//! How evidence is made of what programs leave: their files, walked without following a link and copied out; texts
//! without their secrets; documents as they are written down. Agents, their turns and tests go the same way.

pub(crate) mod collect;
pub(crate) mod left_files;
pub(crate) mod redaction;

/// A document as people read it.
pub(crate) fn pretty(value: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("BUG: a document is plain data");
    bytes.push(b'\n');
    bytes
}
