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
-- Words in capitals are constants of the Rust code, whose values the script has in their place, and fragments, whose
-- text it has there (script/fragment.rs). A fragment without arguments is a step: it sees what stands before it, and
-- what comes after it sees what it declares.

local spread, unpack, pack, call = unpack, struct.unpack, struct.pack, redis.pcall
local all_keys, programs = KEYS, ARGV
local clock = redis.call('TIME')
local server_now = clock[1] * 1000000 + clock[2]
-- The replies to several calls, as far as they are texts; how many pieces those have; the other replies.
local several, size, others, first = nil, 0, nil, 1

for run = 1, #programs do
  local program = programs[run]
  local tag, late, lane, keys, calls, times, back = unpack(PROGRAM_HEAD, program)
  -- As much of the first policy as a plain bucket needs.
  local head, unit, refill, capacity, cost = unpack(POLICY_OWN, program, FIRST_POLICY)
  if not several and (calls > 1 or programs[2]) then
    several, size = { tag .. clock[1] .. ' ' .. clock[2] .. '=' }, 1
  end
  for _ = 1, calls do
    -- The reply, and what stands under the first key, once a lane has read it.
    local sign, body, present = nil, nil, nil
    MAKE_INLINE_READER()
    BUCKET_LANE()
    PERMIT_LANE()
    if not sign then
      MAKE_WALK()
      -- Any call at all: a sign and what follows it, or an array.
      local function decide(lane, times, value)
        if server_now > late then return '<', '' end
        local key, now, ahead, shortest = all_keys[first], server_now, server_now + back, 0
        local sub = string.sub
        if lane >= INJECTED then
          -- The time to judge by comes with the call; the server's says nothing about the life of keys.
          lane, now, ahead, shortest = lane - INJECTED, back, 2 * MAX, INJECTED_LIFE
        end
        -- These were taken already, where what is stored is as it mostly is.
        if lane >= HOLD_LANE and lane <= CHANGE_LANE then lane = GENERAL_LANE end
        DO_ERRAND()
        EXPRESS_LANE()
        BEGIN_GENERAL()
        MAKE_TALLY()
        MAKE_INLINE_WRITER()
        MAKE_HOLD()
        MAKE_QUEUE()
        MAKE_LINE()
        MAKE_BANS()
        MAKE_KERNELS()
        DECIDE()
      end
      local answer = decide
      ANSWER_ONCE()
      if several then
        local is_fine
        is_fine, sign, body = pcall(answer, lane, times, present)
        -- What goes wrong with one call is none of the others' business.
        if not is_fine and type(sign) ~= 'table' then sign = { err = tostring(sign) } end
      else
        sign, body = answer(lane, times, present)
      end
    end

    if not several then
      if type(sign) == 'table' then return sign end
      return tag .. clock[1] .. ' ' .. clock[2] .. sign .. body
    end
    if type(sign) == 'table' then
      others = others or { false }
      others[#others + 1] = sign
      several[size + 1] = '#'
      size = size + 1
    else
      several[size + 1], several[size + 2], several[size + 3] = sign, #body == BUCKET_SIZE and BUCKET_LENGTH
        or pack(WORD_LENGTH, #body), body
      size = size + 3
    end
    first = first + keys
  end
end

several = table.concat(several)
if others then others[1] = several end
return others or several
