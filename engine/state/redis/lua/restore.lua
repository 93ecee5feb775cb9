-- Puts back what a node knows to be revoked, and tells it all that is.
local confirms = a.confirm == string.format('%d', epoch) -- no fence since the node looked
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
