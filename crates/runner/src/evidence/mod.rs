//! How evidence is made of what programs leave: their files, walked without following a link and copied out; texts
//! without their secrets. Agents, their turns and tests go the same way.

pub(crate) mod collect;
pub(crate) mod left_files;
pub(crate) mod redaction;
