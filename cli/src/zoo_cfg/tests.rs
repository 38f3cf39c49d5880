//! Files, and the options, remarks and problems that they make.

mod directories;
mod tls;

use std::path::Path;
use std::time::Duration;

use zoolet_server::storage::Compression;
use zoolet_server::{ConnectionThrottling, DigestAlgorithm, SessionWeights, Throttling};

use super::*;
use crate::server_options::access::{AccessOptions, AuthProvider};
use crate::server_options::admin::AdminOptions;
use crate::server_options::storage::{self, Purge, StorageOptions};

fn read(text: &str) -> Result<ZooCfg, String> {
    read_beside(text, &StorageOptions::default())
}

/// With these options of the command.
fn read_beside(text: &str, given: &StorageOptions) -> Result<ZooCfg, String> {
    let mut reader = Reader::new(Path::new("zoo.cfg"), given);
    reader.read(text);
    reader.finish().map_err(|error| error.to_string())
}

fn options(text: &str) -> ServerOptions {
    let ZooCfg { options, remarks } = read(text).unwrap();
    assert_eq!(remarks, [""; 0], "{text}");
    options
}

fn remarks(text: &str) -> Vec<String> {
    read(text).unwrap().remarks
}

const DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

#[test]
fn every_key_has_its_effect() {
    let set = ServerOptions::default;
    let kept = |choose: fn(&mut StorageOptions)| {
        let mut options = ServerOptions::default();
        choose(&mut options.storage);
        options
    };
    let cases = [
        ("dataDir=/var/zk", kept(|c| c.data_dir = Some("/var/zk".into()))),
        ("dataLogDir=/log", kept(|c| c.data_log_dir = Some("/log".into()))),
        ("snapCount=0x10", kept(|c| c.snap_count = Some(16))),
        ("snapSizeLimitInKb=1", kept(|c| c.snap_size_limit_in_kb = storage::limit_kb("1").ok())),
        ("snapSizeLimitInKb=-9", kept(|c| c.snap_size_limit_in_kb = storage::limit_kb("-1").ok())),
        (
            "txnLogSizeLimitInKb=-1",
            kept(|c| c.txn_log_size_limit_in_kb = storage::limit_kb("-1").ok()),
        ),
        ("preAllocSize=0", kept(|c| c.pre_alloc_size = Some(0))),
        ("forceSync=no", kept(|c| c.force_sync = Some(false))),
        (
            "snapshot.compression.method=snappy",
            kept(|c| c.snapshot_compression_method = Some(Compression::Snappy)),
        ),
        ("autopurge.snapRetainCount=1", kept(|c| c.autopurge_snap_retain_count = Some(3))),
        ("autopurge.snapRetainCount=4", kept(|c| c.autopurge_snap_retain_count = Some(4))),
        (
            "autopurge.purgeInterval=24",
            kept(|c| c.autopurge_purge_interval = Some(Purge::AfterSnapshots)),
        ),
        (
            "autopurge.purgeInterval=90m",
            kept(|c| c.autopurge_purge_interval = Some(Purge::AfterSnapshots)),
        ),
        ("autopurge.purgeInterval=0", kept(|c| c.autopurge_purge_interval = Some(Purge::Never))),
        ("datadir.autocreate=false", kept(|c| c.datadir_autocreate = Some(false))),
        (
            "fsync.warningthresholdms=20",
            kept(|c| c.fsync_warningthresholdms = Some(Duration::from_millis(20))),
        ),
        ("snapshot.trust.empty=true", kept(|c| c.snapshot_trust_empty = Some(true))),
        ("clientPort=2182", ServerOptions { client_port: Some(2182), ..set() }),
        ("clientPort=0", ServerOptions { client_port: Some(0), ..set() }),
        (
            "clientPortAddress=localhost",
            ServerOptions { client_port_address: Some("localhost".to_owned()), ..set() },
        ),
        (
            "clientPortAddress=[::1]",
            ServerOptions { client_port_address: Some("::1".to_owned()), ..set() },
        ),
        (
            "clientPortListenBacklog=128",
            ServerOptions { client_port_listen_backlog: Some(128), ..set() },
        ),
        (
            "clientPortListenBacklog=-1",
            ServerOptions { client_port_listen_backlog: Some(0), ..set() },
        ),
        ("clientTcpKeepAlive=true", ServerOptions { client_tcp_keep_alive: Some(true), ..set() }),
        ("tickTime=2000", ServerOptions { tick_time: Some(2000), ..set() }),
        ("minSessionTimeout=1000", ServerOptions { min_session_timeout: Some(1000), ..set() }),
        ("minSessionTimeout=-1", ServerOptions { min_session_timeout: Some(-1), ..set() }),
        ("maxSessionTimeout=90000", ServerOptions { max_session_timeout: Some(90000), ..set() }),
        ("maxClientCnxns=0", ServerOptions { max_client_cnxns: Some(0), ..set() }),
        ("maxClientCnxns=-1", ServerOptions { max_client_cnxns: Some(0), ..set() }),
        ("maxCnxns=0x10", ServerOptions { max_cnxns: Some(16), ..set() }),
        ("maxCnxns=-1", ServerOptions { max_cnxns: Some(0), ..set() }),
        ("jute.maxbuffer=0xfffff", ServerOptions { jute_maxbuffer: Some(0xf_ffff), ..set() }),
        ("jute.maxbuffer=4194304", ServerOptions { jute_maxbuffer: Some(4 << 20), ..set() }),
        ("enforceQuota=TRUE", ServerOptions { enforce_quota: Some(true), ..set() }),
        (
            "extendedTypesEnabled=false",
            ServerOptions { extended_types_enabled: Some(false), ..set() },
        ),
        (
            "znode.container.checkIntervalMs=100",
            ServerOptions {
                znode_container_check_interval_ms: Some(Duration::from_millis(100)),
                ..set()
            },
        ),
        (
            "znode.container.maxPerMinute=1",
            ServerOptions { znode_container_max_per_minute: Some(1), ..set() },
        ),
        (
            "znode.container.maxNeverUsedIntervalMs=0",
            ServerOptions { znode_container_max_never_used_interval_ms: Some(0), ..set() },
        ),
        (
            "4lw.commands.whitelist=stat, ruok, *",
            ServerOptions { four_letter_words: Some("stat, ruok, *".to_owned()), ..set() },
        ),
        ("readonlymode.enabled=true", ServerOptions { readonly_mode: Some(true), ..set() }),
        ("reconfigEnabled=true", ServerOptions { reconfig_enabled: Some(true), ..set() }),
    ];
    let admin = |choose: fn(&mut AdminOptions)| {
        let mut options = ServerOptions::default();
        choose(&mut options.admin);
        options
    };
    let of_admin = [
        ("admin.enableServer=true", admin(|c| c.admin_enable_server = Some(true))),
        ("admin.serverAddress=::1", admin(|c| c.admin_server_address = Some("::1".to_owned()))),
        ("admin.serverPort=8081", admin(|c| c.admin_server_port = Some(8081))),
        ("admin.commandURL=/zk", admin(|c| c.admin_command_url = Some("/zk".to_owned()))),
        (
            "admin.idleTimeout=500",
            admin(|c| c.admin_idle_timeout = Some(Duration::from_millis(500))),
        ),
        ("admin.snapshot.enabled=false", admin(|c| c.admin_snapshot_enabled = Some(false))),
        ("admin.restore.enabled=false", admin(|c| c.admin_restore_enabled = Some(false))),
        (
            "admin.rateLimiterIntervalInMS=0",
            admin(|c| c.admin_rate_limiter_interval_in_ms = Some(Duration::ZERO)),
        ),
        (
            "IPAuthenticationProvider.usexforwardedfor=true",
            admin(|c| c.trust_forwarded_for = Some(true)),
        ),
    ];
    let mut keys = Vec::new();
    for (line, expected) in cases.into_iter().chain(of_admin) {
        assert_eq!(options(line), expected, "{line}");
        assert_eq!(options(&format!("zookeeper.{line}")), expected, "zookeeper.{line}");
        keys.push(line.split('=').next().unwrap());
    }
    for name in keys::of_other_topics() {
        assert!(keys.contains(&name), "{name} has no case here");
    }

    let line = format!("zookeeper.DigestAuthenticationProvider.superDigest={DIGEST}");
    let access = AccessOptions { super_digest: Some(DIGEST.into()), ..no_access() };
    assert_eq!(options(&line), ServerOptions { access, ..set() });
}

