-- Puts a plan in the place of the one that it was made of. The same request again, after
-- an answer was lost, has the same answer.
local no = guard()
if no then
  return no
end
local name = P .. 'replan:' .. a.nonce
local done = call('GET', name)
if done then
  return answer('ok', done)
end
local s = P .. 's:' .. a.session
local was = call('HMGET', s, 'owner', 'v', 'until', 'ended', 'pv')
local owner, ends = was[1] or '', was[3] or ''
if ends ~= '' and ends <= now then
  owner = ''
end
if owner ~= '' and (owner ~= a.principal or was[4]) then
  return answer('foreign')
elseif (was[5] or '0') ~= a.was then
  return answer('moved')
end
local version = string.format('%d', tonumber(was[2] or '0') + 1)
call('HSET', s, 'v', version, 'plan', a.text, 'pv', version, 'pe', a.ends)
outlive(s, from(a.ends, HOUR))
call('SET', name, version, 'PX', a.keep)
return answer('ok', version)
