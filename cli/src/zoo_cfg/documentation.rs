//! `docs/configuration.md` is written from the tables of keys and the help of the options.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use clap::Args;

use super::inert::Reason;
use super::{inert, keys};
use crate::server_options::ServerOptions;

/// The keys of ZooKeeper's administrator's guide, 3.9.5, but for families.
const GUIDE: &str = "clientPort secureClientPort observerMasterPort dataDir tickTime dataLogDir \
    globalOutstandingLimit preAllocSize snapCount commitLogCount snapSizeLimitInKb \
    txnLogSizeLimitInKb maxCnxns maxClientCnxns clientPortAddress minSessionTimeout \
    maxSessionTimeout fsync.warningthresholdms maxResponseCacheSize maxGetChildrenResponseCacheSize \
    autopurge.snapRetainCount autopurge.purgeInterval syncEnabled extendedTypesEnabled \
    emulate353TTLNodes watchManagerName watcherCleanThreadsNum watcherCleanThreshold \
    watcherCleanIntervalInSeconds maxInProcessingDeadWatchers bitHashCacheSize \
    fastleader.minNotificationInterval fastleader.maxNotificationInterval connectionMaxTokens \
    connectionTokenFillTime connectionTokenFillCount connectionFreezeTime connectionDropIncrease \
    connectionDropDecrease connectionDecreaseRatio connection_throttle_weight_enabled \
    connection_throttle_global_session_weight connection_throttle_local_session_weight \
    connection_throttle_renew_session_weight clientPortListenBacklog serverCnxnFactory flushDelay \
    maxWriteQueuePollTime maxBatchSize enforceQuota requestThrottleLimit requestThrottleStallTime \
    requestThrottleDropStale requestStaleLatencyCheck requestStaleConnectionCheck \
    request_throttler.shutdownTimeout advancedFlowControlEnabled enableEagerACLCheck \
    maxConcurrentSnapSyncs maxConcurrentDiffSyncs digest.enabled snapshot.compression.method \
    snapshot.trust.empty audit.enable audit.impl.class largeRequestMaxBytes largeRequestThreshold \
    outstandingHandshake.limit netty.server.earlyDropSecureConnectionHandshakes throttledOpWaitTime \
    learner.closeSocketAsync leader.closeSocketAsync learner.asyncSending \
    forward_learner_requests_to_commit_processor_disabled serializeLastProcessedZxid.enabled \
    electionAlg maxTimeToWaitForEpoch initLimit connectToLearnerMasterLimit leaderServes syncLimit \
    cnxTimeout quorumCnxnTimeoutMs standaloneEnabled reconfigEnabled 4lw.commands.whitelist \
    tcpKeepAlive clientTcpKeepAlive electionPortBindRetry observer.reconnectDelayMs \
    observer.election.DelayMs localSessionsEnabled localSessionsUpgradingEnabled \
    DigestAuthenticationProvider.enabled DigestAuthenticationProvider.superDigest \
    DigestAuthenticationProvider.digestAlg IPAuthenticationProvider.usexforwardedfor \
    X509AuthenticationProvider.superUser superUser ssl.authProvider ensembleAuthName \
    sessionRequireClientSASLAuth enforce.auth.enabled enforce.auth.schemes sslQuorum \
    ssl.keyStore.location ssl.keyStore.password ssl.keyStore.passwordPath ssl.keyStore.type \
    ssl.trustStore.location ssl.trustStore.password ssl.trustStore.passwordPath ssl.trustStore.type \
    ssl.protocol ssl.enabledProtocols ssl.ciphersuites ssl.context.supplier.class \
    ssl.hostnameVerification ssl.clientHostnameVerification ssl.allowReverseDnsLookup ssl.crl \
    ssl.ocsp ssl.clientAuth ssl.handshakeDetectionTimeoutMillis ssl.sslProvider \
    sslQuorumReloadCertFiles client.certReload client.portUnification authProvider.sasl \
    kerberos.removeHostFromPrincipal kerberos.removeRealmFromPrincipal \
    kerberos.canonicalizeHostNames multiAddress.enabled multiAddress.reachabilityCheckTimeoutMs \
    multiAddress.reachabilityCheckEnabled fips-mode readonlymode.enabled \
    follower.skipLearnerRequestToNextProcessor forceSync jute.maxbuffer jute.maxbuffer.extrasize \
    skipACL quorumListenOnAllIPs nio.numSelectorThreads nio.numWorkerThreads \
    commitProcessor.numWorkerThreads commitProcessor.maxReadBatchSize \
    commitProcessor.maxCommitBatchSize znode.container.checkIntervalMs znode.container.maxPerMinute \
    znode.container.maxNeverUsedIntervalMs messageTracker.BufferSize messageTracker.Enabled \
    admin.rateLimiterIntervalInMS admin.snapshot.enabled admin.restore.enabled admin.needClientAuth \
    admin.forceHttps admin.portUnification admin.enableServer admin.serverAddress admin.serverPort \
    admin.idleTimeout admin.commandURL metricsProvider.className metricsProvider.httpHost \
    metricsProvider.httpPort metricsProvider.exportJvmInfo metricsProvider.numWorkerThreads \
    metricsProvider.maxQueueSize metricsProvider.workerShutdownTimeoutMs";

#[test]
fn every_key_of_zookeepers_guide_is_known() {
    for key in GUIDE.split_whitespace() {
        assert!(keys::setter(key).is_some() || Reason::of(key).is_some(), "{key}");
    }
}

