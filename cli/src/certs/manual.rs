//! How to use the files.

use std::path::Path;

use super::issue::Issued;

/// The text that the command prints.
pub(super) fn text(dir: &Path, issued: &Issued) -> String {
    let dir = dir.display();
    let (hosts, until) = (issued.hosts.join(", "), issued.until);
    format!(
        "\
In {dir}, until {until}:
  ca.pem          the authority, whom server and clients trust
  ca-key.pem      its private key: whoever has it can issue certificates
  server.pem      the server's private key and certificate, for {hosts}
  client.pem      a client's private key and certificate
  server.p12, client.p12, truststore.p12
                  the same for Java, with the password that is in the file `password`

The server, in zoo.cfg:
  secureClientPort=2281
  ssl.keyStore.location={dir}/server.pem
  ssl.trustStore.location={dir}/ca.pem

Clients of zoolet:
  zoolet cli --server localhost:2281 --tls-ca {dir}/ca.pem --tls-cert {dir}/client.pem ls /

Clients in Java, as system properties:
  zookeeper.client.secure=true
  zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty
  zookeeper.ssl.keyStore.location={dir}/client.p12
  zookeeper.ssl.keyStore.passwordPath={dir}/password
  zookeeper.ssl.trustStore.location={dir}/truststore.p12
  zookeeper.ssl.trustStore.passwordPath={dir}/password

Clients in Python:
  KazooClient(\"localhost:2281\", use_ssl=True, ca=\"{dir}/ca.pem\", certfile=\"{dir}/client.pem\", keyfile=\"{dir}/client.pem\")
"
    )
}
