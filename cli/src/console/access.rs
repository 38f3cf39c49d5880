//! Who may use the console.
//!
//! On a loopback address everybody who can connect may, unless there is a token. On any other address a
//! token is required, and also where a proxy lets other machines in by a name. The names by which the
//! console may be asked for are known, so that a page whose own name resolves to its address (DNS
//! rebinding) gets nothing. Pages of other origins may link to the page here and do no more.
//!
//! A right token is never held up by wrong ones: only these wait, for each other.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use parking_lot::Mutex;
use tokio::time::Instant;
use zoolet_client::recipe::now;
use zoolet_server::admin::http::{Guest, is_of_another_site};

use super::http::Refusal;
use super::limits::{
    TOKEN_BYTES_MAX, TOKEN_CHARS_MIN, WRONG_TOKEN_TAKES, WRONG_TOKEN_WAITS_MAX, WRONG_TOKENS_TOLD,
};

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
    /// A text for a person if the file cannot be read, or if its first line is too short or too long, or has
    /// characters that no header of a request may have.
    pub(crate) fn from_file(path: &str) -> Result<Self, String> {
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            // With a line end of two bytes.
            File::open(path)?.take(TOKEN_BYTES_MAX as u64 + 2).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|error| error.to_string())?;
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let refused = |limit: String| {
            Err(format!("its first line {limit}; make one with `head -c 24 /dev/urandom | base64`"))
        };
        if line.len() > TOKEN_BYTES_MAX {
            return refused(format!("must have {TOKEN_BYTES_MAX} bytes or fewer"));
        }
        // As in a header of a request.
        let is_sendable = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
        let text = std::str::from_utf8(line).ok().filter(|_| line.iter().all(is_sendable));
        let Some(token) = text.map(str::trim) else {
            return refused(
                "must have only the visible characters of ASCII, and spaces".to_owned(),
            );
        };
        if token.len() < TOKEN_CHARS_MIN {
            return refused(format!("must have {TOKEN_CHARS_MIN} characters or more"));
        }
        Ok(Self(token.into()))
    }

    /// Whether a text is it. The time that this takes tells nothing about where they differ.
    pub(super) fn is(&self, text: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), text.as_bytes());
        let differs = own.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b));
        own.len() == other.len() && differs == 0
    }
}

/// Who is let in. Clones are handles of the same one.
#[derive(Debug, Clone)]
pub(super) struct Access {
    token: Option<Token>,
    /// What a browser is given when it has shown the token, in place of it.
    pass: Token,
    /// Names by which the console may be asked for, beside IP addresses and those of this machine.
    names: Arc<[String]>,
    /// Whether any IP address may be asked for, or those of this machine only.
    is_for_others: bool,
    wrong: Arc<Mutex<Wrong>>,
}

/// The wrong tokens that were shown.
#[derive(Debug, Default)]
struct Wrong {
    /// When the last one has had its time.
    until: Option<Instant>,
    told_at: Option<Instant>,
    untold: u64,
}

/// How the options are called, for errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flags {
    pub(super) token: &'static str,
    pub(super) allow_host: &'static str,
}

/// Why nobody can be let in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error(
        "{0} can be reached from other machines, so that the console needs a token there; name a file \
         whose first line is one, with {1}, or listen on 127.0.0.1"
    )]
    NoToken(SocketAddr, &'static str),
    #[error(
        "a proxy on this machine that asks for the console by a name of {allow_host} lets other machines \
         in, so that the console needs a token; name a file whose first line is one, with {token}, or \
         leave out {allow_host}"
    )]
    NameWithoutToken { allow_host: &'static str, token: &'static str },
    #[error("the system has no random numbers: {0}")]
    Random(getrandom::Error),
}

/// What a request shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// The token or the cookie that was given for it, or none is needed.
    Right,
    Wrong,
    Nothing,
}

