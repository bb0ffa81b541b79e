-- The general part: every operation, every policy, any stored states. Here is what the kernels below share;
-- decide.lua uses them all.

function BEGIN_GENERAL()
  local ceil, floor, max, min = math.ceil, math.floor, math.max, math.min
  -- The last number is the longest wait of a reservation, or the time when the units to give back were taken.
  local operation, parts, count, term = unpack(PROGRAM_END, program, #program - (PROGRAM_END_SIZE - 1))
  local leasing = floor(operation / LEASING) % 2 == 1
  if leasing then operation = operation - LEASING end
  -- Returns a·b ÷ c as quotient and remainder, by doubling, so that nothing passes 2^53; nil above it.
  local function muldiv(a, b, c)
    local whole, part = floor(b / c), b % c
    local quotient, rest, bit = 0, 0, (MAX + 1) / 2
    while bit >= 1 do
      quotient = 2 * quotient
      if rest >= c - rest then
        quotient, rest = quotient + 1, rest - (c - rest)
      else
        rest = 2 * rest
      end
      if a >= bit then
        a, quotient = a - bit, quotient + whole
        if rest >= c - part then
          quotient, rest = quotient + 1, rest - (c - part)
        else
          rest = rest + part
        end
      end
      if quotient > MAX then return nil end
      bit = bit / 2
    end
    return quotient, rest
  end

  local function common_divisor(a, b)
    while b > 0 do a, b = b, a % b end
    return a
  end

  -- Returns a deficit in the ticks of another unit, rounded up; nil if it doesn't fit.
  local function convert(deficit, unit, then_unit)
    if unit == then_unit then return deficit end
    local whole, rest = muldiv(deficit, unit, then_unit)
    if whole and rest > 0 then whole = whole + 1 end
    if whole and whole > MAX then return nil end
    return whole
  end
end
