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
    Address,
    Metrics,
    Throttling,
    Fixed,
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
            Self::Address => {
                "a client is known by the address of its connection, which no header can change"
            }
            Self::Metrics => "zoolet has no threads or queues of its own for metrics",
            Self::Throttling => "this version does not throttle requests or connections",
            Self::Fixed => "zoolet has a fixed value for this",
            Self::Java => "zoolet has no Java threads, buffers or caches to tune",
            Self::Logging => "logs go to stderr, as --log-level says",
            Self::Debugging => "zoolet has none of ZooKeeper's debugging aids",
            Self::Client => "clients read this, servers do not",
        })
    }
}

/// The names in full; families, which end in a dot, are left out.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let names = KEYS.iter().flat_map(|(_, names)| names.split_whitespace());
    names.filter(|name| !name.ends_with('.'))
}

/// From `QuorumPeerConfig`, the system properties of the server's classes, and the administrator's
/// guide, which has names of its own for some. A name that ends in a dot stands for all that
/// begin with it.
const KEYS: [(Reason, &str); 13] = [
    (
        Reason::Files,
        "flushDelay maxBatchSize maxWriteQueuePollTime fsync.warningthresholdms
         serializeLastProcessedZxid.enabled closeSessionTxn.enabled digest.enabled
         datadir.autocreate db.autocreate jute.maxbuffer.extrasize emulate353TTLNodes",
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
         sslQuorum sslQuorumReloadCertFiles portUnification ssl.quorum. group. weight. version",
    ),
    (
        Reason::Tls,
        "ssl. ssl.sslProvider ssl.handshakeDetectionTimeoutMillis ssl.allowReverseDnsLookup
         outstandingHandshake.limit netty.server.earlyDropSecureConnectionHandshakes",
    ),
    (Reason::Schemes, "requireClientAuthScheme jaasLoginRenew"),
    (Reason::Kerberos, "kinit"),
    (Reason::Address, "IPAuthenticationProvider.usexforwardedfor"),
    (
        Reason::Metrics,
        "metricsProvider. metricsProvider.numWorkerThreads metricsProvider.maxQueueSize
         metricsProvider.workerShutdownTimeoutMs",
    ),
    (
        Reason::Throttling,
        "globalOutstandingLimit request_throttle_max_requests request_throttle_stall_time
         request_throttle_drop_stale request_stale_latency_check request_stale_connection_check
         request_throttler.shutdownTimeout throttled_op_wait_time connection_throttle_tokens
         connection_throttle_fill_time connection_throttle_fill_count
         connection_throttle_freeze_time connection_throttle_drop_increase
         connection_throttle_drop_decrease connection_throttle_decrease_ratio
         connection_throttle_weight_enabled connection_throttle_global_session_weight
         connection_throttle_local_session_weight connection_throttle_renew_session_weight
         largeRequestMaxBytes largeRequestThreshold requestThrottleLimit requestThrottleStallTime
         requestThrottleDropStale requestStaleLatencyCheck requestStaleConnectionCheck
         throttledOpWaitTime connectionMaxTokens connectionTokenFillTime connectionTokenFillCount
         connectionFreezeTime connectionDropIncrease connectionDropDecrease
         connectionDecreaseRatio",
    ),
    (Reason::Fixed, "nio.sessionlessCnxnTimeout nio.shutdownTimeout"),
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