#[test]
fn the_documentation_of_the_keys_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    let expected = documentation();
    if std::env::var("ZOOLET_WRITE_DOCS").is_ok() {
        std::fs::write(&path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = written.lines().zip(expected.lines()).find(|(a, b)| a != b);
    assert!(
        written == expected,
        "docs/configuration.md differs: {differing:?}; ZOOLET_WRITE_DOCS=1 cargo test -p zoolet-cli \
         documentation writes it anew"
    );
}

fn documentation() -> String {
    let mut text = BEGIN.to_owned();
    let helps = helps();
    for key in sorted(keys::names()) {
        let flag = flag(key);
        let (option, meaning) = match helps.get(&flag) {
            Some(help) => (format!("`--{flag}`"), help.replace('|', "\\|")),
            None => (String::new(), of_the_file(key).to_owned()),
        };
        let _ = writeln!(text, "| `{key}` | {option} | {meaning} |");
    }
    text += WITHOUT_EFFECT;
    let mut by_reason: BTreeMap<Reason, Vec<&str>> = BTreeMap::new();
    for key in sorted(inert::all_names()) {
        by_reason.entry(Reason::of(key).expect("it is in the table")).or_default().push(key);
    }
    for (reason, names) in by_reason {
        let names: Vec<_> = names
            .iter()
            .map(
                |name| if name.ends_with('.') { format!("`{name}*`") } else { format!("`{name}`") },
            )
            .collect();
        let _ = writeln!(text, "| {reason} | {} |", names.join(", "));
    }
    text
}

fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<_> = names.collect();
    names.sort_by_key(|name| name.to_ascii_lowercase());
    names
}

/// The first sentence of the help of each option.
fn helps() -> BTreeMap<String, String> {
    let command = ServerOptions::augment_args(clap::Command::new("zoolet"));
    let help = |option: &clap::Arg| {
        let text = option.get_help()?.to_string();
        Some((option.get_long()?.to_owned(), text.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    command.get_arguments().filter_map(help).collect()
}

/// The option of a key: its words in lower case, with dashes.
pub(super) fn flag(key: &str) -> String {
    let short = key
        .replace("ACL", "Acl")
        .replace("URL", "Url")
        .replace("InMS", "InMs")
        .replace("SASL", "Sasl")
        .replace("IPAuth", "IpAuth")
        .replace("X509AuthenticationProvider.", "x509.");
    let short = short.strip_prefix("zoolet.").unwrap_or(&short);
    let short = match short.strip_prefix("DigestAuthenticationProvider.") {
        Some(short) if short != "enabled" => short,
        _ => short,
    };
    let mut flag = String::new();
    for (i, c) in short.char_indices() {
        let begins_word = c.is_ascii_uppercase() && i > 0 && !flag.ends_with('-');
        flag.push_str(if begins_word { "-" } else { "" });
        flag.push(if c == '.' || c == '_' { '-' } else { c.to_ascii_lowercase() });
    }
    flag
}

/// What a key does that is no option.
fn of_the_file(key: &str) -> &'static str {
    let own = REFUSED.iter().find(|(name, _)| *name == key);
    own.map_or("as in ZooKeeper, in the file only", |(_, meaning)| meaning)
}

/// The keys whose values, or some of them, stop the start.
const REFUSED: [(&str, &str); 9] = [
    (
        "audit.impl.class",
        "ZooKeeper's own class only, `org.apache.zookeeper.audit.Slf4jAuditLogger`",
    ),
    ("fips-mode", "`true` forbids SASL DIGEST-MD5: a JAAS file stops the start"),
    ("metricsProvider.httpsPort", "refused: zoolet has no metrics over HTTPS"),
    ("requireKerberosConfig", "`true` is refused: zoolet does not have Kerberos"),
    ("security.auth_to_local", "refused: zoolet does not have Kerberos"),
    ("ssl.authProvider", "`x509` only; another is refused"),
    ("ssl.context.supplier.class", "refused: zoolet cannot load classes of Java"),
    ("ssl.crl", "`true` stops the start without `zoolet.ssl.crlFile`"),
    ("ssl.ocsp", "`true` is refused: zoolet does not ask authorities over the network"),
];

#[test]
fn what_is_said_of_a_key_of_the_file_is_about_a_key_that_is_no_option() {
    for (key, _) in REFUSED {
        assert!(keys::names().any(|name| name == key), "{key} is not a key");
        assert!(!helps().contains_key(&flag(key)), "{key} is an option");
    }
}

const BEGIN: &str = "# Configuration

`zoolet serve --config FILE` reads ZooKeeper's `zoo.cfg`. Each key can be written with or without the prefix
`zookeeper.`. Options of the command override the file. A bad value stops the start, with its line, and so does a
misspelt `dataDir`, or a `dataLogDir` with other capitals or signs, unless the option is given. Other unknown keys
and unknown four-letter words are warned of.

A test writes this page from the tables of the program, and fails when it is not up to date.

## Keys with an effect

| key | option | what it does |
|---|---|---|
";

const WITHOUT_EFFECT: &str = "
Also `server.N` (one line at most; it may tell the client port), `dynamicConfigFile` (of which only the server lines
count), `authProvider.NAME` and `superUser.NAME`. `kerberos.NAME` is refused.

## Keys without effect

The start warns of each of these, and goes on. It does not start where to go on would weaken security: for example with the
keys of Kerberos, with a class of an unknown authentication provider, and with `admin.needClientAuth` without HTTPS. A key that
it does not know is a warning, also if it resembles one about security: ZooKeeper accepts any key. So read the log of a first start.

`NAME.*` means the keys that begin so and are not in the table above.

| why | keys |
|---|---|
";
