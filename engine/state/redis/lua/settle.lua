-- Notes that calls are recorded: nobody asks about them again, but for a request that was
-- lost on the way and comes late. It must not be admitted a second time.
local no = lost()
if no then
  return no
end
local top = tonumber(call('GET', P .. 'mark:' .. a.node) or '-1')
for i, id in ipairs(a.ids) do
  call('SREM', P .. 'open:' .. a.node, id)
  call('SET', P .. 'call:' .. id, '', 'PX', 20000)
  top = math.max(top, tonumber(a.indexes[i]))
end
call('SET', P .. 'mark:' .. a.node, string.format('%d', top), 'PX', 90 * DAY)
return answer('ok')
