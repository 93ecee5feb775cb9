-- Uses up a grant of another process. The same request again, after an answer was
-- lost, has the same answer.
local no = guard()
if no then
  return no
end
local name = P .. 'spent:' .. a.id
local done = call('GET', name)
if done then
  return answer(done == a.nonce and 'ok' or 'spent')
end
if a.expires <= now then
  return answer('late')
end
if a.epoch ~= string.format('%d', epoch) then
  return answer('revoked')
end
for _, hit in ipairs(call('SMISMEMBER', P .. 'rev', unpack(a.who))) do
  if hit == 1 then
    return answer('revoked')
  end
end
call('SET', name, a.nonce, 'PX', from(a.expires, HOUR))
return answer('ok')
