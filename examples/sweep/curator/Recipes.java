import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/** Tests of Curator's recipes, for `zoolet sweep`: each passes on a new server without faults. */
public final class Recipes {
    private Recipes() {}

    public static void main(String[] args) throws Exception {
        try (CuratorFramework client = connected()) {
            switch (args[0]) {
                case "counter" -> counter(client);
                case "queue-take" -> queueTake(client);
                case "queue-offer" -> queueOffer(client);
                case "double-barrier" -> doubleBarrier(client);
                case "semaphore" -> semaphore(client);
                case "locked-writes" -> lockedWrites(client);
                default -> throw new IllegalArgumentException(args[0]);
            }
        }
    }

    private static CuratorFramework connected() throws InterruptedException {
        String server = System.getenv("ZOOLET_CONNECT_STRING");
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(server, 20_000, 10_000, new RetryNTimes(10, 200));
        client.start();
        check(client.blockUntilConnected(10, TimeUnit.SECONDS), "no connection");
        return client;
    }

    /** Two increments make two. */
    private static void counter(CuratorFramework client) throws Exception {
        DistributedAtomicLong counter = new DistributedAtomicLong(client, "/counter", new RetryNTimes(10, 50));
        for (int i = 0; i < 2; i++) {
            check(counter.increment().succeeded(), "an increment failed");
        }
        long total = counter.get().postValue();
        check(total == 2, "1 + 1 = " + total);
    }

    /** What is in the queue comes out of it. */
    private static void queueTake(CuratorFramework client) throws Exception {
        List<String> expected = List.of("first", "second");
        for (int i = 0; i < expected.size(); i++) {
            try {
                String path = "/queue/qn-000000000" + i;
                client.create().creatingParentsIfNeeded().forPath(path, expected.get(i).getBytes(StandardCharsets.UTF_8));
            } catch (KeeperException.NodeExistsException created) {
                // By an attempt whose reply was lost.
            }
        }
        List<String> items = all(new SimpleDistributedQueue(client, "/queue"));
        check(items.equals(expected), items + " came out of the queue");
    }

    /** What is put into the queue is in it, once. */
    private static void queueOffer(CuratorFramework client) throws Exception {
        SimpleDistributedQueue queue = new SimpleDistributedQueue(client, "/queue");
        check(queue.offer("item".getBytes(StandardCharsets.UTF_8)), "it was refused");
        List<String> names = client.getChildren().forPath("/queue");
        check(names.size() == 1, names.size() + " items are in the queue after one offer");
    }

    private static List<String> all(SimpleDistributedQueue queue) throws Exception {
        List<String> items = new ArrayList<>();
        for (byte[] item = queue.poll(); item != null; item = queue.poll()) {
            items.add(new String(item, StandardCharsets.UTF_8));
        }
        return items;
    }

    /** A member alone enters a barrier for one, and leaves it. */
    private static void doubleBarrier(CuratorFramework client) throws Exception {
        DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, "/barrier", 1);
        check(barrier.enter(5, TimeUnit.SECONDS), "it is not through");
        check(barrier.leave(5, TimeUnit.SECONDS), "it is still inside");
    }

    /** A permit that was returned can be had again. */
    private static void semaphore(CuratorFramework client) throws Exception {
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, "/semaphore", 1);
        for (int i = 0; i < 2; i++) {
            Lease lease = semaphore.acquire(5, TimeUnit.SECONDS);
            check(lease != null, "no permit is free, and nobody has one");
            semaphore.returnLease(lease);
        }
    }

    /** A list is changed under a lock, and with a version in case the lock is lost. */
    private static void lockedWrites(CuratorFramework client) throws Exception {
        client.create().orSetData().forPath("/list", new byte[0]);
        for (String item : List.of("a", "b", "c")) {
            InterProcessMutex mutex = new InterProcessMutex(client, "/lock");
            mutex.acquire();
            try {
                add(client, item);
            } finally {
                mutex.release();
            }
        }
        String list = new String(client.getData().forPath("/list"), StandardCharsets.UTF_8);
        check(list.equals(" a b c"), list);
    }

    /** Adds an item, once: whether it is there decides, and not what the last attempt returned. */
    private static void add(CuratorFramework client, String item) throws Exception {
        while (true) {
            Stat stat = new Stat();
            String list = new String(client.getData().storingStatIn(stat).forPath("/list"), StandardCharsets.UTF_8);
            if (Arrays.asList(list.split(" ")).contains(item)) {
                return;
            }
            byte[] longer = (list + " " + item).getBytes(StandardCharsets.UTF_8);
            try {
                client.setData().withVersion(stat.getVersion()).forPath("/list", longer);
            } catch (KeeperException.BadVersionException changed) {
                // By an attempt whose reply was lost.
            }
        }
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }
}