#[test]
fn a_bad_value_is_named_with_its_line() {
    let ports = "from 0 to 65535";
    let positive = "from 1 to 2147483647";
    let cases = [
        ("dataDir", "", "must not be empty"),
        ("snapCount", "many", positive),
        ("snapSizeLimitInKb", "0", "or -1 for no limit"),
        ("preAllocSize", "-1", "from 0 to"),
        ("forceSync", "true", "must be yes or no"),
        ("snapshot.compression.method", "zip", "must be gz, snappy or nothing"),
        ("autopurge.snapRetainCount", "-1", "from 0 to"),
        ("autopurge.purgeInterval", "daily", "from 0 to"),
        ("clientPort", "", ports),
        ("clientPort", "port", ports),
        ("clientPort", "65536", ports),
        ("clientPort", "-1", ports),
        ("clientPortAddress", "", "must not be empty"),
        ("clientPortAddress", "[::1", "two brackets stand around an IPv6 address"),
        ("admin.serverAddress", "::1]", "two brackets stand around an IPv6 address"),
        ("clientPortListenBacklog", "many", "or -1 for the system's default"),
        ("clientTcpKeepAlive", "yes", "must be true or false"),
        ("tickTime", "0", positive),
        ("tickTime", "2s", positive),
        ("tickTime", "2147483648", positive),
        ("tickTime", "0x10", positive),
        ("minSessionTimeout", "-2", "from 0 to 2147483647, or -1 for the default"),
        ("maxSessionTimeout", "1e3", "from 0 to 2147483647, or -1 for the default"),
        ("maxClientCnxns", "unlimited", "from 0 to 2147483647"),
        ("maxCnxns", "08", "from 0 to 2147483647"),
        ("jute.maxbuffer", "4M", positive),
        ("jute.maxbuffer", "0", positive),
        ("enforceQuota", "1", "must be true or false"),
        ("skipACL", "true", "must be yes or no"),
        ("skipACL", "YES", "must be yes or no"),
        ("DigestAuthenticationProvider.digestAlg", "MD5", "SHA1 or SHA-256 or SHA3-256"),
        ("DigestAuthenticationProvider.enabled", "no", "must be true or false"),
        ("enforce.auth.enabled", "digest", "must be true or false"),
        ("enforce.auth.schemes", "", "must not be empty"),
        ("enforce.auth.schemes", ",", "must not be empty"),
        ("sessionRequireClientSASLAuth", "on", "must be true or false"),
        ("extendedTypesEnabled", "", "must be true or false"),
        ("znode.container.checkIntervalMs", "0", positive),
        ("znode.container.maxPerMinute", "0", positive),
        ("znode.container.maxNeverUsedIntervalMs", "-1", "from 0 to 9223372036854775807"),
        ("readonlymode.enabled", "x", "must be true or false"),
        ("reconfigEnabled", "x", "must be true or false"),
    ];
    for (key, value, expected) in cases {
        let error = read(&format!("# first\n\n{key}={value}\n")).unwrap_err();
        assert!(error.contains(expected), "{error}");
        let value_last = format!("\n  zoo.cfg:3: {key} must be ");
        let value_first = format!("\n  zoo.cfg:3: {key}={value:?} must ");
        let ends = error.ends_with(&format!(", not {value:?}"));
        assert_eq!(
            (error.contains(&value_last), error.contains(&value_first)),
            (ends, !ends),
            "{error}"
        );
    }
}

