-- Auxiliary commands: calls that aren't decisions but use the same entry point.
--
-- reads   program, lane, key, all_keys, first, keys, now, split
-- returns the same as `decide`, if the call is one

function DO_ERRAND()
  CANCEL_RESERVATION()
  LIST_HOLDERS()
  EXCHANGE_POSTS()
  -- Does what every decision needs, and fails as a decision would. No limit uses this key.
  if lane == READY_LANE then
    redis.call('SET', key, '', 'PX', 1000)
    return '+', ''
  end

  if value == nil then value = call('GET', key) end
end

-- Gives a reservation back, if nothing was charged after it. Otherwise releases its turn, if it has a queue
-- position. The program has the number of keys of states. For each of them follow the packed states after and
-- before the reservation (empty if absent), each after its length. Then follows the name of the queue
-- position, whose key is the last.
function CANCEL_RESERVATION()
  if lane == CANCEL_LANE then
    local count = string.byte(program, ERRAND)
    local at, changes, records, is_last = ERRAND + 1, {}, {}, count > 0
    for index = 1, count do
      local states = {}
      for each = 1, 2 do
        local length = unpack(WORD_LENGTH, program, at)
        at = at + WORD_LENGTH_SIZE
        states[each] = string.sub(program, at, at + length - 1)
        at = at + length
      end
      changes[index] = states
      local found = call('GET', all_keys[first + index - 1])
      if type(found) == 'table' and not string.find(found.err, 'WRONGTYPE', 1, true) then return found end
      if type(found) == 'string' then found, records[index] = split(found) end
      is_last = is_last and found == states[1]
    end
    local set, place, instant, made = nil, nil, nil, nil
    if keys > count then
      set = all_keys[first + keys - 1]
      local name = string.char(RESERVED) .. string.sub(program, at, at + (PLACE_NAME_SIZE - 1))
      local found = redis.call('ZRANGEBYLEX', set, '[' .. name, '(' .. name .. '\255', 'LIMIT', 0, 2)
      -- If two members are equal, it isn't known which one is meant.
      if #found ~= 1 then return '-', '' end
      place = found[1]
      instant, made = (unpack(NUMBER, place, 2)), (unpack(NUMBER, place, PLACE_NAME_SIZE + 2))
      -- A member whose instant has passed may have expired.
      if instant < now then return '-', '' end
    end
    if is_last then
      -- If the TTL was sufficient for the reservation's states, it is sufficient for less.
      for index, states in ipairs(changes) do
        local restored = states[2] .. records[index]
        if restored == '' then
          redis.call('DEL', all_keys[first + index - 1])
        else
          redis.call('SET', all_keys[first + index - 1], restored, 'KEEPTTL')
        end
      end
      if set then redis.call('ZREM', set, place) end
      return '+', ''
    end
    if not set then return '-', '' end
    local gone, live, last = { place }, 0, nil
    local finish = '(' .. string.char(RESERVED)
    for _, turn in ipairs(redis.call('ZRANGEBYLEX', set, '-', finish, 'LIMIT', 0, TURNS_MOST)) do
      if unpack(NUMBER, turn, 2) < now then
        gone[#gone + 1] = turn
      else
        live, last = live + 1, turn
      end
    end
    local is_left = made <= now
    if is_left and live >= TURNS_MOST then
      is_left = instant < unpack(NUMBER, last, 2)
      if is_left then gone[#gone + 1] = last end
    end
    if is_left then
      local head, units = string.sub(place, 2, PLACE_NAME_SIZE + 1), string.sub(place, PLACE_HEAD_SIZE + 1)
      redis.call('ZADD', set, 0, string.char(TURN) .. head .. pack(NUMBER, now) .. units)
    end
    redis.call('ZREM', set, spread(gone))
    return is_left and '+' or '-', ''
  end
end

-- Lists the holders of units in flight, in the order of their ends. The program has their maximum number, and
-- the end and id after which to begin. The reply has the time, the number of waiters, and the member of each
-- holder in the set, after its length.
function LIST_HOLDERS()
  if lane == HOLDERS_LANE then
    local count, ends, id = unpack(HOLDERS_ASKED, program, ERRAND)
    local start = '[' .. string.char(HELD_BY_TIME) .. pack(NUMBER, now + 1)
    if ends > now then start = '(' .. string.char(HELD_BY_TIME) .. pack(NUMBER, ends) .. id .. '\255' end
    local members = redis.call('ZRANGEBYLEX', key, start, '(' .. string.char(HELD_BY_TIME + 1), 'LIMIT', 0, count)
    local waits = '[' .. string.char(TICKET_BY_TIME) .. pack(NUMBER, now + 1)
    local waiting = redis.call('ZLEXCOUNT', key, waits, '(' .. string.char(TICKET_BY_TIME + 1))
    local words = { pack(HOLDERS_HEAD, now, waiting) }
    for _, member in ipairs(members) do words[#words + 1] = pack(WORD_LENGTH, #member) .. member end
    return '+', table.concat(words)
  end
end

-- Puts an entry on a board, and replies the board. Each entry has its end, its name and its content, the last two after
-- their lengths. The program has the new entry in the same form, with its lifetime in place of the end, or 0 for none.
function EXCHANGE_POSTS()
  if lane == BOARD_LANE then
    local function read(text, at)
      local number, name_length, length
      number, name_length, at = unpack(BOARD_ENTRY, text, at)
      local name = string.sub(text, at, at + name_length - 1)
      length, at = unpack(WORD_LENGTH, text, at + name_length)
      return number, name, string.sub(text, at, at + length - 1), at + length
    end
    local lasts, own, content = read(program, ERRAND)
    local board, entries, last, at = redis.call('GET', key) or '', {}, 0, 1
    local function add(ends, name, what)
      entries[#entries + 1] = pack(BOARD_ENTRY, ends, #name) .. name .. pack(WORD_LENGTH, #what) .. what
      last = math.max(last, ends)
    end
    while at <= #board do
      local ends, name, what
      ends, name, what, at = read(board, at)
      if ends > server_now and (lasts == 0 or name ~= own) then add(ends, name, what) end
    end
    if lasts > 0 and #entries < BOARD_MOST then
      add(server_now + lasts, own, content)
      redis.call('SET', key, table.concat(entries), 'PX', math.ceil((last - server_now) / 1000))
    end
    return '+', table.concat(entries)
  end
end
