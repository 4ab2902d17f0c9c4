//! How much of what an agent says is kept, each bound with its reason. Together they bound what a session holds,
//! however much an agent says and however long it continues.

/// A longer line is not read at all: no protocol needs one, and reading it costs a multiple of its size.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// A longer answer is no answer: cut off it would be another one, and it would not be JSON any more.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Of a message that is told, for the log; the answer itself is kept whole.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Of what a tool said, beginning and end together: enough to see an error message, not a build's log.
pub const OUTPUT_BYTES_MAX: usize = 16 << 10;

/// Of the arguments of a tool, for the log. A permission carries them whole, since they are what is judged.
pub const INPUT_BYTES_MAX: usize = 16 << 10;

/// Of something that has no form of its own.
pub const OTHER_BYTES_MAX: usize = 4 << 10;

/// Things without a form, and errors, that are told in one turn. A talkative new version stays far below; whoever
/// floods is heard no more until the next turn.
pub const STRANGE_MAX: u32 = 256;

/// Of names: tools, calls, sessions, models. Longer ones are cut, the same way each time.
pub const NAME_BYTES_MAX: usize = 256;

/// Of a message of an error.
pub const ERROR_BYTES_MAX: usize = 4 << 10;

/// Tool calls of which the beginning is remembered until they end; agents run a handful side by side.
pub const CALLS_MAX: usize = 64;

/// Requests that wait for an answer at once.
pub const OPEN_MAX: usize = 32;

/// What those requests may hold together: room for one very large file, or many ordinary ones.
pub const OPEN_BYTES_MAX: usize = 16 << 20;

/// Steps of a plan that are told.
pub const PLAN_ENTRIES_MAX: usize = 100;

/// Files named in one permission; more are still in its input.
pub const PATHS_MAX: usize = 64;
