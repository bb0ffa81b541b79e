import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.util.KeyValue;

/** Checks a limit with jedis and its default options. */
public class JedisClient {
    public static void main(String[] arguments) {
        String[] address = arguments[0].split(":");
        try (RedisClient client = RedisClient.create(address[0], Integer.parseInt(address[1]))) {
            for (boolean expected : new boolean[] {true, true, false}) {
                List<?> answer = (List<?>) client.sendCommand(() -> bytes("SG.CHECK"), "api", "jedis");
                expect(field(answer, "allowed").equals(expected), answer);
            }
            List<Response<Object>> answers = new ArrayList<>();
            try (var pipeline = client.pipelined()) {
                for (int i = 0; i < 100; i++) {
                    answers.add(pipeline.sendCommand(() -> bytes("CL.THROTTLE"), "jedis", "99", "1", "3600"));
                }
                pipeline.sync();
            }
            for (int i = 0; i < 100; i++) {
                List<?> numbers = (List<?>) answers.get(i).get();
                expect(numbers.get(0).equals(0L) && numbers.get(2).equals(99L - i), numbers);
            }
            try {
                client.sendCommand(() -> bytes("SG.CHECK"), "nope", "jedis");
                expect(false, "no error");
            } catch (JedisDataException error) {
                expect(error.getMessage().startsWith("NOLIMIT "), error);
            }
        }
    }

    /** Returns the value of a field of a map, which is a list of pairs. */
    private static Object field(List<?> answer, String name) {
        for (Object pair : answer) {
            KeyValue<?, ?> field = (KeyValue<?, ?>) pair;
            if (new String((byte[]) field.getKey(), StandardCharsets.UTF_8).equals(name)) {
                return field.getValue();
            }
        }
        throw new IllegalStateException("no " + name + " in " + answer);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void expect(boolean isRight, Object got) {
        if (!isRight) {
            throw new IllegalStateException("unexpected: " + got);
        }
    }
}
