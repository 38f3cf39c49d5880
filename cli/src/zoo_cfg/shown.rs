//! What of a file may be shown to administrators: all of it but passwords and their hashes.

use std::collections::BTreeMap;

use super::{bare, properties};

/// What stands in place of a secret.
const HIDDEN: &str = "***";

/// Whether the value of a key is secret. Paths of files with passwords are not.
fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let is_path = key.ends_with("passwordpath");
    !is_path
        && ["password", "passwd", "superdigest", "secret"].iter().any(|word| key.contains(word))
}

/// What ZooKeeper has as Java properties, with secrets hidden.
pub(super) fn java_properties(text: &str) -> BTreeMap<String, String> {
    let written = properties::parse(text).filter_map(Result::ok);
    written.filter_map(|it| Some((property(&it.key)?, value(&it.key, &it.value)))).collect()
}

/// The value of a key, if it may be shown.
fn value(key: &str, value: &str) -> String {
    if is_secret(key) { HIDDEN.to_owned() } else { value.to_owned() }
}

/// The text of a file with its secrets hidden.
pub(super) fn text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut goes_on = false;
    let mut is_hidden = false;
    for line in text.lines() {
        if !goes_on {
            let trimmed = line.trim_start();
            let key = trimmed.split(['=', ':', ' ', '\t']).next().unwrap_or_default();
            is_hidden = !trimmed.starts_with(['#', '!']) && is_secret(key);
            if is_hidden {
                shown.push_str(&format!("{key}={HIDDEN}\n"));
            }
        }
        if !is_hidden {
            shown.push_str(line);
            shown.push('\n');
        }
        // A comment does not go on, but a line after it that hides too much hides nothing else.
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        goes_on = backslashes % 2 == 1 && !line.trim_start().starts_with(['#', '!']);
    }
    shown
}

/// The name of the Java property that ZooKeeper makes of a key; `None` for the keys that it reads
/// itself (`QuorumPeerConfig.parseProperties`).
fn property(key: &str) -> Option<String> {
    let is_own = OWN_KEYS.split_whitespace().any(|own| match own.ends_with('.') {
        true => key.starts_with(own),
        false => key == own,
    });
    (!is_own).then(|| format!("zookeeper.{}", bare(key)))
}

const OWN_KEYS: &str = "dataDir dataLogDir clientPort clientPortAddress secureClientPort \
    secureClientPortAddress observerMasterPort clientPortListenBacklog tickTime maxClientCnxns \
    minSessionTimeout maxSessionTimeout initLimit syncLimit connectToLearnerMasterLimit electionAlg \
    quorumListenOnAllIPs peerType syncEnabled dynamicConfigFile autopurge.snapRetainCount \
    autopurge.purgeInterval standaloneEnabled reconfigEnabled sslQuorum portUnification \
    sslQuorumReloadCertFiles localSessionsEnabled localSessionsUpgradingEnabled oraclePath version \
    server. group. weight. quorum.auth. quorum.cnxn.threads.size jvm.pause. metricsProvider. \
    multiAddress.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_wherever_they_stand() {
        let file = "# password=no secret\ndataDir=/x\nssl.keyStore.password=se\\\n  cret\n\
                    ssl.keyStore.passwordPath=/p\n zookeeper.DigestAuthenticationProvider.superDigest : \
                    super:hash=\nSASLAuthenticationProvider.superPassword pw\nlast=1\n";
        let shown = text(file);
        assert_eq!(
            shown,
            "# password=no secret\ndataDir=/x\nssl.keyStore.password=***\n\
             ssl.keyStore.passwordPath=/p\nzookeeper.DigestAuthenticationProvider.superDigest=***\n\
             SASLAuthenticationProvider.superPassword=***\nlast=1\n"
        );
        assert_eq!(value("ssl.trustStore.password", "x"), "***");
        assert_eq!(value("ssl.trustStore.passwordPath", "/x"), "/x");
    }

    #[test]
    fn keys_become_properties_as_in_zookeeper() {
        assert_eq!(property("snapCount").as_deref(), Some("zookeeper.snapCount"));
        assert_eq!(property("zookeeper.snapCount").as_deref(), Some("zookeeper.snapCount"));
        assert_eq!(property("dataDir"), None);
        assert_eq!(property("metricsProvider.httpPort"), None);
        assert_eq!(property("server.1"), None);
    }
}