#[test]
fn a_value_stands_before_a_message_of_several_clauses() {
    let begins = [
        ("authProvider.2", "com.acme.Foo", "must be the class of a provider that zoolet has"),
        ("metricsProvider.httpsPort", "7443", "asks for metrics over HTTPS"),
        ("ssl.ciphersuites", "Foo", "names no cipher suite that zoolet supports"),
    ];
    for (key, value, begin) in begins {
        let error = read(&format!("{key}={value}")).unwrap_err();
        assert!(error.contains(&format!(": {key}={value:?} {begin}")), "{error}");
        assert!(!error.contains("not \""), "{error}");
    }
}

#[test]
fn a_password_is_not_shown() {
    for value in ["Secret1", "super:Secret1", "super:U2VjcmV0MQ==", ":D/InIHSb7yEEbrWz8b9l71RjZJU="]
    {
        let error = read(&format!("DigestAuthenticationProvider.superDigest={value}")).unwrap_err();
        assert!(error.contains("zoo.cfg:1: DigestAuthenticationProvider.superDigest must be"));
        assert!(!error.contains(value), "{error}");
    }
}

#[test]
fn all_problems_are_told_in_their_order() {
    let error = read("tickTime=a\nclientPort=2181\nmaxCnxns=b\ndataDir=C:\\users").unwrap_err();
    let lines: Vec<_> = error.lines().skip(1).collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert!(lines[0].starts_with("  zoo.cfg:1: tickTime must be a whole number"), "{error}");
    assert!(lines[1].starts_with("  zoo.cfg:3: maxCnxns must be a whole number"), "{error}");
    assert!(lines[2].starts_with("  zoo.cfg:4: \"\\u\" must be followed"), "{error}");
}

