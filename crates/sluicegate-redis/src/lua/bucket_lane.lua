-- The fast path of one plain bucket, by the server's clock. It takes checks, also with an id, and peeks,
-- charges and refunds. It also takes checks that leave a record, and their settlements. Unusual cases fall
-- through, with nothing written, to the general part, which must give the same answers. See hold.lua and
-- inline_read.lua for records, and tally.lua for their count. See lease.lua for the second bound and its
-- slots, and once.lua for ids.
--
-- reads   program, lane, times, server_now, late, back, all_keys, first, head, unit, refill, capacity, cost, tag,
--         clock, look_inline, keep_inline
-- sets    present: the value of the first key; sign and body, if it decides

function BUCKET_LANE()
  if (lane == SHORTEST_LANE or lane == HOLD_LANE or lane == SETTLE_LANE or lane == ONCE_LANE + SHORTEST_LANE
    or lane == CHANGE_LANE) and server_now <= late then
    local key, now = all_keys[first], server_now
    local value = call('GET', key)
    present = value
    -- The state as stored; the second bound, and slots with their sum, if units are held; the start of the
    -- next entry.
    local size, clean, newest, stored, behind = type(value) == 'string' and #value or 0, not value, now, 0, 1
    local second, slots, held
    READ_STATE()
    -- The state at the evaluation time.
    local at, deficit, ticks = now, stored, cost * unit
    if clean then
      if newest > now then at = newest end
      DRAIN(deficit, newest, at, refill)
    end
    if clean and (lane == HOLD_LANE or lane == SETTLE_LANE) then
      HOLD_OR_SETTLE()
    elseif clean and not slots and lane == SHORTEST_LANE then
      if behind > size then
        CHECK_BUCKET()
      end
    elseif clean and not slots and lane == CHANGE_LANE then
      if behind > size then
        CHANGE_BUCKET()
      end
    elseif clean and not slots and newest <= now then
      CHECK_ONCE()
    end
  end
end

-- Reads a bucket, with held units or without.
--
-- reads   value, size, now
-- sets    clean: whether it is one; newest, stored, second, slots, held, behind
function READ_STATE()
  if size > 0 and string.byte(value) == BUCKET_KIND then
    local ahead = now + back
    READ_BUCKET(value, 1, head, unit, ahead, clean, newest, stored, behind)
  elseif size >= HELD_BUCKET_SIZE + LEASE_SLOT_SIZE then
    local kind, length, then_unit, leased, held_head, booked
    HEAD_OF_HELD(head, held_head)
    kind, length, newest, stored, then_unit, second, leased, behind = unpack(HELD_BUCKET, value)
    local count = (length - HELD_NUMBERS_SIZE) / LEASE_SLOT_SIZE
    clean = kind == held_head and then_unit == unit and newest <= now + back and newest <= MAX and stored <= second
      and second <= MAX and leased == 0 and count >= 1 and count <= HELD_SLOTS and count % 1 == 0
      and size >= LISTED_HEAD_SIZE + length
    if clean then
      READ_SLOTS(value, behind, count, newest, slots, held, booked)
      behind, clean = LISTED_HEAD_SIZE + length + 1, slots
    end
  end
end

-- Decides a check, or several equal ones, and writes the state.
--
-- reads   what BUCKET_LANE declares
-- sets    sign, body
function CHECK_BUCKET()
  local passed = 1
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
    local life, lives = at - now + deficit / refill, nil
    LIFE(life, lives)
    local done = call('SET', key, body, 'PX', lives)
    if done.err then sign = done end
  elseif times == 1 then
    sign = '-'
  end
  if times > 1 and sign == '+' then sign, body = '*', pack(TIMES, passed) .. body end
end

