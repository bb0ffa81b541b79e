// Checks a limit with node-redis and its default options.
import assert from "node:assert/strict";
import { createClient } from "redis";

const client = createClient({ url: `redis://${process.argv[2]}` });
client.on("error", (error) => { throw error; });
await client.connect();

for (const expected of [true, true, false]) {
  const answer = await client.sendCommand(["SG.CHECK", "api", "node-redis"]);
  assert.equal(answer.allowed, expected);
}

// Commands of one turn are a pipeline.
const throttle = ["CL.THROTTLE", "node-redis", "99", "1", "3600"];
const answers = await Promise.all(Array.from({ length: 100 }, () => client.sendCommand(throttle)));
answers.forEach((numbers, i) => assert.deepEqual([numbers[0], numbers[2]], [0, 99 - i]));

await assert.rejects(client.sendCommand(["SG.CHECK", "nope", "node-redis"]), /NOLIMIT /);
await client.close();
