//! How a connection gets its identities, and what it may not do without one.

use zoolet_core::{
    EnsembleName, Identities, Requester, authenticate, authenticate_certificate, authenticate_sasl,
    check_ensemble_name,
};
use zoolet_protocol::{Auth, ErrorCode, RequestHeader, Response, Zxid};

use super::{Connection, Hangup};
use crate::config::EnforceAuth;
use crate::sasl::{Answer, Refused};

impl Connection {
    /// Adds the identity that the client has by the certificate of its TLS handshake. `subject` is
    /// the name of the certificate's subject by RFC 2253. The caller closes the connection after an
    /// error, as ZooKeeper does.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "only TLS has certificates"))]
    pub(crate) fn authenticate_certificate(&self, subject: &str) -> Result<(), Hangup> {
        let settings = &self.engine.config.settings;
        match authenticate_certificate(subject, &self.peer.identities(), settings) {
            Ok(identities) => {
                self.peer.identify(identities);
                Ok(())
            }
            Err(refused) => Err(self.refuse_identity(refused.to_string())),
        }
    }

    /// Carries out a request `auth`.
    pub(super) fn authenticate(&self, requester: &Requester, auth: &Auth) -> Result<(), Hangup> {
        let scheme = auth.scheme.as_deref().unwrap_or_default();
        let credentials = auth.auth.as_deref().unwrap_or_default();
        let settings = &self.engine.config.settings;
        if scheme == "ensemble" && settings.ensemble_scheme {
            return self.compare_ensemble(requester, credentials);
        }
        match authenticate(scheme, credentials, &requester.identities, settings) {
            Ok(identities) => {
                self.peer.identify(identities);
                self.reply_at(Zxid::ZERO, requester.xid, ErrorCode::OK, Response::Empty);
                Ok(())
            }
            Err(refused) => {
                let hangup = self.refuse_identity(refused.to_string());
                let code = ErrorCode::AUTH_FAILED;
                self.reply_at(Zxid::ZERO, requester.xid, code, Response::Empty);
                Err(hangup)
            }
        }
    }

    /// Compares the name of the ensemble that the client means. ZooKeeper answers another name by
    /// closing the connection, so that the client connects to another server: a reply with an error
    /// would end the client.
    fn compare_ensemble(&self, requester: &Requester, name: &[u8]) -> Result<(), Hangup> {
        let stats = &self.engine.stats;
        match check_ensemble_name(name, &self.engine.config.settings) {
            EnsembleName::Own => stats.ensemble_auth_succeeded.add(1),
            EnsembleName::Unchecked => stats.ensemble_auth_skipped.add(1),
            EnsembleName::Other => {
                stats.ensemble_auth_failed.add(1);
                return Err(Hangup::OtherEnsemble);
            }
        }
        self.reply_at(Zxid::ZERO, requester.xid, ErrorCode::OK, Response::Empty);
        Ok(())
    }

    /// Carries out a request `sasl` (`ZooKeeperServer.processSasl`).
    pub(super) fn authenticate_by_sasl(
        &self,
        requester: &Requester,
        token: Option<&[u8]>,
    ) -> Result<(), Hangup> {
        // ZooKeeper reads the length of the token first.
        let Some(token) = token else {
            return Err(self.refuse_identity("a SASL request without a token".to_owned()));
        };
        let Some(sasl) = &self.engine.config.sasl else {
            // Without SASL ZooKeeper replies with a null token, which no mechanism takes for success.
            self.reply_at(Zxid::ZERO, requester.xid, ErrorCode::OK, Response::Token(None));
            return Ok(());
        };
        let exchanged = self.sasl.lock().get_or_insert_with(|| sasl.begin()).respond(token);
        let accepted = match exchanged {
            Ok(Answer { token, user: None }) => Ok(token),
            Ok(Answer { token, user: Some(user) }) => {
                self.identify_sasl_user(requester, &user).map(|()| token)
            }
            Err(Refused(reason)) => Err(reason),
        };
        match accepted {
            Ok(token) => {
                let token = Response::Token(Some(token.into()));
                self.reply_at(Zxid::ZERO, requester.xid, ErrorCode::OK, token);
                Ok(())
            }
            Err(reason) => self.refuse_sasl(requester, reason, sasl.allow_failed_clients),
        }
    }

    /// Answers a failed exchange. Where clients that failed are allowed, the connection goes on
    /// without the identity.
    fn refuse_sasl(
        &self,
        requester: &Requester,
        reason: String,
        allow_failed_clients: bool,
    ) -> Result<(), Hangup> {
        let hangup = self.refuse_identity(reason);
        let (code, result) = if self.engine.config.enforce_auth.accepts("sasl") {
            (ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH, Err(hangup))
        } else if allow_failed_clients {
            (ErrorCode::OK, Ok(()))
        } else {
            (ErrorCode::AUTH_FAILED, Err(hangup))
        };
        self.reply_at(Zxid::ZERO, requester.xid, code, Response::Token(None));
        result
    }

    fn identify_sasl_user(&self, requester: &Requester, user: &str) -> Result<(), String> {
        let settings = &self.engine.config.settings;
        match authenticate_sasl(user, &requester.identities, settings) {
            Ok(identities) => {
                tracing::debug!(
                    address = self.peer.address_text(),
                    session = %requester.session,
                    user,
                    "authenticated by SASL"
                );
                self.peer.identify(identities);
                Ok(())
            }
            Err(refused) => Err(refused.to_string()),
        }
    }

    /// Counts and logs a failed authentication.
    fn refuse_identity(&self, reason: String) -> Hangup {
        self.engine.stats.auth_failed.add(1);
        let now_ms = self.engine.clock.now_ms();
        self.engine.warnings.authentication_failed(&self.peer, now_ms, &reason);
        Hangup::AuthFailed(reason)
    }

    /// With enforced authentication the server refuses every request before it, pings included.
    pub(super) fn check_enforced_auth(
        &self,
        header: RequestHeader,
        identities: &Identities,
    ) -> Result<(), Hangup> {
        let EnforceAuth::Schemes(schemes) = &self.engine.config.enforce_auth else {
            return Ok(());
        };
        if schemes.iter().any(|scheme| identities.have_scheme(scheme)) {
            return Ok(());
        }
        let code = ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
        self.reply_at(Zxid::ZERO, header.xid, code, Response::Empty);
        Err(Hangup::AuthRequired)
    }
}
