//! Flags and files, and the configuration that they make.

use clap::{Args, Command, FromArgMatches};

use super::*;
use zoolet_server::storage::{Compression, Durability, StorageConfig};
use zoolet_server::{DigestAlgorithm, EnforceAuth};

fn command() -> Command {
    ServerOptions::augment_args(Command::new("zoolet").no_binary_name(true))
}

/// The options of these flags, which override those of `file`.
fn over(mut file: ServerOptions, flags: &[&str]) -> ServerOptions {
    let matches = command().try_get_matches_from(flags).unwrap();
    file.update_from_arg_matches(&matches).unwrap();
    file
}

fn flags(flags: &[&str]) -> ServerOptions {
    over(ServerOptions::default(), flags)
}

const SHA1_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
const SHA256_DIGEST: &str = "super:oeWbfO1nNLU+ptYJb5F+cESMRfSdXaCVHU1nC0TBL+Q=";

#[test]
fn nothing_chosen_is_the_default() {
    let config = flags(&[]).config().unwrap();
    assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
    assert!(config.settings.ttl_znodes);
}

#[test]
fn flags_reach_the_configuration() {
    let config = flags(&[
        "--client-port-listen-backlog=9",
        "--client-tcp-keep-alive",
        "--tick-time=11",
        "--min-session-timeout=12",
        "--max-session-timeout=13",
        "--max-client-cnxns=14",
        "--max-cnxns=15",
        "--jute-maxbuffer=0x10",
        "--enforce-quota",
        "--skip-acl",
        &format!("--super-digest={SHA256_DIGEST}"),
        "--digest-alg=sha-256",
        "--enforce-auth-enabled",
        "--enforce-auth-schemes=digest, ip",
        "--extended-types-enabled=false",
        "--znode-container-check-interval-ms=17",
        "--znode-container-max-per-minute=18",
        "--znode-container-max-never-used-interval-ms=19",
        "--4lw-commands-whitelist=ruok, mntr",
        "--reconfig-enabled",
    ])
    .config()
    .unwrap();
    let expected = Config {
        listen: None,
        tls: None,
        tick_time_ms: 11,
        min_session_timeout_ms: Some(12),
        max_session_timeout_ms: Some(13),
        max_client_connections: 14,
        max_connections: 15,
        listen_backlog: Some(9),
        frame_bytes_max: 16,
        tcp_keep_alive: true,
        four_letter_words: "ruok,mntr".parse().unwrap(),
        enforce_auth: EnforceAuth::Schemes(vec!["digest".to_owned(), "ip".to_owned()]),
        container_check_interval: Duration::from_millis(17),
        container_max_per_minute: 18,
        container_max_never_used_ms: 19,
        storage: None,
        audit: None,
        metrics_provider: zoolet_server::MetricsProvider::Default,
        wall_time: Config::default().wall_time,
        settings: Settings {
            ttl_znodes: false,
            enforce_quota: true,
            skip_acl: true,
            super_digest: Some(SHA256_DIGEST.into()),
            digest_algorithm: DigestAlgorithm::Sha256,
            reconfig_enabled: true,
            ..Settings::default()
        },
        ..Config::default()
    };
    assert_eq!(format!("{config:?}"), format!("{expected:?}"));
    // `Debug` does not show the digest.
    assert_eq!(config.settings, expected.settings);
}

#[test]
fn flags_override_a_file_and_leave_the_rest() {
    let file = ServerOptions {
        tick_time: Some(1),
        max_client_cnxns: Some(2),
        enforce_quota: Some(true),
        access: AccessOptions {
            skip_acl: Some(true),
            session_require_client_sasl_auth: Some(false),
            ..AccessOptions::default()
        },
        readonly_mode: Some(true),
        ..ServerOptions::default()
    };
    let expected = ServerOptions { tick_time: Some(3), enforce_quota: Some(false), ..file.clone() };
    assert_eq!(over(file, &["--tick-time", "3", "--enforce-quota", "false"]), expected);
}

