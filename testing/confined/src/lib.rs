//! What the sandbox's tests need: a world to attack, the attacks, and a way to run things confined.

pub mod attack;
pub mod launch;
pub mod world;
