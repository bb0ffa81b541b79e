-- The inline records (inline_read.lua) of each part, for requests that leave or use records. A reset forgets
-- them.

function MAKE_INLINE_WRITER()
  local inline = tally and { id = string.char(INLINE_KIND) .. string.rep('\0', ID_SIZE - 1) }
  if inline then
    local all = {}

    -- Returns a record's content in the form that records with separate keys have.
    local function entries_of(form, value, from, finish)
      if form == INLINE_SETTLED and finish - from == INLINE_GIVEN_SIZE - 1 then
        local policy, given = unpack(INLINE_GIVEN, value, from)
        return pack(HELD_SETTLED_ENTRY, policy, NUMBER_SIZE, given)
      elseif form == INLINE_GRANTED and finish - from == INLINE_GRANT_SIZE - 1 then
        local head, units, at, unit, refill, tag, left, found_at, found = unpack(INLINE_GRANT, value, from)
        local before = found_at <= MAX and pack(BUCKET_ENTRY, head, found_at, found, unit) or ''
        return pack(HELD_ENTRY_LEFT, floor(head / 256), HELD_UNITS_SIZE + BUCKET_SIZE + #before, units, at, unit,
          refill, tag, head, at, left, unit) .. before
      end
      return string.sub(value, from, finish)
    end

    -- The id of the request's record; nil if the record is forgotten with the others.
    local own_id = operation >= HELD and unpack(HOLD, program, #program - (HOLD_SIZE + PROGRAM_END_SIZE - 1)) or nil

    -- Returns the records of a part: the request's own, if it is inline, and the others.
    function inline.of(part)
      if all[part] then return all[part] end
      local i, s = { count = 0, first_end = MAX, others = '', last_end = 0 }, tally.subjects[part]
      all[part] = i
      local place = s.positions[inline.id]
      if not place then return i end
      local count, first, _, others, own_ends, form, own, own_finish, last =
        look_inline(s.value, place[1], place[1] + place[2] - 1, now, own_id, true)
      if not count then return i end
      i.count, i.first_end, i.others, i.last_end, i.own_ends = count, first, others, last, own_ends
      i.own = own and entries_of(form, s.value, own, own_finish)
      return i
    end

    -- Returns the number of other records.
    function inline.live(part)
      return inline.of(part).count
    end

    function inline.has_room(part)
      return inline.of(part).count < INLINE_MOST
    end

    function inline.remove(part)
      local i = inline.of(part)
      i.own, i.changed = nil, true
    end

    -- Writes the request's record, which replaces an existing one.
    function inline.put(part, ends, content)
      local i = inline.of(part)
      i.others, i.count = i.others .. pack(INLINE_NAMED, own_id, INLINE_WITH_ENTRIES, ends, #content) .. content,
        i.count + 1
      i.first_end, i.last_end, i.own, i.changed = min(i.first_end, ends), max(i.last_end, ends), nil, true
    end

    -- Returns the time for which the entry is useful.
    function inline.lasts(part)
      local i = inline.of(part)
      return max(0, max(i.last_end, i.own and i.own_ends or 0) - now)
    end

    -- Returns the entry; an empty text if it is useless.
    function inline.write(part)
      local i = inline.of(part)
      -- An unchanged record stays as it is.
      if i.own then inline.put(part, i.own_ends, i.own) end
      if i.count == 0 then return '' end
      return pack(INLINE, INLINE_HEAD, INLINE_SIZE - LISTED_HEAD_SIZE + #i.others, i.last_end, i.first_end, i.count)
        .. i.others
    end
  end
end
