//! Options that are valid and have no effect, because of what other options are.

use zoolet_server::tls::ClientAuth;

use super::ServerOptions;
use super::access::AuthProvider;

/// What to tell, and whether it is so.
type Remark = (&'static str, fn(&ServerOptions) -> bool);

/// The remarks that are true.
pub(super) fn remarks(options: &ServerOptions) -> impl Iterator<Item = &'static str> {
    REMARKS.iter().filter(|(_, is_so)| is_so(options)).map(|(remark, _)| *remark)
}

const REMARKS: [Remark; 15] = [
    (
        "X509AuthenticationProvider.superUser has no effect where clients show no certificates: it \
         needs secureClientPort or client.portUnification=true, and another ssl.clientAuth than none",
        |it| it.access.x509_super_user.is_some() && !it.tls.asks_for_certificates(),
    ),
    (
        "allowSaslFailedClients and letAnySaslUserDoX have no effect without the users of a JAAS \
         file: --jaas-config",
        |it| {
            let access = &it.access;
            let is_set = access.allow_sasl_failed_clients == Some(true)
                || access.let_any_sasl_user_do_x.is_some();
            is_set && access.jaas_config.is_none()
        },
    ),
    ("superUser names a user whom the JAAS file does not have: nobody can be that user", |it| {
        let users = it.access.jaas_users();
        let lacks = |name: &String| users.as_ref().is_some_and(|users| !has(users, name));
        it.access.super_users.iter().any(lacks)
    }),
    (
        "SASLAuthenticationProvider.superPassword has no effect: the JAAS file has no user super",
        |it| {
            let is_set = it.access.sasl_super_password.is_some();
            is_set && it.access.jaas_users().is_some_and(|users| !has(&users, "super"))
        },
    ),
    (
        "DigestAuthenticationProvider.superDigest has no effect with \
         DigestAuthenticationProvider.enabled=false",
        |it| {
            let access = &it.access;
            access.super_digest.is_some()
                && access.digest_authentication_provider_enabled == Some(false)
                && !access.auth_providers.contains(&AuthProvider::Digest)
        },
    ),
    (
        "connection_throttle_* has no effect without connection_throttle_tokens, which limits how \
         many sessions begin",
        |it| {
            let throttling = &it.throttling;
            throttling.connection_throttle_tokens.unwrap_or(0) == 0
                && (throttling.connection_throttle_fill_time.is_some()
                    || throttling.connection_throttle_fill_count.is_some()
                    || throttling.connection_throttle_freeze_time.is_some()
                    || throttling.connection_throttle_weight_enabled == Some(true)
                    || throttling.has_weights()
                    || throttling.has_drops())
        },
    ),
    (
        "connection_throttle_global_session_weight and connection_throttle_renew_session_weight \
         have no effect without connection_throttle_weight_enabled=true",
        |it| {
            it.throttling.connection_throttle_tokens.unwrap_or(0) > 0
                && it.throttling.has_weights()
                && it.throttling.connection_throttle_weight_enabled != Some(true)
        },
    ),
    (
        "connection_throttle_drop_increase, connection_throttle_drop_decrease and \
         connection_throttle_decrease_ratio have no effect without connection_throttle_freeze_time",
        |it| {
            it.throttling.connection_throttle_tokens.unwrap_or(0) > 0
                && it.throttling.has_drops()
                && it.throttling.connection_throttle_freeze_time.unwrap_or(-1) < 0
        },
    ),
    (
        "largeRequestMaxBytes has no effect without largeRequestThreshold: no request is large",
        |it| {
            it.throttling.large_request_max_bytes.is_some()
                && it.throttling.large_request_threshold.unwrap_or(-1) < 0
        },
    ),
    (
        "request_throttle_stall_time, request_throttle_drop_stale, request_stale_latency_check and \
         throttled_op_wait_time have no effect without request_throttle_max_requests or \
         globalOutstandingLimit: no request waits",
        |it| {
            let throttling = &it.throttling;
            let limits =
                [throttling.request_throttle_max_requests, throttling.global_outstanding_limit];
            limits.iter().all(|limit| limit.unwrap_or(0) == 0)
                && (throttling.request_throttle_stall_time.is_some()
                    || throttling.request_throttle_drop_stale.is_some()
                    || throttling.request_stale_latency_check == Some(true)
                    || throttling.throttled_op_wait_time.is_some_and(|time| !time.is_zero()))
        },
    ),
    (
        "metricsProvider.exportJvmInfo has no effect without the page for Prometheus: --metrics",
        |it| it.monitoring.export_jvm_info.is_some() && it.monitoring.page().is_none(),
    ),
    (
        "ssl.trustStore.* and zoolet.ssl.crlFile have no effect with ssl.clientAuth=none: clients \
         show no certificates",
        |it| {
            let tls = &it.tls;
            let is_set = tls.ssl_trust_store_location.is_some() || !tls.ssl_crl_file.is_empty();
            is_set && it.tls.speaks_tls() && tls.ssl_client_auth == Some(ClientAuth::None)
        },
    ),
    (
        "ssl.clientHostnameVerification has no effect with ssl.clientAuth=none: clients show no \
         certificates",
        |it| {
            it.tls.ssl_client_hostname_verification == Some(true)
                && it.tls.speaks_tls()
                && it.tls.ssl_client_auth == Some(ClientAuth::None)
        },
    ),
    ("ssl.clientHostnameVerification has no effect with ssl.hostnameVerification=false", |it| {
        it.tls.ssl_client_hostname_verification == Some(true)
            && it.tls.ssl_hostname_verification == Some(false)
    }),
    (
        "what is set about TLS has no effect without secureClientPort (--secure-client-port) or \
         client.portUnification=true: nothing speaks it",
        |it| it.tls.is_idle(),
    ),
];

fn has(users: &[String], name: &str) -> bool {
    users.iter().any(|user| user == name)
}
