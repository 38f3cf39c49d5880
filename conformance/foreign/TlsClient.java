import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/**
 * Connects to a server, creates a znode, and prints who may do what with it, a line each. With "auth" as
 * the last argument the znode is the client's own, by the identities that its connection has. What TLS
 * needs is in ZooKeeper's system properties.
 */
public class TlsClient {
    public static void main(String[] arguments) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        try (ZooKeeper client = new ZooKeeper(arguments[0], 30_000, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        })) {
            if (!connected.await(20, TimeUnit.SECONDS)) {
                System.err.println("not connected after 20 s");
                System.exit(1);
            }
            boolean isOwn = arguments[2].equals("auth");
            List<ACL> acl = isOwn ? Ids.CREATOR_ALL_ACL : Ids.OPEN_ACL_UNSAFE;
            byte[] data = "by Java".getBytes(StandardCharsets.UTF_8);
            client.create(arguments[1], data, acl, CreateMode.PERSISTENT);
            client.getData(arguments[1], false, new Stat());
            for (ACL entry : client.getACL(arguments[1], new Stat())) {
                System.out.println(entry.getId().getScheme() + ":" + entry.getId().getId());
            }
        }
    }
}
