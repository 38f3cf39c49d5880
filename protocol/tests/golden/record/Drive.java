import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * Drives the Java client through one topic while proxy.py records it.
 *
 * <p>Usage: {@code java Drive TOPIC PROXY_PORT SERVER_PORT CONTROL_PORT}. Every step writes a note
 * into the recording, and a step which does not end as expected stops the recording.
 */
public final class Drive {
  private static final List<ACL> OPEN = Ids.OPEN_ACL_UNSAFE;
  private static final int TIMEOUT = 10_000;

  private final String proxy;
  private final String server;
  private final Control control;

  public static void main(String[] args) throws Exception {
    Control control = new Control(Integer.parseInt(args[3]));
    Drive drive = new Drive("127.0.0.1:" + args[1], "127.0.0.1:" + args[2], control);
    Drive.class.getDeclaredMethod(args[0]).invoke(drive);
    control.say("end");
    System.exit(0);
  }

  private Drive(String proxy, String server, Control control) {
    this.proxy = proxy;
    this.server = server;
    this.control = control;
  }

  // ---- sessions ---------------------------------------------------------------------------

  void connect() throws Exception {
    try (Client a = open("connect, ping, close", 3_000, false)) {
      TimeUnit.MILLISECONDS.sleep(1_300);
    }
    try (Client b = open("connect: may be served read-only", TIMEOUT, true)) {
      step("a request", () -> b.zk.exists("/", false));
    }
    step("timeout below the least one the server grants", () -> null);
    try (Client c = open("connect", 500, false)) {
      step("a request", () -> c.zk.exists("/", false));
    }
  }

  void reattach() throws Exception {
    Client a = open("connect", TIMEOUT, false);
    step("an ephemeral node", () -> a.zk.create("/e", null, OPEN, CreateMode.EPHEMERAL));
    control.say("cut");
    a.events.await(KeeperState.SyncConnected);
    step("the session goes on", () -> a.zk.exists("/e", false));

    step("another client takes the session over", () -> null);
    byte[] password = a.zk.getSessionPasswd();
    Client b = attach(a.zk.getSessionId(), password);
    b.events.await(KeeperState.SyncConnected);
    step("a request", () -> b.zk.exists("/e", false));
    a.zk.close(0);
    step("close", () -> b.zk.close(TIMEOUT));

    step("the session has been closed", () -> null);
    attach(b.zk.getSessionId(), password).events.await(KeeperState.Expired);

    try (Client c = open("connect again", TIMEOUT, false)) {
      byte[] wrong = new byte[16];
      step("reattach with a wrong password", () -> null);
      attach(c.zk.getSessionId(), wrong).events.await(KeeperState.Expired);
    }
  }

  void expiry() throws Exception {
    Client a = open("connect", 1_000, false);
    step("an ephemeral node", () -> a.zk.create("/e", null, OPEN, CreateMode.EPHEMERAL));
    control.say("block");
    TimeUnit.MILLISECONDS.sleep(4_000);
    step("back after the session has expired", () -> null);
    control.say("unblock");
    a.events.await(KeeperState.Expired);
  }

  // ---- nodes ------------------------------------------------------------------------------

