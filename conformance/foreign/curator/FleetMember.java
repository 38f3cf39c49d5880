import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Comparator;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** A fleet member that uses Curator; src/fleet.rs describes what a member does. */
public final class FleetMember {
    private static final int SELDOM = 4;
    private static final int HURRY_MS_MAX = 20;
    private static final int INSIDE_US_MAX = 2000;
    private static final int PATIENCE_MS = 45_000;

    /** How long the ephemerals of a member last that is killed. */
    private static final int SHORT_SESSION_MS = 5_000;

    private static CuratorFramework client;
    private static String name;
    private static int capacity;
    private static FileChannel entries;
    private static FileChannel inside;
    private static volatile boolean isStopped;

    private interface Round {
        void run() throws Exception;
    }

    /** A mutex that exposes the path of its znode. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(String path) {
            super(client, path);
        }

        String znode() {
            return getLockPath();
        }
    }

    private static final class Writing extends InterProcessReadWriteLock.WriteLock {
        Writing(String path) {
            super(client, path, null);
        }

        String znode() {
            return getLockPath();
        }
    }

    private static final class Reading extends InterProcessReadWriteLock.ReadLock {
        Reading(String path, InterProcessReadWriteLock.WriteLock writing) {
            super(client, path, null, writing);
        }

        String znode() {
            return getLockPath();
        }
    }

    public static void main(String[] args) throws Exception {
        String recipe = args[0];
        String path = args[2];
        name = args[4];
        capacity = Integer.parseInt(args[5]);
        entries = FileChannel.open(Path.of(args[3], "entries"), StandardOpenOption.APPEND);
        inside = FileChannel.open(Path.of(args[3], "inside"), StandardOpenOption.READ, StandardOpenOption.WRITE);
        BufferedReader told = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        boolean isRecorded = recipe.startsWith("recorded-");
        int sessionMs = isRecorded || recipe.equals("group") ? SHORT_SESSION_MS : 30_000;
        client = CuratorFrameworkFactory.newClient(args[1], sessionMs, 15_000, new RetryNTimes(5, 100));
        client.start();
        if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection");
        }
        System.out.println("ready");
        if (recipe.equals("barrier")) {
            obey(new DistributedBarrier(client, path), told);
        } else if (recipe.equals("double-barrier")) {
            enterAndLeave(new DistributedDoubleBarrier(client, path, capacity), told);
        } else if (recipe.equals("copy")) {
            setAndAwait(path, told);
        } else if (recipe.equals("shell")) {
            LockShell.obey(client, path, told);
        } else if (recipe.equals("discovery")) {
            DiscoveryMember.obey(client, path, told);
        } else if (recipe.equals("costs")) {
            CostShell.obey(client, told);
        } else if (recipe.equals("group")) {
            GroupShell.obey(client, path, name, told);
        } else if (recipe.equals("bytes")) {
            BytesMember.obey(client, told);
        } else if (isRecorded) {
            if (told.readLine() != null) {
                RecordedMember.contend(client, recipe, path, args[3], name, capacity, told);
            }
        } else if (told.readLine() != null) {
            Round round = round(recipe, path);
            stopAtTheEndOf(told);
            while (!isStopped) {
                round.run();
            }
        }
        client.close();
    }

    private static void stopAtTheEndOf(BufferedReader told) {
        Thread reader = new Thread(() -> {
            try {
                while (told.readLine() != null) {}
            } catch (IOException gone) {
                // The same as the end of the input.
            }
            isStopped = true;
        });
        reader.setDaemon(true);
        reader.start();
    }

    private static void obey(DistributedBarrier barrier, BufferedReader told) throws Exception {
        for (String line = told.readLine(); line != null; line = told.readLine()) {
            switch (line) {
                case "set" -> barrier.setBarrier();
                case "remove" -> barrier.removeBarrier();
                case "wait" -> {
                    if (!barrier.waitOnBarrier(PATIENCE_MS, TimeUnit.MILLISECONDS)) {
                        throw new IllegalStateException("waited in vain");
                    }
                }
                default -> throw new IllegalArgumentException(line);
            }
            System.out.println(line);
        }
    }

    private static void enterAndLeave(DistributedDoubleBarrier barrier, BufferedReader told) throws Exception {
        for (String line = told.readLine(); line != null; line = told.readLine()) {
            boolean isDone = line.equals("enter")
                    ? barrier.enter(PATIENCE_MS, TimeUnit.MILLISECONDS)
                    : barrier.leave(PATIENCE_MS, TimeUnit.MILLISECONDS);
            if (!isDone) {
                throw new IllegalStateException(line + " in vain");
            }
            System.out.println(line);
        }
    }

    private static void setAndAwait(String path, BufferedReader told) throws Exception {
        try (SharedCount count = new SharedCount(client, path, 0)) {
            count.start();
            for (String line = told.readLine(); line != null; line = told.readLine()) {
                int number = Integer.parseInt(line.substring(line.indexOf(' ') + 1));
                if (line.startsWith("set ")) {
                    count.setCount(number);
                }
                while (count.getCount() != number) {
                    TimeUnit.MILLISECONDS.sleep(1);
                }
                System.out.println(line);
            }
        }
    }

    private static Round round(String recipe, String path) throws Exception {
        switch (recipe) {
            case "mutex":
                return round(new Mutex(path));
            case "read-write":
                Writing writing = new Writing(path);
                return round(writing, new Reading(path, writing));
            case "semaphore":
                return round(new InterProcessSemaphoreV2(client, path, capacity), path);
            case "semaphore-mutex":
                return round(new InterProcessSemaphoreMutex(client, path), path);
            case "latch":
                return () -> lead(path);
            case "queue":
            case "leased-queue":
            case "id-queue":
            case "priority-queue":
            case "delay-queue":
                return queue(recipe, path);
            case "long":
                DistributedAtomicLong number = new DistributedAtomicLong(client, path, new RetryNTimes(1000, 1));
                return () -> {
                    AtomicValue<Long> value = number.increment();
                    if (value.succeeded()) {
                        note(0, value.postValue(), System.nanoTime());
                    }
                };
            case "count":
                SharedCount count = new SharedCount(client, path, 0);
                count.start();
                return () -> {
                    VersionedValue<Integer> seen = count.getVersionedValue();
                    if (count.trySetCount(seen, seen.getValue() + 1)) {
                        note(0, seen.getValue() + 1, System.nanoTime());
                    }
                };
            default:
                throw new IllegalArgumentException(recipe);
        }
    }

    private interface Put {
        void put(long item) throws Exception;
    }

    /** Puts items in the foreground; Curator's own thread takes them. A put has the weight 1. */
    private static Round queue(String recipe, String path) throws Exception {
        QueueConsumer<Long> consumer = new QueueConsumer<Long>() {
            @Override
            public void consumeMessage(Long item) throws Exception {
                // A closed client leaves the item in the queue, and the consumer receives it all the same.
                if (isStopped) {
                    throw new IllegalStateException("stopped");
                }
                note(0, item, System.nanoTime());
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        };
        QueueBuilder<Long> builder =
                QueueBuilder.builder(client, consumer, new TextSerializer<>(Long::valueOf), path).putInBackground(false);
        if (!recipe.equals("queue")) {
            builder.lockPath(path + "-locks");
        }
        Put put = start(recipe, builder);
        return () -> {
            long item = ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE);
            note(1, item, System.nanoTime());
            put.put(item);
            TimeUnit.MICROSECONDS.sleep(INSIDE_US_MAX);
        };
    }

