//! Asks one server, by four-letter words, or by its admin server where a word is refused.

use std::sync::Arc;
use std::time::Duration;

use zoolet_client::FourLetterWord;
use zoolet_client::tls::ClientTls;

use super::admin::AdminError;
use super::{AdminServers, Answer, ClientLine, Ephemerals, Gap, Question, WatchedPath};
use super::{admin, words};
use crate::doctor::limits::{ANSWER_BYTES_MAX, WATCHES_ASKED_MAX};

/// How to ask the servers.
#[derive(Debug, Clone)]
pub(crate) struct Ways {
    pub(crate) tls: Option<Arc<ClientTls>>,
    /// Their admin servers, if these may be asked.
    pub(crate) admin: Option<AdminServers>,
    /// How long an answer may take.
    pub(crate) limit: Duration,
}

/// What one server tells.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) server: String,
    /// Whether it has no others beside it.
    pub(super) is_alone: bool,
    pub(super) connections: Option<Vec<ClientLine>>,
    pub(super) ephemerals: Option<Vec<Ephemerals>>,
    pub(super) watches: Option<Vec<WatchedPath>>,
    pub(super) gaps: Vec<Gap>,
    /// Why it does not answer, or not serve.
    pub(super) silent: Option<String>,
}

impl Told {
    fn nothing(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            is_alone: false,
            connections: None,
            ephemerals: None,
            watches: None,
            gaps: Vec::new(),
            silent: None,
        }
    }

    /// That of a server which does not answer.
    pub(super) fn silent(server: &str, cause: String) -> Self {
        let mut told = Self::nothing(server);
        for question in Question::FIRST {
            Gap::add(&mut told.gaps, server, question, cause.clone(), None);
        }
        told.silent = Some(cause);
        told
    }
}

/// What a server answers to a word that it does not accept.
const NOT_WHITELISTED: &str = "is not executed because it is not in the whitelist.";

/// What it answers while it is in no quorum.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving";

/// How to allow what a server refused.
const CURE: &str = "4lw.commands.whitelist=srvr,cons,dump,wchs,wchp in its zoo.cfg, or --admin-port with the port \
                    of its admin server (8080 by default)";

/// Asks a server one question after the other. After one without an answer it is asked no more.
pub(super) async fn ask(server: &str, ways: &Ways) -> Told {
    let mut asking = Asking { ways, is_deaf: false, told: Told::nothing(server) };
    let mode = asking.answer(Question::Mode).await;
    asking.told.is_alone = matches!(mode, Some(Answer::Word(text)) if words::is_standalone(&text));
    asking.told.connections = match asking.answer(Question::Connections).await {
        Some(Answer::Word(text)) => Some(words::connections(&text)),
        Some(Answer::Admin(answer)) => Some(admin::connections(&answer)),
        None => None,
    };
    asking.told.ephemerals = match asking.answer(Question::Ephemerals).await {
        Some(Answer::Word(text)) => Some(words::ephemerals(&text)),
        Some(Answer::Admin(answer)) => Some(admin::ephemerals(&answer)),
        None => None,
    };
    asking.told.watches = match asking.watches().await {
        Some(Answer::Word(text)) => Some(words::watches(&text)),
        Some(Answer::Admin(answer)) => Some(admin::watches(&answer)),
        None => None,
    };
    asking.told
}

/// What a server answers to `srvr`, in a few words, or else why it serves nobody.
pub(super) async fn state(server: &str, ways: &Ways) -> Result<String, String> {
    let mut asking = Asking { ways, is_deaf: false, told: Told::nothing(server) };
    let mode = match asking.answer(Question::Mode).await {
        Some(Answer::Word(text)) => words::mode(&text).map(str::to_owned),
        Some(Answer::Admin(_)) | None => None,
    };
    match (asking.told.silent, mode) {
        // An error of the network names the server.
        (Some(cause), _) if cause.starts_with(server) => Err(cause),
        (Some(cause), _) => Err(format!("{server}: {cause}")),
        (None, Some(mode)) => Ok(format!("{server} answers srvr, with Mode: {mode}")),
        (None, None) => Ok(format!("{server} answers")),
    }
}

struct Asking<'a> {
    ways: &'a Ways,
    /// Whether it has left a word without an answer.
    is_deaf: bool,
    told: Told,
}

impl Asking<'_> {
    /// The answer to a question. `None`, and a gap, if there is none.
    async fn answer(&mut self, question: Question) -> Option<Answer> {
        if let Some(cause) = self.told.silent.clone().filter(|_| self.is_deaf) {
            self.miss(question, cause, None);
            return None;
        }
        let (cause, cure) = match self.word(question.word()).await {
            Ok(text) if text.trim_end().ends_with(NOT_WHITELISTED) => {
                match self.admin(question).await {
                    Some(Ok(answer)) => return Some(Answer::Admin(answer)),
                    Some(Err(error)) => (format!("not in its whitelist, and {error}"), None),
                    None => ("not in its whitelist".to_owned(), Some(CURE.to_owned())),
                }
            }
            Ok(text) if text.starts_with(NOT_SERVING) => {
                let cause = "it does not serve: it is in no quorum, or has just started".to_owned();
                self.told.silent = Some(cause.clone());
                (cause, None)
            }
            // A server that closes the connection may have read the word before, or not: then it is an error.
            Ok(text) if text.is_empty() && question == Question::Mode => {
                let cause = "it closed the connection without an answer".to_owned();
                self.told.silent = Some(cause.clone());
                self.is_deaf = true;
                (cause, None)
            }
            Ok(text) if text.is_empty() => ("the answer is empty".to_owned(), None),
            Ok(text) => return Some(Answer::Word(text)),
            Err(error) => {
                self.told.silent = Some(error.clone());
                self.is_deaf = true;
                (error, None)
            }
        };
        self.miss(question, cause, cure);
        None
    }

    fn miss(&mut self, question: Question, cause: String, cure: Option<String>) {
        Gap::add(&mut self.told.gaps, &self.told.server, question, cause, cure);
    }

    async fn word(&self, word: &str) -> Result<String, String> {
        let request = FourLetterWord::new(word).timeout(self.ways.limit);
        let request = request.bytes_max(ANSWER_BYTES_MAX);
        let request = match &self.ways.tls {
            Some(tls) => request.tls(Arc::clone(tls)),
            None => request,
        };
        request.ask(&self.told.server).await.map_err(|error| error.to_string())
    }

    /// The answer of the admin server, if it may be asked.
    async fn admin(&self, question: Question) -> Option<Result<serde_json::Value, AdminError>> {
        let (admin, command) = (self.ways.admin.as_ref()?, question.command()?);
        Some(admin.ask(&self.told.server, command, self.ways.limit).await)
    }

    /// The watches by path, if there are not too many of them.
    async fn watches(&mut self) -> Option<Answer> {
        let total = match self.answer(Question::WatchesTotal).await? {
            Answer::Word(text) => words::watches_total(&text),
            Answer::Admin(answer) => admin::watches_total(&answer),
        };
        if total.is_none_or(|total| total > WATCHES_ASKED_MAX) {
            let cause = match total {
                Some(total) => format!("it has {total} watches, and a list of them costs it much"),
                None => "its answer to wchs has no number of watches".to_owned(),
            };
            self.miss(Question::Watches, cause, None);
            return None;
        }
        self.answer(Question::Watches).await
    }
}
