-- Inline records: a subject's first records are in its value, after the tally. They need no separate keys and
-- no further commands. One entry of the packed states has them. It has:
--
--   INLINE until, the first end, the number of records. Then follow for each record its id, its form, until, the
--   length of the rest, and the rest
--
-- The entry and the key stay until `until`, which isn't before the last record ends. A fast path may extend it,
-- so that later calls don't need to set the key's TTL. The first end may be stated too early. A record has the
-- entries of hold.lua or, for a plain bucket, equivalent numbers. Further records get separate keys, and so do
-- all new ones until those have ended.

function MAKE_INLINE_READER()
  -- Examines such an entry between two places; returns nil if it is invalid. A plain check examines no
  -- records, so it doesn't make this function: making one takes longer than unpacking a value.
  --
  -- Returns the number of records that have not ended, the first of their ends, the end of the entry, and
  -- their bytes. They don't include the record with `id`, or any record if there is no id. If that one has
  -- not ended, also returns its end, its form, and the start and end of its content. If `at_each` is set,
  -- also returns the last end of the other records.
  local look_inline = (lane % INJECTED == GENERAL_LANE or lane % INJECTED > SHORTEST_LANE)
    and function(value, entry, finish, now, id, at_each)
    if finish - entry < INLINE_SIZE - 1 then return nil end
    local sub, find, unpack = string.sub, string.find, struct.unpack
    local kind, length, stays, soonest, stored, start = unpack(INLINE, value, entry)
    if kind ~= INLINE_HEAD or entry + LISTED_HEAD_SIZE + length ~= finish + 1 or stored > INLINE_MOST
      or stays > MAX then return nil end
    local place = id and find(value, id, start, true)
    at_each = at_each or not id or soonest <= now
    if not (place or at_each) then return stored, soonest, stays, sub(value, start, finish) end
    local count, first, last, kept, from, own_ends, own_form, own, own_finish = 0, MAX, 0, '', start, nil, nil, nil, nil
    while from <= finish do
      if finish - from < INLINE_RECORD_SIZE - 1 then return nil end
      local form, ends, length, content = unpack(INLINE_RECORD, value, from + INLINE_ID_SIZE)
      local after = content + length
      if after > finish + 1 or ends > MAX then return nil end
      -- At another position in a record these bytes are not an id.
      if place and place < from then place = find(value, id, from, true) end
      local is_own = place == from or not id
      if is_own or ends <= now then
        if ends > now then own_ends, own_form, own, own_finish = ends, form, content, after - 1 end
        if from > start then kept = kept .. sub(value, start, from - 1) end
        start = after
        if is_own and not at_each then break end
      else
        count = count + 1
        if ends < first then first = ends end
        if ends > last then last = ends end
      end
      from = after
    end
    if not at_each then count, first = own and stored - 1 or stored, soonest end
    if start <= finish then
      local rest = sub(value, start, finish)
      kept = kept == '' and rest or kept .. rest
    end
    return count, first, stays, kept, own_ends, own_form, own, own_finish, last
  end

  -- Returns the end of an entry to which a fast path adds a record that ends at `ends`. Also returns the TTL
  -- of the key in ms, or nil if it is sufficient. The states are useful for `lasts`.
  local keep_inline = (lane == HOLD_LANE or lane == ONCE_LANE + SHORTEST_LANE)
    and function(now, lasts, ends, stays)
    if lasts < ends - now then lasts = ends - now end
    if lasts > MAX then lasts = MAX end
    if now + lasts <= stays then return stays, nil end
    -- Half the time is added, so that later calls don't need to set it, unless it is long.
    if lasts <= INLINE_LONG then lasts = math.ceil(lasts * 1.5) end
    lasts = math.min(math.max(lasts, stays - now), MAX - now)
    local lives
    LIFE(lasts, lives)
    return lasts <= 1.5 * INLINE_LONG and now + lasts or math.max(stays, ends), lives
  end
end
