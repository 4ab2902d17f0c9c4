//! `#[derive(JsonSchema)]` for builds that only run. The schemas of `contract`'s types lie in `schemas/` and are
//! built in from there, so generating them from the types is work for the tests that compare the two. Outside of
//! those tests this derive takes the place of schemars' own: it accepts the same attributes and generates nothing.
//! The road not taken is `cfg_attr(test, …)` on each of several hundred types and fields.

use proc_macro::TokenStream;

/// Accepts what schemars' derive of this name accepts, and generates nothing.
#[proc_macro_derive(JsonSchema, attributes(schemars))]
pub fn json_schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
