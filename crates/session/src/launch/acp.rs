//! What an agent that speaks ACP is told of its model. Nothing is known of such a program but what its API's own clients
//! read from their environment, and what the configuration says in the places that are filled in here.

use contract::ModelApi;

/// Where an agent finds its model: over norma, which holds the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPlace<'a> {
    /// What is spoken there.
    pub api: ModelApi,
    /// Where it is, as [`Brief::base_url`](crate::Brief::base_url).
    pub url: &'a str,
    /// What stands for the key.
    pub key: &'a str,
    /// The model, if one is configured.
    pub model: Option<&'a str>,
}

impl ModelPlace<'_> {
    /// The variables that programs of this API read.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let [url, key, model] = match self.api {
            ModelApi::Anthropic => ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_MODEL"],
            ModelApi::Openai => ["OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"],
            ModelApi::Gemini => ["GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", "GEMINI_MODEL"],
        };
        let model = self.model.map(|name| (model, name.to_owned()));
        [(url, self.url.to_owned()), (key, self.key.to_owned())].into_iter().chain(model).collect()
    }

    /// A text of the configuration with the model's place in it: `{model_url}`, `{model_key}` and `{model}`.
    pub fn fill(&self, text: &str) -> String {
        let text = text.replace("{model_url}", self.url).replace("{model_key}", self.key);
        text.replace("{model}", self.model.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_as_its_api_has_it_and_as_the_configuration_says() {
        let place = ModelPlace { api: ModelApi::Openai, url: "http://127.0.0.1:1", key: "k", model: Some("m") };
        let told = |name, value: &str| (name, value.to_owned());
        let expected =
            [told("OPENAI_BASE_URL", "http://127.0.0.1:1"), told("OPENAI_API_KEY", "k"), told("OPENAI_MODEL", "m")];
        assert_eq!(place.variables(), expected);
        assert_eq!(
            place.fill("{\"u\":\"{model_url}/v1\"} {model_key} {model}"),
            "{\"u\":\"http://127.0.0.1:1/v1\"} k m"
        );
        let bare = ModelPlace { api: ModelApi::Anthropic, model: None, ..place };
        let names: Vec<&str> = bare.variables().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"]);
        assert_eq!(bare.fill("-m={model}"), "-m=");
    }
}
