import java.io.BufferedReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;

/** The same as src/cost_shell.rs, with Curator: one step for each line, so that its time and requests can be measured. */
final class CostShell {
    private static final QueueSerializer<String> TEXT = new TextSerializer<>(text -> text);

    private final CuratorFramework client;
    private final List<CuratorCache> caches = new ArrayList<>();
    private ServiceProvider<Void> provider;

    private CostShell(CuratorFramework client) {
        this.client = client;
    }

    static void obey(CuratorFramework client, BufferedReader told) throws Exception {
        CostShell shell = new CostShell(client);
        for (String line = told.readLine(); line != null; line = told.readLine()) {
            String[] words = line.split(" ");
            int count = words.length > 2 ? Integer.parseInt(words[2]) : 0;
            System.out.println((line + " " + shell.act(words[0], words[1], count)).trim());
        }
    }

    private String act(String what, String path, int count) throws Exception {
        switch (what) {
            case "cache" -> cache(path);
            case "memory" -> {
                System.gc();
                Runtime runtime = Runtime.getRuntime();
                return Long.toString(runtime.totalMemory() - runtime.freeMemory());
            }
            case "put" -> put(path, count);
            case "take" -> take(false, path, count);
            case "lease" -> take(true, path, count);
            case "register" -> register(path, count);
            case "look" -> {
                for (int i = 0; i < count; ++i) {
                    if (provider.getInstance() == null) {
                        throw new IllegalStateException("there is no instance");
                    }
                }
            }
            default -> throw new IllegalArgumentException(what);
        }
        return "";
    }

    private void cache(String path) throws Exception {
        CuratorCache cache = CuratorCache.build(client, path);
        CountDownLatch initialized = new CountDownLatch(1);
        cache.listenable().addListener(CuratorCacheListener.builder().forInitialized(initialized::countDown).build());
        cache.start();
        initialized.await();
        caches.add(cache);
    }

    private void put(String path, int count) throws Exception {
        try (DistributedQueue<String> queue = QueueBuilder.builder(client, null, TEXT, path).buildQueue()) {
            queue.start();
            for (int i = 0; i < count; ++i) {
                queue.put("item " + i);
            }
            if (!queue.flushPuts(10, TimeUnit.MINUTES)) {
                throw new IllegalStateException("the items were not put in time");
            }
        }
    }

    private void take(boolean isLeased, String path, int count) throws Exception {
        CountDownLatch items = new CountDownLatch(count);
        QueueConsumer<String> consumer = new QueueConsumer<>() {
            @Override
            public void consumeMessage(String item) {
                items.countDown();
            }

            @Override
            public void stateChanged(CuratorFramework changed, ConnectionState state) {}
        };
        QueueBuilder<String> builder = QueueBuilder.builder(client, consumer, TEXT, path);
        builder = isLeased ? builder.lockPath(path + "-leases") : builder;
        try (DistributedQueue<String> queue = builder.buildQueue()) {
            queue.start();
            items.await();
        }
    }

    private void register(String path, int count) throws Exception {
        ServiceDiscovery<Void> discovery =
                ServiceDiscoveryBuilder.builder(Void.class).client(client).basePath(path).build();
        discovery.start();
        for (int i = 0; i < count; ++i) {
            discovery.registerService(ServiceInstance.<Void>builder().name("orders").id("id-" + i).port(i).build());
        }
        provider = discovery.serviceProviderBuilder().serviceName("orders").build();
        provider.start();
        while (provider.getAllInstances().size() < count) {
            Thread.sleep(1);
        }
    }
}
