import java.io.BufferedReader;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.InstanceSerializer;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;

/**
 * Registers, finds and chooses instances of one service with Curator, as each line says, and prints the line with an
 * answer when it is done.
 */
final class DiscoveryMember {
    private static final String SERVICE = "orders";
    private static final int PATIENCE_MS = 45_000;
    private static final InstanceSerializer<Object> COMPATIBLE = new JsonInstanceSerializer<>(Object.class);
    private static final InstanceSerializer<Object> WITH_ENABLED = new JsonInstanceSerializer<>(Object.class, false);

    /** A payload whose class is in the JSON. */
    public static final class Payload {
        private String val;
        private int number;

        public String getVal() {
            return val;
        }

        public void setVal(String val) {
            this.val = val;
        }

        public int getNumber() {
            return number;
        }

        public void setNumber(int number) {
            this.number = number;
        }
    }

    private final ServiceDiscovery<Object> discovery;
    private final ServiceProvider<Object> provider;

    private DiscoveryMember(CuratorFramework client, String path) throws Exception {
        discovery = ServiceDiscoveryBuilder.builder(Object.class)
                .client(client)
                .basePath(path)
                .serializer(WITH_ENABLED)
                .build();
        discovery.start();
        provider = discovery.serviceProviderBuilder().serviceName(SERVICE).build();
        provider.start();
    }

    static void obey(CuratorFramework client, String path, BufferedReader told) throws Exception {
        DiscoveryMember member = new DiscoveryMember(client, path);
        for (String line = told.readLine(); line != null; line = told.readLine()) {
            System.out.println((line + " " + member.answer(line.split(" "))).trim());
        }
        member.provider.close();
        member.discovery.close();
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "register":
                discovery.registerService(instance(words[1], words[2], ServiceType.valueOf(words[3])));
                return "";
            case "update":
                discovery.updateService(instance(words[1], words[2], ServiceType.valueOf(words[3])));
                return "";
            case "unregister":
                discovery.unregisterService(instance(words[1], "0", ServiceType.DYNAMIC));
                return "";
            case "find":
                return described(List.copyOf(discovery.queryForInstances(SERVICE)));
            case "await":
                return await(words[1]);
            case "compatible":
                return again(COMPATIBLE, words[1]);
            case "with-enabled":
                return again(WITH_ENABLED, words[1]);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static ServiceInstance<Object> instance(String id, String port, ServiceType type) throws Exception {
        Payload payload = new Payload();
        payload.setVal("from Curator");
        payload.setNumber(Integer.parseInt(port));
        return ServiceInstance.<Object>builder()
                .name(SERVICE)
                .id(id)
                .address("10.0.0.7")
                .port(Integer.parseInt(port))
                .payload(payload)
                .registrationTimeUTC(1)
                .serviceType(type)
                .uriSpec(new UriSpec("{scheme}://{address}:{port}"))
                .build();
    }

    /** Waits until the provider may choose exactly these instances. */
    private String await(String described) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
        String seen;
        do {
            seen = described(List.copyOf(provider.getAllInstances()));
            if (seen.equals(described)) {
                return "";
            }
            Thread.sleep(20);
        } while (System.nanoTime() < end);
        throw new IllegalStateException("the provider has " + seen);
    }

    /** ID=URI of each, in the order of the ids. */
    private static String described(List<ServiceInstance<Object>> instances) {
        String all = instances.stream()
                .map(instance -> instance.getId() + "=" + instance.buildUriSpec())
                .sorted()
                .collect(Collectors.joining(","));
        return all.isEmpty() ? "none" : all;
    }

    /** Reads an instance and writes it again; both as hex. */
    private static String again(InstanceSerializer<Object> serializer, String hex) throws Exception {
        byte[] read = HexFormat.of().parseHex(hex);
        return HexFormat.of().formatHex(serializer.serialize(serializer.deserialize(read)));
    }
}