#[test]
fn the_last_of_several_lines_counts() {
    let ZooCfg { options, remarks } =
        read("tickTime=nonsense\nclientPort=1\ntickTime=10\nzookeeper.tickTime=20\n").unwrap();
    assert_eq!(options.tick_time, Some(20));
    assert_eq!(
        remarks,
        [
            "zoo.cfg:1: tickTime is set again in line 3, which counts",
            "zoo.cfg:3: zookeeper.tickTime is set again in line 4, which counts",
        ]
    );
}

#[test]
fn keys_without_effect_are_named_with_the_reason() {
    let cases = [
        ("flushDelay", "at once"),
        ("digest.enabled", "every format"),
        ("initLimit", "single node"),
        ("standaloneEnabled", "single node"),
        ("quorum.auth.enableSasl", "single node"),
        ("ssl.quorum.clientAuth", "single node"),
        ("group.1", "single node"),
        ("ssl.sslProvider", "TLS"),
        ("ssl.handshakeDetectionTimeoutMillis", "ten seconds"),
        ("requireClientAuthScheme", "sessionRequireClientSASLAuth"),
        ("zookeeper.server.principal", "clients"),
        ("kinit", "Kerberos"),
        ("metricsProvider.numWorkerThreads", "threads"),
        ("admin.httpVersion", "Java threads"),
        ("request_stale_connection_check", "closed connection"),
        ("connectionMaxTokens", "connection_throttle_"),
        ("nio.numWorkerThreads", "Java threads"),
        ("jvm.pause.monitor", "Java threads"),
        ("root.logger", "--log-level"),
        ("pathStats.enabled", "debugging"),
        ("sasl.client.username", "clients"),
        ("serverCnxnFactory", "Java threads"),
    ];
    for (key, reason) in cases {
        let remarks = remarks(&format!("\n{key}=1"));
        assert_eq!(remarks.len(), 1, "{key}");
        assert!(
            remarks[0].starts_with(&format!("zoo.cfg: {key} (line 2) has no effect: ")),
            "{}",
            remarks[0]
        );
        assert!(remarks[0].contains(reason), "{}", remarks[0]);
    }
}

#[test]
fn keys_without_effect_are_gathered_by_reason() {
    assert_eq!(
        remarks("initLimit=10\nflushDelay=2\nsyncLimit=5"),
        [
            "zoo.cfg: flushDelay (line 2) has no effect: zoolet syncs what has gathered, at once, \
             and reads every format of file",
            "zoo.cfg: initLimit (line 1), syncLimit (line 3) have no effect: zoolet is a single \
             node, not an ensemble",
        ]
    );
}

#[test]
fn every_key_has_a_flag() {
    use clap::Args;

    let command = ServerOptions::augment_args(clap::Command::new("zoolet"));
    let flags: Vec<_> = command.get_arguments().filter_map(|flag| flag.get_long()).collect();
    let in_files_only = [
        "readonlymode.enabled",
        "forceSync",
        "java.security.auth.login.config",
        "SASLAuthenticationProvider.superPassword",
        "fips-mode",
        "security.auth_to_local",
        "requireKerberosConfig",
        "metricsProvider.className",
        "metricsProvider.httpHost",
        "metricsProvider.httpPort",
        "metricsProvider.httpsPort",
        "metricsProvider.exportJvmInfo",
        "audit.impl.class",
        "ssl.quorum.keyStore.password",
        "ssl.quorum.trustStore.password",
    ];
    let is_in_files_only =
        |key: &&str| in_files_only.contains(key) || keys::tls::IN_FILES_ONLY.contains(key);
    for key in keys::names().filter(|key| !is_in_files_only(key)) {
        let flag = documentation::flag(key);
        assert!(flags.contains(&flag.as_str()), "{key} should be --{flag}");
    }
}

