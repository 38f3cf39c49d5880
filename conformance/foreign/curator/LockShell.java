import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.state.ConnectionState;

/** The same as src/lock_shell.rs, with Curator: one step for each line, so that its requests can be counted. */
final class LockShell {
    private static final int PERMITS = 3;
    /** How many items a step puts or takes. */
    private static final int ITEMS = 100;

    private final CuratorFramework client;
    private final String path;
    private final InterProcessMutex mutex;
    private final InterProcessLock fresh;
    private final InterProcessReadWriteLock lock;
    private final InterProcessSemaphoreV2 semaphore;
    private final InterProcessLock all;
    private final List<FutureTask<Void>> waiting = new ArrayList<>();
    private Lease lease;
    private Collection<Lease> leases;
    private SharedCount maximum;
    private DistributedQueue<String> producer;

    private LockShell(CuratorFramework client, String path) {
        this.client = client;
        this.path = path;
        mutex = new InterProcessMutex(client, path + "/mutex");
        fresh = new InterProcessMutex(client, path + "/new/directory");
        lock = new InterProcessReadWriteLock(client, path + "/read-write");
        semaphore = new InterProcessSemaphoreV2(client, path + "/semaphore", PERMITS);
        all = new InterProcessMultiLock(client, List.of(path + "/all/one", path + "/all/two", path + "/all/three"));
    }

    static void obey(CuratorFramework client, String path, BufferedReader told) throws Exception {
        LockShell shell = new LockShell(client, path);
        for (String line = told.readLine(); line != null; line = told.readLine()) {
            shell.act(line);
            if (!line.equals("revocable")) {
                System.out.println(line);
            }
        }
    }

    private void act(String line) throws Exception {
        switch (line) {
            case "mutex" -> mutex.acquire();
            case "unmutex" -> mutex.release();
            case "fresh" -> fresh.acquire();
            case "unfresh" -> fresh.release();
            case "read" -> lock.readLock().acquire();
            case "unread" -> lock.readLock().release();
            case "write" -> lock.writeLock().acquire();
            case "unwrite" -> lock.writeLock().release();
            case "permit" -> lease = semaphore.acquire();
            case "unpermit" -> lease.close();
            case "permits" -> leases = semaphore.acquire(PERMITS);
            case "unpermits" -> semaphore.returnAll(leases);
            case "all" -> all.acquire();
            case "unall" -> all.release();
            case "try" -> {
                if (mutex.acquire(0, TimeUnit.MILLISECONDS)) {
                    throw new IllegalStateException("it was free");
                }
            }
            case "wait" -> waitFor(mutex);
            case "wait-read" -> waitFor(lock.readLock());
            case "wait-write" -> waitFor(lock.writeLock());
            case "join" -> {
                for (FutureTask<Void> one : waiting) {
                    one.get();
                }
                waiting.clear();
            }
            case "revocable" -> start(this::holdUntilRevoked);
            case "revoke" -> Revoker.attemptRevoke(client, mutex.getParticipantNodes().iterator().next());
            case "grow" -> maximum().setCount(maximum().getCount() + 1);
            case "counted" -> lease = new InterProcessSemaphoreV2(client, path + "/counted", maximum()).acquire();
            case "uncounted" -> lease.close();
            case "put" -> put();
            case "take" -> take(null);
            case "take-leased" -> take(path + "/queue-locks");
            default -> throw new IllegalArgumentException(line);
        }
    }

    private void put() throws Exception {
        if (producer == null) {
            producer = builder(null).putInBackground(false).buildQueue();
            producer.start();
        }
        for (int item = 0; item < ITEMS; item++) {
            producer.put(Integer.toString(item));
        }
    }

    /** Takes items with a new queue, whose consumer begins with it. */
    private void take(String lockPath) throws Exception {
        CountDownLatch taken = new CountDownLatch(ITEMS);
        QueueBuilder<String> builder = builder(new QueueConsumer<String>() {
            @Override
            public void consumeMessage(String item) {
                taken.countDown();
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        });
        if (lockPath != null) {
            builder.lockPath(lockPath);
        }
        try (DistributedQueue<String> queue = builder.buildQueue()) {
            queue.start();
            taken.await();
            // The last item is deleted after its consumer has returned.
            while (client.checkExists().forPath(path + "/queue").getNumChildren() > 0) {
                TimeUnit.MILLISECONDS.sleep(1);
            }
        }
    }

    private QueueBuilder<String> builder(QueueConsumer<String> consumer) {
        return QueueBuilder.builder(client, consumer, new QueueSerializer<String>() {
            @Override
            public byte[] serialize(String item) {
                return item.getBytes(StandardCharsets.UTF_8);
            }

            @Override
            public String deserialize(byte[] bytes) {
                return new String(bytes, StandardCharsets.UTF_8);
            }
        }, path + "/queue");
    }

    private SharedCount maximum() throws Exception {
        if (maximum == null) {
            maximum = new SharedCount(client, path + "/maximum", 1);
            maximum.start();
        }
        return maximum;
    }

    /** Prints when the mutex is held, and when it was released after a revocation. */
    private Void holdUntilRevoked() throws Exception {
        InterProcessMutex revocable = new InterProcessMutex(client, path + "/mutex");
        CountDownLatch revoked = new CountDownLatch(1);
        revocable.makeRevocable(lock -> revoked.countDown());
        revocable.acquire();
        System.out.println("revocable");
        revoked.await();
        revocable.release();
        System.out.println("revoked");
        return null;
    }

    /** A thread that acquires a lock and releases it at once. */
    private void waitFor(InterProcessLock one) {
        start(() -> {
            one.acquire();
            one.release();
            return null;
        });
    }

    private void start(Callable<Void> work) {
        FutureTask<Void> task = new FutureTask<>(work);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        waiting.add(task);
    }
}
