-- Sluicegate: decisions, each over all policies of one subject, or of several limits together. A
-- call has a program and its keys; calls that wait for one server come together, and are decided in
-- order. Those that follow each other with the same program have it once.
--
-- in    ARGV[i]   a program: what to do and the numbers of every policy, and how many calls it is
--                 for (program.rs)
--       KEYS      one call's after the other's, each: the packed states of the subject
--                 (docs/stored-format.md); of several limits together, one such key each; and one
--                 key per log, in the order of the policies that have one
-- out   of one call
--       a string  the tag of the program, the server's time "SECONDS MICROSECONDS", a sign, and
--                 after '+' (allowed) the new packed states, from which the client reads the rest;
--                     of a ring they hold the last two slices alone
--                 after '-' (denied) the packed states
--                 after '*' (a bucket, asked several times at once) how many passed, and the packed
--                     states
--                 after '<' (too late, nothing was done) nothing
--       an array  {stamp, verdict, now, notes, old packed states …, one reading per log …}; after an
--                 admitted reservation also the packed states as written, one per limit
--                 verdict ALLOWED, DENIED, OVERFLOW or ASK_AGAIN: the boundaries of a calendar
--                 policy (an index from 0 follows) don't hold its time (follows too)
--       an array  {stamp, {reply …}}: of what was asked several times at once
--                 a stamp is the tag, the server's time and '#'
--       of several calls
--       a string  the first tag, the server's time, '=', and of each call the sign, the length of
--                 what follows it, and that; the sign '#' stands for an array or an error
--       an array  {that string, array or error …}
-- Whole numbers below 2^53 only. No call writes before all of it is judged.
--
-- Words in capitals are constants of the Rust code: script.rs writes their values in their place.

local spread, unpack, pack, call = unpack, struct.unpack, struct.pack, redis.pcall
local all_keys, programs = KEYS, ARGV
local clock = redis.call('TIME')
local server_now = clock[1] * 1000000 + clock[2]
local several, size, others, first = nil, 0, nil, 1

for run = 1, #programs do
local program = programs[run]
-- The head of the program, and as much of the first policy as a plain bucket needs.
local tag, late, lane, keys, calls, times, back, head, unit, refill, capacity, cost = unpack(PROGRAM_START, program)
if not several and (calls > 1 or programs[2]) then
  several, size = { tag .. clock[1] .. ' ' .. clock[2] .. '=' }, 1
end
for _ = 1, calls do
local sign, body = nil, nil
-- What stands under the first key, once a lane has read it.
local present = nil

-- What most calls are goes the shortest way: a check of one plain bucket, alone in its value.
if lane == SHORTEST_LANE and server_now <= late then
  local key, now, ahead = all_keys[first], server_now, server_now + back
  local value, at, deficit = call('GET', key), now, 0
  present = value
  if value then
    if #value == BUCKET_SIZE then
      local held, newest, then_deficit, then_unit = unpack(BUCKET_ENTRY, value)
      if held ~= head or then_unit ~= unit or newest > ahead or newest > MAX or then_deficit > MAX then
        at = nil
      else
        if newest > now then at = newest end
        deficit = then_deficit
        DRAIN(deficit, newest, at, refill)
      end
    else
      at = nil
    end
  end
  if at then
    local ticks, passed = cost * unit, 1
    if times > 1 then
      local room = capacity - deficit
      passed = math.floor(room / ticks)
      -- The quotient may have been rounded up.
      if passed * ticks > room then passed = passed - 1 end
      if passed > times then passed = times elseif passed < 0 then passed = 0 end
    elseif deficit > capacity - ticks then
      passed = 0
    end
    sign, body = '+', value or ''
    if passed > 0 then
      deficit = deficit + passed * ticks
      body = pack(BUCKET_ENTRY, head, at, deficit, unit)
      local life = at - now + deficit / refill
      if life > MAX then life = MAX end
      local done = call('SET', key, body, 'PX', math.ceil(life / 1000) + 1)
      if done.err then sign = done end
    elseif times == 1 then
      sign = '-'
    end
    if times > 1 and sign == '+' then sign, body = '*', pack(TIMES, passed) .. body end
  end
end

