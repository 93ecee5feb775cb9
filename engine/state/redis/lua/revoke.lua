-- Revokes, at once, and begins a new epoch if that is asked for.
local new = 0
if #a.who > 0 then
  new = call('SADD', P .. 'rev', unpack(a.who))
end
if a.next then
  epoch = epoch + 1
  call('HSET', P .. 'meta', 'epoch', epoch)
end
if new > 0 then
  revs = call('HINCRBY', P .. 'meta', 'revs', 1)
  revs = string.format('%d', revs)
end
changed()
return answer('ok')
