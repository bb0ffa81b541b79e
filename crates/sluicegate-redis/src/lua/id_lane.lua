-- The lane of a check of one plain bucket with an id, by the server's clock: one that is new, or is denied. Others
-- fall through, with nothing written, to once.lua, which says what is stored.
--
-- Few ids stand in the subject's value, behind the state of the bucket, and need no keys of their own. An entry of the
-- packed states has them, as far as they have a head, a unit and a life in common:
--   KNOWN until, until when there are ids outside, that head, unit and life, and of each id, the newest first:
--   the time of judgement, the deficit that was left, what was asked, and the id
-- The entry stays until its time, and so does the key, no sooner than the last id is forgotten. Where there is none,
-- the key that counts the ids outside says whether there are any.
--
-- reads   program, lane, server_now, late, all_keys, first, head, unit, refill, capacity, cost, keep_inline
-- sets    present: what stands under the first key; sign and body, if it decides

function ID_LANE()
  if lane == ONCE_LANE + SHORTEST_LANE and server_now <= late then
    local sub, now, key = string.sub, server_now, all_keys[first]
    local record_key, counts_key = all_keys[first + 1], all_keys[first + 2]
    local told = #program - (ONCE_SIZE + PROGRAM_END_SIZE - 1)
    -- What was asked is two numbers here, which are made faster than a text.
    local asked, and_asked, life, id = unpack(ONCE_ALONE, program, told)
    local value = call('GET', key)
    local size, newest, deficit, clean = value and #value or 0, now, 0, not value
    local known, stays, beyond, rows = size > BUCKET_SIZE, 0, 0, ''
    present = value
    if size >= BUCKET_SIZE then
      local after
      READ_BUCKET(value, 1, head, unit, now, clean, newest, deficit, after)
    end
    if clean and known then
      READ_KNOWN()
    end

    local ticks = cost * unit
    DRAIN(deficit, newest, now, refill)
    local counts = clean and not known and call('GET', counts_key)
    local are_outside = counts or beyond > now
    if clean and deficit > capacity - ticks then
      -- What was allowed is, whatever else would be.
      if not (are_outside and call('GET', record_key)) then sign, body = '-', value or '' end
    elseif clean then
      deficit = deficit + ticks
      local states = pack(BUCKET_ENTRY, head, now, deficit, unit)
      local ends, lasts = math.min(now + life, MAX), math.min(deficit / refill, MAX)
      if not are_outside and #rows < KNOWN_MOST * KNOWN_ID_SIZE then
        REMEMBER_INLINE()
      else
        REMEMBER_OUTSIDE()
      end
    end
  end
end

-- Reads the ids inline, which stand in the order of their times.
--
-- reads   value, size, now, head, unit, life, id
-- sets    clean: whether they make sense, and this is none of them; stays, beyond; rows: those that are known
function READ_KNOWN()
  local begins, finish = BUCKET_SIZE + KNOWN_SIZE + 1, size
  clean = size > begins and (size + 1 - begins) % KNOWN_ID_SIZE == 0 and size - begins < KNOWN_MOST * KNOWN_ID_SIZE
  if clean then
    local kind, length, then_head, then_unit, then_life, judged
    kind, length, stays, beyond, then_head, then_unit, then_life, judged = unpack(KNOWN_NEWEST, value, BUCKET_SIZE + 1)
    clean = kind == KNOWN_HEAD and length == size - (BUCKET_SIZE + LISTED_HEAD_SIZE) and stays <= MAX and judged <= now
    -- Those that are forgotten are the last.
    while clean and finish > begins and unpack(NUMBER, value, finish - (KNOWN_ID_SIZE - 1)) + then_life <= now do
      finish = finish - KNOWN_ID_SIZE
    end
    if clean and finish > begins then
      rows = sub(value, begins, finish)
      clean = then_head == head and then_unit == unit and then_life == life and not string.find(rows, id, 1, true)
    end
  end
end

-- Charges, and writes the id beside the state.
--
-- reads   key, now, states, deficit, lasts, life, ends, stays, rows, asked, and_asked, id, keep_inline
-- sets    sign, body
function REMEMBER_INLINE()
  local done, lives = nil, nil
  if ends > stays or now + lasts > stays then stays, lives = keep_inline(now, lasts, ends, stays) end
  local whole = pack(REMEMBERED, head, now, deficit, unit, KNOWN_HEAD,
    KNOWN_SIZE - LISTED_HEAD_SIZE + KNOWN_ID_SIZE + #rows, stays, 0, head, unit, life, now, deficit, asked,
    and_asked, id, rows)
  if lives then done = call('SET', key, whole, 'PX', lives) else done = call('SET', key, whole, 'KEEPTTL') end
  sign, body = '+', states
  if done.err then sign = done end
end

-- Charges, and writes the id to a key of its own; or nothing, if it is there, or there are too many.
--
-- reads   key, record_key, counts_key, counts, now, states, lasts, life, ends, known, stays, rows, told
-- sets    sign, body
function REMEMBER_OUTSIDE()
  local groups, live, counted, done, lives = nil, nil, nil, nil, nil
  if known then counts = call('GET', counts_key) end
  READ_IDS(counts, now, groups, live)
  if live + #rows / KNOWN_ID_SIZE < IDS_MOST then
    local record_lasts, none = life, string.rep('\0', REQUEST_ID_SIZE)
    LIFE(record_lasts, lives)
    COUNT_ID(groups, ends, life, counted)
    WRITE_IDS(groups, counts)
    done = call('SET', record_key, pack(ONCE_HEAD, sub(program, told, told + (ASKED_SIZE - 1)), ends, now, 0, 0, 1,
      none) .. states, 'PX', lives, 'NX')
  end
  if done and done.err then
    sign = done
  elseif done then
    local whole = states
    if rows ~= '' then
      if lasts < stays - now then lasts = stays - now end
      whole = states .. pack(KNOWN, KNOWN_HEAD, KNOWN_SIZE - LISTED_HEAD_SIZE + #rows, stays, counted, head, unit, life)
        .. rows
    end
    LIFE(lasts, lives)
    done = call('SET', key, whole, 'PX', lives)
    if done.err then
      -- What was not charged is not known.
      call('DEL', record_key)
    else
      local counts_last = counted - now
      LIFE(counts_last, lives)
      done = call('SET', counts_key, counts, 'PX', lives)
    end
    sign, body = '+', states
    if done.err then sign = done end
  end
end
