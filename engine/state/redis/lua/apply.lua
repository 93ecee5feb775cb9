-- Makes the change of a durable record act, or a vote against at once. The same vote
-- again, after an answer was lost, has the same answer.
local no = guard()
if no then
  return no
end
if a.question then
  keep(a.question)
  call('HSET', P .. 'q:' .. a.question.id, 'durable', '1')
end
if a.vote then
  local name = P .. 'q:' .. a.id
  local q = call('HMGET', name, 'key', 'principal')
  if not q[1] then
    return answer('gone')
  elseif a.version and call('HEXISTS', name, a.vote) == 0 and (a.epoch ~= string.format('%d', epoch) or (call('GET', P .. 'kv:' .. q[1]) or '0') ~= a.version) then
    return answer('moved')
  end
  call('HSET', name, a.vote, '1')
  bump(q[1])
  if a.deny then
    call('ZREM', P .. 'qp:' .. q[2], a.id)
    call('DEL', P .. 'pa:' .. a.id)
  end
end
if a.session then
  keep_session(a.session)
end
if a.question or a.vote then
  changed()
end
return answer('ok')
