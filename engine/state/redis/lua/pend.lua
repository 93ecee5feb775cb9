-- Keeps the sealed arguments of a call that people are asked about, as long as they may
-- be, or gives them back.
local name = P .. 'pa:' .. a.id
if a.sealed == '' then
  local sealed = call('GET', name)
  return sealed and answer('ok', sealed) or answer('gone')
end
local ms = call('PTTL', P .. 'q:' .. a.id)
if ms <= 0 then
  return answer('gone')
end
call('SET', name, a.sealed, 'PX', ms)
return answer('ok')
