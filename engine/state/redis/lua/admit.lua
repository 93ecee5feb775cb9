-- Admits one call: takes all that it needs, or nothing. It answers with what it holds
-- of each charge's key when it takes nothing, for Go to say how much is left.
local no = guard()
if no then
  return no
end
local done = call('GET', P .. 'call:' .. a.id)
if done == '' then
  return answer('released')
elseif done then
  return answer('again', done)
end

local s = P .. 's:' .. a.session
local was = call('HMGET', s, 'owner', 'v', 'until', 'ended')
local owner, version, ends = was[1] or '', was[2] or '0', was[3] or ''
if ends ~= '' and ends <= now then
  owner, ends = '', ''
end
if owner ~= '' and (owner ~= a.principal or was[4]) then
  return answer('foreign')
elseif version ~= a.version then
  return answer('changed')
end
for _, hit in ipairs(call('SMISMEMBER', P .. 'rev', unpack(a.who))) do
  if hit == 1 then
    return answer('revoked')
  end
end

local tat, used, fresh, keys, raw = {}, {}, {}, {}, {}
local refused = false
for i, c in ipairs(a.charges) do
  local held = call('MGET', P .. 'tat:' .. c.key, P .. 'use:' .. c.key)
  if not held[1] and not held[2] and not fresh[c.key] then
    fresh[c.key] = true
    keys[c.group] = (keys[c.group] or call('ZCOUNT', P .. 'keys:' .. c.group, '(' .. now, '+inf')) + 1
    if keys[c.group] > tonumber(a.maxkeys) then
      return answer('keys')
    end
  end
  raw[i] = (held[1] or '') .. '/' .. (held[2] and string.sub(held[2], 1, 19) or '')
  if c.ends == '' then
    local at = most(tat[c.key] or held[1] or now, now)
    local spent = add(sub(at, now), c.need)
    if c.never or spent > least(c.whole, sub(MAX, now)) then
      refused = true
    else
      tat[c.key] = add(at, c.need)
    end
  else
    local units = add(used[c.key] and string.sub(used[c.key], 1, 19) or held[2] and string.sub(held[2], 1, 19) or '0000000000000000000', c.cost)
    if units > c.burst or now >= c.ends then
      refused = true
    else
      used[c.key] = units .. most(c.ends, held[2] and string.sub(held[2], 20) or '')
    end
  end
end
if refused then
  return answer('limited', raw, not a.peek and call('GET', P .. 'void:' .. a.id) or '')
end

-- The decision about approvals was taken in Go, from what it read. It stands if
-- nothing of that has changed.
local p = a.plan
local function moved()
  if p.epoch ~= string.format('%d', epoch) or p.revs ~= revs or p.days ~= table.concat(days(p.tenant), ',') then
    return true
  end
  for _, k in ipairs(p.keys) do
    if (call('GET', P .. 'kv:' .. k.key) or '0') ~= k.version then
      return true
    end
  end
  if p.kind == 'use' then
    return p.expires <= now
  elseif p.kind == 'ask' then
    local n = waiting(a.principal)
    return call('EXISTS', P .. 'q:' .. p.question.id) == 1 or n >= tonumber(a.maxpending) and n ~= tonumber(p.waiting)
  end
end
if p then
  if p.kind == 'error' then
    return answer('planned', raw)
  elseif moved() then
    return answer('moved')
  end
  if not a.peek then
    for _, id in ipairs(p.void) do
      over(id, 'void')
    end
    if p.kind == 'ask' then
      keep(p.question)
    elseif p.kind == 'use' then
      over(p.id, 'consumed')
    end
    if #p.void > 0 or p.kind ~= 'wait' then
      changed()
    end
    if #p.void > 0 then
      -- For whoever asks again, since the answer was lost.
      call('SET', P .. 'void:' .. a.id, cjson.encode(p.void), 'PX', HOUR)
    end
  end
  if p.kind ~= 'use' then
    return answer('planned', raw)
  end
end
if a.peek then
  return answer('planned', raw)
end

local kept = { v = version, o = owner, u = ends, e = string.format('%d', epoch) }
for _, c in ipairs(a.charges) do
  local key, value, keepms = P .. 'use:' .. c.key, used[c.key], nil
  if c.ends == '' then
    key, value = P .. 'tat:' .. c.key, tat[c.key]
    keepms = from(value, HOUR)
    kept.t, kept.g = kept.t or {}, kept.g or {}
    kept.t[c.key] = value
    table.insert(kept.g, c.key)
    table.insert(kept.g, c.need)
  else
    -- For Refund, which comes after the call is settled.
    local counted = P .. 'cnt:' .. a.id
    keepms = from(string.sub(value, 20), HOUR)
    call('HSET', counted, c.key, add(call('HGET', counted, c.key) or '0000000000000000000', c.cost))
    call('PEXPIRE', counted, 25 * HOUR)
  end
  call('SET', key, value, 'PX', keepms)
  local group = P .. 'keys:' .. c.group
  if fresh[c.key] then
    call('ZREMRANGEBYSCORE', group, '-inf', now)
  end
  call('ZADD', group, 'GT', add(now, string.format('%010d000000000', math.ceil(keepms / 1000))), c.key)
  outlive(group, keepms)
end
if p then
  kept.c = p.id
  if #p.void > 0 then
    kept.x = p.void
  end
end
if #a.labels > 0 then
  local more = 0
  for _, label in ipairs(a.labels) do
    local ends = call('HGET', s, 'l:' .. label) or ''
    if ends <= now then
      more = 1
    end
    call('HSET', s, 'l:' .. label, most(ends, a.labelsend))
  end
  -- A label that comes twice was written by its first coming.
  kept.v = string.format('%d', tonumber(version) + more)
  call('HSET', s, 'v', kept.v)
end
call('HINCRBY', s, 'calls', 1)
-- Of a session without labels the count of calls alone is known: whoever makes names up
-- must not fill the server with them.
outlive(s, a.labelsend ~= '' and from(a.labelsend, HOUR) or HOUR)
local text = cjson.encode(kept)
call('SET', P .. 'call:' .. a.id, text, 'PX', DAY)
call('SADD', P .. 'open:' .. a.node, a.id)
outlive(P .. 'open:' .. a.node, 90 * DAY)
return answer('admitted', text)
