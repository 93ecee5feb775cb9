-- Gives back units of counted limits that a call took, once. The same request again,
-- after an answer was lost, has the same answer.
local no = guard()
if no then
  return no
end
local name, counted = P .. 'refund:' .. a.id, P .. 'cnt:' .. a.id
if call('EXISTS', counted) == 0 then
  local done = call('GET', name)
  done = done and cjson.decode(done) or {}
  return answer('ok', done.nonce == a.nonce and done.back or {})
end
local back = {}
for _, u in ipairs(a.units) do
  local took = call('HGET', counted, u.key)
  local gave = took and give_units(u.key, least(took, u.units))
  if gave then
    table.insert(back, u.key)
    table.insert(back, gave)
  end
end
call('DEL', counted)
if #back > 0 then
  call('SET', name, cjson.encode({ nonce = a.nonce, back = back }), 'PX', HOUR)
end
return answer('ok', back)
