import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.junit.rules.ExternalResource;

/**
 * A server for tests, with faults as methods; each test finds it without faults, sessions and
 * znodes. It is a separate process, which ends with this one; the command is {@code zoolet}, or the
 * value of the variable ZOOLET.
 */
public class Zoolet extends ExternalResource {
    private static final HttpClient HTTP = HttpClient.newHttpClient();
    /** What the server has said when it was ready; null before the first test. */
    private static String ready;
    private final List<CuratorFramework> clients = new ArrayList<>();
    private String address;
    private String control;

    @Override
    protected void before() throws IOException {
        synchronized (Zoolet.class) {
            ready = ready == null ? start() : ready;
        }
        address = text("address", ready);
        control = text("test_control", ready);
    }

    private static String start() throws IOException {
        String command = Optional.ofNullable(System.getenv("ZOOLET")).orElse("zoolet");
        Process process = new ProcessBuilder(command, "serve", "--listen", "127.0.0.1:0",
                "--test-control", "127.0.0.1:0", "--ready-json", "--exit-with-stdin",
                "--log-level", "error").redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader lines = new BufferedReader(
                new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        return Optional.ofNullable(lines.readLine())
                .orElseThrow(() -> new IllegalStateException("zoolet did not start"));
    }

    @Override
    protected void after() {
        heal();
        clients.forEach(CuratorFramework::close);
        clients.clear();
        ask("POST", "/v1/reset", null);
    }

    /** A connected client. */
    public CuratorFramework client() throws InterruptedException {
        CuratorFramework client = CuratorFrameworkFactory.builder().connectString(address)
                .sessionTimeoutMs(30_000).retryPolicy(new ExponentialBackoffRetry(20, 10)).build();
        client.start();
        client.blockUntilConnected();
        clients.add(client);
        return client;
    }

    /** Expires a client's session now. */
    public void expire(CuratorFramework client) throws Exception {
        ask("POST", "/v1/expire", "{" + whom(client) + "}");
    }

    /** Cuts a client's connection now. */
    public void cut(CuratorFramework client) throws Exception {
        ask("POST", "/v1/cut", "{" + whom(client) + "}");
    }

    /** Passes no message from or to a client until the fault is lifted. */
    public Fault freeze(CuratorFramework client) throws Exception {
        return new Fault(ask("POST", "/v1/faults", "{\"fault\": \"freeze\", " + whom(client) + "}"));
    }

    /** Sets any other fault; {@code GET /v1/openapi.json} of the test control describes them. */
    public Fault fault(String json) {
        return new Fault(ask("POST", "/v1/faults", json));
    }

    /** Moves the server's clock forward: sessions that were silent for that long expire. */
    public void advance(long milliseconds) {
        ask("POST", "/v1/time", "{\"advance_ms\": " + milliseconds + "}");
    }

    /** Ends all faults. */
    public void heal() {
        ask("DELETE", "/v1/faults", null);
    }

    /** A fault that was set. */
    public class Fault implements AutoCloseable {
        private final String path;

        private Fault(String answer) {
            path = "/v1/faults/" + number("id", answer);
        }

        /** How often it took effect. */
        public long hits() {
            return number("hits", ask("GET", path, null));
        }

        @Override
        public void close() {
            ask("DELETE", path, null);
        }
    }

    private static String whom(CuratorFramework client) throws Exception {
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        return "\"session\": \"0x" + Long.toHexString(session) + "\"";
    }

    private String ask(String method, String path, String json) {
        HttpRequest.BodyPublisher body = json == null
                ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(json);
        HttpRequest request = HttpRequest.newBuilder(URI.create(control + path))
                .header("Content-Type", "application/json").method(method, body).build();
        try {
            HttpResponse<String> answer =
                    HTTP.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != 200) {
                throw new IllegalStateException(answer.body());
            }
            return answer.body();
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static long number(String name, String json) {
        Matcher matcher = Pattern.compile("\"" + name + "\":(\\d+)").matcher(json);
        if (!matcher.find()) {
            throw new IllegalStateException("no " + name + " in " + json);
        }
        return Long.parseLong(matcher.group(1));
    }

    private static String text(String name, String json) {
        Matcher matcher = Pattern.compile("\"" + name + "\":\"([^\"]+)\"").matcher(json);
        if (!matcher.find()) {
            throw new IllegalStateException("no " + name + " in " + json);
        }
        return matcher.group(1);
    }
}
