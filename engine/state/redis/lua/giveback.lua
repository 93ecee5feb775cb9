-- give_units takes units off what is used of a key, as far as there are any, and
-- returns how many with when their window ends, or nil.
local function give_units(key, units)
  local held = call('GET', P .. 'use:' .. key)
  if not held then
    return nil
  end
  local ends = string.sub(held, 20)
  local n = least(units, string.sub(held, 1, 19))
  local rest = sub(string.sub(held, 1, 19), n)
  if rest > '0000000000000000000' then
    call('SET', P .. 'use:' .. key, rest .. ends, 'KEEPTTL')
  else
    call('DEL', P .. 'use:' .. key)
    if call('EXISTS', P .. 'tat:' .. key) == 0 then
      call('ZREM', P .. 'keys:' .. (string.match(key, '^(.*)/[^/]*$') or ''), key)
    end
  end
  if n > '0000000000000000000' then
    return n .. ends
  end
end

-- give_back undoes what a call took from limits, but for what a bucket has refilled of
-- that by now, which somebody may have taken again. It refuses to admit the call from
-- then on.
local function give_back(id)
  local name = P .. 'call:' .. id
  local done = call('GET', name)
  if done and done ~= '' then
    local took = cjson.decode(done)
    local g = took.g or {}
    for i = 1, #g, 2 do
      local key = g[i]
      local held = call('GET', P .. 'tat:' .. key)
      local n = least(g[i + 1], sub(took.t[key], now))
      if held then
        call('SET', P .. 'tat:' .. key, sub(held, n), 'KEEPTTL')
      end
      took.t[key] = sub(took.t[key], n)
    end
    local counted = call('HGETALL', P .. 'cnt:' .. id)
    for i = 1, #counted, 2 do
      give_units(counted[i], counted[i + 1])
    end
    call('DEL', P .. 'cnt:' .. id)
  end
  call('SET', name, '', 'PX', DAY)
  call('SREM', P .. 'open:' .. a.node, id)
end
