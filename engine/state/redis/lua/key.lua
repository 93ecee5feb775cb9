-- Takes note of the key that the nodes have, unless one that runs has another.
local no = lost()
if no then
  return no
end
local was = call('HGET', P .. 'meta', 'key')
if was and was ~= a.key then
  for _, node in ipairs(call('HKEYS', P .. 'nodes')) do
    if node ~= a.node and call('EXISTS', P .. 'lease:' .. node) == 1 then
      return answer('other')
    end
  end
end
call('HSET', P .. 'meta', 'key', a.key)
return answer('ok')
