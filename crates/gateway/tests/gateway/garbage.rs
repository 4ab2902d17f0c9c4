//! Whatever a program sends, nothing panics, and only well-formed requests for what the API needs go out.

use std::sync::OnceLock;
use std::time::Duration;

use gateway::Api;
use proptest::prelude::*;

use crate::desk::Desk;
use crate::provider::json;

fn desk() -> &'static Desk {
    static DESK: OnceLock<Desk> = OnceLock::new();
    DESK.get_or_init(|| Desk::new(Api::Anthropic, json("{}")))
}

/// Bytes, and pieces of requests in any order.
fn anything() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "POST /v1/messages HTTP/1.1\r\n",
        "GET /v1/models HTTP/1.1\r\n",
        "GET http://elsewhere/ HTTP/1.1\r\n",
        "POST /v1/../messages HTTP/1.1\r\n",
        "Host: a\r\n",
        "Content-Length: 2\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close\r\n",
        "Expect: 100-continue\r\n",
        "2\r\n{}\r\n",
        "0\r\n\r\n",
        "\r\n",
        "\n",
        " ",
        "\0",
        "{}",
        "\u{e9}",
    ]);
    let piece = prop_oneof![
        4 => pieces.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

#[test]
fn a_request_among_the_pieces_goes_out() {
    let mut client = desk().client();
    client.send("POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}");
    assert_eq!(client.answer().status, 200);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(200), ..ProptestConfig::default() })]

    #[test]
    fn only_requests_go_out(bytes in anything()) {
        use std::io::{Read, Write};
        let mut client = desk().client();
        let _ = client.socket.write_all(&bytes);
        // It stays on the line for a moment, since nothing is forwarded for somebody who has gone.
        client.socket.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
        let _ = client.socket.read_to_end(&mut Vec::new());
        // A connection may have been made for somebody who was gone when it was there.
        for request in desk().provider.seen().iter().filter(|request| !request.is_empty()) {
            let first = request.lines().next().unwrap();
            prop_assert!(
                matches!(first, "POST /base/v1/messages HTTP/1.1" | "GET /base/v1/models HTTP/1.1"),
                "{first:?}"
            );
            prop_assert_eq!(request.matches("\r\nhost: ").count(), 1);
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            prop_assert!(!head.contains("\0"));
            prop_assert_eq!(body, if first.starts_with("POST") { "{}" } else { "" });
        }
    }
}
