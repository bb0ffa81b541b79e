import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.CommandOutput;
import io.lettuce.core.output.NestedMultiOutput;
import io.lettuce.core.output.ObjectOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Checks a limit with lettuce and its default options. */
public class LettuceClient {
    private static final StringCodec CODEC = StringCodec.UTF8;

    public static void main(String[] arguments) throws Exception {
        RedisClient client = RedisClient.create("redis://" + arguments[0]);
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            var commands = connection.sync();
            for (boolean expected : new boolean[] {true, true, false}) {
                Object answer = commands.dispatch(
                        keyword("SG.CHECK"), new ObjectOutput<>(CODEC), words("api", "lettuce"));
                expect(((Map<?, ?>) answer).get("allowed").equals(expected), answer);
            }
            List<RedisFuture<List<Object>>> answers = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
                CommandOutput<String, String, List<Object>> output = new NestedMultiOutput<>(CODEC);
                answers.add(connection.async().dispatch(
                        keyword("CL.THROTTLE"), output, words("lettuce", "99", "1", "3600")));
            }
            LettuceFutures.awaitAll(Duration.ofSeconds(10), answers.toArray(new RedisFuture[0]));
            for (int i = 0; i < 100; i++) {
                List<Object> numbers = answers.get(i).get();
                expect(numbers.get(0).equals(0L) && numbers.get(2).equals(99L - i), numbers);
            }
            try {
                commands.dispatch(keyword("SG.CHECK"), new ObjectOutput<>(CODEC), words("nope", "lettuce"));
                expect(false, "no error");
            } catch (RedisCommandExecutionException error) {
                expect(error.getMessage().startsWith("NOLIMIT "), error);
            }
        } finally {
            client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        }
    }

    private static CommandArgs<String, String> words(String... words) {
        CommandArgs<String, String> arguments = new CommandArgs<>(CODEC);
        for (String word : words) {
            arguments.add(word);
        }
        return arguments;
    }

    private static ProtocolKeyword keyword(String name) {
        return new ProtocolKeyword() {
            @Override
            public byte[] getBytes() {
                return name.getBytes(StandardCharsets.US_ASCII);
            }

            @Override
            public String toString() {
                return name;
            }
        };
    }

    private static void expect(boolean isRight, Object got) {
        if (!isRight) {
            throw new IllegalStateException("unexpected: " + got);
        }
    }
}
