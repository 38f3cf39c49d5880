//! The keys of ZooKeeper that have no effect here, each with its reason.

use std::fmt;

/// Why a key has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    Files,
    Ensemble,
    Tls,
    Schemes,
    Kerberos,
    Metrics,
    Throttling,
    Guide,
    Java,
    Logging,
    Debugging,
    Client,
}

impl Reason {
    /// The reason for a key without the prefix `zookeeper.`; `None` if ZooKeeper does not have it.
    pub(super) fn of(key: &str) -> Option<Self> {
        let is_named = |name: &&str| {
            if name.ends_with('.') { key.starts_with(name) } else { key == *name }
        };
        // The longest matching name decides: `nio.` has exceptions.
        let named = KEYS.iter().flat_map(|(reason, names)| {
            names.split_whitespace().filter(is_named).map(|name| (name.len(), *reason))
        });
        named.max().map(|(_, reason)| reason)
    }
}

/// Whether no name but the family `ssl.` has the key, which then is perhaps another that is misspelt.
pub(super) fn is_of_ssl_only(key: &str) -> bool {
    let names = KEYS.iter().flat_map(|(_, names)| names.split_whitespace());
    let longest = names.filter(|name| key == *name || name.ends_with('.') && key.starts_with(name));
    longest.max_by_key(|name| name.len()) == Some("ssl.")
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => {
                "zoolet syncs what has gathered, at once, and reads every format of file"
            }
            Self::Ensemble => "zoolet is a single node, not an ensemble",
            Self::Tls => {
                "zoolet has one implementation of TLS, whose handshakes have ten seconds, and asks no \
                 name server who a client is"
            }
            Self::Schemes => {
                "ZooKeeper does not read this any more; sessionRequireClientSASLAuth=true makes \
                 clients authenticate by SASL"
            }
            Self::Kerberos => "zoolet does not have Kerberos",
            Self::Metrics => "zoolet has no threads or queues of its own for metrics",
            Self::Throttling => {
                "no request of a closed connection is carried out, none is left in a queue at the \
                 end, and no session is local"
            }
            Self::Guide => {
                "ZooKeeper's guide names it so, but ZooKeeper reads it by the name of its Java \
                 property: request_throttle_*, request_stale_*, throttled_op_wait_time, \
                 connection_throttle_*"
            }
            Self::Java => "zoolet has no Java threads, buffers or caches to tune",
            Self::Logging => "logs go to stderr, as --log-level says",
            Self::Debugging => "zoolet has none of ZooKeeper's debugging aids",
            Self::Client => "clients read this, servers do not",
        })
    }
}

/// All names; families end in a dot.
#[cfg(test)]
pub(super) fn all_names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().flat_map(|(_, names)| names.split_whitespace())
}

/// The names in full; families, which end in a dot, are left out.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let names = KEYS.iter().flat_map(|(_, names)| names.split_whitespace());
    names.filter(|name| !name.ends_with('.'))
}

/// From `QuorumPeerConfig`, the system properties of the server's classes, and the administrator's
/// guide, which has names of its own for some. A name that ends in a dot stands for all that
/// begin with it.
const KEYS: [(Reason, &str); 12] = [
    (
        Reason::Files,
        "flushDelay maxBatchSize maxWriteQueuePollTime
         serializeLastProcessedZxid.enabled closeSessionTxn.enabled digest.enabled
         jute.maxbuffer.extrasize emulate353TTLNodes",
    ),
    (
        Reason::Ensemble,
        "initLimit syncLimit electionAlg peerType standaloneEnabled localSessionsEnabled
         localSessionsUpgradingEnabled observerMasterPort observerMaster.sizeLimit
         connectToLearnerMasterLimit quorumListenOnAllIPs syncEnabled observer.syncEnabled
         observer.reconnectDelayMs observer.election.DelayMs electionPortBindRetry cnxTimeout
         quorumCnxnTimeoutMs quorum.cnxn.threads.size quorum.auth. multiAddress. oraclePath
         leaderServes leaderConnectDelayDuringRetryMs leader. learner. follower. fastleader.
         forward_learner_requests_to_commit_processor_disabled commitProcessor. commitLogCount
         snapshotSizeFactor forceSnapshotSync tcpKeepAlive enableEagerACLCheck
         maxConcurrentSnapSyncs maxConcurrentDiffSyncs maxTimeToWaitForEpoch
         db.autocreate sslQuorum portUnification ssl.quorum. group. weight. version",
    ),
    (
        Reason::Tls,
        "ssl. ssl.sslProvider ssl.handshakeDetectionTimeoutMillis ssl.allowReverseDnsLookup
         outstandingHandshake.limit netty.server.earlyDropSecureConnectionHandshakes",
    ),
    (Reason::Schemes, "requireClientAuthScheme jaasLoginRenew"),
    (Reason::Kerberos, "kinit"),
    (
        Reason::Metrics,
        "metricsProvider. metricsProvider.numWorkerThreads metricsProvider.maxQueueSize
         metricsProvider.workerShutdownTimeoutMs",
    ),
    (
        Reason::Throttling,
        "request_stale_connection_check request_throttler.shutdownTimeout
         connection_throttle_local_session_weight",
    ),
    (
        Reason::Guide,
        "requestThrottleLimit requestThrottleStallTime requestThrottleDropStale
         requestStaleLatencyCheck requestStaleConnectionCheck throttledOpWaitTime
         connectionMaxTokens connectionTokenFillTime connectionTokenFillCount
         connectionFreezeTime connectionDropIncrease connectionDropDecrease
         connectionDecreaseRatio",
    ),
    (
        Reason::Java,
        "serverCnxnFactory admin.httpVersion nio. netty. advancedFlowControlEnabled maxResponseCacheSize
         maxGetChildrenResponseCacheSize watchManagerName watchManaggerName watcherCleanThreadsNum
         watcherCleanThreshold watcherCleanIntervalInSeconds maxInProcessingDeadWatchers
         bitHashCacheSize intBufferStartingSizeBytes jvm.pause.",
    ),
    (Reason::Logging, "root.logger log. console.threshold tracelog. jmx."),
    (
        Reason::Debugging,
        "messageTracker. pathStats. testingonly. test. controllerPort traceFile requestTraceFile",
    ),
    (
        Reason::Client,
        "client.secure clientCnxnSocket disableAutoWatchReset request.timeout
         hostProvider.dnsSrvRefreshIntervalSeconds shuffleDnsResponse sasl.client sasl.client.
         sasl.clientconfig server.principal server.realm",
    ),
];
