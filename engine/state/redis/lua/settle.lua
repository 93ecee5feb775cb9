-- Notes that calls are recorded: nobody asks about them again.
local most = tonumber(call('GET', P .. 'mark:' .. a.node) or '-1')
for i, id in ipairs(a.ids) do
  call('SREM', P .. 'open:' .. a.node, id)
  call('DEL', P .. 'call:' .. id)
  most = math.max(most, tonumber(a.indexes[i]))
end
call('SET', P .. 'mark:' .. a.node, string.format('%d', most), 'PX', 90 * DAY)
return answer('ok')
