-- Reads a session.
local no = guard()
if no then
  return no
end
local s = P .. 's:' .. a.session
-- Whoever decides on it must not find a version that begins anew.
if call('PTTL', s) < HOUR then
  outlive(s, HOUR)
end
return answer('ok', call('HGETALL', P .. 's:' .. a.session))
