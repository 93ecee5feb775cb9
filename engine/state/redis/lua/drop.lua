-- Removes the sealed arguments of a call.
call('DEL', P .. 'pa:' .. a.id)
return answer('ok')
