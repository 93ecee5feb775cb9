-- Reads questions, and what a decision about them depends on.
local no = guard()
if no then
  return no
end
local ids, versions = {}, {}
for _, key in ipairs(a.keys) do
  versions[#versions + 1] = call('GET', P .. 'kv:' .. key) or '0'
  for _, id in ipairs(call('ZRANGE', P .. 'k:' .. key, 0, -1)) do
    ids[#ids + 1] = id
  end
end
for _, id in ipairs(a.ids) do
  ids[#ids + 1] = id
end
if a.all then
  for _, id in ipairs(call('ZRANGE', P .. 'qp:' .. a.principal, '(' .. now, '+inf', 'BYSCORE')) do
    ids[#ids + 1] = id
  end
end
if a.list then
  ids = call('ZRANGE', P .. 'qs', sub(now, '0000003600000000000'), '+inf', 'BYSCORE', 'LIMIT', a.list, a.page)
end
local questions = {}
for _, id in ipairs(ids) do
  local fields = call('HGETALL', P .. 'q:' .. id)
  local q = { id, '', '', '', '0' }
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    if name == 'asked' then
      q[2] = value
    elseif name == 'key' then
      q[4] = value
      q[5] = call('GET', P .. 'kv:' .. value) or '0'
    elseif name == 'durable' or name == 'consumed' or name == 'void' then
      q[3] = q[3] .. string.sub(name, 1, 1)
    elseif string.sub(name, 1, 1) == '{' then
      q[#q + 1] = name
    end
  end
  if q[2] ~= '' then
    questions[#questions + 1] = q
  end
end
return answer('ok', table.concat(a.tenant and days(a.tenant) or {}, ','), versions, questions,
  a.ask and call('EXISTS', P .. 'q:' .. a.ask) or 0, a.principal and waiting(a.principal) or 0, #ids,
  a.again and call('GET', P .. 'void:' .. a.again) or '')
