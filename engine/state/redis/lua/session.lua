-- Reads a session.
local no = guard()
if no then
  return no
end
return answer('ok', call('HGETALL', P .. 's:' .. a.session))
