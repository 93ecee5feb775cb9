-- Brings the node's log and the store together.
local no = lost()
if no then
  return no
end
local mark = tonumber(call('GET', P .. 'mark:' .. a.node) or '-1')
if mark >= tonumber(a.size) then
  return answer('behind')
end
if a.lost then
  raise(id)
  mark = tonumber(a.size) - 1 -- or the next start would find the same
end
for i, call_id in ipairs(a.recorded) do
  call('SREM', P .. 'open:' .. a.node, call_id)
  call('DEL', P .. 'call:' .. call_id)
  mark = math.max(mark, tonumber(a.indexes[i]))
end
for _, call_id in ipairs(a.released) do
  give_back(call_id)
end
if mark >= 0 then
  call('SET', P .. 'mark:' .. a.node, string.format('%d', mark), 'PX', 90 * DAY)
end
return answer('ok')
