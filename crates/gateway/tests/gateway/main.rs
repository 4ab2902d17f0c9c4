//! The gateway between a real client connection and a local server that plays a provider.

mod budget;
mod desk;
mod provider;
mod recording;
mod streaming;
mod usage;