impl Access {
    /// For a console at this address.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub(super) fn new(
        address: SocketAddr,
        token: Option<Token>,
        names: &[String],
        flags: Flags,
    ) -> Result<Self, AccessError> {
        if token.is_none() {
            let Flags { token, allow_host } = flags;
            if !address.ip().is_loopback() {
                return Err(AccessError::NoToken(address, token));
            }
            if !names.is_empty() {
                return Err(AccessError::NameWithoutToken { allow_host, token });
            }
        }
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).map_err(AccessError::Random)?;
        let pass = random.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let is_for_others = token.is_some();
        Ok(Self { token, pass: Token(pass.into()), names, is_for_others, wrong: Arc::default() })
    }

    /// The cookie for a browser that shows the token. `None` if it is another one.
    pub(super) fn cookie(&self, headers: &HeaderMap, token: &str) -> Option<String> {
        let is_it = self.token.as_ref().is_none_or(|own| own.is(token));
        let (name, pass) = (cookie_name(headers), &self.pass.0);
        is_it.then(|| format!("{name}={pass}; HttpOnly; SameSite=Strict; Path=/"))
    }

    /// Takes the time that a wrong token takes, one after the other. Whoever does not wait for it leaves
    /// it to the next one. Nobody waits longer than [`WRONG_TOKEN_WAITS_MAX`].
    pub(super) async fn wrong_token(&self) {
        let until = self.wrong.lock().another();
        tokio::time::sleep_until(until).await;
    }

    /// What a request shows to be let in.
    fn shown(&self, headers: &HeaderMap) -> Shown {
        let Some(token) = &self.token else { return Shown::Right };
        let name = cookie_name(headers);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = cookies.flat_map(|cookies| cookies.split(';'));
        let is_pass = |cookie: &str| {
            let pass = cookie.trim().strip_prefix(name.as_str());
            pass.and_then(|rest| rest.strip_prefix('=')).is_some_and(|text| self.pass.is(text))
        };
        if cookies.any(is_pass) {
            return Shown::Right;
        }
        let mut authorizations = headers.get_all(AUTHORIZATION).iter();
        // A cookie of a console that has ended was no guess.
        let Some(first) = authorizations.next() else { return Shown::Nothing };
        // Several would be as many guesses in one request.
        let is_only = authorizations.next().is_none();
        let text = first.to_str().ok().and_then(|value| value.strip_prefix("Bearer "));
        match text.is_some_and(|text| token.is(text)) && is_only {
            true => Shown::Right,
            false => Shown::Wrong,
        }
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
        let is_own = |address: IpAddr| self.is_for_others || address.is_loopback();
        let is_address = address.unwrap_or(&name).parse::<IpAddr>().is_ok_and(is_own);
        is_address || name == "localhost" || self.names.contains(&name)
    }
}

impl Wrong {
    /// The end of the time of one more.
    fn another(&mut self) -> Instant {
        let now = now();
        let free = self.until.map_or(now, |until| until.max(now));
        let until = (free + WRONG_TOKEN_TAKES).min(now + WRONG_TOKEN_WAITS_MAX);
        self.until = Some(until);
        self.untold += 1;
        if self.told_at.is_none_or(|told_at| now - told_at >= WRONG_TOKENS_TOLD) {
            tracing::warn!(times = self.untold, "somebody has shown a wrong token to the console");
            (self.told_at, self.untold) = (Some(now), 0);
        }
        until
    }
}

/// The name of the cookie. It has the port by which the browser asks, since cookies are those of a host
/// with all its ports.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match host.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => format!("zoolet-console-{port}"),
        _ => "zoolet-console".to_owned(),
    }
}

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

/// The layer that refuses requests of pages of other sites, but for the page itself. These would have the
/// console look at the servers, though they do not see the answers.
pub(super) async fn by_site(request: Request, next: Next) -> Response {
    if request.uri().path().starts_with("/v1/") && is_of_another_site(request.headers()) {
        return Refusal::Foreign.into_response();
    }
    next.run(request).await
}

/// The layer that refuses requests without the token.
pub(super) async fn by_token(
    State(access): State<Access>,
    request: Request,
    next: Next,
) -> Response {
    match access.shown(request.headers()) {
        Shown::Right => {
            let_in(request.extensions().get());
            return next.run(request).await;
        }
        Shown::Wrong => access.wrong_token().await,
        Shown::Nothing => {}
    }
    Refusal::NoToken.into_response()
}