  void create() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      ZooKeeper zk = c.zk;
      for (CreateMode mode : CreateMode.values()) {
        if (mode.isTTL()) {
          continue;
        }
        step("create " + mode, () -> zk.create("/" + mode, bytes("data"), OPEN, mode));
        step("create, with stat, " + mode,
            () -> zk.create("/2-" + mode, bytes("data"), OPEN, mode, new Stat()));
      }
      for (CreateMode mode : List.of(
          CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL)) {
        step("create " + mode,
            () -> zk.create("/ttl-", bytes("data"), OPEN, mode, new Stat(), 86_400_000));
      }
      step("null data", () -> zk.create("/null", null, OPEN, CreateMode.PERSISTENT));
      step("empty data", () -> zk.create("/empty", bytes(""), OPEN, CreateMode.PERSISTENT));
      step("all bytes", () -> zk.create("/all", allBytes(), OPEN, CreateMode.PERSISTENT));
      step("a name beyond ASCII",
          () -> zk.create("/b\u00e4ume-\u6a39\u6728", null, OPEN, CreateMode.PERSISTENT));
      step("sequential, the suffix alone is the name",
          () -> zk.create("/PERSISTENT/", null, OPEN, CreateMode.PERSISTENT_SEQUENTIAL));
      createErrors(zk);
    }
  }

  private void createErrors(ZooKeeper zk) throws Exception {
    CreateMode mode = CreateMode.PERSISTENT;
    fails("the node exists", Code.NODEEXISTS, () -> zk.create("/all", null, OPEN, mode));
    fails("the root exists", Code.NODEEXISTS, () -> zk.create("/", null, OPEN, mode));
    fails("no parent", Code.NONODE, () -> zk.create("/none/a", null, OPEN, mode));
    fails("an ephemeral parent", Code.NOCHILDRENFOREPHEMERALS,
        () -> zk.create("/EPHEMERAL/a", null, OPEN, mode));
    fails("an unknown ACL scheme", Code.INVALIDACL,
        () -> zk.create("/x", null, acls(new ACL(1, new Id("none", "x"))), mode));
    fails("create2: the node exists", Code.NODEEXISTS,
        () -> zk.create("/all", null, OPEN, mode, new Stat()));
    fails("container: no parent", Code.NONODE,
        () -> zk.create("/none/a", null, OPEN, CreateMode.CONTAINER));
    fails("ttl: no parent", Code.NONODE,
        () -> zk.create("/none/a", null, OPEN, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 1));
  }

  void read() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      ZooKeeper zk = c.zk;
      tree(zk);
      step("exists", () -> zk.exists("/a", false));
      step("exists: no node", () -> zk.exists("/none", false));
      step("getData", () -> zk.getData("/a", false, new Stat()));
      step("getData: null", () -> zk.getData("/a/null", false, new Stat()));
      step("getData: empty", () -> zk.getData("/a/empty", false, new Stat()));
      step("getData: the root", () -> zk.getData("/", false, new Stat()));
      fails("getData: no node", Code.NONODE, () -> zk.getData("/none", false, null));
      step("getChildren", () -> zk.getChildren("/a", false));
      step("getChildren: none", () -> zk.getChildren("/a/null", false));
      fails("getChildren: no node", Code.NONODE, () -> zk.getChildren("/none", false));
      step("getChildren, with stat", () -> zk.getChildren("/a", false, new Stat()));
      fails("getChildren, with stat: no node", Code.NONODE,
          () -> zk.getChildren("/none", false, new Stat()));
      step("getAllChildrenNumber", () -> zk.getAllChildrenNumber("/"));
      fails("getAllChildrenNumber: no node", Code.NONODE, () -> zk.getAllChildrenNumber("/no"));
      step("getEphemerals", () -> zk.getEphemerals());
      step("getEphemerals below a path", () -> zk.getEphemerals("/a"));
      step("getEphemerals: none", () -> zk.getEphemerals("/none"));
      step("sync", () -> { zk.sync("/a", (rc, path, ctx) -> { }, null); return null; });
      step("sync: no node", () -> { zk.sync("/none", (rc, path, ctx) -> { }, null); return null; });
      step("a request, which follows the answer to sync", () -> zk.exists("/", false));
    }
  }

  private void tree(ZooKeeper zk) throws Exception {
    step("create the nodes to be read", () -> null);
    zk.create("/a", bytes("data of a"), OPEN, CreateMode.PERSISTENT);
    zk.create("/a/null", null, OPEN, CreateMode.PERSISTENT);
    zk.create("/a/empty", bytes(""), OPEN, CreateMode.PERSISTENT);
    zk.create("/a/e", null, OPEN, CreateMode.EPHEMERAL);
    zk.create("/f", null, OPEN, CreateMode.EPHEMERAL);
  }

  void write() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      ZooKeeper zk = c.zk;
      step("create", () -> zk.create("/a", null, OPEN, CreateMode.PERSISTENT));
      step("setData", () -> zk.setData("/a", bytes("one"), 0));
      step("setData: any version", () -> zk.setData("/a", bytes("two"), -1));
      step("setData: null", () -> zk.setData("/a", null, -1));
      step("setData: empty", () -> zk.setData("/a", bytes(""), -1));
      fails("setData: wrong version", Code.BADVERSION, () -> zk.setData("/a", null, 99));
      fails("setData: no node", Code.NONODE, () -> zk.setData("/none", null, -1));
      step("create", () -> zk.create("/a/b", null, OPEN, CreateMode.PERSISTENT));
      fails("delete: not empty", Code.NOTEMPTY, () -> del(zk, "/a", -1));
      fails("delete: wrong version", Code.BADVERSION, () -> del(zk, "/a/b", 99));
      fails("delete: no node", Code.NONODE, () -> del(zk, "/none", -1));
      fails("delete: a node of the server", Code.BADARGUMENTS, () -> del(zk, "/zookeeper", -1));
      step("delete", () -> del(zk, "/a/b", 0));
      step("delete: any version", () -> del(zk, "/a", -1));
    }
  }

  void quota() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      ZooKeeper zk = c.zk;
      step("a node with a quota", () -> zk.create("/q", null, OPEN, CreateMode.PERSISTENT));
      zk.create("/zookeeper/quota/q", null, OPEN, CreateMode.PERSISTENT);
      byte[] limits = bytes("count=-1,bytes=-1=;byteHardLimit=4;countHardLimit=2");
      zk.create("/zookeeper/quota/q/zookeeper_limits", limits, OPEN, CreateMode.PERSISTENT);
      byte[] stats = bytes("count=1,bytes=0");
      zk.create("/zookeeper/quota/q/zookeeper_stats", stats, OPEN, CreateMode.PERSISTENT);
      fails("too many bytes", Code.QUOTAEXCEEDED, () -> zk.setData("/q", bytes("12345"), -1));
      step("one more node", () -> zk.create("/q/a", null, OPEN, CreateMode.PERSISTENT));
      fails("too many nodes", Code.QUOTAEXCEEDED,
          () -> zk.create("/q/b", null, OPEN, CreateMode.PERSISTENT));
    }
  }

  // ---- access -----------------------------------------------------------------------------

  void acl() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      ZooKeeper zk = c.zk;
      step("whoAmI", () -> zk.whoAmI());
      step("create", () -> zk.create("/a", null, OPEN, CreateMode.PERSISTENT));
      step("getACL", () -> zk.getACL("/a", new Stat()));
      fails("getACL: no node", Code.NONODE, () -> zk.getACL("/none", new Stat()));
      step("getACL: a node of the server", () -> zk.getACL("/zookeeper/config", new Stat()));
      fails("auth scheme, no identity yet", Code.INVALIDACL,
          () -> zk.create("/x", null, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
      step("addAuth digest", () -> { zk.addAuthInfo("digest", bytes("ann:secret")); return 0; });
      step("whoAmI", () -> zk.whoAmI());
      List<ACL> mixed = acls(
          new ACL(Perms.ALL, new Id("auth", "")),
          new ACL(Perms.READ | Perms.WRITE, new Id("ip", "10.0.0.0/8")),
          new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE));
      step("setACL", () -> zk.setACL("/a", mixed, 0));
      step("getACL", () -> zk.getACL("/a", new Stat()));
      step("setACL: any version", () -> zk.setACL("/a", Ids.CREATOR_ALL_ACL, -1));
      fails("setACL: wrong version", Code.BADVERSION, () -> zk.setACL("/a", OPEN, 99));
      fails("setACL: no node", Code.NONODE, () -> zk.setACL("/none", OPEN, -1));
      stranger();
    }
  }

  private void stranger() throws Exception {
    try (Client c = open("another client, without the identity", TIMEOUT, false)) {
      ZooKeeper zk = c.zk;
      fails("getData", Code.NOAUTH, () -> zk.getData("/a", false, null));
      fails("setData", Code.NOAUTH, () -> zk.setData("/a", null, -1));
      fails("getACL", Code.NOAUTH, () -> zk.getACL("/a", new Stat()));
      fails("create", Code.NOAUTH, () -> zk.create("/a/b", null, OPEN, CreateMode.PERSISTENT));
      fails("setData: config", Code.NOAUTH, () -> zk.setData("/zookeeper/config", null, -1));
      step("addAuth super", () -> { zk.addAuthInfo("digest", bytes("super:test")); return 0; });
      step("whoAmI", () -> zk.whoAmI());
      step("getData", () -> zk.getData("/a", false, null));
      step("getACL", () -> zk.getACL("/a", new Stat()));
    }
  }

  void auth() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      step("identities are sent again after a reconnect",
          () -> { c.zk.addAuthInfo("digest", bytes("ann:secret")); return 0; });
      step("another one", () -> { c.zk.addAuthInfo("ip", bytes("")); return 0; });
      step("a request", () -> c.zk.exists("/", false));
      control.say("cut");
      c.events.await(KeeperState.SyncConnected);
      step("a request", () -> c.zk.exists("/", false));
    }
    Client c = open("connect", TIMEOUT, false);
    step("an unknown scheme", () -> { c.zk.addAuthInfo("none", bytes("x")); return 0; });
    c.events.await(KeeperState.AuthFailed);
    c.zk.close(0);
  }

  void enforced() throws Exception {
    try (Client a = open("connect to a server which asks for digest", TIMEOUT, false)) {
      a.zk.addAuthInfo("digest", bytes("ann:secret"));
      step("an authenticated client is served", () -> a.zk.exists("/", false));
    }
    try (Client a = open("connect without it", TIMEOUT, false)) {
      fails("a request", Code.SESSIONCLOSEDREQUIRESASLAUTH, () -> a.zk.exists("/", false));
    }
  }

  void sasl() throws Exception {
    try (Client c = open("connect: DIGEST-MD5 follows", TIMEOUT, false)) {
      c.events.await(KeeperState.SaslAuthenticated);
      step("whoAmI", () -> c.zk.whoAmI());
      List<ACL> mine = acls(new ACL(Perms.ALL, new Id("auth", "")));
      step("create", () -> c.zk.create("/a", null, mine, CreateMode.PERSISTENT));
      step("getACL", () -> c.zk.getACL("/a", new Stat()));
    }
  }

  void saslRefused() throws Exception {
    Client c = attach(0, new byte[16]);
    c.events.await(KeeperState.AuthFailed);
    c.zk.close(0);
  }

  void text() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      List<ACL> acl = acls(new ACL(Perms.ALL, Ids.ANYONE_ID_UNSAFE),
          new ACL(Perms.READ, new Id("digest", "\ud83d\ude00:x")));
      step("an identity beyond the basic plane: the client sends two surrogates",
          () -> c.zk.create("/a", null, acl, CreateMode.PERSISTENT));
      step("and reads what the server made of them", () -> c.zk.getACL("/a", new Stat()));
    }
  }

  // ---- multi ------------------------------------------------------------------------------

  void multi() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      ZooKeeper zk = c.zk;
      step("every kind of create", () -> zk.multi(List.of(
          Op.create("/a", bytes("a"), OPEN, CreateMode.PERSISTENT),
          Op.create("/a/e", null, OPEN, CreateMode.EPHEMERAL),
          Op.create("/a/s", bytes(""), OPEN, CreateMode.PERSISTENT_SEQUENTIAL),
          Op.create("/a/es", null, OPEN, CreateMode.EPHEMERAL_SEQUENTIAL),
          Op.create("/c", null, OPEN, CreateMode.CONTAINER),
          Op.create("/t", null, OPEN, CreateMode.PERSISTENT_WITH_TTL, 86_400_000),
          Op.create("/t", null, OPEN, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, 86_400_000))));
      step("check, setData, delete", () -> zk.multi(List.of(
          Op.check("/a", 0), Op.setData("/a", bytes("b"), 0), Op.setData("/a", null, 1),
          Op.delete("/c", -1))));
      step("one operation", () -> zk.multi(List.of(Op.check("/a", 2))));
      fails("the third fails", Code.BADVERSION, () -> zk.multi(List.of(
          Op.create("/x", null, OPEN, CreateMode.PERSISTENT), Op.delete("/t", -1),
          Op.check("/a", 99), Op.setData("/a", null, -1))));
      fails("the first fails", Code.NONODE, () -> zk.multi(List.of(
          Op.setData("/none", null, -1), Op.create("/x", null, OPEN, CreateMode.PERSISTENT))));
      fails("the only one fails", Code.NODEEXISTS, () -> zk.multi(List.of(
          Op.create("/a", null, OPEN, CreateMode.PERSISTENT))));
    }
  }

  void multiRead() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      ZooKeeper zk = c.zk;
      tree(zk);
      step("getData, getChildren", () -> zk.multi(List.of(
          Op.getData("/a"), Op.getChildren("/a"), Op.getData("/a/null"), Op.getData("/a/empty"),
          Op.getChildren("/a/null"))));
      step("some fail", () -> zk.multi(List.of(
          Op.getData("/none"), Op.getData("/a"), Op.getChildren("/none"))));
    }
  }

  // ---- watches ----------------------------------------------------------------------------

  void watches() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      ZooKeeper zk = c.zk;
      step("exists: no node", () -> zk.exists("/a", c.events));
      step("create", () -> zk.create("/a", null, OPEN, CreateMode.PERSISTENT));
      c.events.await(EventType.NodeCreated, "/a");
      step("exists", () -> zk.exists("/a", c.events));
      step("getData", () -> zk.getData("/a", c.events, null));
      step("getChildren", () -> zk.getChildren("/a", c.events));
      step("setData", () -> zk.setData("/a", null, -1));
      c.events.await(EventType.NodeDataChanged, "/a");
      step("create a child", () -> zk.create("/a/b", null, OPEN, CreateMode.EPHEMERAL));
      c.events.await(EventType.NodeChildrenChanged, "/a");
      step("getData", () -> zk.getData("/a/b", c.events, null));
      step("getChildren, with stat", () -> zk.getChildren("/a", c.events, new Stat()));
      step("delete the child", () -> del(zk, "/a/b", -1));
      c.events.await(EventType.NodeDeleted, "/a/b");
      c.events.await(EventType.NodeChildrenChanged, "/a");
      step("getData on the root", () -> zk.getData("/", c.events, null));
      step("setData on the root", () -> zk.setData("/", null, -1));
      c.events.await(EventType.NodeDataChanged, "/");
    }
  }

  void addWatch() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      ZooKeeper zk = c.zk;
      step("persistent", () -> { zk.addWatch("/a", c.events, AddWatchMode.PERSISTENT); return 0; });
      step("persistent and recursive",
          () -> { zk.addWatch("/r", c.events, AddWatchMode.PERSISTENT_RECURSIVE); return 0; });
      for (String path : List.of("/a", "/a/b", "/r", "/r/b")) {
        step("create", () -> zk.create(path, null, OPEN, CreateMode.PERSISTENT));
        step("setData", () -> zk.setData(path, null, -1));
      }
      for (String path : List.of("/a/b", "/a", "/r/b", "/r")) {
        step("delete", () -> del(zk, path, -1));
      }
      c.events.await(EventType.NodeDeleted, "/r");
      step("remove the persistent one",
          () -> { zk.removeAllWatches("/a", WatcherType.Any, false); return 0; });
      fails("there is no such watch", Code.NOWATCHER,
          () -> { zk.removeAllWatches("/none", WatcherType.Any, false); return 0; });
    }
  }

  void removeWatches() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      ZooKeeper zk = c.zk;
      Events other = new Events();
      for (WatcherType type : WatcherType.values()) {
        String path = "/" + type;
        step("watches, " + type, () -> zk.create(path, null, OPEN, CreateMode.PERSISTENT));
        for (Events events : List.of(c.events, other)) {
          zk.getData(path, events, null);
          zk.exists(path, events);
          zk.getChildren(path, events);
        }
        step("remove one watcher: check", () -> remove(zk, path, other, type));
        step("remove the last one", () -> remove(zk, path, c.events, type));
        fails("the server still knows it, the client does not", Code.NOWATCHER,
            () -> remove(zk, path, other, type));
      }
    }
  }

  /** The server has lost the watches (a new connection) before the client has set them again. */
  void setWatches() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      ZooKeeper zk = c.zk;
      watchEverything(zk, c.events);
      changeUnseen();
      awaitEverything(c.events);
      step("what is left of the watches is in force", () -> zk.setData("/same", null, -1));
      c.events.await(EventType.NodeDataChanged, "/same");
    }
  }

  void setWatches2() throws Exception {
    try (Client c = open("connect", TIMEOUT, false)) {
      ZooKeeper zk = c.zk;
      watchEverything(zk, c.events);
      step("and persistent ones", () -> null);
      zk.addWatch("/p", c.events, AddWatchMode.PERSISTENT);
      zk.addWatch("/r", c.events, AddWatchMode.PERSISTENT_RECURSIVE);
      changeUnseen();
      awaitEverything(c.events);
      step("the persistent watches are in force", () -> null);
      zk.create("/p", null, OPEN, CreateMode.PERSISTENT);
      zk.create("/r", null, OPEN, CreateMode.PERSISTENT);
      zk.create("/r/a", null, OPEN, CreateMode.PERSISTENT);
      c.events.await(EventType.NodeCreated, "/r/a");
    }
  }

  private void watchEverything(ZooKeeper zk, Events events) throws Exception {
    step("watches of every kind", () -> null);
    for (String path : List.of("/same", "/data", "/child", "/gone")) {
      zk.create(path, null, OPEN, CreateMode.PERSISTENT);
      zk.getData(path, events, null);
      zk.getChildren(path, events);
    }
    zk.exists("/none", events);
    zk.exists("/new", events);
  }

  private void changeUnseen() throws Exception {
    step("the connection breaks, and another client changes nodes", () -> null);
    control.say("block");
    Events events = new Events();
    try (ZooKeeper other = new ZooKeeper(server, TIMEOUT, events)) {
      events.await(KeeperState.SyncConnected);
      other.setData("/data", null, -1);
      other.create("/child/a", null, OPEN, CreateMode.PERSISTENT);
      other.delete("/gone", -1);
      other.create("/new", null, OPEN, CreateMode.PERSISTENT);
    }
    control.say("unblock");
  }

  private void awaitEverything(Events events) throws Exception {
    events.await(EventType.NodeDataChanged, "/data");
    events.await(EventType.NodeChildrenChanged, "/child");
    events.await(EventType.NodeDeleted, "/gone");
    events.await(EventType.NodeCreated, "/new");
  }

  // ---- configuration ----------------------------------------------------------------------

  void config() throws Exception {
    Events events = new Events();
    step("connect", () -> null);
    try (ZooKeeperAdmin zk = new ZooKeeperAdmin(proxy, TIMEOUT, events)) {
      events.await(KeeperState.SyncConnected);
      step("getConfig", () -> zk.getConfig(false, new Stat()));
      step("getConfig, with a watch", () -> zk.getConfig(events, new Stat()));
      fails("reconfig", Code.RECONFIGDISABLED, () -> zk.reconfigure(
          "server.1=zk1:2888:3888;2181", "2", null, -1, new Stat()));
      fails("reconfig: new members", Code.RECONFIGDISABLED, () -> zk.reconfigure(
          (String) null, null, "server.1=zk1:2888:3888;2181", 1, new Stat()));
      step("addAuth super", () -> { zk.addAuthInfo("digest", bytes("super:test")); return 0; });
      step("setData on the node of the configuration",
          () -> zk.setData("/zookeeper/config", bytes("server.1=zk1:2888:3888"), -1));
      events.await(EventType.NodeDataChanged, "/zookeeper/config");
      step("getConfig", () -> zk.getConfig(false, new Stat()));
    }
  }

  void reconfig() throws Exception {
    Events events = new Events();
    step("connect to a server which allows it", () -> null);
    try (ZooKeeperAdmin zk = new ZooKeeperAdmin(proxy, TIMEOUT, events)) {
      events.await(KeeperState.SyncConnected);
      fails("reconfig", Code.UNIMPLEMENTED, () -> zk.reconfigure(
          "server.1=zk1:2888:3888;2181", "2", null, -1, new Stat()));
    } catch (IllegalStateException e) {
      System.err.println(e);
    }
  }

  // ---- steps ------------------------------------------------------------------------------

  private interface Step {
    Object run() throws Exception;
  }

  private void step(String note, Step step) throws Exception {
    control.say("note " + note);
    step.run();
  }

  private void fails(String note, Code code, Step step) throws Exception {
    control.say("note " + note + ": " + code);
    try {
      step.run();
    } catch (KeeperException e) {
      if (e.code() == code) {
        return;
      }
      throw e;
    }
    throw new IllegalStateException(note + ": no error");
  }

  private Client open(String note, int timeout, boolean readOnly) throws Exception {
    control.say("note " + note);
    Client client = new Client(new Events());
    client.zk = new ZooKeeper(proxy, timeout, client.events, readOnly);
    client.events.await(KeeperState.SyncConnected);
    return client;
  }

  private Client attach(long session, byte[] password) throws Exception {
    Client client = new Client(new Events());
    client.zk = session == 0
        ? new ZooKeeper(proxy, TIMEOUT, client.events)
        : new ZooKeeper(proxy, TIMEOUT, client.events, session, password);
    return client;
  }

  private static Object del(ZooKeeper zk, String path, int version) throws Exception {
    zk.delete(path, version);
    return null;
  }

  private static Object remove(ZooKeeper zk, String path, Watcher watcher, WatcherType type)
      throws Exception {
    zk.removeWatches(path, watcher, type, false);
    return null;
  }

  /** A list which may be asked for null, as the client does. */
  private static List<ACL> acls(ACL... entries) {
    return Arrays.asList(entries);
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static byte[] allBytes() {
    byte[] all = new byte[256];
    for (int i = 0; i < all.length; i++) {
      all[i] = (byte) i;
    }
    return all;
  }

  private static final class Client implements AutoCloseable {
    final Events events;
    ZooKeeper zk;

    Client(Events events) {
      this.events = events;
    }

    @Override
    public void close() throws Exception {
      zk.close(TIMEOUT);
    }
  }

  /** A watcher which keeps what it was told until somebody waits for it, in any order. */
  private static final class Events implements Watcher {
    private final List<WatchedEvent> kept = new ArrayList<>();

    @Override
    public synchronized void process(WatchedEvent event) {
      kept.add(event);
      notifyAll();
    }

    void await(KeeperState state) throws InterruptedException {
      await(state.toString(),
          event -> event.getType() == EventType.None && event.getState() == state);
    }

    void await(EventType type, String path) throws InterruptedException {
      await(type + " " + path,
          event -> event.getType() == type && path.equals(event.getPath()));
    }

    private synchronized void await(String name, Predicate<WatchedEvent> wanted)
        throws InterruptedException {
      long deadline = System.currentTimeMillis() + 15_000;
      while (kept.stream().noneMatch(wanted)) {
        if (System.currentTimeMillis() > deadline) {
          throw new IllegalStateException("no event: " + name);
        }
        wait(1_000);
      }
      kept.remove(kept.stream().filter(wanted).findFirst().get());
    }
  }

  /** The line to the proxy. */
  private static final class Control {
    private final Socket socket;
    private final BufferedReader answers;

    Control(int port) throws IOException {
      socket = new Socket("127.0.0.1", port);
      answers = new BufferedReader(new InputStreamReader(socket.getInputStream()));
    }

    synchronized void say(String line) throws IOException {
      socket.getOutputStream().write((line + "\n").getBytes(StandardCharsets.UTF_8));
      if (!"ok".equals(answers.readLine())) {
        throw new IOException("the proxy did not answer to: " + line);
      }
    }
  }
}
