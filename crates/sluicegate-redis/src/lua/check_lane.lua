-- The lane of what most calls are: a check of one plain bucket, alone in its value, by the server's clock.
--
-- reads   program, lane, times, server_now, late, back, all_keys, first, head, unit, refill, capacity, cost
-- sets    present: what stands under the first key; sign and body, if it decides

function CHECK_LANE()
  if lane == SHORTEST_LANE and server_now <= late then
    local key, now, ahead = all_keys[first], server_now, server_now + back
    local value, at, deficit, clean = call('GET', key), now, 0, true
    present = value
    if value then
      clean = #value == BUCKET_SIZE
      if clean then
        local newest, after
        READ_BUCKET(value, 1, head, unit, ahead, clean, newest, deficit, after)
        if clean and newest > now then at = newest end
        if clean then DRAIN(deficit, newest, at, refill) end
      end
    end
    if clean then
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
        local life, lives = at - now + deficit / refill, nil
        LIFE(life, lives)
        local done = call('SET', key, body, 'PX', lives)
        if done.err then sign = done end
      elseif times == 1 then
        sign = '-'
      end
      if times > 1 and sign == '+' then sign, body = '*', pack(TIMES, passed) .. body end
    end
  end
end
