import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** Java's client, for the suite `client`: answers lines of an operation, a depth, a shape and a time. */
public final class JavaClient {
    private static final String PATH = "/java";
    private static final byte[] DATA = new byte[100];

    private final ZooKeeper client;
    private final String base;
    private final AtomicLong count = new AtomicLong();

    private JavaClient(ZooKeeper client) throws Exception {
        this.client = client;
        base = PATH + "-" + Long.toHexString(client.getSessionId());
        try {
            client.create(PATH, DATA, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        } catch (KeeperException.NodeExistsException e) {
            // By an earlier run.
        }
        client.create(base, DATA, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    public static void main(String[] arguments) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(arguments[0], 30_000, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        connected.await();
        JavaClient program = new JavaClient(client);
        System.out.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            int depth = Integer.parseInt(words[1]);
            long end = System.nanoTime() + Long.parseLong(words[3]) * 1_000_000;
            System.out.println(program.run(words[0], depth, words[2], end));
        }
        System.exit(0);
    }

    private long run(String operation, int depth, String shape, long end) throws Exception {
        count.set(0);
        if (depth == 1) {
            oneAfterTheOther(operation, end);
        } else if (shape.equals("burst")) {
            burst(operation, depth, end);
        } else {
            CountDownLatch live = new CountDownLatch(depth);
            for (int lane = 0; lane < depth; lane++) {
                goOn(operation, lane, 0, end, live);
            }
            live.await();
        }
        return count.get();
    }

    private void oneAfterTheOther(String operation, long end) throws Exception {
        while (System.nanoTime() < end) {
            switch (operation) {
                case "get":
                    client.getData(PATH, false, null);
                    break;
                case "set":
                    client.setData(PATH, DATA, -1);
                    break;
                default:
                    client.create(base + "/0", DATA, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
                    client.delete(base + "/0", -1);
                    count.incrementAndGet();
            }
            count.incrementAndGet();
        }
    }

    private void burst(String operation, int depth, long end) throws Exception {
        Semaphore answered = new Semaphore(0);
        while (System.nanoTime() < end) {
            for (int number = 0; number < depth; number++) {
                send(operation, number / 2, number, answered::release);
            }
            answered.acquire(depth);
        }
    }

    private void goOn(String operation, int lane, long turn, long end, CountDownLatch live) {
        if (turn % 2 == 0 && System.nanoTime() >= end) {
            live.countDown();
            return;
        }
        send(operation, lane, turn, () -> goOn(operation, lane, turn + 1, end, live));
    }

    private void send(String operation, int lane, long turn, Runnable then) {
        switch (operation) {
            case "get":
                client.getData(PATH, false, (code, path, context, data, stat) -> answered(code, then), null);
                break;
            case "set":
                client.setData(PATH, DATA, -1, (code, path, context, stat) -> answered(code, then), null);
                break;
            default:
                String path = base + "/" + lane;
                if (turn % 2 == 0) {
                    client.create(path, DATA, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL,
                            (code, asked, context, name) -> answered(code, then), null);
                } else {
                    client.delete(path, -1, (code, asked, context) -> answered(code, then), null);
                }
        }
    }

    private void answered(int code, Runnable then) {
        if (code != 0) {
            System.err.println("refused: " + KeeperException.Code.get(code));
            System.exit(1);
        }
        count.incrementAndGet();
        then.run();
    }
}
