import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's CuratorCache: CacheShell HOST:PORT PATH. It says when it is initialized and when it has
 * reconnected, and shows what it has for each line of its input. */
public final class CacheShell {
    public static void main(String[] arguments) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(arguments[0], 30_000, 10_000, new ExponentialBackoffRetry(50, 20));
        client.getConnectionStateListenable().addListener((changed, state) -> {
            if (state == ConnectionState.RECONNECTED) {
                say("reconnected");
            }
        });
        client.start();
        CuratorCache cache = CuratorCache.build(client, arguments[1]);
        CountDownLatch initialized = new CountDownLatch(1);
        cache.listenable()
                .addListener(CuratorCacheListener.builder().forInitialized(initialized::countDown).build());
        cache.start();
        initialized.await();
        say("initialized");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        while (input.readLine() != null) {
            Map<String, String> znodes = new TreeMap<>();
            cache.stream().forEach(znode ->
                    znodes.put(znode.getPath(), new String(znode.getData(), StandardCharsets.UTF_8)));
            say("has " + znodes);
        }
        cache.close();
        client.close();
    }

    private static synchronized void say(String text) {
        System.out.println(text);
        System.out.flush();
    }
}
