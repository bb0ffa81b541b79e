// Checks a limit with go-redis and its default options.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	defer client.Close()

	for _, expected := range []bool{true, true, false} {
		answer, err := client.Do(ctx, "SG.CHECK", "api", "go-redis").Result()
		expect(err == nil, err)
		expect(answer.(map[any]any)["allowed"] == expected, answer)
	}

	pipeline := client.Pipeline()
	commands := make([]*redis.Cmd, 100)
	for i := range commands {
		commands[i] = pipeline.Do(ctx, "CL.THROTTLE", "go-redis", 99, 1, 3600)
	}
	_, err := pipeline.Exec(ctx)
	expect(err == nil, err)
	for i, command := range commands {
		numbers, err := command.Int64Slice()
		expect(err == nil && numbers[0] == 0 && numbers[2] == int64(99-i), numbers)
	}

	_, err = client.Do(ctx, "SG.CHECK", "nope", "go-redis").Result()
	expect(err != nil && strings.HasPrefix(err.Error(), "NOLIMIT "), err)
}

func expect(isRight bool, got any) {
	if !isRight {
		fmt.Fprintln(os.Stderr, "unexpected:", got)
		os.Exit(1)
	}
}
