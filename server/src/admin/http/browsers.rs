//! Refuses what a page in a browser asks for.
//!
//! A browser sends requests to any address that a page names, from the machine of whoever reads the
//! page. Two checks keep such pages out:
//!
//! - A page whose own host name resolves to a loopback address (DNS rebinding) asks for that name.
//!   On a loopback address only the names of this machine are answered.
//! - A page of another origin is announced by the browser in `Origin` or `Sec-Fetch-Site`. Programs
//!   send neither.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::refusal;

/// The names by which the pages may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnNames {
    /// Those of this machine: the address is a loopback address.
    Loopback,
    /// Any: only the administrator knows by which names others reach this machine.
    Any,
}

impl OwnNames {
    /// The names for pages on an address.
    pub(super) fn of(address: Option<SocketAddr>) -> Self {
        match address {
            Some(address) if address.ip().is_loopback() => Self::Loopback,
            _ => Self::Any,
        }
    }
}

/// The layer that refuses such requests.
pub(super) async fn refuse(
    State(names): State<OwnNames>,
    request: Request,
    next: Next,
) -> Response {
    match reason(names, request.method(), request.headers()) {
        None => next.run(request).await,
        Some(reason) => {
            tracing::debug!("a request from a browser is refused: {reason}");
            refusal(StatusCode::FORBIDDEN, &reason)
        }
    }
}

/// Why a request is refused, if it is.
fn reason(names: OwnNames, method: &Method, headers: &HeaderMap) -> Option<String> {
    let values = |name| {
        let values = headers.get_all(name).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    if names == OwnNames::Loopback
        // A program need not say for whom it asks.
        && let Some(host) = values("host").find(|host| !is_of_this_machine(host))
    {
        let host: String = host.chars().take(SHOWN_CHARS_MAX).collect();
        return Some(format!(
            "{host:?} is no name of this machine; ask for 127.0.0.1, [::1] or localhost"
        ));
    }
    let hosts: Vec<_> = values("host").collect();
    if let Some(origin) = values("origin").find(|origin| !is_of(origin, &hosts)) {
        let origin: String = origin.chars().take(SHOWN_CHARS_MAX).collect();
        return Some(format!("a page of another origin may not ask: {origin:?}"));
    }
    // A link to a page here may be followed from anywhere.
    let is_link = *method == Method::GET && values("sec-fetch-mode").eq(["navigate"]);
    if !is_link && is_of_another_site(headers) {
        return Some("a page of another site may not ask".to_owned());
    }
    None
}

/// Whether a browser says that a page of another site asks, be it by a link. [`Site`](super::Site)
/// answers `GET` requests by links, which is right for pages, and not for requests that cost something.
#[must_use]
pub fn is_of_another_site(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    sites.any(|site| site != "same-origin" && site != "none")
}

/// How many characters of a name the answer repeats.
const SHOWN_CHARS_MAX: usize = 100;

/// Whether an `Origin` is that of the pages here, by the only name that the request has for them.
fn is_of(origin: &str, hosts: &[String]) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let [host] = hosts else { return false };
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Whether a `Host` header names this machine, with or without a port. Host names are compared
/// without case, and an IPv6 address has colons between its brackets.
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    // An address is what it is: no name of others resolves to it.
    let is_loopback = address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    name.is_empty() || is_loopback || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn reason(names: OwnNames, method: &Method, headers: &[(&str, &str)]) -> Option<String> {
        let header = |(name, value): &(&str, &str)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        super::reason(names, method, &headers.iter().map(header).collect())
    }

    #[test]
    fn names_of_this_machine_are_taken_in_any_case_with_and_without_a_port() {
        for host in
            ["", "localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]", "[::1]:8080", "127.0.0.2:1"]
        {
            assert!(is_of_this_machine(host), "{host}");
        }
        for host in ["example.org", "localhost.example.org", "[::2]", "[::1].org", "127.0.0.1.x:80"]
        {
            assert!(!is_of_this_machine(host), "{host}");
        }
    }

    #[test]
    fn other_names_are_refused_on_loopback_addresses_only() {
        let of = |address: &str| OwnNames::of(address.parse().ok());
        assert_eq!(of("127.0.0.1:1"), OwnNames::Loopback);
        assert_eq!(of("[::1]:1"), OwnNames::Loopback);
        assert_eq!(of("0.0.0.0:1"), OwnNames::Any);
        assert_eq!(of("nothing"), OwnNames::Any);
        for hosts in [&["example.org"][..], &["local\u{f6}st"], &["localhost", "example.org"]] {
            let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            let refused = reason(OwnNames::Loopback, &Method::GET, &headers).unwrap();
            assert!(refused.contains("is no name of this machine"), "{refused}");
            assert_eq!(reason(OwnNames::Any, &Method::GET, &headers), None);
        }
        assert_eq!(reason(OwnNames::Loopback, &Method::GET, &[]), None);
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let host = ("host", "zk:8080");
        for origin in ["http://example.org", "null", "https://zk:8080.org", "http://zk", "zk:8080"]
        {
            for method in [Method::GET, Method::POST] {
                let headers = [host, ("origin", origin)];
                assert!(reason(OwnNames::Any, &method, &headers).is_some(), "{origin}");
            }
        }
        let two_hosts = [host, ("host", "evil"), ("origin", "http://evil")];
        assert!(reason(OwnNames::Any, &Method::POST, &two_hosts).is_some());
        assert_eq!(
            reason(OwnNames::Any, &Method::POST, &[host, ("origin", "http://ZK:8080")]),
            None
        );
    }

    #[test]
    fn pages_of_other_sites_may_link_here_and_do_no_more() {
        let ask = |method: &Method, site, mode| {
            reason(OwnNames::Any, method, &[("sec-fetch-site", site), ("sec-fetch-mode", mode)])
        };
        assert!(ask(&Method::GET, "cross-site", "no-cors").is_some(), "an image");
        assert!(ask(&Method::POST, "cross-site", "navigate").is_some(), "a form");
        assert!(ask(&Method::GET, "same-site", "cors").is_some());
        assert_eq!(ask(&Method::GET, "cross-site", "navigate"), None, "a link");
        assert_eq!(ask(&Method::POST, "same-origin", "cors"), None);
        assert_eq!(ask(&Method::GET, "none", "navigate"), None, "typed");
    }
}
