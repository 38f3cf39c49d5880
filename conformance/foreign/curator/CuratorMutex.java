import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.data.Stat;

/** Many threads of several clients contend for one InterProcessMutex, which protects a count in a znode. */
public final class CuratorMutex {
    private static final int CLIENTS = 4;

    public static void main(String[] args) throws Exception {
        String address = args[0];
        int threads = Integer.parseInt(args[1]);
        int rounds = Integer.parseInt(args[2]);
        String root = "/curator-mutex-" + ProcessHandle.current().pid();
        List<CuratorFramework> clients = new ArrayList<>();
        ExecutorService pool = Executors.newFixedThreadPool(threads, task -> {
            Thread thread = new Thread(task);
            // A thread that hangs must not keep the JVM alive.
            thread.setDaemon(true);
            return thread;
        });
        try {
            for (int i = 0; i < CLIENTS; i++) {
                CuratorFramework client = CuratorFrameworkFactory.newClient(address, 15_000, 10_000, new RetryOneTime(100));
                client.start();
                clients.add(client);
                if (!client.blockUntilConnected(10, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("no connection");
                }
            }
            run(clients, pool, root, threads, rounds);
            clients.get(0).delete().deletingChildrenIfNeeded().forPath(root);
        } finally {
            pool.shutdownNow();
            clients.forEach(CuratorFramework::close);
        }
        System.out.println("ok");
    }

    private static void run(List<CuratorFramework> clients, ExecutorService pool, String root, int threads, int rounds)
            throws Exception {
        CuratorFramework first = clients.get(0);
        String counter = root + "/counter";
        String lock = root + "/lock";
        first.create().creatingParentsIfNeeded().forPath(counter, "0".getBytes(StandardCharsets.UTF_8));
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger overlaps = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        long started = System.nanoTime();
        List<Future<Void>> running = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            CuratorFramework client = clients.get(i % CLIENTS);
            running.add(pool.submit(() -> {
                InterProcessMutex mutex = new InterProcessMutex(client, lock);
                for (int round = 0; round < rounds; round++) {
                    if (!mutex.acquire(60, TimeUnit.SECONDS)) {
                        throw new IllegalStateException("the lock was not given within a minute");
                    }
                    try {
                        if (inside.incrementAndGet() != 1) {
                            overlaps.incrementAndGet();
                        }
                        // One thread acquires twice and counts as one holder.
                        mutex.acquire();
                        mutex.release();
                        most.accumulateAndGet(client.getChildren().forPath(lock).size(), Math::max);
                        Stat stat = new Stat();
                        byte[] data = client.getData().storingStatIn(stat).forPath(counter);
                        int value = Integer.parseInt(new String(data, StandardCharsets.UTF_8)) + 1;
                        // Fails if another client wrote in between.
                        client.setData()
                                .withVersion(stat.getVersion())
                                .forPath(counter, Integer.toString(value).getBytes(StandardCharsets.UTF_8));
                    } finally {
                        inside.decrementAndGet();
                        mutex.release();
                    }
                }
                return null;
            }));
        }
        for (Future<Void> one : running) {
            one.get(90, TimeUnit.SECONDS);
        }
        double seconds = (System.nanoTime() - started) / 1e9;
        int count = Integer.parseInt(new String(first.getData().forPath(counter), StandardCharsets.UTF_8));
        System.out.printf(
                "%d threads over %d clients, %d acquisitions in %.2f s, %.0f us each, at most %d in line%n",
                threads, CLIENTS, threads * rounds, seconds, seconds * 1e6 / (threads * rounds), most.get());
        if (overlaps.get() != 0) {
            throw new IllegalStateException(overlaps.get() + " overlaps");
        }
        if (count != threads * rounds) {
            throw new IllegalStateException("counted " + count + " of " + threads * rounds);
        }
        if (!first.getChildren().forPath(lock).isEmpty()) {
            throw new IllegalStateException("the lock left znodes");
        }
        InterProcessMutex holder = new InterProcessMutex(first, lock);
        holder.acquire();
        InterProcessMutex other = new InterProcessMutex(clients.get(1), lock);
        if (other.acquire(300, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("a held lock was given");
        }
        // The end of the holder's session releases the lock.
        long closed = System.nanoTime();
        clients.remove(0).close();
        if (!other.acquire(10, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the lock of an ended session stayed");
        }
        System.out.printf("freed %.0f ms after its holder's session was closed%n", (System.nanoTime() - closed) / 1e6);
        other.release();
    }
}