#[test]
fn a_truth_may_be_left_out_or_follow() {
    for (args, chosen) in [
        (["--enforce-quota"].as_slice(), true),
        (&["--enforce-quota=true"], true),
        (&["--enforce-quota", "FALSE"], false),
        (&["--enforce-quota", "--tick-time=1"], true),
    ] {
        assert_eq!(flags(args).enforce_quota, Some(chosen), "{args:?}");
    }
    assert_eq!(flags(&["--skip-acl"]).access.skip_acl, Some(true));
    assert_eq!(flags(&["--skip-acl=no"]).access.skip_acl, Some(false));
}

#[test]
fn defaults_can_be_asked_for_by_number() {
    let config = flags(&[
        "--min-session-timeout",
        "-1",
        "--max-session-timeout",
        "-1",
        "--client-port-listen-backlog",
        "-1",
    ])
    .config()
    .unwrap();
    assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
}

#[test]
fn with_a_port_for_tls_alone_no_other_is_opened() {
    assert!(matches!(flags(&["--secure-client-port=2281"]).listen(), Ok(None)));
    let both = flags(&["--secure-client-port=2281", "--client-port=2181"]);
    assert!(both.listen().unwrap().is_some());
}

#[test]
fn where_to_listen() {
    let file = ServerOptions {
        client_port: Some(1),
        client_port_address: Some("::1".to_owned()),
        ..ServerOptions::default()
    };
    let cases = [
        (ServerOptions::default(), [].as_slice(), Ok("127.0.0.1 2181")),
        (ServerOptions::default(), &["--listen", "localhost:0"], Ok("localhost 0")),
        (ServerOptions::default(), &["--client-port", "5"], Ok("0.0.0.0 5")),
        (
            ServerOptions::default(),
            &["--client-port-address", "a"],
            Err(Contradiction::NoClientPort.to_string()),
        ),
        (file.clone(), &[], Ok("::1 1")),
        (file.clone(), &["--client-port", "5"], Ok("::1 5")),
        (file.clone(), &["--client-port-address", "a"], Ok("a 1")),
        (file, &["--listen", "b:6"], Ok("b 6")),
    ];
    for (file, args, expected) in cases {
        let listen = over(file, args).listen().map(|listen| {
            let HostPort { host, port } = listen.unwrap();
            format!("{host} {port}")
        });
        let listen = listen.map_err(|error| error.to_string());
        assert_eq!(listen, expected.map(str::to_owned), "{args:?}");
    }
}

#[test]
fn contradictions() {
    let options = [
        (
            flags(&["--session-require-client-sasl-auth"]),
            SaslContradiction::NoUsers("enforced authentication by the scheme sasl alone").into(),
        ),
        (
            flags(&["--sasl-serverconfig=Here"]),
            SaslContradiction::NoUsers("sasl.serverconfig").into(),
        ),
        (
            ServerOptions {
                access: AccessOptions {
                    jaas_config: Some("/nonexistent".into()),
                    fips_mode: Some(true),
                    ..AccessOptions::default()
                },
                ..ServerOptions::default()
            },
            SaslContradiction::Fips.into(),
        ),
        (
            flags(&["--super-digest", SHA1_DIGEST, "--digest-alg", "SHA3-256"]),
            Contradiction::SuperDigestOfOtherAlgorithm,
        ),
        (flags(&["--super-digest", SHA256_DIGEST]), Contradiction::SuperDigestOfOtherAlgorithm),
        (flags(&["--enforce-auth-enabled"]), ConfigError::NoAuthSchemes.into()),
        (
            flags(&["--enforce-auth-enabled", "--enforce-auth-schemes=x509"]),
            ConfigError::UnknownAuthScheme("x509".to_owned()).into(),
        ),
        (
            flags(&["--max-session-timeout=1", "--tick-time=10"]),
            ConfigError::SessionTimeouts { min: 20, max: 1 }.into(),
        ),
    ];
    for (options, expected) in options {
        let error = options.config().unwrap_err();
        assert_eq!(error.to_string(), expected.to_string(), "{options:?}");
    }
}

