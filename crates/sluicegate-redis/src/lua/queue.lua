-- Queues: the tickets of waiters for permits. The Lua port of step/queueing.rs and book/tickets.rs. A ticket
-- is three members of the set of the subject's records, after those:
--
--   TICKET_BY_TIME until id place
--   TICKET_BY_PLACE place id units listener
--   TICKET_BY_ID id place until units listener
--
-- A place is the kind and identity of the policy, the priority, and a number that counts up within it. The
-- listener of a ticket is notified on a channel when its turn has come.

function MAKE_QUEUE()
  local queue = hold and {}
  if queue then
    local id = hold.id
    local by_time, by_place, by_id = string.char(TICKET_BY_TIME), string.char(TICKET_BY_PLACE),
      string.char(TICKET_BY_ID)
    local priority, lives, listener
    if hold.waits then
      priority, lives, listener = unpack(TICKET, program, #program - (TICKET_SIZE + HOLD_SIZE + PROGRAM_END_SIZE - 1))
    end

    local ended = {}
    -- Returns the first ended tickets of a part, and the policies by their ids.
    local function ended_of(part)
      if not ended[part] then
        local live = '(' .. by_time .. pack(NUMBER, now + 1)
        local members = redis.call('ZRANGEBYLEX', hold.set_of(part), '[' .. by_time, live, 'LIMIT', 0, HOLDS_ENDED)
        local policy_of = {}
        for _, member in ipairs(members) do
          local _, name, policy = unpack(TICKET_TIME, member, 2)
          policy_of[name] = policy
        end
        ended[part] = { members = members, policy_of = policy_of }
      end
      return ended[part]
    end

    -- Returns the ticket under the id of the request, ended or not.
    local function ticket_of(part)
      local start = by_id .. id
      local name = redis.call('ZRANGEBYLEX', hold.set_of(part), '[' .. start, '(' .. start .. '\255')[1]
      if not name then return nil end
      local ticket = { name = name }
      ticket.policy, ticket.priority, ticket.number, ticket.ends, ticket.units, ticket.listener =
        unpack(TICKET_ID, name, #start + 1)
      return ticket
    end

    local function place_of(policy, at, number)
      return policy .. string.char(at) .. pack(NUMBER, number)
    end

    local function members_of(ticket)
      local place = place_of(ticket.policy, ticket.priority, ticket.number)
      local ends, units = pack(NUMBER, ticket.ends), pack(NUMBER, ticket.units) .. pack(NUMBER, ticket.listener)
      return by_time .. ends .. id .. place, by_place .. place .. id .. units, by_id .. id .. place .. ends .. units
    end

    -- Returns the request's own ticket under a policy, unless it has ended.
    local function own_of(p)
      local ticket = hold.waits and ticket_of(p.subject.part)
      return ticket and ticket.ends > now and ticket.policy == p.id and ticket
    end

    -- Returns the units of the tickets ahead of the request, of all tickets except its own, and of its own.
    -- Stops counting once the others need more than the free units.
    function queue.waiting(p)
      if p.waiting then return p.waiting end
      local free, own, part = max(0, p.limit - p.in_flight), own_of(p), p.subject.part
      local w = { ahead = 0, others = 0, others_end = 0, own = 0, own_end = 0, ticket = own }
      if own then w.own, w.own_end = own.units, own.ends end
      local own_priority, own_number = 255, MAX + 1
      if own then
        own_priority, own_number = own.priority, own.number
      elseif hold.waits then
        own_priority = min(priority, p.priorities - 1)
      end
      local set, start, gone = hold.set_of(part), by_place .. p.id, ended_of(part).policy_of
      local at, passed, some = 0, 0, min(16, free + 2)
      while w.others <= free do
        local members = redis.call('ZRANGEBYLEX', set, '[' .. start, '(' .. start .. '\255', 'LIMIT', at, some)
        for _, member in ipairs(members) do
          local other_priority, number, name, units = unpack(TICKET_PLACE, member, #start + 1)
          if not gone[name] and not (hold.waits and name == id) and w.others <= free then
            if passed == TICKETS_LOOKED_THROUGH then units = free + 1 end
            passed = passed + 1
            w.others = w.others + units
            if other_priority < own_priority or other_priority == own_priority and number < own_number then
              w.ahead = w.ahead + units
            end
          end
        end
        if #members < some then break end
        at = at + some
      end
      local last, most = nil, w.others > 0 and TICKETS_LOOKED_THROUGH or 0
      at = 0
      while at < most do
        some = max(2, at)
        local members = redis.call('ZREVRANGEBYLEX', set, '(' .. by_place, '[' .. by_time, 'LIMIT', at, some)
        for _, member in ipairs(members) do
          local ends, name, policy = unpack(TICKET_TIME, member, 2)
          if not (hold.waits and name == id) then
            last = last or ends
            if policy == p.id then
              last, most = ends, 0
              break
            end
          end
        end
        if #members < some then break end
        at = at + some
      end
      w.others_end = last or 0
      p.waiting = w
      return w
    end

    -- Removes ended tickets, and the ticket under the id.
    local function remove(part, ticket)
      local gone = {}
      for _, member in ipairs(ended_of(part).members) do
        local _, name = unpack(TICKET_TIME, member, 2)
        if not ticket or name ~= id then
          local start = by_id .. name
          local other = redis.call('ZRANGEBYLEX', hold.set_of(part), '[' .. start, '(' .. start .. '\255')[1] or start
          local units = string.sub(other, -2 * NUMBER_SIZE)
          gone[#gone + 1], gone[#gone + 2] = member, other
          gone[#gone + 1] = by_place .. string.sub(member, NUMBER_SIZE + #start + 1) .. name .. units
        end
      end
      if ticket then gone[#gone + 1], gone[#gone + 2], gone[#gone + 3] = members_of(ticket) end
      if gone[1] then redis.call('ZREM', hold.set_of(part), spread(gone)) end
      ended[part] = { members = {}, policy_of = {} }
    end

    -- Removes ended tickets if there are more than a call examines, for a denied request without a ticket. That
    -- frees their places for the next request.
    function queue.make_room(policies)
      if queue.place then return end
      for _, p in ipairs(policies) do
        local part = p.subject.part
        if p.queued and #ended_of(part).members >= HOLDS_ENDED then remove(part) end
      end
    end

    -- Notifies the listeners of the tickets that now have enough free units.
    function queue.call(p)
      local free, set, start = max(0, p.limit - p.in_flight), hold.set_of(p.subject.part), by_place .. p.id
      local gone, called, at = ended_of(p.subject.part).policy_of, {}, 0
      while free > 0 and at < TICKETS_LOOKED_THROUGH do
        local some = min(16, free)
        local members = redis.call('ZRANGEBYLEX', set, '[' .. start, '(' .. start .. '\255', 'LIMIT', at, some)
        for _, member in ipairs(members) do
          local _, _, name, units, who = unpack(TICKET_PLACE, member, #start + 1)
          if free > 0 and not gone[name] then
            free = free - units
            if free >= 0 and who > 0 then called[who] = (called[who] or '') .. name end
          end
        end
        if #members < some then break end
        at = at + some
      end
      for who, names in pairs(called) do
        -- If the user isn't permitted to publish, the decision is unaffected.
        redis.pcall('PUBLISH', string.format('sluicegate:turns:%.0f', who), names)
      end
    end

    -- Sets queue.place to the place of a denied request that can wait, if it gets one.
    function queue.stand(policies)
      local p, never = nil, false
      for _, each in ipairs(policies) do
        if each.queued then p = each end
        if each.cost > each.limit and not each.shadow then never = true end
      end
      local ticket, part, start = queue.waiting(p).ticket, p.subject.part, by_place .. p.id
      if never or not ticket and p.wait then return end
      if ticket then
        queue.place = { ticket.priority, ticket.number }
        return
      end
      local set, at = hold.set_of(part), min(priority, p.priorities - 1)
      local count = redis.call('ZLEXCOUNT', set, '[' .. start, '(' .. start .. '\255')
      for _, policy in pairs(ended_of(part).policy_of) do
        if policy == p.id then count = count - 1 end
      end
      queue.is_full = count >= p.queue
      if queue.is_full then return end
      local level = start .. string.char(at)
      local last = redis.call('ZREVRANGEBYLEX', set, '(' .. level .. '\255', '[' .. level, 'LIMIT', 0, 1)[1]
      queue.place = { at, last and unpack(NUMBER, last, #level + 1) + 1 or 1 }
    end

    -- Updates the ticket of a request that can wait, and returns its position.
    function queue.finish(policies, allowed)
      local p = nil
      for _, each in ipairs(policies) do
        if each.queued then p = each end
      end
      local w, part, set = queue.waiting(p), p.subject.part, hold.set_of(p.subject.part)
      if allowed then
        remove(part, ticket_of(part))
        w.own, w.own_end = 0, 0
        queue.call(p)
        return pack(QUEUED, NOT_QUEUED, 0)
      end
      if queue.is_full then return pack(QUEUED, QUEUE_FULL, 0) end
      if not queue.place then return pack(QUEUED, NOT_QUEUED, 0) end
      local at, number, start = queue.place[1], queue.place[2], by_place .. p.id
      remove(part, ticket_of(part))
      local ticket = { policy = p.id, priority = at, number = number, ends = min(now + lives, MAX), units = p.cost,
        listener = listener }
      w.own, w.own_end = ticket.units, ticket.ends
      local one, two, three = members_of(ticket)
      redis.call('ZADD', set, 0, one, 0, two, 0, three)
      hold.keep(set, lives)
      local ahead = redis.call('ZLEXCOUNT', set, '[' .. start, '(' .. by_place .. place_of(p.id, at, number))
      return pack(QUEUED, IN_QUEUE, min(ahead, TICKETS_LOOKED_THROUGH))
    end

    -- Ends the tickets under the id, and returns whether any of them was valid.
    function queue.leave(subjects)
      local has_left = false
      for part, s in ipairs(subjects) do
        for _, p in ipairs(s.policies) do
          local ticket = p.queued and ticket_of(part)
          if ticket and ticket.ends > now and ticket.policy == p.id then
            redis.call('ZREM', hold.set_of(part), members_of(ticket))
            has_left = true
          end
          -- The number of free units has changed.
          p.waiting = nil
          if p.queued then queue.call(p) end
        end
      end
      return has_left
    end
  end
end
