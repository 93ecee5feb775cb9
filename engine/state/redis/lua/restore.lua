-- Puts back what a node knows to be revoked, and tells it all that is.
-- There was no fence since the node looked, and nobody else has its name.
local holder = call('GET', P .. 'lease:' .. a.node)
local confirms = a.confirm == string.format('%d', epoch) and (not holder or holder == a.me)
local new = 0
for _, who in ipairs(a.who) do
  new = new + call('SADD', P .. 'rev', who)
end
if new > 0 then
  revs = string.format('%d', call('HINCRBY', P .. 'meta', 'revs', 1))
  changed()
end
if confirms and not ready() then
  call('SREM', P .. 'await', a.node)
  settle_fence()
end
return answer(ready() and 'ok' or 'fenced', call('SMEMBERS', P .. 'rev'))