#[test]
fn names_are_listed_once() {
    let mut names: Vec<_> = keys::names().chain(inert::names()).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn unknown_keys_are_told_of_with_a_suggestion() {
    let cases = [
        ("tickTme=1", "unknown key \"tickTme\"; did you mean tickTime?"),
        ("tick-time=1", "unknown key \"tick-time\"; did you mean tickTime?"),
        ("CLIENTPORT=1", "unknown key \"CLIENTPORT\"; did you mean clientPort?"),
        ("maxClientConns=1", "unknown key \"maxClientConns\"; did you mean maxClientCnxns?"),
        (
            "maxClientConnections=1",
            "unknown key \"maxClientConnections\"; did you mean maxClientCnxns?",
        ),
        ("zookeeper.skipAcl=yes", "unknown key \"zookeeper.skipAcl\"; did you mean skipACL?"),
        ("juteMaxBuffer=1", "unknown key \"juteMaxBuffer\"; did you mean jute.maxbuffer?"),
        (
            "superDigest=a:b",
            "unknown key \"superDigest\"; did you mean DigestAuthenticationProvider.superDigest?",
        ),
        (
            "ssl.trustStore.locatoin=/x",
            "unknown key \"ssl.trustStore.locatoin\"; did you mean ssl.trustStore.location?",
        ),
        ("ssl.clientauth=need", "unknown key \"ssl.clientauth\"; did you mean ssl.clientAuth?"),
        ("heap.size=1", "unknown key \"heap.size\""),
        ("server.x=1", "unknown key \"server.x\""),
        ("=1", "unknown key \"\""),
    ];
    for (line, expected) in cases {
        let text = format!("{line}\nclientPort=1");
        assert_eq!(remarks(&text), [format!("zoo.cfg:1: {expected}")], "{line}");
    }
}

#[test]
fn a_file_of_another_kind_is_refused() {
    for text in ["<configuration>\n</configuration>\n", "heap: 1\njava: 8", "=1"] {
        let error = read(text).unwrap_err();
        assert!(error.contains("is it a zoo.cfg?"), "{error}");
    }
    for text in ["", "# nothing\n", "tickTme=1", "dataDir=/x\nheap=1"] {
        read(text).unwrap();
    }
}

#[test]
fn unknown_four_letter_words_are_told_of() {
    let ZooCfg { options, remarks } = read("4lw.commands.whitelist=ruok,kill").unwrap();
    assert_eq!(options.four_letter_words.as_deref(), Some("ruok,kill"));
    assert_eq!(remarks, ["zoo.cfg:1: \"kill\" is no four-letter word"]);
}

#[test]
fn one_server_may_say_where_clients_connect() {
    let at = |text| {
        let HostPort { host, port } = options(text).listen().unwrap().unwrap();
        format!("{host} {port}")
    };
    let cases = [
        ("", "127.0.0.1 2181"),
        ("clientPort=2182", "0.0.0.0 2182"),
        ("clientPort=2182\nclientPortAddress=localhost", "localhost 2182"),
        ("server.1=zk1:2888:3888", "127.0.0.1 2181"),
        ("server.1=zk1:2888:3888;2183", "0.0.0.0 2183"),
        ("server.1=zk1:2888:3888:participant;zk1:2183", "zk1 2183"),
        ("server.1=zk1:2888:3888;[::1]:2183", "::1 2183"),
        ("server.1=zk1:2888:3888;2183\nclientPort=2182", "0.0.0.0 2182"),
        ("server.1=zk1:1:2;2183\nclientPortAddress=localhost", "localhost 2183"),
        ("server.1=zk1:1:2;2183\nserver.1=zk1:1:2;2184", "0.0.0.0 2184"),
    ];
    for (text, expected) in cases {
        let ZooCfg { options, .. } = read(text).unwrap();
        let HostPort { host, port } = options.listen().unwrap().unwrap();
        assert_eq!(format!("{host} {port}"), expected, "{text}");
    }
    assert_eq!(at("clientPort=1"), "0.0.0.0 1");

    let error = read("server.1=zk1:2888:3888;client").unwrap_err();
    assert!(error.contains("zoo.cfg:1: the part after \";\" must be"), "{error}");
}

#[test]
fn an_ensemble_is_refused() {
    let error = read("tickTime=1\nserver.1=a:1:2\nserver.2=b:1:2\nserver.10=c:1:2").unwrap_err();
    assert!(error.contains("zoo.cfg:4: 3 servers make an ensemble"), "{error}");
    assert!(error.contains("run Apache ZooKeeper"), "{error}");
}

#[test]
fn the_keys_of_access_control() {
    let cases = [
        ("skipACL=yes", AccessOptions { skip_acl: Some(true), ..no_access() }),
        ("skipACL=no", AccessOptions { skip_acl: Some(false), ..no_access() }),
        (
            "DigestAuthenticationProvider.digestAlg=SHA3-256",
            AccessOptions { digest_alg: Some(DigestAlgorithm::Sha3_256), ..no_access() },
        ),
        (
            "DigestAuthenticationProvider.enabled=false",
            AccessOptions { digest_authentication_provider_enabled: Some(false), ..no_access() },
        ),
        (
            "enforce.auth.enabled=true",
            AccessOptions { enforce_auth_enabled: Some(true), ..no_access() },
        ),
        (
            "enforce.auth.schemes=digest, ip",
            AccessOptions { enforce_auth_schemes: Some("digest, ip".to_owned()), ..no_access() },
        ),
        (
            "sessionRequireClientSASLAuth=true",
            AccessOptions { session_require_client_sasl_auth: Some(true), ..no_access() },
        ),
        (
            "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
             authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
            AccessOptions {
                auth_providers: vec![AuthProvider::Sasl, AuthProvider::X509],
                ..no_access()
            },
        ),
        (
            "X509AuthenticationProvider.superUser=CN=a,O=b",
            AccessOptions { x509_super_user: Some("CN=a,O=b".to_owned()), ..no_access() },
        ),
        (
            "superUser=a\nsuperUser.1=b",
            AccessOptions { super_users: vec!["a".to_owned(), "b".to_owned()], ..no_access() },
        ),
        (
            "java.security.auth.login.config=file:/etc/jaas.conf",
            AccessOptions { jaas_config: Some("/etc/jaas.conf".into()), ..no_access() },
        ),
        (
            "zoolet.jaas.config=jaas.conf\nsasl.serverconfig=Here",
            AccessOptions {
                jaas_config: Some("jaas.conf".into()),
                sasl_serverconfig: Some("Here".to_owned()),
                ..no_access()
            },
        ),
        (
            "SASLAuthenticationProvider.superPassword=secret",
            AccessOptions { sasl_super_password: Some("secret".into()), ..no_access() },
        ),
    ];
    for (text, access) in cases {
        assert_eq!(options(text), ServerOptions { access, ..ServerOptions::default() }, "{text}");
    }
}

fn no_access() -> AccessOptions {
    AccessOptions::default()
}

#[test]
fn what_zoolet_cannot_do_about_access_control_refuses_to_start() {
    for (line, expected) in [
        ("authProvider.1=com.example.Mine", "org.apache.zookeeper.server.auth.{DigestAuth"),
        (
            "authProvider.1=org.apache.zookeeper.server.auth.KeyAuthenticationProvider",
            "cannot load classes of Java",
        ),
        ("kerberos.removeHostFromPrincipal=true", "about Kerberos, which zoolet does not have"),
        ("security.auth_to_local=RULE:[1:$1]", "about Kerberos, which zoolet does not have"),
        ("requireKerberosConfig=true", "about Kerberos, which zoolet does not have"),
    ] {
        let error = read(line).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    read("requireKerberosConfig=false").unwrap();
}

#[test]
fn metrics_and_the_audit_log_are_configured_as_in_zookeeper() {
    let class = "metricsProvider.className=\
                 org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n";
    let page = |text: &str| read(text).unwrap().options.monitoring.page();
    let listen = |text: &str| page(text).map(|page| (page.listen.host, page.listen.port));
    assert_eq!(listen(class), Some(("0.0.0.0".to_owned(), 7000)));
    let more = format!("{class}metricsProvider.httpHost=::1\nmetricsProvider.httpPort=9141\n");
    assert_eq!(listen(&more), Some(("::1".to_owned(), 9141)));
    assert_eq!(listen("metricsProvider.httpPort=9141\n"), None);
    let without = format!("{class}metricsProvider.exportJvmInfo=false\n");
    assert_eq!(page(&without).unwrap().process, zoolet_server::ProcessMetrics::Leave);
    let newer = format!("{class}zoolet.metrics.dialect=3.10\n");
    assert_eq!(page(&newer).unwrap().dialect, zoolet_server::Dialect::V3_10);

    let audit = |text: &str| read(text).unwrap().options.config().unwrap().audit;
    assert_eq!(audit("audit.enable=false\n"), None);
    assert_eq!(audit("audit.enable=true\n"), Some(zoolet_server::AuditLog::Log));
    let file = zoolet_server::AuditLog::File("/var/log/audit.log".into());
    assert_eq!(audit("zoolet.audit.log=/var/log/audit.log\n"), Some(file));

    for line in [
        "metricsProvider.className=com.example.Provider",
        "metricsProvider.httpsPort=7443",
        "audit.impl.class=com.example.Logger",
        "zoolet.metrics.dialect=3.8",
    ] {
        assert!(read(line).is_err(), "{line}");
    }
}

#[test]
fn throttling_is_configured_by_zookeepers_names() {
    let text = "
        globalOutstandingLimit=1000
        request_throttle_max_requests=5000
        request_throttle_stall_time=50
        request_throttle_drop_stale=false
        request_stale_latency_check=true
        throttled_op_wait_time=1500
        largeRequestThreshold=65536
        largeRequestMaxBytes=1048576
        connection_throttle_tokens=200
        connection_throttle_fill_time=20
        connection_throttle_fill_count=4
        connection_throttle_freeze_time=5000
        connection_throttle_drop_increase=0.05
        connection_throttle_drop_decrease=0.001
        connection_throttle_decrease_ratio=0.25
        connection_throttle_weight_enabled=true
        connection_throttle_global_session_weight=5
        connection_throttle_renew_session_weight=4
        nio.sessionlessCnxnTimeout=7000
        nio.shutdownTimeout=900";
    let config = options(text).config().unwrap();
    let expected = Throttling {
        global_outstanding_limit: Some(1_000),
        max_requests: Some(5_000),
        stall_time: Duration::from_millis(50),
        drop_stale: false,
        stale_latency_check: true,
        throttled_op_wait: Some(Duration::from_millis(1_500)),
        large_request_bytes_min: Some(65_536),
        large_requests_bytes_max: 1_048_576,
        connections: Some(ConnectionThrottling {
            tokens: 200,
            fill_time_ms: 20,
            fill_count: 4,
            freeze_time_ms: Some(5_000),
            drop_increase: 0.05,
            drop_decrease: 0.001,
            decrease_ratio: 0.25,
            weights: Some(SessionWeights { new: 5, renewed: 4 }),
        }),
    };
    assert_eq!(config.throttling, expected);
    assert_eq!(config.sessionless_timeout, Duration::from_secs(7));
    assert_eq!(config.shutdown_timeout, Duration::from_millis(900));

    let off = "globalOutstandingLimit=0\nrequest_throttle_max_requests=0\nthrottled_op_wait_time=0\n\
               largeRequestThreshold=-1\nconnection_throttle_tokens=0\n\
               connection_throttle_freeze_time=-1";
    assert_eq!(options(off).config().unwrap().throttling, Throttling::default());
    for line in [
        "globalOutstandingLimit=-1",
        "request_throttle_stall_time=0",
        "connection_throttle_drop_increase=2",
        "connection_throttle_drop_increase=NaN",
        "connection_throttle_fill_time=0",
        "largeRequestMaxBytes=0",
        "largeRequestThreshold=x",
        "connection_throttle_freeze_time=-2",
        "nio.sessionlessCnxnTimeout=0",
    ] {
        assert!(read(line).is_err(), "{line}");
    }
}
