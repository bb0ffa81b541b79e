-- Sluicegate: one decision over all policies of one subject, or of several limits together.
--
-- in    KEYS[1]   the packed states of the subject (docs/stored-format.md); of several limits
--                 together, one such key each
--       KEYS[…]   one key per log, in the order of the policies that have one
--       ARGV[1]   the program: what to do and the numbers of every policy (program.rs)
--       ARGV[2]   the time to judge by, in µs; absent: the server's clock
-- out   a string  allowed; the new packed states, from which the client reads the rest; of a ring
--                 they hold the last two slices alone
--       a number  denied by the only policy, a bucket: its deficit
--       an array  {verdict, now, notes, old packed states …, one reading per log …}; after an
--                 admitted reservation also the packed states as written, one per limit
--                 verdict ALLOWED, DENIED, OVERFLOW or ASK_AGAIN: the boundaries of a calendar
--                 policy (an index from 0 follows) don't hold its time (follows too)
-- Whole numbers below 2^53 only. Nothing is written before everything is judged.
--
-- Words in capitals are constants of the Rust code: script.rs writes their values in their place.

local unpack = struct.unpack
local program = ARGV[1]
-- The head of the program, and as much of the first policy as a plain bucket needs.
local lane, back, head, unit, refill, capacity, cost = unpack(PROGRAM_START, program)
-- The shortest life of a key; under injected time, where the server's clock says nothing, an hour.
local now, ahead, shortest = nil, nil, 0
if ARGV[2] then
  now, ahead, shortest = tonumber(ARGV[2]), 2 * MAX, INJECTED_LIFE
else
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  ahead = now + back
end
local value = redis.pcall('GET', KEYS[1])

-- The shortest way, for what most limits are: a check of one plain bucket, alone in the value.
if lane == SHORTEST_LANE and (not value or #value == BUCKET_SIZE) then
  local at, deficit = now, 0
  if value then
    local held, newest, then_deficit, then_unit = unpack(BUCKET_ENTRY, value)
    if held ~= head or then_unit ~= unit or newest > ahead or newest > MAX or then_deficit > MAX then
      at = nil
    else
      if newest > now then at = newest end
      deficit = then_deficit - (at - newest) * refill
      if deficit < 0 then deficit = 0 end
    end
  end
  if at then
    local ticks = cost * unit
    if deficit > capacity - ticks then return deficit end
    deficit = deficit + ticks
    value = struct.pack(BUCKET_ENTRY, head, at, deficit, unit)
    local life = at - now + deficit / refill
    if life < shortest then life = shortest elseif life > MAX then life = MAX end
    redis.call('SET', KEYS[1], value, 'PX', math.ceil(life / 1000) + 1)
    return value
  end
end
