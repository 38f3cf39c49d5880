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
 * A server for each test, with faults as methods. It is a separate process; the command is
 * {@code zoolet}, or the value of the variable ZOOLET.
 */
public class Zoolet extends ExternalResource {
    private final HttpClient http = HttpClient.newHttpClient();
    private final List<CuratorFramework> clients = new ArrayList<>();
    private Process process;
    private String address;
    private String control;

    @Override
    protected void before() throws IOException {
        String command = Optional.ofNullable(System.getenv("ZOOLET")).orElse("zoolet");
        process = new ProcessBuilder(command, "serve", "--listen", "127.0.0.1:0",
                "--test-control", "127.0.0.1:0", "--log-level", "warn")
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader lines = new BufferedReader(
                new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        address = after("listening on ", lines.readLine());
        control = after("test control on ", lines.readLine());
    }

    @Override
    protected void after() {
        heal();
        clients.forEach(CuratorFramework::close);
        process.destroy();
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
        ask("POST", "/expire", "{" + whom(client) + "}");
    }

    /** Cuts a client's connection now. */
    public void cut(CuratorFramework client) throws Exception {
        ask("POST", "/cut", "{" + whom(client) + "}");
    }

    /** Passes no message from or to a client until the fault is lifted. */
    public Fault freeze(CuratorFramework client) throws Exception {
        return new Fault(ask("POST", "/faults", "{\"fault\": \"freeze\", " + whom(client) + "}"));
    }

    /** Sets any other fault; {@code GET /} of the test control lists them. */
    public Fault fault(String json) {
        return new Fault(ask("POST", "/faults", json));
    }

    /** Moves the server's clock forward: sessions that were silent for that long expire. */
    public void advance(long milliseconds) {
        ask("POST", "/time", "{\"advance_ms\": " + milliseconds + "}");
    }

    /** Ends all faults. */
    public void heal() {
        ask("DELETE", "/faults", null);
    }

    /** A fault that was set. */
    public class Fault implements AutoCloseable {
        private final String path;

        private Fault(String answer) {
            path = "/faults/" + number("id", answer);
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
                    http.send(request, HttpResponse.BodyHandlers.ofString());
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

    private static String after(String prefix, String line) {
        if (line == null || !line.startsWith(prefix)) {
            throw new IllegalStateException("zoolet did not start: " + line);
        }
        return line.substring(prefix.length());
    }
}