#[test]
fn options_without_effect_are_remarked_on() {
    let schemes = "--enforce-auth-schemes=digest";
    assert_eq!(flags(&[schemes]).remarks().len(), 1);
    assert_eq!(flags(&[schemes, "--enforce-auth-enabled=false"]).remarks().len(), 1);
    assert!(flags(&[schemes, "--enforce-auth-enabled"]).remarks().is_empty());
    assert!(flags(&[]).remarks().is_empty());
    assert_eq!(flags(&[schemes]).config().unwrap().enforce_auth, EnforceAuth::Off);
    assert!(flags(&["--jute-maxbuffer=4"]).remarks()[0].contains("in bytes"));
    assert!(flags(&["--jute-maxbuffer=45"]).remarks().is_empty());
    assert!(flags(&["--super-user=a"]).remarks()[0].contains("--jaas-config"));
    assert!(flags(&["--ensemble-auth-name=a"]).remarks()[0].contains("authProvider.ensemble"));
    let provider = "--auth-provider=ensemble";
    assert!(flags(&["--ensemble-auth-name=a", provider]).remarks().is_empty());
    let remarks = flags(&["--jaas-config=jaas.conf", "--auth-provider=sasl"]).remarks();
    assert!(remarks.len() == 1 && remarks[0].contains("obsolete"), "{remarks:?}");
    assert!(flags(&["--jaas-config=jaas.conf"]).remarks()[1].contains("authProvider.sasl"));
}

#[test]
fn providers_reach_the_configuration() {
    let config = flags(&[
        "--auth-provider=x509",
        "--auth-provider=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "--auth-provider=ensemble",
        "--x509-super-user=CN=a",
        "--ensemble-auth-name=a, b",
        "--let-any-sasl-user-do-x=c",
    ])
    .config()
    .unwrap();
    let expected = Settings {
        x509_scheme: true,
        x509_super_user: Some("CN=a".to_owned()),
        sasl_scheme: true,
        any_sasl_user: Some("c".to_owned()),
        ensemble_scheme: true,
        ensemble_names: Some(["a".to_owned(), "b".to_owned()].into()),
        ..Settings::default()
    };
    assert_eq!(config.settings, expected);
    let unknown = command().try_get_matches_from(["--auth-provider=kerberos"]).unwrap_err();
    assert!(unknown.to_string().contains("digest, ip, x509, sasl, ensemble,"), "{unknown}");
}

#[test]
fn read_only_mode_allows_isro() {
    let mut options = flags(&["--4lw-commands-whitelist=ruok"]);
    assert!(!options.config().unwrap().four_letter_words.contains("isro"));
    options.readonly_mode = Some(true);
    let words = options.config().unwrap().four_letter_words;
    assert!(words.contains("isro") && words.contains("ruok") && !words.contains("mntr"));
}

#[test]
fn flags_about_files_reach_the_configuration() {
    let config = flags(&[
        "--data-dir=/data",
        "--log-dir=/logs",
        "--durability=buffered",
        "--snap-count=1",
        "--snap-size-limit-in-kb=-1",
        "--txn-log-size-limit-in-kb=7",
        "--pre-alloc-size=8",
        "--snapshot-compression-method=gz",
        "--autopurge-snap-retain-count=9",
        "--snapshot-trust-empty",
        "--datadir-autocreate=false",
        "--fsync-warningthresholdms=20",
    ]);
    let expected = StorageConfig {
        data_log_dir: Some("/logs".into()),
        durability: Durability::Buffered,
        snap_count: 2,
        snap_size_limit_bytes: None,
        log_size_limit_bytes: Some(7 << 10),
        allocate_bytes: 8 << 10,
        snapshot_compression: Compression::Gzip,
        snap_retain_count: Some(9),
        trust_empty_snapshot: true,
        create_directories: false,
        sync_warning: Duration::from_millis(20),
        ..StorageConfig::at("/data")
    };
    let storage = config.config().unwrap().storage.unwrap();
    assert_eq!(format!("{storage:?}"), format!("{expected:?}"));
}

