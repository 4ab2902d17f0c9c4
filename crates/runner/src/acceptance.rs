//! placeholder to be replaced on merge
use contract::work::TestCounts;
use run::gate::Finding;
/// x
#[derive(Debug, Clone)]
pub struct Acceptance {
    /// x
    pub findings: Vec<Finding>,
    /// x
    pub counts: Option<TestCounts>,
    /// x
    pub files: Vec<(String, Vec<u8>)>,
}
impl Acceptance {
    pub(crate) fn first_log(&self) -> Option<String> {
        self.files.first().map(|f| f.0.clone())
    }
    pub(crate) fn report(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}
