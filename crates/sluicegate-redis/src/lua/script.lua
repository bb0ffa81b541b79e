-- Sluicegate: decisions, each over all policies of one subject, or of several limits together. A call has a
-- program and its keys. Calls that wait for one server are batched, and are decided in order. Consecutive
-- calls with the same program have it once.
--
-- in    ARGV[i]   a program: the operation, the numbers of every policy, and the number of calls it is
--                 for (program.rs)
--       KEYS      the keys of one call after the other, each: the packed states of the subject
--                 (docs/stored-format.md); of several limits together, one such key each; and one
--                 key per log, in the order of the policies that have one
-- out   for one call
--       a string  the tag of the program, the server's time "SECONDS MICROSECONDS", a sign, and
--                 after '+' (allowed) the new packed states, from which the client reads the rest;
--                     of a ring they only hold the last two slices
--                 after '-' (denied) the packed states
--                 after '*' (several equal checks of a bucket) how many passed, and the packed
--                     states
--                 after '<' (too late, nothing was done) nothing
--       an array  {stamp, verdict, now, notes, old packed states …, one reading per log …}; after an
--                 admitted reservation also the packed states as written, one per limit
--                 verdict ALLOWED, DENIED, OVERFLOW or ASK_AGAIN: the boundaries of a calendar
--                 policy (an index from 0 follows) don't hold its time (follows too)
--       an array  {stamp, {reply …}}: for several equal checks
--                 a stamp is the tag, the server's time and '#'
--       for several calls
--       a string  the first tag, the server's time, '=', and for each call the sign, the length of
--                 the rest, and the rest; the sign '#' stands for an array or an error
--       an array  {that string, array or error …}
-- Whole numbers below 2^53 only. No call writes before it is evaluated completely.
--
-- Upper-case names are template constants, replaced by the values of the Rust code, and fragments, replaced
-- by their text (script/fragment.rs). A fragment without arguments is a step. It sees earlier declarations,
-- and later code sees its declarations.

local spread, unpack, pack, call = unpack, struct.unpack, struct.pack, redis.pcall
local all_keys, programs = KEYS, ARGV
local clock = redis.call('TIME')
local server_now = clock[1] * 1000000 + clock[2]
-- The replies to several calls, if they are texts; the number of their pieces; the other replies.
local several, size, others, first = nil, 0, nil, 1

for run = 1, #programs do
  local program = programs[run]
  local tag, late, lane, keys, calls, times, back = unpack(PROGRAM_HEAD, program)
  -- The part of the first policy that a plain bucket needs.
  local head, unit, refill, capacity, cost = unpack(POLICY_OWN, program, FIRST_POLICY)
  if not several and (calls > 1 or programs[2]) then
    several, size = { tag .. clock[1] .. ' ' .. clock[2] .. '=' }, 1
  end
  for _ = 1, calls do
    -- The reply, and the value of the first key, once a fast path has read it.
    local sign, body, present = nil, nil, nil
    MAKE_INLINE_READER()
    BUCKET_LANE()
    PERMIT_LANE()
    if not sign then
      MAKE_WALK()
      -- Decides any call, and returns a sign and the rest, or an array.
      local function decide(lane, times, value)
        if server_now > late then return '<', '' end
        local key, now, ahead, shortest = all_keys[first], server_now, server_now + back, 0
        local sub = string.sub
        if lane >= INJECTED then
          -- The time to decide by comes with the call. The server's time doesn't show how long keys are
          -- useful.
          lane, now, ahead, shortest = lane - INJECTED, back, 2 * MAX, INJECTED_LIFE
        end
        -- The fast paths have already skipped this call, so its states are unusual.
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
        -- An error in one call must not affect the other calls of the batch.
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
