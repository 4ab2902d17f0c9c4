//! What the sandbox's tests need: a way to run things confined, and the drill's attacks without a sandbox.

pub mod launch;
pub mod plain;
pub mod refuse;
