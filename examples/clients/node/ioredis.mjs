// Checks a limit with ioredis and its default options.
import assert from "node:assert/strict";
import { Redis } from "ioredis";

const [host, port] = process.argv[2].split(":");
const client = new Redis(Number(port), host);

// A map is a flat array of fields and values by default.
const fields = (answer) => Object.fromEntries(
  Array.from({ length: answer.length / 2 }, (_, i) => [answer[2 * i], answer[2 * i + 1]]),
);
for (const expected of [1, 1, 0]) {
  const answer = fields(await client.call("SG.CHECK", "api", "ioredis"));
  assert.equal(Number(answer.allowed), expected);
}

const pipeline = client.pipeline();
for (let i = 0; i < 100; i++) pipeline.call("CL.THROTTLE", "ioredis", 99, 1, 3600);
const answers = await pipeline.exec();
answers.forEach(([error, numbers], i) => {
  assert.equal(error, null);
  assert.deepEqual([numbers[0], numbers[2]], [0, 99 - i]);
});

await assert.rejects(client.call("SG.CHECK", "nope", "ioredis"), /^ReplyError: NOLIMIT /);
await client.quit();
