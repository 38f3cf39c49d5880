import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.imps.ExtractingCuratorOp;
import org.apache.curator.framework.imps.GzipCompressionProvider;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;

/**
 * Prints the bytes that Curator makes of what each line says: compressed data, and the hash of a migration, whose
 * operations are hashed here as by its MigrationManager.
 */
final class BytesMember {
    private static final GzipCompressionProvider GZIP = new GzipCompressionProvider();

    private BytesMember() {}

    static void obey(CuratorFramework client, BufferedReader told) throws Exception {
        for (String line = told.readLine(); line != null; line = told.readLine()) {
            String[] words = line.split(" ");
            System.out.println(line + " " + HexFormat.of().formatHex(answer(client, words)));
        }
    }

    private static byte[] answer(CuratorFramework client, String[] words) throws Exception {
        switch (words[0]) {
            case "compress":
                return GZIP.compress("/", bytes(words[1]));
            case "decompress":
                return GZIP.decompress("/", bytes(words[1]));
            case "hash":
                MessageDigest digest = MessageDigest.getInstance("SHA-256");
                for (int i = 1; i < words.length; ++i) {
                    ((ExtractingCuratorOp) operation(client, words[i].split(":", -1))).addToDigest(digest);
                }
                return digest.digest();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Bytes in hexadecimal after a letter, since there may be none. */
    private static byte[] bytes(String word) {
        return HexFormat.of().parseHex(word.substring(1));
    }

    private static String text(String word) {
        return new String(bytes(word), StandardCharsets.UTF_8);
    }

    private static CuratorOp operation(CuratorFramework client, String[] parts) throws Exception {
        String path = text(parts[1]);
        switch (parts[0]) {
            case "create":
                CreateMode mode = CreateMode.valueOf(parts[2]);
                List<ACL> acl = new ArrayList<>();
                for (int i = 5; i < parts.length; i += 3) {
                    acl.add(new ACL(Integer.parseInt(parts[i]), new Id(text(parts[i + 1]), text(parts[i + 2]))));
                }
                if (mode.isTTL()) {
                    return client.transactionOp().create().withTtl(Long.parseLong(parts[3])).withMode(mode).withACL(acl)
                            .forPath(path, bytes(parts[4]));
                }
                return client.transactionOp().create().withMode(mode).withACL(acl).forPath(path, bytes(parts[4]));
            case "delete":
                return client.transactionOp().delete().withVersion(Integer.parseInt(parts[2])).forPath(path);
            case "set":
                return client.transactionOp().setData().withVersion(Integer.parseInt(parts[2]))
                        .forPath(path, bytes(parts[3]));
            case "check":
                return client.transactionOp().check().withVersion(Integer.parseInt(parts[2])).forPath(path);
            default:
                throw new IllegalArgumentException(parts[0]);
        }
    }
}
