-- Gives the node's name up.
if call('GET', P .. 'lease:' .. a.node) == a.me then
  call('DEL', P .. 'lease:' .. a.node)
  call('HDEL', P .. 'nodes', a.node)
  call('SREM', P .. 'await', a.node)
end
return answer('ok')
