-- Takes or keeps the node's name, and looks whether the server still keeps what it is
-- told.
local name = P .. 'lease:' .. a.node
local holder = call('GET', name)
if holder and holder ~= a.me then
  return answer('taken')
end
call('SET', name, a.me, 'PX', a.ttl)
call('HSET', P .. 'nodes', a.node, real)
call('PEXPIRE', P .. 'nodes', 90 * DAY)
-- Nobody waits for a node that was last heard of half a minute before another.
local nodes = call('HGETALL', P .. 'nodes')
for i = 1, #nodes, 2 do
  if tonumber(nodes[i + 1]) < real - HOUR / 1000 then
    call('HDEL', P .. 'nodes', nodes[i])
  end
end
call('PEXPIRE', P .. 'open:' .. a.node, 90 * DAY)
call('PEXPIRE', P .. 'mark:' .. a.node, 90 * DAY)
if ready() then
  call('SREM', P .. 'await', a.node)
end
local info = call('INFO', 'stats')
local evicted = string.match(info, 'evicted_keys:(%d+)') or '0'
local before = call('HGET', P .. 'meta', 'evicted')
if tonumber(evicted) > tonumber(before or '0') then
  -- It threw away something, perhaps a revocation or a consumption.
  raise(id)
end
if evicted ~= before then
  call('HSET', P .. 'meta', 'evicted', evicted)
end
return answer(ready() and 'ok' or 'fenced')