    private static Put start(String recipe, QueueBuilder<Long> builder) throws Exception {
        switch (recipe) {
            case "id-queue":
                DistributedIdQueue<Long> ids = builder.buildIdQueue();
                ids.start();
                return item -> ids.put(item, "id/" + item % 10);
            case "priority-queue":
                DistributedPriorityQueue<Long> priorities = builder.buildPriorityQueue(1);
                priorities.start();
                return item -> priorities.put(item, (int) (item % 5) - 2);
            case "delay-queue":
                DistributedDelayQueue<Long> delays = builder.buildDelayQueue();
                delays.start();
                return item -> delays.put(item, System.currentTimeMillis() + item % 200);
            default:
                DistributedQueue<Long> queue = builder.buildQueue();
                queue.start();
                return queue::put;
        }
    }

    private static Round round(Mutex mutex) {
        return () -> {
            int time = timeToWait();
            if (mutex.acquire(time, TimeUnit.MILLISECONDS)) {
                stay(capacity, mutex.znode());
                mutex.release();
            } else {
                mustBeHurried(time);
            }
        };
    }

    private static Round round(Writing writing, Reading reading) {
        return () -> {
            int time = timeToWait();
            if (isSeldom()) {
                if (writing.acquire(time, TimeUnit.MILLISECONDS)) {
                    stay(capacity, writing.znode());
                    writing.release();
                } else {
                    mustBeHurried(time);
                }
            } else if (reading.acquire(time, TimeUnit.MILLISECONDS)) {
                stay(1, reading.znode());
                reading.release();
            } else {
                mustBeHurried(time);
            }
        };
    }

