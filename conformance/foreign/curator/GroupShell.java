import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.GroupMember;

/** The same as src/group_shell.rs, with Curator: a member of a group, as each line says. */
final class GroupShell {
    private static final int PATIENCE_MS = 45_000;

    private GroupShell() {}

    static void obey(CuratorFramework client, String path, String name, BufferedReader told) throws Exception {
        GroupMember member = new GroupMember(client, path, name, name.getBytes(StandardCharsets.UTF_8));
        member.start();
        boolean hasLeft = false;
        for (String line = told.readLine(); line != null; line = told.readLine()) {
            String[] words = line.split(" ", 2);
            switch (words[0]) {
                case "payload" -> member.setThisData(words[1].getBytes(StandardCharsets.UTF_8));
                case "await" -> await(member, words[1]);
                case "leave" -> {
                    member.close();
                    hasLeft = true;
                }
                default -> throw new IllegalArgumentException(line);
            }
            System.out.println(line);
        }
        if (!hasLeft) {
            member.close();
        }
    }

    private static void await(GroupMember member, String expected) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
        String seen;
        do {
            seen = described(member.getCurrentMembers());
            if (seen.equals(expected)) {
                return;
            }
            Thread.sleep(20);
        } while (System.nanoTime() < end);
        throw new IllegalStateException(expected + " in vain: there are " + seen);
    }

    /** ID=PAYLOAD of each, in the order of the ids. */
    private static String described(Map<String, byte[]> members) {
        return new TreeMap<>(members).entrySet().stream()
                .map(member -> member.getKey() + "=" + new String(member.getValue(), StandardCharsets.UTF_8))
                .collect(Collectors.joining(","));
    }
}
