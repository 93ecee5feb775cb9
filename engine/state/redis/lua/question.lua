-- What the scripts about questions to people have in common, after the prelude.

-- bump gives the questions about one call a version that they never had.
local function bump(key, ms)
  call('SET', P .. 'kv:' .. key, call('HINCRBY', P .. 'meta', 'ver', 1), 'KEEPTTL')
  outlive(P .. 'kv:' .. key, ms or DAY)
end

-- keep remembers a question: q has id, asked, key, expires, principal, tenant and day.
local function keep(q)
  local ms = from(q.expires, HOUR)
  local name = P .. 'q:' .. q.id
  call('HSET', name, 'asked', q.asked, 'key', q.key, 'principal', q.principal)
  outlive(name, ms)
  bump(q.key, ms)
  local over = call('HMGET', name, 'consumed', 'void')
  if not over[1] and not over[2] then
    call('ZADD', P .. 'k:' .. q.key, call('HINCRBY', P .. 'meta', 'ver', 1), q.id)
    outlive(P .. 'k:' .. q.key, ms)
    call('ZADD', P .. 'qp:' .. q.principal, q.expires, q.id)
    outlive(P .. 'qp:' .. q.principal, ms)
  end
  call('ZREMRANGEBYSCORE', P .. 'qs', '-inf', sub(now, '0000003600000000000'))
  call('ZADD', P .. 'qs', q.expires, q.id)
  outlive(P .. 'qs', ms)
  local days = P .. 'd:' .. q.tenant
  call('HSET', days, q.day, most(call('HGET', days, q.day) or q.expires, q.expires))
  outlive(days, ms)
end

-- over marks a question as one that nobody will look for again.
local function over(id, how)
  local name = P .. 'q:' .. id
  local q = call('HMGET', name, 'key', 'principal')
  if not q[1] then
    return
  end
  call('HSET', name, how, '1')
  bump(q[1])
  call('ZREM', P .. 'k:' .. q[1], id)
  call('ZREM', P .. 'qp:' .. q[2], id)
  call('DEL', P .. 'pa:' .. id)
end

-- days lists the days on which something was asked in the tenant that is not expired.
local function days(tenant)
  local list, out = call('HGETALL', P .. 'd:' .. tenant), {}
  for i = 1, #list, 2 do
    if list[i + 1] > now then
      out[#out + 1] = list[i]
    end
  end
  table.sort(out)
  return out
end

-- waiting counts at least those questions of the principal that are open.
local function waiting(principal)
  return call('ZCOUNT', P .. 'qp:' .. principal, '(' .. now, '+inf')
end
