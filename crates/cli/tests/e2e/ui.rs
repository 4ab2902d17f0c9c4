//! The web page, in Chromium, against a real server with real runs: used with the mouse and with keys, looked at by axe in
//! both themes, fed with hostile text, and cut off from its server in the middle.

mod evidence;
mod graph;
mod load;
mod looks;
mod start;
pub(crate) mod world;
