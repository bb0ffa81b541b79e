-- Rules of a bucket, whose state is a deficit in ticks as it was stored at its newest time.

-- Reads the state of a plain bucket.
-- in   value, place; head and unit: those of the policy; ahead: the latest time that a clock set back explains, in µs
-- out  clean: whether it is one; newest in µs, deficit in ticks; after: start of the next entry
function READ_BUCKET(value, place, head, unit, ahead, clean, newest, deficit, after)
  clean = #value - place >= BUCKET_SIZE - 1
  if clean then
    local kind, then_unit
    kind, newest, deficit, then_unit, after = unpack(BUCKET_ENTRY, value, place)
    clean = kind == head and then_unit == unit and newest <= ahead and newest <= MAX and deficit <= MAX
  end
end

-- Lowers a deficit by what has drained since.
-- in   newest and at in µs, refill in ticks per µs
-- out  deficit
function DRAIN(deficit, newest, at, refill)
  deficit = deficit - (at - newest) * refill
  if deficit < 0 then deficit = 0 end
end

-- Makes the head of a bucket's entry with held units.
-- in   head: of the plain one
-- out  held_head
function HEAD_OF_HELD(head, held_head)
  local retention = head % 256
  held_head = head - retention + math.max(retention, LEASE_RETENTION) + 1 + BUCKET_TO_HELD
end

-- Brings the second bound of a bucket with held units to the evaluation time. It is at least the held units.
-- in   newest and at in µs, refill in ticks per µs, held in units, unit in ticks
-- out  second
function STAND_SECOND(second, newest, at, refill, held, unit)
  DRAIN(second, newest, at, refill)
  if second < held * unit then second = held * unit end
end

-- Returns what units still withhold that were taken at a time, in ticks. That is their cost minus the amount
-- that has flowed back since, or the whole cost of the latest charge.
-- in   refill in ticks per µs, taken_at and at in µs, is_last
-- out  ticks, gives: whether there is anything
function WITHHELD(ticks, refill, taken_at, at, is_last, gives)
  gives = is_last
  if not is_last and taken_at <= at then
    local flowed = refill * (at - taken_at)
    gives, ticks = flowed < ticks, ticks - flowed
  end
end