/// The connection of somebody who was let in is not one of the strangers.
pub(super) fn let_in(guest: Option<&Guest>) {
    if let Some(guest) = guest {
        guest.let_in();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FLAGS: Flags = Flags { token: "--token-file", allow_host: "--allow-host" };
    const TOKEN: &str = "a long secret token";

    fn token() -> Option<Token> {
        Some(Token(TOKEN.into()))
    }

    fn access() -> Access {
        let here = ([127, 0, 0, 1], 0).into();
        Access::new(here, token(), &["ZK.example".to_owned()], FLAGS).unwrap()
    }

    fn headers(headers: &[(&'static str, &str)]) -> HeaderMap {
        let header =
            |(name, value): &(&'static str, &str)| (name.parse().unwrap(), value.parse().unwrap());
        headers.iter().map(header).collect()
    }

    #[test]
    fn a_token_that_is_cut_or_cannot_be_sent_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &[u8]| {
            std::fs::write(file.path(), text).unwrap();
            Token::from_file(file.path().to_str().unwrap())
        };
        let whole = "a".repeat(4_096);
        assert!(read(whole.as_bytes()).unwrap().is(&whole));
        assert!(read(format!("{whole}\r\n").as_bytes()).unwrap().is(&whole));
        let rest = [b" a long secret token \n", &[0xff; 8_192][..]].concat();
        assert!(read(&rest).unwrap().is(TOKEN), "the rest of the file does not matter");
        for text in [format!("{whole}a"), format!("{whole}a\n"), "é".repeat(4_096)] {
            let refused = read(text.as_bytes()).unwrap_err();
            assert!(refused.contains("4096 bytes") && refused.contains("base64"), "{refused}");
        }
        let others = [
            "ein langer Schlüssel".as_bytes(),
            b"a long \xff secret token",
            b"a long secret \x07 token",
        ];
        for text in others {
            let refused = read(text).unwrap_err();
            assert!(refused.contains("ASCII") && refused.contains("base64"), "{refused}");
        }
        let refused = read(b"short\n").unwrap_err();
        assert!(refused.contains("16 characters"), "{refused}");
    }

    #[test]
    fn other_machines_need_a_token() {
        let everywhere = ([0, 0, 0, 0], 0).into();
        let refused = Access::new(everywhere, None, &[], FLAGS).unwrap_err().to_string();
        assert!(refused.contains("--token-file"), "{refused}");
        assert!(Access::new(everywhere, token(), &[], FLAGS).is_ok());
        let here = ([127, 0, 0, 2], 0).into();
        let names = ["ops.example".to_owned()];
        let refused = Access::new(here, None, &names, FLAGS).unwrap_err().to_string();
        assert!(refused.contains("--allow-host") && refused.contains("--token-file"), "{refused}");
        assert!(Access::new(here, token(), &names, FLAGS).is_ok());
    }

    #[test]
    fn the_token_or_its_cookie_lets_in_and_nothing_else() {
        let access = access();
        let shown = |pairs: &[(&'static str, &str)]| access.shown(&headers(pairs));
        assert_eq!(shown(&[]), Shown::Nothing);
        assert_eq!(shown(&[("authorization", "Bearer a long secret token")]), Shown::Right);
        for wrong in ["", "Bearer ", "Bearer a long secret tokem", TOKEN, "Basic x"] {
            assert_eq!(shown(&[("authorization", wrong)]), Shown::Wrong, "{wrong}");
        }
        let host = ("host", "localhost:8181");
        assert_eq!(access.cookie(&headers(&[host]), "a long secret tokem"), None);
        let cookie = access.cookie(&headers(&[host]), TOKEN).unwrap();
        let pair = cookie.split(';').next().unwrap();
        let pairs = format!("other=1; {pair}");
        assert_eq!(shown(&[host, ("cookie", &pairs)]), Shown::Right);
        let wrong = ("authorization", "Bearer wrong");
        assert_eq!(shown(&[host, ("cookie", &pairs), wrong]), Shown::Right);
        let forged = format!("zoolet-console-8181={TOKEN}");
        assert_eq!(shown(&[host, ("cookie", &forged)]), Shown::Nothing);
    }

    #[test]
    fn a_request_has_one_guess_of_the_token() {
        let right = ("authorization", "Bearer a long secret token");
        let access = access();
        assert_eq!(access.shown(&headers(&[right])), Shown::Right);
        let mut several = headers(&[("authorization", "Bearer a guess")]);
        several.append("authorization", right.1.parse().unwrap());
        assert_eq!(access.shown(&several), Shown::Wrong);
    }

    #[test]
    fn consoles_on_one_host_have_cookies_of_their_own() {
        let name = |host| cookie_name(&headers(&[("host", host)]));
        assert_ne!(name("localhost:8181"), name("localhost:8182"));
        assert_eq!(name("[::1]:8181"), "zoolet-console-8181");
        assert_eq!(name("ops.example"), "zoolet-console");
        assert_eq!(name("[::1]"), "zoolet-console");
        assert_eq!(name("a:8181; x=y"), "zoolet-console");
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_take_their_time_also_for_those_who_hang_up() {
        let (access, began) = (access(), now());
        for _ in 0..3 {
            let hurried = tokio::time::timeout(WRONG_TOKEN_TAKES / 10, access.wrong_token());
            assert!(hurried.await.is_err(), "it hangs up");
        }
        access.wrong_token().await;
        assert!(now() - began >= 4 * WRONG_TOKEN_TAKES, "{:?}", now() - began);
        for _ in 0..1_000 {
            drop(tokio::time::timeout(Duration::ZERO, access.wrong_token()).await);
        }
        let began = now();
        access.wrong_token().await;
        assert!(now() - began <= WRONG_TOKEN_WAITS_MAX + Duration::from_millis(1));
        assert_eq!(access.wrong.lock().untold, 1_001 + 3, "a flood is one line of the log");
    }

    #[test]
    fn only_addresses_and_known_names_are_asked_for() {
        let access = access();
        for own in
            ["localhost:1", "LOCALHOST", "127.0.0.1:80", "10.1.2.3", "[::1]:8", "zk.example:8181"]
        {
            assert!(access.is_own_name(own), "{own}");
        }
        let other = ["", "example.org", "10.1.2.3.example.org", "zk.example.org", "[::1].org"];
        for other in other {
            assert!(!access.is_own_name(other), "{other}");
        }
        let here = Access::new(([127, 0, 0, 2], 0).into(), None, &[], FLAGS).unwrap();
        for own in ["127.0.0.2:8181", "127.0.0.1", "localhost", "[::1]"] {
            assert!(here.is_own_name(own), "{own}");
        }
        assert!(!here.is_own_name("10.1.2.3"), "a proxy for other machines needs a token");
    }
}
