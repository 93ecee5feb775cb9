-- Says what is known of the node's log.
local no = lost()
if no then
  return no
end
return answer('ok', call('GET', P .. 'mark:' .. a.node) or '-1', call('SMEMBERS', P .. 'open:' .. a.node))
