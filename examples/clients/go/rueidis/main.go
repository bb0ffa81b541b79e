// Checks a limit with rueidis and its default options.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/redis/rueidis"
)

func main() {
	ctx := context.Background()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{os.Args[1]}})
	expect(err == nil, err)
	defer client.Close()

	for _, expected := range []bool{true, true, false} {
		check := client.B().Arbitrary("SG.CHECK", "api", "rueidis").Build()
		answer, err := client.Do(ctx, check).AsMap()
		expect(err == nil, err)
		allowed := answer["allowed"]
		isAllowed, err := allowed.AsBool()
		expect(err == nil && isAllowed == expected, answer)
	}

	commands := make(rueidis.Commands, 100)
	for i := range commands {
		commands[i] = client.B().Arbitrary("CL.THROTTLE", "rueidis", "99", "1", "3600").Build()
	}
	for i, result := range client.DoMulti(ctx, commands...) {
		numbers, err := result.AsIntSlice()
		expect(err == nil && numbers[0] == 0 && numbers[2] == int64(99-i), numbers)
	}

	err = client.Do(ctx, client.B().Arbitrary("SG.CHECK", "nope", "rueidis").Build()).Error()
	expect(err != nil && strings.HasPrefix(err.Error(), "NOLIMIT "), err)
}

func expect(isRight bool, got any) {
	if !isRight {
		fmt.Fprintln(os.Stderr, "unexpected:", got)
		os.Exit(1)
	}
}