-- Peeks, charges unconditionally, or gives back. The reply has the state as it was.
--
-- reads   what BUCKET_LANE declares
-- sets    sign, if the state can hold the result
function CHANGE_BUCKET()
  local operation, verdict, changes = string.byte(program, #program - (PROGRAM_END_SIZE - 1)), ALLOWED, false
  if operation == PEEK then
    if deficit > capacity - ticks then verdict = DENIED end
  elseif operation == CHARGE then
    clean = cost <= MAX / unit and deficit <= MAX - ticks
    deficit, changes = deficit + ticks, true
    newest, stored = at, deficit
  elseif operation ~= REFUND then
    -- The general part reports the unknown operation.
    clean = false
  elseif value then
    clean = cost <= MAX / unit
    stored, changes = math.max(0, stored - ticks), true
    deficit = stored
    DRAIN(deficit, newest, at, refill)
  end
  if clean then
    sign = { tag .. clock[1] .. ' ' .. clock[2] .. '#', verdict, now, 0, value }
    if changes then
      local life, lives = at - now, nil
      if deficit > 0 then life = life + deficit / refill end
      LIFE(life, lives)
      local done = call('SET', key, pack(BUCKET_ENTRY, head, newest, stored, unit), 'PX', lives)
      if done.err then sign = done end
    end
  end
end

-- Decides a check with an id that is new, or is denied. A subject's first ids are in its value, after the
-- state of the bucket, and need no separate keys. One entry of the packed states has them, if they share a
-- head, a unit and a lifetime. It has:
--
--   KNOWN until, expiry of the ids with separate keys, that head, unit and lifetime. Then follow for each id, the
--   newest first, the evaluation time, the remaining deficit, the request's digest, and the id
--
-- The entry and the key stay until `until`, which isn't before the last id expires. If there is no entry, the
-- key that counts the other ids shows whether there are any.
--
-- reads   what BUCKET_LANE declares
-- sets    sign and body, if it decides
function CHECK_ONCE()
  local record_key, counts_key = all_keys[first + 1], all_keys[first + 2]
  local told = #program - (ONCE_SIZE + PROGRAM_END_SIZE - 1)
  -- The digest is two numbers here, which are made faster than a text.
  local asked, and_asked, life, id = unpack(ONCE_ALONE, program, told)
  local known, stays, beyond, rows = size > BUCKET_SIZE, 0, 0, ''
  if known then
    READ_KNOWN()
  end
  local counts = clean and not known and call('GET', counts_key)
  local are_outside = counts or beyond > now
  if clean and deficit > capacity - ticks then
    -- An earlier admission stays valid, even if a new check would be denied.
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

-- Reads the inline ids, in the order of their times.
--
-- reads   value, size, now, head, unit, life, id
-- sets    clean: whether they are valid, and don't include this id; stays, beyond; rows: the ids that have not expired
function READ_KNOWN()
  local begins, finish = BUCKET_SIZE + KNOWN_SIZE + 1, size
  clean = size > begins and (size + 1 - begins) % KNOWN_ID_SIZE == 0 and size - begins < KNOWN_MOST * KNOWN_ID_SIZE
  if clean then
    local kind, length, then_head, then_unit, then_life, judged
    kind, length, stays, beyond, then_head, then_unit, then_life, judged = unpack(KNOWN_NEWEST, value, BUCKET_SIZE + 1)
    clean = kind == KNOWN_HEAD and length == size - (BUCKET_SIZE + LISTED_HEAD_SIZE) and stays <= MAX and judged <= now
    -- Expired ids are the last ones.
    while clean and finish > begins and unpack(NUMBER, value, finish - (KNOWN_ID_SIZE - 1)) + then_life <= now do
      finish = finish - KNOWN_ID_SIZE
    end
    if clean and finish > begins then
      rows = string.sub(value, begins, finish)
      clean = then_head == head and then_unit == unit and then_life == life and not string.find(rows, id, 1, true)
    end
  end
end

-- Charges, and writes the id next to the state.
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

-- Charges, and writes the id to a separate key; does nothing if it exists, or if there are too many.
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
    done = call('SET', record_key, pack(ONCE_HEAD, string.sub(program, told, told + (ASKED_SIZE - 1)), ends, now, 0, 0,
      1, none) .. states, 'PX', lives, 'NX')
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
      -- Without a charge the id must stay unknown.
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

-- Decides a check that leaves a record, or settles by one.
--
-- reads   what BUCKET_LANE declares
-- sets    sign and body, if it decides
function HOLD_OR_SETTLE()
  local settles, record_key = lane == SETTLE_LANE, all_keys[first + 1]
  local place = #program - (HOLD_SIZE + PROGRAM_END_SIZE - 1)
  local one, two, three, life = unpack(HOLD_NUMBERS, program, place)
  local id, policy = string.sub(program, place, place + (INLINE_ID_SIZE - 1)), math.floor(head / 256)
  -- A record has the found state of a plain bucket.
  local found_at, found = value and newest or AS_CHARGED, stored
  held = held or 0
  if slots then
    -- If a slot has ended, or units of a full bucket are held, more than the numbers changes.
    clean = slots[1][1] > at and deficit > 0 and held <= MAX / unit
    STAND_SECOND(second, newest, at, refill, held, unit)
    newest, stored = at, deficit
  end

  -- The tally of the records with separate keys, as it is stored and as groups.
  local tally, last_end, generation, groups, live, from = '', 0, 0, nil, 0, behind
  if clean and behind <= size and string.byte(value, behind) == TALLY_KIND then
    READ_TALLY(value, behind, clean, last_end, generation, groups, from)
    if clean then
      tally = string.sub(value, behind, from - 1)
      LIVE_RECORDS(groups, now, live)
    end
  end
  -- The inline records after the tally, except for the request's own.
  local inlined, first_end, stays, others, own_ends, form, own, own_finish = 0, MAX, 0, '', nil, nil, nil, nil
  if clean and from <= size then
    inlined, first_end, stays, others, own_ends, form, own, own_finish = look_inline(value, from, size, now, id)
    clean = inlined
  end

  -- The new states, and the new inline records; the TTL of the key in ms, or nil to keep it.
  local states, is_dirty, entry, lives = nil, false, nil, nil
  if clean and not settles then
    HOLD_UNITS()
  elseif clean and value then
    local units, taken_at, then_unit, then_refill, slot, left_at, left, left_unit, was_at, was, before
    local group, is_settled, given = 0, cost ~= AS_CHARGED, nil
    READ_RECORD()
    GIVE_UNUSED()
    SETTLE_RECORD()
  end
  WRITE_HELD_BUCKET()
end

-- Charges a check, and leaves a record of it.
--
-- reads   what HOLD_OR_SETTLE declares
-- sets    sign, body, deficit, second, slots, held, newest, stored, is_dirty, entry, lives
function HOLD_UNITS()
  local until_then, ends, tag, slot = math.min(now + life, MAX), nil, nil, AS_CHARGED
  -- A new record gets a separate key if there is no space inline. It also gets one while other records have one,
  -- so that their ids are found.
  local is_inline = tally == '' and inlined < INLINE_MOST
  clean = not own and (is_inline or live > 0 or inlined >= INLINE_MOST) and live < HOLDS_MOST - INLINE_MOST
  if clean and deficit > capacity - ticks then
    clean = false
    -- A call with a used id is not denied, but gets an error.
    if is_inline or not call('GET', record_key) then
      sign, body = '-', value and string.sub(value, 1, behind - 1) or ''
    end
  end
  SLOT_OF(now, life, one, two, three, ends, tag)
  clean = clean and ends > at and ends <= MAX and held + cost <= MAX / unit and (second or 0) <= MAX - ticks
  if clean then
    deficit, slots = deficit + ticks, slots or {}
    second = second and second + ticks or deficit
    ADD_TO_SLOT(slots, cost, ends, tag, slot)
    if slot ~= AS_CHARGED then held = held + cost end
    if second < held * unit then second = held * unit end
    newest, stored, is_dirty = at, deficit, true
    if is_inline then
      sign, body = '+', value and string.sub(value, 1, behind - 1) or ''
      stays, lives = keep_inline(now, at - now + deficit / refill, until_then, stays)
      if until_then < first_end then first_end = until_then end
      entry = pack(INLINE_GRANTED_FIRST, INLINE_HEAD, INLINE_GRANTED_LENGTH + #others, stays, first_end, inlined + 1,
        id, INLINE_GRANTED, until_then, INLINE_GRANT_SIZE, head, cost, at, unit, refill, slot, deficit, found_at,
        found, others)
    else
      LEAVE_RECORD()
    end
  end
end

-- Leaves the record in a separate key, and counts it.
--
-- reads   what HOLD_OR_SETTLE and HOLD_UNITS declare
-- sets    sign, body, groups, last_end, tally, lives; is_dirty: false if the id is in use
function LEAVE_RECORD()
  local before, group = found_at <= MAX and pack(BUCKET_ENTRY, head, found_at, found, unit) or '', nil
  groups = groups or {}
  LIVE_GROUPS(groups, now)
  COUNT_IN(groups, ends, TALLY_GROUPS, group)
  local found_end, record_lasts, record_lives = last_end, life, nil
  last_end = math.max(last_end, group[1])
  local record = pack(HELD_ENTRY_LEFT, policy, HELD_UNITS_SIZE + BUCKET_SIZE + #before, cost, at, unit, refill,
    slot, head, at, deficit, unit) .. before
  LIFE(record_lasts, record_lives)
  local done = call('SET', record_key, pack(HELD_HEAD, until_then, group[1], generation) .. record, 'PX',
    record_lives, 'NX')
  tally = nil
  if not done then
    -- The id is in use, or was.
    is_dirty = false
  elseif done.err then
    sign, is_dirty = done, false
  else
    sign, body = '+', value and string.sub(value, 1, behind - 1) or ''
    -- If the TTL was sufficient, it is sufficient for a record that ends no later.
    local lasts = math.max(at - now + deficit / refill, last_end - now, inlined > 0 and stays - now or 0)
    if last_end ~= found_end or now + lasts > last_end then LIFE(lasts, lives) end
  end
end

-- Reads the record: the charge, and the state after and before it.
--
-- reads   what HOLD_OR_SETTLE declares
-- sets    clean; own_ends, group, units, taken_at, then_unit, then_refill, slot; left_at, left, left_unit: the state
--         after the charge; before, or was_at and was: the state before it
function READ_RECORD()
  if own then
    local own_head
    clean = form == INLINE_GRANTED and own_finish - own == INLINE_GRANT_SIZE - 1
    if clean then
      own_head, units, taken_at, then_unit, then_refill, slot, left, was_at, was = unpack(INLINE_GRANT, value, own)
      clean, left_at, left_unit = own_head == head, taken_at, then_unit
    end
  else
    local whole = call('GET', record_key)
    clean = type(whole) == 'string' and #whole >= HELD_HEAD_SIZE + HELD_ENTRY_SIZE + BUCKET_SIZE
    if clean then
      local of_policy, of, kind, bytes, next
      own_ends, group, of = unpack(HELD_HEAD, whole)
      of_policy, bytes, units, taken_at, then_unit, then_refill, slot, next = unpack(HELD_ENTRY, whole,
        HELD_HEAD_SIZE + 1)
      before = string.sub(whole, next + BUCKET_SIZE)
      kind, left_at, left, left_unit = unpack(BUCKET_ENTRY, whole, next)
      clean = own_ends > now and of == generation and of_policy == policy
        and bytes == HELD_UNITS_SIZE + 1 + #whole - next
    end
  end
end

-- Takes the units out of their slot, and gives back the unused ones.
--
-- reads   what HOLD_OR_SETTLE and READ_RECORD declare
-- sets    clean, is_dirty, held, slots, second, deficit, stored; states: if it is as if nothing had been taken; given:
--         number of units, or AS_CHARGED if none were due
function GIVE_UNUSED()
  local used, is_bound = is_settled and cost or units, slots ~= nil
  clean = clean and used <= units and then_unit == unit and then_refill == refill and units <= MAX / unit
  if clean and is_bound then
    local ends
    TAKE_FROM_SLOT(slots, units, slot, ends)
    clean, is_dirty, held = ends, true, held - units
  end
  local unused = clean and units - used
  local is_last = clean and left_at == found_at and left == found and left_unit == unit
  given = AS_CHARGED
  if not clean or unused == 0 then
    -- All charged units were used.
  elseif is_last and used == 0 and not (is_bound and slots[1]) then
    states, given, is_dirty = before or was_at <= MAX and pack(BUCKET_ENTRY, head, was_at, was, unit) or '', units, true
  else
    local before_that, ticks, gives = deficit, unused * unit, nil
    if is_bound then
      second = math.max(second - ticks, held * unit, 0)
    end
    WITHHELD(ticks, refill, taken_at, at, is_last, gives)
    if gives then
      stored, is_dirty = math.max(0, stored - ticks), true
      deficit = stored
      DRAIN(deficit, newest, at, refill)
    end
    given = math.ceil((before_that - deficit) / unit)
    if is_bound then
      if second < deficit then deficit, stored = second, second end
      given = math.ceil(before_that / unit) - math.ceil(deficit / unit)
    end
  end
  if clean and is_bound then
    second = math.max(second, held * unit)
    if not slots[1] then slots = nil end
  end
end

-- Removes the record. A settlement that states the used units may be repeated, so it leaves a record that holds
-- nothing.
--
-- reads   what HOLD_OR_SETTLE and READ_RECORD declare
-- sets    sign; body: the units given back; entry, stays, first_end, tally, groups, is_dirty
function SETTLE_RECORD()
  if clean and own then
    is_dirty, sign = true, '+'
    if is_settled then
      if own_ends > stays then stays = own_ends end
      if own_ends < first_end then first_end = own_ends end
      entry = pack(INLINE_SETTLED_FIRST, INLINE_HEAD, INLINE_SETTLED_LENGTH + #others, stays, first_end,
        inlined + 1, id, INLINE_SETTLED, own_ends, INLINE_GIVEN_SIZE, policy, given, others)
    end
  elseif clean then
    local done, is_counted
    if is_settled then
      done = call('SET', record_key, pack(HELD_SETTLED, own_ends, group, generation, policy, NUMBER_SIZE, given),
        'KEEPTTL')
    else
      COUNT_OUT(groups, group, is_counted)
      if is_counted then tally, is_dirty = nil, true end
      done = call('DEL', record_key)
    end
    sign = '+'
    if type(done) == 'table' and done.err then sign, is_dirty = done, false end
  end
  if sign == '+' then body = given end
  is_dirty = clean and is_dirty
end

-- Writes the resulting value.
--
-- reads   what HOLD_OR_SETTLE declares
-- sets    sign: an error if it can't be written; body: after the units given back also the states
function WRITE_HELD_BUCKET()
  if sign and sign ~= '-' then
    if not states and slots then
      local slot, held_head = slots[1], nil
      HEAD_OF_HELD(head, held_head)
      states = pack(HELD_FIRST_SLOT, held_head, HELD_NUMBERS_SIZE + LEASE_SLOT_SIZE * #slots, newest, stored, unit,
        second, 0, slot[1], slot[2], slot[3], slot[4])
      for index = 2, #slots do
        slot = slots[index]
        states = states .. pack(LEASE_SLOT, spread(slot))
      end
    end
    states = states or pack(BUCKET_ENTRY, head, newest, stored, unit)
    if settles and type(sign) == 'string' then
      body = pack(HELD_GIVEN, HOLD_LIVE, body, is_dirty and states or string.sub(value, 1, behind - 1))
    end
  end
  if is_dirty then
    if not tally or last_end <= now then WRITE_TALLY(last_end, now, generation, groups, tally) end
    if not entry and inlined > 0 then
      entry = pack(INLINE, INLINE_HEAD, INLINE_SIZE - LISTED_HEAD_SIZE + #others, stays, first_end, inlined) .. others
    end
    local whole, done = states .. tally .. (entry or ''), nil
    -- If the TTL was sufficient, it is sufficient for less.
    if whole == '' then
      done = call('DEL', key)
    elseif lives then
      done = call('SET', key, whole, 'PX', lives)
    else
      done = call('SET', key, whole, 'KEEPTTL')
    end
    if type(done) == 'table' and done.err then
      -- Units that were not charged must not be given back.
      if not settles then call('DEL', record_key) end
      sign = done
    end
  end
end
