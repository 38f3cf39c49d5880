//! Who may use the console.
//!
//! On a loopback address everybody who can connect may, unless there is a token. On any other address a
//! token is required. The names by which the console may be asked for are known, so that a page whose
//! own name resolves to its address (DNS rebinding) gets nothing. `Site` refuses pages of other origins.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::http::Refusal;
use super::limits::{TOKEN_BYTES_MAX, TOKEN_CHARS_MIN};

/// A secret that lets a viewer in.
#[derive(Clone)]
pub(crate) struct Token(Arc<str>);

/// It does not show the token.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(***)")
    }
}

impl Token {
    /// The first line of a file.
    ///
    /// # Errors
    ///
    /// A text for a person if the file cannot be read, or if its first line is too short or too long.
    pub(crate) fn from_file(path: &str) -> Result<Self, String> {
        let read = || -> io::Result<String> {
            let mut text = String::new();
            File::open(path)?.take(TOKEN_BYTES_MAX).read_to_string(&mut text)?;
            Ok(text)
        };
        let text = read().map_err(|error| error.to_string())?;
        let line = text.lines().next().unwrap_or_default().trim();
        if line.chars().count() < TOKEN_CHARS_MIN {
            return Err(format!(
                "its first line must have {TOKEN_CHARS_MIN} characters or more; make one with \
                 `head -c 24 /dev/urandom | base64`"
            ));
        }
        Ok(Self(line.into()))
    }

    /// Whether a text is it. The time that this takes tells nothing about where they differ.
    pub(super) fn is(&self, text: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), text.as_bytes());
        let differs = own.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b));
        own.len() == other.len() && differs == 0
    }
}

/// Who is let in.
#[derive(Debug, Clone)]
pub(super) struct Access {
    token: Option<Token>,
    /// What a browser is given when it has shown the token, in place of it.
    pass: Token,
    /// Names by which the console may be asked for, beside IP addresses and those of this machine.
    names: Arc<[String]>,
}

/// Why nobody can be let in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error(
        "{0} can be reached from other machines, so that the console needs a token there; name a file \
         whose first line is one, with {1}, or listen on 127.0.0.1"
    )]
    NoToken(SocketAddr, &'static str),
    #[error("the system has no random numbers: {0}")]
    Random(getrandom::Error),
}

impl Access {
    /// For a console at this address. `option` is how a token is given, for the error.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub(super) fn new(
        address: SocketAddr,
        token: Option<Token>,
        names: &[String],
        option: &'static str,
    ) -> Result<Self, AccessError> {
        if token.is_none() && !address.ip().is_loopback() {
            return Err(AccessError::NoToken(address, option));
        }
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).map_err(AccessError::Random)?;
        let pass = random.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Ok(Self { token, pass: Token(pass.into()), names })
    }

    /// The cookie for a browser that shows the token. `None` if it is another one.
    pub(super) fn cookie(&self, token: &str) -> Option<String> {
        let is_it = self.token.as_ref().is_none_or(|own| own.is(token));
        let pass = &self.pass.0;
        is_it.then(|| format!("{COOKIE_NAME}={pass}; HttpOnly; SameSite=Strict; Path=/"))
    }

    /// Whether a request shows the token, or the cookie that was given for it.
    fn lets_in(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = cookies.flat_map(|cookies| cookies.split(';'));
        let is_pass = |cookie: &str| {
            let pass = cookie.trim().strip_prefix(COOKIE_NAME);
            pass.and_then(|rest| rest.strip_prefix('=')).is_some_and(|text| self.pass.is(text))
        };
        bearer.is_some_and(|text| token.is(text)) || cookies.any(is_pass)
    }

    /// Whether a `Host` header has a name by which the console may be asked for.
    fn is_own_name(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => name,
            _ => host,
        };
        let name = name.to_ascii_lowercase();
        // No name resolves to another address than the one that it is.
        let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let is_address = address.unwrap_or(&name).parse::<IpAddr>().is_ok();
        is_address || name == "localhost" || self.names.contains(&name)
    }
}

/// The name of the cookie.
const COOKIE_NAME: &str = "zoolet-console";

/// The layer that refuses requests by other names.
pub(super) async fn by_name(
    State(access): State<Access>,
    request: Request,
    next: Next,
) -> Response {
    let hosts = request.headers().get_all(HOST).iter();
    let hosts: Vec<_> = hosts.map(|host| host.to_str().unwrap_or_default()).collect();
    match hosts.as_slice() {
        [host] if access.is_own_name(host) => next.run(request).await,
        hosts => Refusal::Host(hosts.concat().chars().take(100).collect()).into_response(),
    }
}

/// The layer that refuses requests without the token.
pub(super) async fn by_token(
    State(access): State<Access>,
    request: Request,
    next: Next,
) -> Response {
    if access.lets_in(request.headers()) {
        next.run(request).await
    } else {
        Refusal::NoToken.into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(token: Option<&str>) -> Access {
        let token = token.map(|token| Token(token.into()));
        Access::new(([127, 0, 0, 1], 0).into(), token, &["ZK.example".to_owned()], "-").unwrap()
    }

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
    }

    #[test]
    fn other_machines_need_a_token() {
        let everywhere = ([0, 0, 0, 0], 0).into();
        let refused = Access::new(everywhere, None, &[], "--token-file").unwrap_err().to_string();
        assert!(refused.contains("--token-file"), "{refused}");
        assert!(Access::new(everywhere, Some(Token("secret".into())), &[], "-").is_ok());
    }

    #[test]
    fn the_token_or_its_cookie_lets_in_and_nothing_else() {
        let access = access(Some("a long secret token"));
        assert!(!access.lets_in(&HeaderMap::new()));
        assert!(access.lets_in(&headers("authorization", "Bearer a long secret token")));
        for wrong in ["", "Bearer ", "Bearer a long secret tokem", "a long secret token"] {
            assert!(!access.lets_in(&headers("authorization", wrong)), "{wrong}");
        }
        assert_eq!(access.cookie("a long secret tokem"), None);
        let cookie = access.cookie("a long secret token").unwrap();
        let pair = cookie.split(';').next().unwrap();
        assert!(access.lets_in(&headers("cookie", &format!("other=1; {pair}"))));
        assert!(!access.lets_in(&headers("cookie", "zoolet-console=a long secret token")));
    }

    #[test]
    fn only_addresses_and_known_names_are_asked_for() {
        let access = access(None);
        for own in
            ["localhost:1", "LOCALHOST", "127.0.0.1:80", "10.1.2.3", "[::1]:8", "zk.example:8181"]
        {
            assert!(access.is_own_name(own), "{own}");
        }
        for other in ["", "example.org", "10.1.2.3.example.org", "zk.example.org", "[::1].org"] {
            assert!(!access.is_own_name(other), "{other}");
        }
    }
}
