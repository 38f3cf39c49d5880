import java.io.BufferedReader;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** A fleet member that writes down each attempt; src/fleet/recorded.rs describes what it does. */
final class RecordedMember {
    private static final int SELDOM = 4;
    private static final int HURRY_MS_MAX = 20;
    private static final int INSIDE_US_MAX = 2000;
    private static final int PATIENCE_MS = 45_000;

    private interface Held {
        void release() throws Exception;
    }

    private interface Lock {
        /** Null if it was not let in. */
        Held take(int time) throws Exception;
    }

    private static String who;
    private static FileChannel record;

    /** The last line of the input; null at its end. */
    private static volatile String wish = "";

    private RecordedMember() {}

    static void contend(
            CuratorFramework client, String recipe, String path, String folder, String name, int capacity, BufferedReader told)
            throws Exception {
        record = FileChannel.open(Path.of(folder, "entries"), StandardOpenOption.APPEND);
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        who = name + " 0x" + Long.toHexString(session);
        InterProcessReadWriteLock readWrite = new InterProcessReadWriteLock(client, path);
        Lock mutex = take(new InterProcessMutex(client, path));
        Lock reading = take(readWrite.readLock());
        Lock writing = take(readWrite.writeLock());
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, capacity);
        Lock permit = time -> {
            Lease lease = semaphore.acquire(time, TimeUnit.MILLISECONDS);
            return lease == null ? null : lease::close;
        };
        listen(told);
        while (wish != null) {
            switch (recipe) {
                case "recorded-mutex" -> round(client, "mutex", mutex);
                case "recorded-semaphore" -> round(client, "permit", permit);
                default -> {
                    boolean writes = isSeldom();
                    round(client, writes ? "write" : "read", writes ? writing : reading);
                }
            }
        }
    }

    private static Lock take(InterProcessMutex mutex) {
        return time -> mutex.acquire(time, TimeUnit.MILLISECONDS) ? mutex::release : null;
    }

    private static void listen(BufferedReader told) {
        Thread reader = new Thread(() -> {
            try {
                do {
                    wish = told.readLine();
                } while (wish != null);
            } catch (IOException gone) {
                wish = null;
            }
        });
        reader.setDaemon(true);
        reader.start();
    }

    private static boolean isSeldom() {
        return ThreadLocalRandom.current().nextInt(SELDOM) == 0;
    }

    private static void round(CuratorFramework client, String kind, Lock lock) throws Exception {
        int time = isSeldom() ? 1 + ThreadLocalRandom.current().nextInt(HURRY_MS_MAX) : PATIENCE_MS;
        note(kind, "asks");
        Held held = lock.take(time);
        if (held == null) {
            note(kind, "gives-up");
            if (time == PATIENCE_MS) {
                throw new IllegalStateException("not let in");
            }
            return;
        }
        note(kind, "has");
        TimeUnit.MICROSECONDS.sleep(ThreadLocalRandom.current().nextInt(INSIDE_US_MAX));
        String now = wish;
        if (("keep " + kind).equals(now)) {
            System.out.println("keeps");
            TimeUnit.DAYS.sleep(1);
        }
        if (("leave " + kind).equals(now)) {
            note(kind, "closes");
            client.close();
            note(kind, "closed");
            System.out.println("leaves");
            System.exit(0);
        }
        note(kind, "releases");
        held.release();
        note(kind, "released");
    }

    private static void note(String kind, String event) throws IOException {
        long now = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
        String line = who + " " + kind + " " + event + " " + now + "\n";
        record.write(ByteBuffer.wrap(line.getBytes(StandardCharsets.UTF_8)));
    }
}
