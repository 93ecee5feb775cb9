-- What every script begins with. KEYS[1] is the prefix of all keys; ARGV[1] is what
-- the operation is about. Instants in ns and units are strings of 19 digits, which
-- compare as they are: a number of Lua's cannot hold them.
local P, a, call = KEYS[1], cjson.decode(ARGV[1]), redis.call
local MAX = '9223372036854775807'

local clock = call('TIME')
local real = tonumber(clock[1]) -- seconds, which leases and fences go by
local now = string.format('%010d%09d', real, clock[2] * 1000)
if a.clock ~= '' then
  now = a.clock -- tests: the operation's own time
end

local function pair(t)
  return tonumber(string.sub(t, 1, 10)), tonumber(string.sub(t, 11))
end

-- add stops at what is more than any instant.
local function add(t, u)
  local ts, tn = pair(t)
  local us, un = pair(u)
  local s, n = ts + us, tn + un
  if n >= 1e9 then
    s, n = s + 1, n - 1e9
  end
  if s > 9999999999 then
    return '9999999999999999999'
  end
  return string.format('%010d%09d', s, n)
end

-- sub stops at nothing.
local function sub(t, u)
  if t <= u then
    return '0000000000000000000'
  end
  local ts, tn = pair(t)
  local us, un = pair(u)
  local s, n = ts - us, tn - un
  if n < 0 then
    s, n = s - 1, n + 1e9
  end
  return string.format('%010d%09d', s, n)
end

local function least(t, u)
  return t < u and t or u
end

local function most(t, u)
  return t > u and t or u
end

-- from is how many ms pass from now until then, and keep ms more.
local function from(t, keep)
  return math.floor(tonumber(sub(t, now)) / 1e6) + 1 + keep
end

local HOUR, DAY = 3600000, 86400000

-- outlive moves a key's expiry, and never to an earlier time.
local function outlive(key, ms)
  call('PEXPIRE', key, ms, 'NX')
  call('PEXPIRE', key, ms, 'GT')
end

local function changed()
  call('PUBLISH', P .. 'changed', a.me)
end

local meta = call('HMGET', P .. 'meta', 'replid', 'epoch', 'revs', 'ready', 'fenced', 'clock')
local epoch, revs = tonumber(meta[2] or '0'), meta[3] or '0'
local known = tonumber(a.known)

-- raise begins a new epoch: what the server remembers may not be all that it was told.
-- Nothing is permitted until the nodes that were there have put back what they know to
-- be revoked, or have been away for half a minute.
local function raise(id)
  if meta[2] then
    epoch = math.max(epoch, known) + 1
  else
    -- Of a store that is empty nobody knows what it was. The time is later than all
    -- epochs that it may have had.
    epoch = math.max(a.fromzero and 0 or real, known > 0 and known + 1 or 0)
  end
  local fenced = real
  call('DEL', P .. 'await')
  if not meta[2] and known > 0 then
    -- It was emptied, and nobody knows which nodes there are: in ten seconds all of
    -- them look.
    fenced = real - 20
    call('SADD', P .. 'await', '')
  end
  meta[1], meta[2], meta[4], meta[5], meta[6] = id, epoch, false, fenced, real
  call('HSET', P .. 'meta', 'replid', id, 'epoch', epoch, 'fenced', fenced, 'clock', real)
  call('HDEL', P .. 'meta', 'ready', 'evicted')
  local nodes = call('HGETALL', P .. 'nodes')
  local last = 0
  for i = 2, #nodes, 2 do
    last = math.max(last, tonumber(nodes[i]))
  end
  for i = 1, #nodes, 2 do
    if tonumber(nodes[i + 1]) >= last - 30 then
      call('SADD', P .. 'await', nodes[i])
    end
  end
  outlive(P .. 'await', DAY)
  changed()
end

-- ready says whether anything may be permitted.
local function ready()
  return meta[4] == meta[1]
end

-- settle_fence ends the wait for nodes when it may end.
local function settle_fence()
  if not ready() and (call('SCARD', P .. 'await') == 0 or math.abs(real - tonumber(meta[5])) > 30) then
    call('HSET', P .. 'meta', 'ready', meta[1])
    call('DEL', P .. 'await')
    meta[4] = meta[1]
  end
end

local id = string.match(call('INFO', 'replication'), 'role:master.-master_replid:(%x+)')
if not id then
  return redis.error_reply('CALLGATE this server is no primary')
end
-- A clock that was an hour ahead has let expire what must be remembered for that hour.
local seen = tonumber(meta[6] or '0')
if meta[1] ~= id or epoch < known or real < seen - 3000 then
  raise(id)
elseif real > seen + 60 then
  call('HSET', P .. 'meta', 'clock', real)
end
if not ready() and call('EXISTS', P .. 'await') == 1 then
  settle_fence()
end

local function answer(status, ...)
  return { status, string.format('%d', epoch), revs, now, ... }
end

-- skewed reports whether the caller's clock is too far from this server's.
local function skewed()
  return math.abs(tonumber(now) - tonumber(a.now)) > tonumber(a.skew)
end

-- lost is the answer to a process that has not got the node's name, or nil.
local function lost()
  if call('GET', P .. 'lease:' .. a.node) ~= a.me then
    return answer('lease')
  end
end

-- guard is the answer when nothing may be told, or nil.
local function guard()
  if not ready() then
    return answer('fenced')
  end
  local no = lost()
  if no then
    return no
  end
  if a.now and skewed() then
    return answer('skew')
  end
end

