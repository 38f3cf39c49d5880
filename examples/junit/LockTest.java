import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.junit.Rule;
import org.junit.Test;

/** Tests that Curator's lock survives lost replies, cut connections and expired sessions. */
public class LockTest {
    private static final String PATH = "/locks/stock";

    @Rule
    public Zoolet zoolet = new Zoolet();

    @Test
    public void theWaiterAcquiresTheLockWhenItsHolderExpires() throws Exception {
        CuratorFramework owner = zoolet.client();
        CuratorFramework heir = zoolet.client();
        CountDownLatch lost = new CountDownLatch(1);
        owner.getConnectionStateListenable().addListener((client, state) -> {
            if (state == ConnectionState.LOST) {
                lost.countDown();
            }
        });
        new InterProcessMutex(owner, PATH).acquire();
        zoolet.expire(owner);
        assertTrue(new InterProcessMutex(heir, PATH).acquire(10, TimeUnit.SECONDS));
        assertTrue("the holder learns of the expiry", lost.await(10, TimeUnit.SECONDS));
    }

    @Test
    public void anExpiryAfterThirtySecondsTakesNoRealTime() throws Exception {
        CuratorFramework owner = zoolet.client();
        new InterProcessMutex(owner, PATH).acquire();
        long before = System.nanoTime();
        zoolet.freeze(owner);
        zoolet.advance(31_000);
        CuratorFramework heir = zoolet.client();
        assertTrue(new InterProcessMutex(heir, PATH).acquire(10, TimeUnit.SECONDS));
        assertTrue(System.nanoTime() - before < TimeUnit.SECONDS.toNanos(10));
    }

    @Test
    public void aLostReplyLeavesNoSecondZnode() throws Exception {
        CuratorFramework client = zoolet.client();
        client.create().creatingParentsIfNeeded().forPath(PATH);
        try (Zoolet.Fault fault = zoolet.fault("{\"fault\": \"cut_before_reply\", \"requests\": "
                + "{\"next\": 1, \"kind\": \"creates\", \"below\": \"" + PATH + "\"}}")) {
            assertTrue(new InterProcessMutex(client, PATH).acquire(10, TimeUnit.SECONDS));
            assertEquals(1, fault.hits());
        }
        assertEquals(1, client.getChildren().forPath(PATH).size());
    }

    @Test
    public void eachTestBeginsWithAnEmptyServer() throws Exception {
        CuratorFramework client = zoolet.client();
        client.create().forPath("/left-behind");
        zoolet.after();
        assertEquals(List.of("zookeeper"), zoolet.client().getChildren().forPath("/"));
    }

    @Test
    public void anUnknownFaultIsAnError() {
        IllegalStateException error = assertThrows(IllegalStateException.class,
                () -> zoolet.fault("{\"fault\": \"freze\"}"));
        assertTrue(error.getMessage(), error.getMessage().contains("unknown variant `freze`"));
    }
}
