-- Lists the questions that may be asked, and whose arguments are kept.
local out = {}
for _, id in ipairs(call('ZRANGE', P .. 'qs', 0, -1)) do
  if call('EXISTS', P .. 'pa:' .. id) == 1 and call('HEXISTS', P .. 'q:' .. id, 'durable') == 1 then
    out[#out + 1] = id
  end
end
return answer('ok', out)
