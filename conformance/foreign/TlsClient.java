import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/**
 * Connects to servers, one after the other, creates a znode on each, and prints who may do what with it, a
 * line each after the path. The arguments are four for each server: HOST:PORT, the path, a file with the
 * properties of the client, and "open" or "auth". With "auth" the znode is the client's own, by the
 * identities that its connection has.
 */
public class TlsClient {
    public static void main(String[] arguments) throws Exception {
        for (int first = 0; first < arguments.length; first += 4) {
            boolean isOwn = arguments[first + 3].equals("auth");
            use(arguments[first], arguments[first + 1], new ZKClientConfig(arguments[first + 2]), isOwn);
        }
    }

    private static void use(String server, String path, ZKClientConfig config, boolean isOwn)
            throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        try (ZooKeeper client = new ZooKeeper(server, 30_000, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        }, config)) {
            if (!connected.await(20, TimeUnit.SECONDS)) {
                System.err.println(path + ": not connected after 20 s");
                System.exit(1);
            }
            List<ACL> acl = isOwn ? Ids.CREATOR_ALL_ACL : Ids.OPEN_ACL_UNSAFE;
            byte[] data = "by Java".getBytes(StandardCharsets.UTF_8);
            client.create(path, data, acl, CreateMode.PERSISTENT);
            client.getData(path, false, new Stat());
            for (ACL entry : client.getACL(path, new Stat())) {
                System.out.println(path + " " + entry.getId().getScheme() + ":" + entry.getId().getId());
            }
        }
    }
}