#[test]
fn what_is_to_survive_needs_a_place() {
    let error = flags(&["--durability=synced"]).config().unwrap_err();
    assert!(matches!(error, Contradiction::NoDataDir), "{error}");
    let nothing = flags(&["--durability=memory", "--data-dir=/data"]).config().unwrap();
    assert!(nothing.storage.is_none());
    assert!(flags(&["--snap-count=7"]).remarks()[0].contains("dataDir"));
    assert!(flags(&["--snap-count=7", "--data-dir=/data"]).remarks().is_empty());
    let kept = flags(&["--data-dir=/data", "--autopurge-purge-interval=0"]).config().unwrap();
    assert_eq!(kept.storage.unwrap().snap_retain_count, None, "purging was turned off");
}

/// Each pair: what has no effect, and what gives it one.
#[test]
fn what_has_no_effect_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let jaas = folder.path().join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required user_ann=\"pw\";";
    std::fs::write(&jaas, format!("Server {{ {module} }};")).unwrap();
    let jaas = format!("--jaas-config={}", jaas.display());
    let digest = format!("--super-digest={SHA1_DIGEST}");
    let cases: &[(&[&str], &[&str], &str)] = &[
        (&["--x509-super-user=CN=a"], &["--secure-client-port=1"], "superUser"),
        (&["--allow-sasl-failed-clients"], &[&jaas], "allowSaslFailedClients"),
        (&["--let-any-sasl-user-do-x=a"], &[&jaas], "letAnySaslUserDoX"),
        (&[&jaas, "--super-user=ann", "--super-user=eve"], &[], "whom the JAAS file does not have"),
        (
            &[&digest, "--digest-authentication-provider-enabled=false"],
            &["--auth-provider=digest"],
            "superDigest",
        ),
        (&["--connection-throttle-fill-time=2"], &["--connection-throttle-tokens=1"], "throttle_*"),
        (
            &["--connection-throttle-tokens=1", "--connection-throttle-renew-session-weight=1"],
            &["--connection-throttle-weight-enabled"],
            "renew_session_weight",
        ),
        (
            &["--connection-throttle-tokens=1", "--connection-throttle-drop-increase=0.1"],
            &["--connection-throttle-freeze-time=5"],
            "drop_increase",
        ),
        (
            &["--large-request-max-bytes=9"],
            &["--large-request-threshold=9"],
            "largeRequestMaxBytes",
        ),
        (&["--throttled-op-wait-time=9"], &["--request-throttle-max-requests=9"], "throttled_op"),
        (&["--request-stale-latency-check"], &["--global-outstanding-limit=9"], "stale_latency"),
        (
            &["--ssl-client-auth=none", "--ssl-trust-store-location=/t", "--secure-client-port=1"],
            &["--ssl-client-auth=want"],
            "ssl.trustStore.*",
        ),
        (
            &["--ssl-client-hostname-verification", "--ssl-hostname-verification=false"],
            &["--ssl-hostname-verification=true"],
            "ssl.clientHostnameVerification",
        ),
        (&["--ssl-crl-file=/c"], &["--secure-client-port=1"], "nothing speaks it"),
    ];
    for (without, cure, told) in cases {
        let tells =
            |options: &ServerOptions| options.remarks().iter().any(|remark| remark.contains(told));
        let idle = flags(without);
        assert!(tells(&idle), "{told}: {:?}", idle.remarks());
        if !cure.is_empty() {
            let cured = over(idle, cure);
            assert!(!tells(&cured), "{told}: {:?}", cured.remarks());
        }
    }
    let mut options = flags(&[&jaas]);
    options.access.sasl_super_password = Some("pw".into());
    options.monitoring.export_jvm_info = Some(false);
    let remarks = options.remarks().join("\n");
    assert!(remarks.contains("no user super") && remarks.contains("exportJvmInfo"), "{remarks}");
}
