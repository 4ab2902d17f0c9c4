//! Which headers are passed on, and which end at the gateway.

/// Names in lower case and values, in the order in which they came.
pub(crate) type Headers = Vec<(String, String)>;

/// Concern one connection, not the message. RFC 9110 section 7.6.1 and its predecessors.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What a program inside may not decide: who is asked, how long the body is, how the answer is packed, who pays,
/// and that the provider should take the request for another one.
const DECIDED_HERE: [&str; 15] = [
    "host",
    "content-length",
    "expect",
    "accept-encoding",
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "x-goog-iam-authorization-token",
    "x-goog-user-project",
    "cookie",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "forwarded",
];

/// Not for the program inside: cookies, and where else or how the provider wants to be reached.
const KEPT_OUTSIDE: [&str; 6] =
    ["content-length", "set-cookie", "set-cookie2", "alt-svc", "strict-transport-security", "www-authenticate"];

/// The value of a header; the first if there are several.
pub(crate) fn value<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

/// The headers of a request that are forwarded and recorded.
pub(crate) fn for_provider(headers: &Headers) -> Headers {
    without(headers, &DECIDED_HERE)
}

/// The headers of an answer that are passed on and recorded.
pub(crate) fn for_client(headers: &Headers) -> Headers {
    without(headers, &KEPT_OUTSIDE)
}

fn without(headers: &Headers, names: &[&str]) -> Headers {
    let options = headers.iter().filter(|(name, _)| name == "connection").flat_map(|(_, value)| value.split(','));
    let named: Vec<String> = options.map(|option| option.trim().to_ascii_lowercase()).collect();
    let goes_on = |name: &str| {
        !HOP_BY_HOP.contains(&name) && !names.contains(&name) && !named.iter().any(|option| option == name)
    };
    headers.iter().filter(|(name, _)| goes_on(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(names: &[(&str, &str)]) -> Headers {
        names.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_the_message_goes_on() {
        let sent = headers(&[
            ("host", "127.0.0.1"),
            ("connection", "keep-alive, X-Mine"),
            ("x-mine", "1"),
            ("authorization", "Bearer placeholder"),
            ("x-api-key", "placeholder"),
            ("cookie", "a=b"),
            ("accept-encoding", "gzip"),
            ("anthropic-version", "2023-06-01"),
        ]);
        assert_eq!(for_provider(&sent), headers(&[("anthropic-version", "2023-06-01")]));
        let got = headers(&[("set-cookie", "a=b"), ("content-length", "3"), ("request-id", "r")]);
        assert_eq!(for_client(&got), headers(&[("request-id", "r")]));
    }
}
