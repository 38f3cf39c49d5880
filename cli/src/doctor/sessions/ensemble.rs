//! Which servers an ensemble has.

use zoolet_client::Client;

/// Where the servers of an ensemble keep their configuration, since ZooKeeper 3.5.
const CONFIG_PATH: &str = "/zookeeper/config";

/// The hosts of an ensemble's servers. `None` if the client may not read them, or is below another
/// root.
pub(crate) async fn members(client: &Client) -> Option<Vec<String>> {
    let (data, _) = client.get(CONFIG_PATH).await.ok()?;
    Some(read(&String::from_utf8_lossy(&data)))
}

/// Lines such as `server.1=zk1.example:2888:3888:participant;0.0.0.0:2181`.
fn read(config: &str) -> Vec<String> {
    let host = |line: &str| {
        let (number, server) = line.strip_prefix("server.")?.split_once('=')?;
        number.parse::<i64>().ok()?;
        // Behind a bar are other addresses of the same server.
        let address = server.split(['|', ';']).next()?;
        let host = match address.strip_prefix('[') {
            Some(v6) => v6.split(']').next()?,
            None => address.split(':').next()?,
        };
        Some(host.to_owned())
    };
    config.lines().filter_map(host).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_as_apache_writes_them() {
        let config = "server.1=zk1.example:2888:3888:participant;0.0.0.0:2181\n\
                      server.2=[::1]:2888:3888|zk2.example:2889:3889:observer\n\
                      server.x=none:1:2\nversion=100000000";
        assert_eq!(read(config), ["zk1.example", "::1"]);
        assert!(read("").is_empty());
    }
}
