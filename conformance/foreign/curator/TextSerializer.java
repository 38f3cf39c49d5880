import java.nio.charset.StandardCharsets;
import java.util.function.Function;
import org.apache.curator.framework.recipes.queue.QueueSerializer;

/** Writes items of a queue as text, and reads them with a function. */
record TextSerializer<T>(Function<String, T> read) implements QueueSerializer<T> {
    @Override
    public byte[] serialize(T item) {
        return item.toString().getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public T deserialize(byte[] bytes) {
        return read.apply(new String(bytes, StandardCharsets.UTF_8));
    }
}
