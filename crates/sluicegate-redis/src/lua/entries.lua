-- Packed states: the entries that a value consists of (docs/stored-format.md).
--
-- reads   nothing
-- makes   walk, split

function MAKE_WALK()
  -- Calls `show` with the place and length of each entry of packed states; returns false if an entry is
  -- invalid. The sizes of fixed-length kinds are known.
  local function walk(value, show)
    local position, size, sizes = 1, #value, FIXED_SIZES
    while position <= size do
      local kind, length = string.byte(value, position), nil
      if kind >= LISTED_FROM then
        if size - position >= LISTED_HEAD_SIZE - 1 then
          length = LISTED_HEAD_SIZE + unpack(LENGTH, value, position + HEAD_SIZE)
        end
      else
        length = sizes[kind]
      end
      if not length or position + length - 1 > size or kind >= LISTED_FROM
        and length < LISTED_HEAD_SIZE + NUMBER_SIZE then
        return false
      end
      show(position, length)
      position = position + length
    end
    return true
  end

  -- Splits packed states, as far as they are valid, into the states and the records, ids and pauses. A receipt
  -- only has the states. The id of a record allows settling it, and a settlement only changes the states that it
  -- gives back to.
  local function split(value)
    local states, records = {}, {}
    walk(value, function(position, length)
      local kind = string.byte(value, position)
      local is_record = kind == TALLY_KIND or kind == INLINE_KIND or kind == KNOWN_KIND or kind == PAUSE_KIND
      local part = is_record and records or states
      part[#part + 1] = string.sub(value, position, position + length - 1)
    end)
    return table.concat(states), table.concat(records)
  end
end
