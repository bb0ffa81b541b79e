-- Records of few that hold units stand in the subject's value, behind the tally: they need no keys of their own, and
-- no commands but those that decide. An entry of the packed states has them:
--   INLINE until, when the first ends, how many there are, and of each record: its id, its form, until, the length of
--   what follows, and that
-- The entry stays until its time, and so does the key: no sooner than the last record ends, and where a lane has set
-- it later, so that who comes next need not set the key's life. When the first ends may be said too early. A record has
-- the entries of hold.lua; or, of a plain bucket, numbers that say as much. A subject that has more has the others
-- outside, and all that come, until those have ended.

function MAKE_INLINE_READER()
  -- Looks through such an entry between two places: how many records have not ended, but for the one that is looked
  -- for; when the first of them ends; until when the entry stays; their bytes; of the one that is looked for, if it has
  -- not ended, when it does, its form, and where what it says begins and ends; and if each is to be looked at, when the
  -- last of the others ends. Without an id, it is any. Nothing where that makes no sense. A plain check looks at no
  -- records, and makes no function for it: making one takes longer than unpacking a value.
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
      -- Elsewhere these bytes are no id.
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

  -- Until when an entry stays to which a lane adds a record that ends then, and for how many ms the key is to live, of
  -- which the states are of use for so long; nothing, if it lives long enough.
  local keep_inline = (lane == HOLD_LANE or lane == ONCE_LANE + SHORTEST_LANE)
    and function(now, lasts, ends, stays)
    if lasts < ends - now then lasts = ends - now end
    if lasts > MAX then lasts = MAX end
    if now + lasts <= stays then return stays, nil end
    -- A half more, so that the next ones need not set it; but for what takes long.
    if lasts <= INLINE_LONG then lasts = math.ceil(lasts * 1.5) end
    lasts = math.min(math.max(lasts, stays - now), MAX - now)
    local lives
    LIFE(lasts, lives)
    return lasts <= 1.5 * INLINE_LONG and now + lasts or math.max(stays, ends), lives
  end
end
