-- The reservation queue of a subject: waiting reservations that can be cancelled, and the turns released by
-- cancelled ones. All are members of one sorted set, ordered by their bytes:
--
--   TURN instant id made units
--   RESERVED instant id made units
--
-- `units` lists the kind, identity and charged units of each policy. auxiliary.lua cancels reservations.

function MAKE_LINE()
  local behind = hold and hold.keys or 0
  local line = operation == RESERVE and keys > parts + behind and {}
  if line then
    local set = all_keys[first + keys - behind - 1]
    local after = PROGRAM_END_SIZE + (hold and HOLD_SIZE or 0)
    local has_place, id = unpack(PLACE_IN_PROGRAM, program, #program - (PLACE_IN_PROGRAM_SIZE + after - 1))
    local turns, ended

    -- Reads all turns, and the first of the reservations whose instant has passed.
    local function look()
      if turns then return end
      turns, ended = {}, {}
      local passed = '(' .. string.char(RESERVED) .. pack(NUMBER, now)
      local places = redis.call('ZRANGEBYLEX', set, '-', passed, 'LIMIT', 0, TURNS_MOST + PLACES_ENDED)
      for _, place in ipairs(places) do
        if string.byte(place) == TURN then
          turns[#turns + 1] = place
        elseif #ended < PLACES_ENDED then
          ended[#ended + 1] = place
        end
      end
    end

    -- Returns whether a turn has units for all charged policies.
    local function suffices(turn, policies)
      local units, at = {}, PLACE_HEAD_SIZE + 1
      while at < #turn do
        units[sub(turn, at, at + (ID_SIZE - 1))] = (unpack(NUMBER, turn, at + ID_SIZE))
        at = at + ID_SIZE + NUMBER_SIZE
      end
      for _, p in ipairs(policies) do
        if p.cost > 0 and not p.shadow and p.cost > (units[p.id] or 0) then return false end
      end
      return true
    end

    -- Returns the wait for the first sufficient turn within `longest` µs.
    function line.take(policies, longest)
      for _, p in ipairs(policies) do
        local is_hopeless = p.refill == 0 or p.cost > p.limit
        if p.cost > 0 and not p.shadow and not p.wait and is_hopeless then return nil end
      end
      look()
      for _, turn in ipairs(turns) do
        local instant, made = (unpack(NUMBER, turn, 2)), (unpack(NUMBER, turn, PLACE_NAME_SIZE + 2))
        if instant - now > longest then return nil end
        if instant >= now and made <= now and suffices(turn, policies) then
          line.turn = turn
          return instant - now
        end
      end
    end

    -- Removes the turn that was taken, and keeps a queue entry for a waiting reservation; returns 1 if there
    -- is one.
    function line.keep(policies, wait)
      local gone, place = { line.turn }, nil
      if has_place == 1 and wait > 0 and now + wait <= MAX then
        look()
        if redis.call('ZLEXCOUNT', set, '-', '+') - #gone - #ended < PLACES_MOST then
          place = string.char(RESERVED) .. pack(NUMBER, now + wait) .. id .. pack(NUMBER, now)
          for _, p in ipairs(policies) do
            if p.cost > 0 and not p.shadow then place = place .. p.id .. pack(NUMBER, p.cost) end
          end
          for _, each in ipairs(ended) do gone[#gone + 1] = each end
          -- Add before removing anything: an empty set would lose its TTL.
          redis.call('ZADD', set, 0, place)
          local lasts, lives = max(wait, shortest), nil
          LIFE(lasts, lives)
          -- Twice the time, so that not every reservation has to set it.
          if redis.call('PTTL', set) < lives then redis.call('PEXPIRE', set, 2 * lives) end
        end
      end
      if gone[1] then redis.call('ZREM', set, spread(gone)) end
      return place and 1 or 0
    end
  end
end
