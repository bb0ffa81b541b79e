-- The lane of what most calls are: a check of one plain bucket, alone in its value, by the server's clock.
--
-- reads   program, lane, times, server_now, late, back, all_keys, first, head, unit, refill, capacity, cost
-- sets    present: what stands under the first key; sign and body, if it decides

function CHECK_LANE()
  if lane == SHORTEST_LANE and server_now <= late then
    local key, now, ahead = all_keys[first], server_now, server_now + back
    local value, at, deficit = call('GET', key), now, 0
    present = value
    if value then
      if #value == BUCKET_SIZE then
        local held, newest, then_deficit, then_unit = unpack(BUCKET_ENTRY, value)
        if held ~= head or then_unit ~= unit or newest > ahead or newest > MAX or then_deficit > MAX then
          at = nil
        else
          if newest > now then at = newest end
          deficit = then_deficit
          DRAIN(deficit, newest, at, refill)
        end
      else
        at = nil
      end
    end
    if at then
      local ticks, passed = cost * unit, 1
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
        local life = at - now + deficit / refill
        if life > MAX then life = MAX end
        local done = call('SET', key, body, 'PX', math.ceil(life / 1000) + 1)
        if done.err then sign = done end
      elseif times == 1 then
        sign = '-'
      end
      if times > 1 and sign == '+' then sign, body = '*', pack(TIMES, passed) .. body end
    end
  end
end