    /** Acquires one permit at a time: with more, two members could each hold some and wait for the rest. */
    private static Round round(InterProcessSemaphoreV2 semaphore, String path) {
        return () -> {
            int time = timeToWait();
            Lease lease = semaphore.acquire(time, TimeUnit.MILLISECONDS);
            if (lease == null) {
                mustBeHurried(time);
            } else {
                stay(1, path + "/leases/" + lease.getNodeName());
                lease.close();
            }
        };
    }

    /** The held permit is the first of all: later ones are requested behind it. */
    private static Round round(InterProcessSemaphoreMutex mutex, String path) {
        return () -> {
            int time = timeToWait();
            if (mutex.acquire(time, TimeUnit.MILLISECONDS)) {
                Comparator<String> byNumber = Comparator.comparing(name -> name.substring(name.length() - 10));
                String permit = client.getChildren().forPath(path + "/leases").stream().min(byNumber).get();
                stay(capacity, path + "/leases/" + permit);
                mutex.release();
            } else {
                mustBeHurried(time);
            }
        };
    }

    private static void lead(String path) throws Exception {
        int time = timeToWait();
        try (LeaderLatch latch = new LeaderLatch(client, path, name)) {
            latch.start();
            if (latch.await(time, TimeUnit.MILLISECONDS)) {
                stay(capacity, latch.getOurPath());
            } else {
                mustBeHurried(time);
            }
        }
    }

    private static boolean isSeldom() {
        return ThreadLocalRandom.current().nextInt(SELDOM) == 0;
    }

    private static int timeToWait() {
        return isSeldom() ? 1 + ThreadLocalRandom.current().nextInt(HURRY_MS_MAX) : PATIENCE_MS;
    }

    private static void mustBeHurried(int time) {
        if (time == PATIENCE_MS) {
            throw new IllegalStateException("not let in");
        }
    }

    private static void stay(int weight, String znode) throws Exception {
        boolean isShared = weight < capacity;
        try (FileLock lock = inside.tryLock(0, Long.MAX_VALUE, isShared)) {
            if (lock == null) {
                throw new IllegalStateException("someone is inside who must not be");
            }
            long start = System.nanoTime();
            long token = client.checkExists().forPath(znode).getCzxid();
            TimeUnit.MICROSECONDS.sleep(ThreadLocalRandom.current().nextInt(INSIDE_US_MAX));
            note(weight, token, start);
        }
    }

    private static void note(int weight, long token, long start) throws IOException {
        String line = name + " " + weight + " " + token + " " + start + " " + System.nanoTime() + "\n";
        entries.write(ByteBuffer.wrap(line.getBytes(StandardCharsets.UTF_8)));
    }
}
